from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.histories import make
from rollq.history.schema import from_line
from rollq.history.segments import Segments
from rollq.store.look import LookDisk


def test_a_history_is_made_that_is_whole_and_has_all_sorts_of_rows(tmp_path: Path) -> None:
    made = make(tmp_path / "state", 20_000)
    segments = Segments(LookDisk(tmp_path / "state"))
    assert segments.gaps(made.last_index) == []
    rows = [from_line(line) for line in segments.read(1, made.last_index)]
    assert len(rows) >= made.events >= 20_000
    kinds = Counter(row.type for row in rows)
    assert kinds["enqueue"] == made.jobs
    assert min(kinds[kind] for kind in ("assign", "ack", "confirm", "retry_requeue", "dlq")) > 0
