"""Histories for tests of Spark, sealed on disk as a member seals them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rollq.base.ids import JobId
from rollq.grid.events import Event
from rollq.history.schema import to_lines
from rollq.history.segments import Segments
from rollq.store.real_disk import RealDisk

STAMP_MS = 1_700_000_000_000


def seal(folder: Path, first: int, last: int, rows_each: int = 3) -> None:
    """One segment with the same number of rows at every index."""
    lines = [
        line
        for index in range(first, last + 1)
        for line in to_lines(index, STAMP_MS + index, events(index, rows_each))
    ]
    disk = RealDisk(folder, unsafe_no_fsync=True)
    Segments(disk).seal(first, last, lines)
    disk.close()


def events(index: int, count: int) -> Sequence[Event]:
    """What happened at an index: jobs in two queues that were accepted, and one that ended."""
    ended = Event("ack", job_id=_id(index, 0), exec_name="one", exit_code=index % 3, run_ms=index)
    return [
        Event(
            "enqueue",
            job_id=_id(index, n),
            client_id="client",
            queue=f"q{n % 2}",
            exec_name=("one", "two")[index % 2],
            priority=n,
            body_bytes=100,
        )
        for n in range(count - 1)
    ] + [ended]


def written(folder: Path) -> list[dict[str, object]]:
    """What is on disk, by the plainest of readers."""
    files = sorted((folder / "history").glob("*.jsonl"))
    lines = (line for file in files for line in file.read_text().splitlines())
    return [row for row in map(json.loads, lines) if "footer" not in row]


def _id(index: int, n: int) -> JobId:
    return JobId(index.to_bytes(8) + n.to_bytes(8))
