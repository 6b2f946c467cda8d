"""The bounds of gossip between groups, unit last, each with its reason."""

from __future__ import annotations

from typing import Final

# Not fragmented on the way: an Ethernet frame less IPv6, UDP and tunnels.
GOSSIP_DATAGRAM_BYTES_MAX: Final = 1_400
# Known processes, dead ones included, some 300 bytes each. A full exchange of so many is some 150
# datagrams.
GOSSIP_NODES_MAX: Final = 1_024
# Updates piggybacked on datagrams; beyond, the oldest are dropped and spread by full exchanges.
GOSSIP_NEWS_MAX: Final = 256
# A name of DNS has 253 bytes; with brackets, a colon and a port.
GOSSIP_ADDRESS_BYTES_MAX: Final = 261
GOSSIP_GROUP_BYTES_MAX: Final = 256
GOSSIP_SEEDS_MAX: Final = 64
# One probe each; an ack takes a round trip, which between continents is 300 ms.
GOSSIP_PERIOD_MS: Final = 1_000
GOSSIP_ACK_MS: Final = 400
GOSSIP_HELPERS: Final = 3  # nodes that are asked for an indirect probe
# A suspect is dead after so many periods, times log2 of the number of nodes: twice the time that
# its refutation needs to reach every node.
GOSSIP_SUSPECT_PERIODS: Final = 2
# Each update is sent so often, times the same logarithm.
GOSSIP_NEWS_SENDS: Final = 4
# Interval of full exchanges with one other node, on average.
GOSSIP_SYNC_MS: Final = 15_000
# A node that requests more often is not answered: the answer is larger than the request.
GOSSIP_SYNC_ANSWER_MS: Final = 500
# Pages of full exchanges that wait to be sent, and pages sent per tick.
GOSSIP_PAGES_MAX: Final = 512
GOSSIP_PAGES_PER_TICK: Final = 8
# Indirect probes in progress for other nodes: the oldest are dropped.
GOSSIP_PROBES_MAX: Final = 256
GOSSIP_TICK_MS: Final = 100
# How long dead nodes are listed and retried; and nodes that left.
GOSSIP_DEAD_MS_MAX: Final = 24 * 3_600_000
GOSSIP_LEFT_MS_MAX: Final = 600_000
# Nodes that a clean stop is announced to; they spread it.
GOSSIP_LEAVE_TOLD: Final = 16
# Clocks may differ by so much. An older datagram is a replay, or from a clock that is far off.
GOSSIP_AGE_MS_MAX: Final = 30_000
# Interval of figures of a group, which change constantly and only inform.
GOSSIP_FIGURES_MS: Final = 5_000
# Host names are resolved again after this long; so many are cached.
GOSSIP_RESOLVE_MS: Final = 30_000
GOSSIP_RESOLVED_MAX: Final = 2 * GOSSIP_NODES_MAX
FEDERATION_KEYS_MAX: Final = 2  # at once: the one that signs, and the one before or after it
FEDERATION_KEY_BYTES_MIN: Final = 16  # of a line of the key file: a shorter one can be guessed
# Clients and routers read the map this often, and leave a group that is missing for so long.
FOLLOW_MS: Final = 2_000
FOLLOW_ABSENT_MS: Final = 60_000
