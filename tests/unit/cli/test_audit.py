"""The auditor of the demonstration finds what it is there to find."""

from __future__ import annotations

from pathlib import Path

from rollq.cli.audit import audit
from rollq.grid.events import Event
from rollq.history.schema import to_lines
from rollq.history.segments import Segments
from rollq.store.real_disk import RealDisk


def member(root: Path, name: str, *kinds: tuple[str, bytes]) -> Path:
    """A state directory whose history holds one event an index."""
    disk = RealDisk(root / name)
    events = [Event(kind, job_id=job * 16) for kind, job in kinds]
    lines = [line for n, event in enumerate(events, 1) for line in to_lines(n, 0, [event])]
    Segments(disk).seal(1, len(events), lines)
    disk.close()
    return root / name


GOOD = (("enqueue", b"a"), ("assign", b"a"), ("adopt", b"a"), ("ack", b"a"))


def test_a_good_story(tmp_path: Path) -> None:
    more = (*GOOD, ("confirm", b"a"))
    found = audit([member(tmp_path, "1", *more), member(tmp_path, "2", *GOOD)])
    assert (found.problems, found.lost, found.ended_twice) == ([], [], [])
    assert (found.members, found.rows, found.adopted, len(found.accepted)) == (2, 5, 1, 1)


def test_a_lost_job_and_one_that_ended_twice(tmp_path: Path) -> None:
    lost = audit([member(tmp_path, "1", *GOOD, ("enqueue", b"b"))])
    assert len(lost.lost) == 1
    assert "never ended" in lost.problems[0]
    twice = audit([member(tmp_path, "2", *GOOD, ("cancel", b"a"))])
    assert len(twice.ended_twice) == 1
    assert "ended twice" in twice.problems[0]


def test_members_that_tell_different_stories(tmp_path: Path) -> None:
    other = (*GOOD[:3], ("cancel", b"a"))
    found = audit([member(tmp_path, "1", *GOOD), member(tmp_path, "2", *other)])
    assert "differs from the others" in found.problems[0]
    short = audit([member(tmp_path, "3", *GOOD), member(tmp_path, "4", *GOOD[:3])])
    assert short.problems == ["4 lacks the ends of some jobs"]
