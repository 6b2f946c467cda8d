"""Selects the groups to connect to, from the federation map. For clients and routers. Pure.

A group that is down stays in use: its user notices the failed connections itself, and it may come
back. It is removed only after it has been absent from the map for a while, because a process that
has just started knows only itself. If two clusters have one name, the one in use stays in use, and
neither is added.
"""

from __future__ import annotations

from typing import NamedTuple

from rollq.base.federation_limits import FOLLOW_ABSENT_MS
from rollq.base.router_limits import GROUPS_MAX
from rollq.gossip.map import FederationView, GroupState, GroupView


class FollowedGroup(NamedTuple):
    """A group in use."""

    name: str
    cluster_id: str
    addresses: tuple[str, ...]  # the best first


class GroupChanges(NamedTuple):
    """Changes to the groups in use, removals first. A group that has moved is in both."""

    gone: tuple[str, ...]  # names
    found: tuple[FollowedGroup, ...]


class Following:
    """The groups in use.

    Attributes:
        used: By name.
    """

    def __init__(self, groups_max: int = GROUPS_MAX) -> None:
        self.used: dict[str, FollowedGroup] = {}
        self._groups_max = groups_max
        self._seen_ms: dict[str, int] = {}  # when each in use was on the map last

    def update(self, view: FederationView, now_ms: int) -> GroupChanges:
        """Update the groups in use from the current map, and return the changes."""
        if not view.is_on:
            return GroupChanges((), ())
        gone: list[str] = []
        found: list[FollowedGroup] = []
        by_name: dict[str, list[GroupView]] = {}
        for group in view.groups:
            by_name.setdefault(group.name, []).append(group)
        for name, used in self.used.items():
            groups = by_name.get(name, [])
            if any(group.cluster_id == used.cluster_id for group in groups):
                self._seen_ms[name] = now_ms
            is_lost = now_ms - self._seen_ms[name] > FOLLOW_ABSENT_MS
            if is_lost or any(_has_moved(group, used) for group in groups):
                gone.append(name)
        if gone and len(gone) == len(self.used) and not any(map(_usable, by_name.values())):
            gone = []  # keep the last known groups rather than none
        for name in gone:
            del self.used[name], self._seen_ms[name]
        for name, groups in by_name.items():
            usable = _usable(groups)
            if usable is not None and name not in self.used and len(self.used) < self._groups_max:
                one = FollowedGroup(name, usable.cluster_id, usable.addresses)
                self.used[name], self._seen_ms[name] = one, now_ms
                found.append(one)
        return GroupChanges(tuple(gone), tuple(found))


def _usable(groups: list[GroupView]) -> GroupView | None:
    """The only live group of this name; None if usable is none, or several."""
    usable = [group for group in groups if group.cluster_id and group.state != GroupState.DOWN]
    return usable[0] if len(usable) == 1 and not usable[0].is_conflict else None


def _has_moved(group: GroupView, used: FollowedGroup) -> bool:
    """Whether the group in use shares no address with the mapped one any more, or another cluster
    has its name now."""
    if group.is_conflict or group.state == GroupState.DOWN or not group.cluster_id:
        return False
    return group.cluster_id != used.cluster_id or not set(group.addresses) & set(used.addresses)
