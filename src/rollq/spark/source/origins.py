"""The groups to read: those given by the options, or those of a federation that match a pattern.

Any member of any group knows the whole federation. Addresses that were learned are used too, so
that the group given by the options may disappear.
"""

from __future__ import annotations

import re

import msgspec

from rollq.base.errors import ErrorCode, StateError
from rollq.gossip.map import FederationView, GroupState, GroupView
from rollq.roles.reader.reader import Reader, addresses_in
from rollq.spark.source.options import ReadOptions, SourceOrigin

AVAILABLE = (GroupState.UP, GroupState.DEGRADED, GroupState.LEADERLESS)


class Origins:
    """The groups of one read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._addresses = addresses_in(options.origins[0].servers) if options.group_pattern else []

    def now(self) -> tuple[SourceOrigin, ...]:
        """The current groups.

        Raises:
            DialError: no member of the federation answers.
            StateError: WRONG_STATE; there is no federation, or no group matches.
        """
        if not self._options.group_pattern:
            return self._options.origins
        credentials = self._options.origins[0].credentials
        return tuple(
            SourceOrigin(",".join(sorted(each.addresses)), group=each.name, credentials=credentials)
            for each in self._matching()
        )

    def _matching(self) -> list[GroupView]:
        origin = self._options.origins[0]
        timeout_s = self._options.timeout_s
        with Reader(self._addresses, timeout_s=timeout_s, credentials=origin.credentials) as reader:
            _, value = reader.view("groups")
        known = msgspec.msgpack.decode(value, type=FederationView)
        if not known.is_on:
            raise StateError(
                ErrorCode.WRONG_STATE,
                "the group belongs to no federation",
                "leave subscribePattern out, or start members with --federation-key",
            )
        there = [each for each in known.groups if each.state in AVAILABLE]
        told = [address for each in there for address in each.addresses]
        self._addresses = list(dict.fromkeys([*addresses_in(origin.servers), *told]))
        pattern = self._options.group_pattern
        matching = [each for each in there if re.fullmatch(pattern, each.name)]
        if not matching:
            raise StateError(
                ErrorCode.WRONG_STATE,
                f"no group of the federation matches {pattern!r}",
                f"there are {', '.join(each.name for each in there)}",
            )
        return matching
