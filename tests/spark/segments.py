"""Histories for tests of Spark, sealed on disk as a member seals them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rollq.base.ids import JobId
from rollq.grid.events import Event
from rollq.history.packed import pack
from rollq.history.segments import Segments
from rollq.store.look import LookDisk
from rollq.store.real_disk import RealDisk

STAMP_MS = 1_700_000_000_000


def seal(
    folder: Path,
    first: int,
    last: int,
    rows_each: int = 3,
    forms: Sequence[str] = ("lines",),
    *,
    stamp_ms: int = 0,
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> None:
    """One segment with the same number of rows at every index: of lines, packed, or both.

    Args:
        folder: where.
        first: index.
        last: index.
        rows_each: of an index.
        forms: of the segment.
        stamp_ms: of all rows; 0: each index has its own, a millisecond after the one before.
        change: what another version would have written, in lines.
    """
    indexes = [
        pack(index, stamp_ms or STAMP_MS + index, events(index, rows_each))
        for index in range(first, last + 1)
    ]
    disk = RealDisk(folder, unsafe_no_fsync=True)
    if "lines" in forms:
        lines = [line for index in indexes for line in index.lines()]
        if change is not None:
            lines = [msgspec.json.encode(change(json.loads(line))) for line in lines]
        Segments(disk).seal(first, last, lines)
    if "packed" in forms:
        Segments(disk).seal_packed(first, last, indexes)
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
    return list(map(json.loads, Segments(LookDisk(folder)).read(1, 2**63)))


def _id(index: int, n: int) -> JobId:
    return JobId(index.to_bytes(8) + n.to_bytes(8))
