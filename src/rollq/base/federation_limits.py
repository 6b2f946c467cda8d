"""The bounds of gossip between groups, unit last, each with its reason."""

from __future__ import annotations

from typing import Final

# No network on the way cuts it in pieces: an Ethernet frame less IPv6, UDP and tunnels.
GOSSIP_DATAGRAM_BYTES_MAX: Final = 1_400
# Processes that one keeps in mind, dead ones included, some 300 bytes each. A full exchange of so
# many is some 150 datagrams.
GOSSIP_NODES_MAX: Final = 1_024
# News that ride on datagrams; of more, the oldest give way, and the full exchange tells them.
GOSSIP_NEWS_MAX: Final = 256
# A name of DNS has 253 bytes; with brackets, a colon and a port.
GOSSIP_ADDRESS_BYTES_MAX: Final = 261
GOSSIP_GROUP_BYTES_MAX: Final = 256
GOSSIP_SEEDS_MAX: Final = 64
# One probe each; an ack takes a round trip, which between continents is 300 ms.
GOSSIP_PERIOD_MS: Final = 1_000
GOSSIP_ACK_MS: Final = 400
GOSSIP_HELPERS: Final = 3  # that are asked to probe who did not answer
# A suspect is dead after so many periods, times the logarithm of the number of nodes to base 2: the
# time that its refutation needs to be everywhere, twice.
GOSSIP_SUSPECT_PERIODS: Final = 2
# Each piece of news is sent so often, times the same logarithm.
GOSSIP_NEWS_SENDS: Final = 4
# Everything that is known is exchanged with one other node so often, on average.
GOSSIP_SYNC_MS: Final = 15_000
# A node that asks more often is not answered: what it asks for is larger than what it sends.
GOSSIP_SYNC_ANSWER_MS: Final = 500
# Pages of full exchanges that wait to be sent, and how many go at one look at the clock.
GOSSIP_PAGES_MAX: Final = 512
GOSSIP_PAGES_PER_TICK: Final = 8
# Who is looked for, for somebody else: the oldest give way.
GOSSIP_PROBES_MAX: Final = 256
GOSSIP_TICK_MS: Final = 100
# The dead are shown, and tried now and then, for so long; who left, for so long.
GOSSIP_DEAD_MS_MAX: Final = 24 * 3_600_000
GOSSIP_LEFT_MS_MAX: Final = 600_000
# A clean stop is told to so many at once; they tell the others.
GOSSIP_LEAVE_TOLD: Final = 16
# Clocks may differ by so much. An older datagram is a replay, or from a clock that is far off.
GOSSIP_AGE_MS_MAX: Final = 30_000
# Figures of a group change all the time, and nobody decides by them: they are told this often.
GOSSIP_FIGURES_MS: Final = 5_000
# Names of hosts are looked up again after this long; so many are kept.
GOSSIP_RESOLVE_MS: Final = 30_000
GOSSIP_RESOLVED_MAX: Final = 2 * GOSSIP_NODES_MAX
FEDERATION_KEYS_MAX: Final = 2  # at once: the one that signs, and the one before or after it
FEDERATION_KEY_BYTES_MIN: Final = 16  # of a line of the key file: a shorter one can be guessed
# Whoever uses all groups asks for the map this often, and leaves a group that it lacks for so long.
FOLLOW_MS: Final = 2_000
FOLLOW_ABSENT_MS: Final = 60_000
