"""Bounds of whoever speaks to several groups: clients of many and routers. Unit last, each with its
reason."""

from __future__ import annotations

from typing import Final

GROUPS_MAX: Final = 64  # each client session of a router has a connection to every one of them
ROUTES_MAX: Final = 256  # looked through once for every new subject
ROUTES_KEPT_MAX: Final = 4_096  # subjects whose way is remembered
WEIGHT_MAX: Final = 1_000
# What a group has not answered goes to another after this long without the group: longer than an
# election takes, so that a new leader of the same group is asked first, which knows what it has.
MULTI_AWAY_MS: Final = 2_000

# A router. Which group has a job is remembered of so many, the oldest are forgotten: all groups are
# asked about those. Bodies of jobs that their groups accepted are kept up to so much, to send them
# to another group if theirs is lost for long; jobs beyond that wait for their group.
ROUTER_JOBS_MAX: Final = 1_000_000
ROUTER_KEPT_BYTES_MAX: Final = 256 * 1024 * 1024
# Of one client: submits that no group has answered, in bytes, and what a group or the client has
# not read. The client (or the group) is not read from until there is half of it. More than
# CLIENT_PENDING_BYTES_MAX, so that our own clients, which wait by themselves, never get there.
ROUTER_AHEAD_BYTES_MAX: Final = 32 * 1024 * 1024
# Of one client: results that were handed on and not confirmed; the oldest are forgotten, and the
# confirmation of such a one is told to all groups.
ROUTER_GIVEN_MAX: Final = 262_144
ROUTER_ASKED_MAX: Final = 4_096  # of one client: questions without an answer; more are refused
ROUTER_WATCHES_MAX: Final = 256  # of one client: outputs of jobs that it watches
ROUTER_SPREAD_MS: Final = 60_000  # how often a router writes how many results came from which group
ROUTER_PROBE_MS: Final = 1_000  # how often a router looks which groups can be reached
