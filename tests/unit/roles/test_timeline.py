"""The history of one job, found backwards: in memory, in packed segments and in lines, in steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import guid_to_text
from rollq.grid.events import (
    ARRAY_ENQUEUED,
    JOB_ACKED,
    JOB_ASSIGNED,
    JOB_ENQUEUED,
    JOB_FORGOTTEN,
    Event,
    Run,
)
from rollq.history.job_rows import JobTimeline, Sought
from rollq.history.packed import PackedIndex, pack
from rollq.history.segments import Segments, packed_name
from rollq.roles.member.history_log import HistoryLog
from rollq.roles.member.query_keys import JobPlace
from rollq.roles.member.readers import timeline
from rollq.roles.member.readers.reader_context import ReaderContext
from rollq.roles.member.readers.timeline import read_timeline
from rollq.testing.disk import VirtualDisk
from tests.unit.grid.kit import job_id, worker_id

OTHERS = b"".join(job_id(f"o{number}") for number in range(200))
MINE = job_id("mine")
ARRAY = job_id("a")
TASK = ARRAY[:12] + b"job\5"


class Member:
    """What the search sees of a member, with a history that a test has made."""

    def __init__(self, indexes: list[PackedIndex], sealed: int, lines: int = 0) -> None:
        self.disk = VirtualDisk()
        self.segments = Segments(self.disk)
        cuts = [*range(0, sealed, 3), sealed]
        for first, last in pairwise(cuts):
            part = indexes[first:last]
            ends = part[0].index, part[-1].index
            if last <= lines:
                self.segments.seal(*ends, [line for one in part for line in one.lines()])
            else:
                self.segments.seal_packed(*ends, part)
        history = HistoryLog(self.segments)
        history._recent = indexes[sealed:]
        arrays: dict[bytes, Any] = {
            ARRAY[:12]: SimpleNamespace(array_id=ARRAY, number_of=lambda _: 1, task_count=9)
        }
        worker = SimpleNamespace(name="w one")
        state = SimpleNamespace(arrays=arrays, workers={worker_id("w1"): worker})
        self._driver = SimpleNamespace(state=state, replica=SimpleNamespace(history=history))
        self.applied_index = indexes[-1].index

    def on_loop(self, task: Callable[[Any], Any]) -> Any:
        return task(self._driver)

    def is_sound(self, first: int, last: int) -> bool:
        return self.segments.is_sound(first, last)

    def read(self, job: bytes) -> tuple[list[tuple[int, int, str]], list[JobTimeline]]:
        """All rows of a job, and the answers that had them."""
        parts: list[JobTimeline] = []
        before = 0
        while True:
            parts.insert(0, read_timeline(cast(ReaderContext, self), JobPlace(job, before)))
            before = parts[0].before
            if not before:
                rows = [row for part in parts for row in part.rows]
                return [(row.index, row.ordinal, row.type) for row in rows], parts


def history() -> list[PackedIndex]:
    """Some indexes; most are about others, and some are large enough to be compressed alone."""
    run = Run(OTHERS[:160] + MINE + OTHERS[160:])
    events = {
        2: [Event(JOB_ENQUEUED, run=run, client_id="ann")],
        4: [Event(ARRAY_ENQUEUED, array_id=ARRAY, count=9)],
        6: [Event("worker_up"), Event(JOB_ASSIGNED, MINE, worker_id=worker_id("w1"), attempt=1)],
        9: [Event(JOB_ASSIGNED, TASK, array_id=ARRAY, attempt=1)],
        11: [Event(JOB_ACKED, run=Run(MINE + OTHERS[:16]), attempt=1)],
        14: [Event(JOB_FORGOTTEN, MINE)],
    }
    noise = [Event(JOB_ASSIGNED, run=Run(OTHERS * 8), detail="x" * 100)]
    return [pack(index, 1_000 + index, events.get(index, noise)) for index in range(1, 16)]


EXPECTED = [
    (2, 10, JOB_ENQUEUED),
    (6, 1, JOB_ASSIGNED),
    (11, 0, JOB_ACKED),
    (14, 0, JOB_FORGOTTEN),
]


@pytest.mark.parametrize(("sealed", "lines"), [(0, 0), (15, 0), (9, 0), (12, 6), (15, 15)])
@pytest.mark.parametrize("looked_bytes", [1, 10_000, 1 << 30])
def test_a_job_is_followed_back_to_where_it_was_accepted(
    monkeypatch: pytest.MonkeyPatch, sealed: int, lines: int, looked_bytes: int
) -> None:
    monkeypatch.setattr(timeline, "LOOKED_BYTES_MAX", looked_bytes)
    member = Member(history(), sealed, lines)
    rows, parts = member.read(MINE)
    assert rows == EXPECTED
    assert parts[0].is_whole
    assert len(parts) > 1 or looked_bytes > 1
    assert len(parts) == 1 or looked_bytes < 1 << 30
    named = {name for part in parts for name in part.workers.items()}
    assert named == {(guid_to_text(worker_id("w1")), "w one")}
    assert [row[0] for row in member.read(TASK)[0]] == [4, 9]  # of a task also its array
    assert [row[0] for row in member.read(ARRAY)[0]] == [4]
    nobody, parts = member.read(job_id("nobody"))
    assert nobody == []
    assert not parts[0].is_whole


def test_what_is_gone_is_said() -> None:
    member = Member(history(), 15)
    member.segments.forget(3)
    rows, parts = member.read(MINE)
    assert rows == EXPECTED[1:]
    assert (parts[0].is_whole, parts[0].floor) == (False, 3)


def test_another_member_is_asked_where_history_is_damaged_or_missing() -> None:
    member = Member(history(), 15)
    footer = member.segments.packed(10, 12)
    assert footer is not None
    member.disk.write(packed_name(10, 12), footer.blocks[0].offset, b"\xff" * 8)
    for what in ("history 10 to 12 is damaged here", "history 12 is missing here"):
        with pytest.raises(StateError, match=what) as raised:
            member.read(MINE)
        assert raised.value.code is ErrorCode.NOT_READY
        member.disk.remove(packed_name(10, 12))


def test_an_id_across_the_border_of_two_others_is_none() -> None:
    ids = OTHERS[:32]
    found = Sought(ids[8:24]).rows_in(pack(1, 0, [Event(JOB_ASSIGNED, run=Run(ids))]))
    assert found == []
