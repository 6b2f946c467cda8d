"""Lines of runs are those of their jobs one by one."""

from __future__ import annotations

import random

import pytest

from rollq.base.jobs import Status
from rollq.grid.events import Event, Run, each_of
from rollq.history import schema
from rollq.history.schema import from_line, to_lines

COUNT = 50
DRAW = random.Random(7)
IDS = DRAW.randbytes(16 * COUNT)
FEW = tuple(DRAW.choice((0, 1, 7, 2**40)) for _ in range(COUNT))  # some are nothing
ALL = tuple(DRAW.randrange(1, 2**40) for _ in range(COUNT))
KEYS = "\0".join(DRAW.choice(("", 'a "key" of 100 %', "zwölf", "%s")) for _ in range(COUNT))
REQUESTS = tuple(DRAW.choice((b"", b'{"JobId":"","Args":["100 %"]}')) for _ in range(COUNT))
EVENTS = [
    Event("enqueue", client_id="100 %d", queue="q", exec_name='"', run=Run(IDS)),
    Event("assign", fence=17, worker_id=IDS[:16], attempt=1, run=Run(IDS)),
    Event("ack", fence=17, status=Status.OK, run=Run(IDS, fences=ALL, run_ms=FEW)),
    Event("ack", peak_bytes=5, run_ms=9, run=Run(IDS, peak_bytes=ALL, fetched_bytes=FEW)),
    Event("ack", array_id=IDS[-16:], run=Run(IDS, held_bytes=FEW, blob_bytes=ALL)),
    Event("enqueue", body_bytes=3, run=Run(IDS, body_bytes=FEW, keys=KEYS, requests=REQUESTS)),
    Event("enqueue", job_key="same", request=REQUESTS[0], run=Run(IDS)),
]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("jobs_min", [1, COUNT + 1])
def test_lines_of_a_run_are_those_of_its_jobs(
    event: Event, jobs_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "PATTERN_JOBS_MIN", jobs_min)
    one_by_one = [
        schema._encode(schema.to_row(3, ordinal, 99, one))
        for ordinal, one in enumerate(each_of([event]))
    ]
    assert to_lines(3, 99, [event]) == one_by_one


def test_ordinals_count_on_over_runs() -> None:
    events = [Event("worker_up"), *EVENTS, Event("worker_down")]
    rows = [from_line(line) for line in to_lines(3, 99, events)]
    assert [row.ordinal for row in rows] == list(range(2 + COUNT * len(EVENTS)))
    assert len({row.jobId for row in rows[1:-1]}) == COUNT
