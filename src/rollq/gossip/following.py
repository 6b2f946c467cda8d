"""Which groups to use, by a map that changes: for clients and routers of all groups. Pure.

A group that is down stays in use: whoever uses it knows by itself that nobody answers, and it may
come back. It goes when the map has not had it for a while: a process that was just started has a
map of itself alone. Of two clusters under one name the one in use stays in use, and neither is
taken otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from rollq.base.federation_limits import FOLLOW_ABSENT_MS
from rollq.base.router_limits import GROUPS_MAX
from rollq.gossip.map import FederationView, GroupState, GroupView


class Found(NamedTuple):
    """A group to use."""

    name: str
    cluster_id: str
    addresses: tuple[str, ...]  # the best first


class Steps(NamedTuple):
    """What to do, in this order. A group that is somewhere else now is in both."""

    gone: tuple[str, ...]  # names
    found: tuple[Found, ...]


class Following:
    """The groups in use.

    Attributes:
        used: By name.
    """

    def __init__(self, groups_max: int = GROUPS_MAX) -> None:
        self.used: dict[str, Found] = {}
        self._groups_max = groups_max
        self._seen_ms: dict[str, int] = {}  # when each in use was on the map last

    def look(self, view: FederationView, now_ms: int) -> Steps:
        """The map as it is now: what to do."""
        if not view.is_on:
            return Steps((), ())
        gone: list[str] = []
        found: list[Found] = []
        by_name: dict[str, list[GroupView]] = {}
        for group in view.groups:
            by_name.setdefault(group.name, []).append(group)
        for name, used in self.used.items():
            groups = by_name.get(name, [])
            if any(group.cluster_id == used.cluster_id for group in groups):
                self._seen_ms[name] = now_ms
            is_lost = now_ms - self._seen_ms[name] > FOLLOW_ABSENT_MS
            if is_lost or any(_is_elsewhere(group, used) for group in groups):
                gone.append(name)
        if gone and len(gone) == len(self.used) and not any(map(_usable, by_name.values())):
            gone = []  # better the last that were known than none
        for name in gone:
            del self.used[name], self._seen_ms[name]
        for name, groups in by_name.items():
            there = _usable(groups)
            if there is not None and name not in self.used and len(self.used) < self._groups_max:
                one = Found(name, there.cluster_id, there.addresses)
                self.used[name], self._seen_ms[name] = one, now_ms
                found.append(one)
        return Steps(tuple(gone), tuple(found))


def _usable(groups: list[GroupView]) -> GroupView | None:
    """The one group of a name that is there."""
    there = [group for group in groups if group.cluster_id and group.state != GroupState.DOWN]
    return there[0] if len(there) == 1 and not there[0].is_conflict else None


def _is_elsewhere(group: GroupView, used: Found) -> bool:
    """Whether the group that is used has none of its addresses any more, or another cluster has
    taken its place."""
    if group.is_conflict or group.state == GroupState.DOWN or not group.cluster_id:
        return False
    return group.cluster_id != used.cluster_id or not set(group.addresses) & set(used.addresses)
