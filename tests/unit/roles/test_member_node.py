"""The member's process: how turns follow each other. No loop runs here and nothing is opened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollq.base.limits import TURNS_MS_MAX
from rollq.raft.types import Role
from rollq.roles.member.metrics.counted import MemberCounters
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup

NOTHING_PUBLISHED = SimpleNamespace(publishing=SimpleNamespace(take=list))


class OneWork:
    """A driver with one piece of work for the disk, and what is done with it."""

    leader_state = NOTHING_PUBLISHED
    leading = False

    def __init__(self, *, is_light: bool) -> None:
        self.told: list[str] = []
        self.raft = SimpleNamespace(role=Role.LEADER, last_index=0)
        self.roll = None
        self.counters = MemberCounters()
        self._works = [
            SimpleNamespace(
                needs_sync=True, is_light=is_light, run=partial(self.told.append, "written")
            )
        ]

    def begin(self) -> Any:
        return self._works.pop() if self._works else None

    def meanwhile(self, work: Any) -> None:
        self.told.append("meanwhile")

    def finish(self, work: Any) -> None:
        self.told.append("finished")

    def take_outputs(self) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("is_quick", "is_light", "told"),
    [
        (True, True, ["written", "finished"]),
        (True, False, ["posted", "meanwhile"]),
        (False, True, ["posted", "meanwhile"]),
    ],
)
def test_a_light_write_to_a_quick_disk_needs_no_thread(
    is_quick: bool, is_light: bool, told: list[str], tmp_path: Path
) -> None:
    driver = OneWork(is_light=is_light)
    member = cast(Any, MemberNode(MemberSetup("a:1"), "a", 1, tmp_path))
    member._driver = driver
    member._persist = SimpleNamespace(
        may_stay=lambda: is_quick,
        synced=lambda seconds: None,
        post=lambda order: driver.told.append("posted"),
    )
    quiet(member)
    member._turn()
    assert driver.told == told


class BusyDriver:
    """Always has something to do that needs no disk; each turn takes some time."""

    roll = None
    leader_state = NOTHING_PUBLISHED
    leading = False

    def __init__(self, turn_ms: int) -> None:
        self.now_ms = 0
        self.turns = 0
        self._turn_ms = turn_ms
        self.raft = SimpleNamespace(
            role=Role.LEADER,
            config=None,
            leader_id=1,
            member_id=1,
            term=1,
            leader_address="",
            last_index=0,
        )

    def begin(self) -> Any:
        return SimpleNamespace(needs_sync=False, run=lambda: None)

    def finish(self, work: Any) -> None:
        self.turns += 1
        self.now_ms += self._turn_ms

    def take_outputs(self) -> list[Any]:
        return []


def test_a_member_with_much_to_do_listens_between_its_turns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver = BusyDriver(turn_ms=TURNS_MS_MAX // 2 + 1)
    monkeypatch.setattr("rollq.roles.member.node.time.monotonic", lambda: driver.now_ms / 1000)
    later: list[Callable[[], None]] = []
    member = cast(Any, MemberNode(MemberSetup("a:1"), "a", 1, tmp_path))
    member._driver = driver
    member._loop = SimpleNamespace(call_soon=later.append)
    quiet(member)
    member._turn()
    assert driver.turns == 2
    (again,) = later
    again()
    assert driver.turns == 4


def quiet(member: Any) -> None:
    """Nothing else is to be done after a turn."""
    member._sessions = SimpleNamespace(maybe_resume=lambda: None)
    member._snapshots = SimpleNamespace(maybe_begin=lambda: None)
    member._blobs = SimpleNamespace(follow=lambda: None)
    member._status_log = SimpleNamespace(log_changes=lambda raft: None, log_roll=lambda *_: None)
