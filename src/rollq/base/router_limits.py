"""Bounds of clients of several groups and of routers. Unit last, each with its reason."""

from __future__ import annotations

from typing import Final

GROUPS_MAX: Final = 64  # each client session of a router has a connection to every one of them
ROUTES_MAX: Final = 256  # searched once for every new subject
ROUTES_KEPT_MAX: Final = 4_096  # subjects whose route is cached
WEIGHT_MAX: Final = 1_000
# Unanswered requests go to another group after this long without the group: longer than an
# election, so that a new leader of the same group, which knows its jobs, is asked first.
MULTI_AWAY_MS: Final = 2_000

# A router. It caches the group of so many jobs and evicts the oldest: all groups are asked about
# those. Bodies of jobs that their groups accepted are kept up to so much, to send them to another
# group if theirs is lost for long; jobs beyond that wait for their group.
ROUTER_JOBS_MAX: Final = 1_000_000
ROUTER_KEPT_BYTES_MAX: Final = 256 * 1024 * 1024
# Of one client: submits that no group has answered, in bytes, and what a group or the client has
# not read. The client (or the group) is not read from until there is half of it. More than
# CLIENT_PENDING_BYTES_MAX, so that our own clients, which wait by themselves, never get there.
ROUTER_AHEAD_BYTES_MAX: Final = 32 * 1024 * 1024
# Of one client: results that were forwarded and not confirmed; the oldest are evicted, and their
# confirmations are sent to all groups.
ROUTER_GIVEN_MAX: Final = 262_144
ROUTER_ASKED_MAX: Final = 4_096  # of one client: queries without an answer; more are refused
ROUTER_WATCHES_MAX: Final = 256  # of one client: outputs of jobs that it watches
ROUTER_SPREAD_MS: Final = 60_000  # how often a router writes how many results came from which group
ROUTER_PROBE_MS: Final = 1_000  # how often a router looks which groups can be reached
