"""Events of runs stand for the facts of their jobs."""

from __future__ import annotations

from typing import Any

import msgspec

from rollq.base.staged import join_keys
from rollq.grid.events import (
    JOB_ACKED,
    JOB_ASSIGNED,
    JOB_ENQUEUED,
    AccessFact,
    Event,
    Run,
    each,
    each_of,
    fact_count,
)

ONE, TWO, THREE = (bytes([n]) * 16 for n in (1, 2, 3))


def test_an_event_without_a_run_stands_for_itself() -> None:
    event = Event(JOB_ENQUEUED, ONE, "acme", "reports", priority=3)
    assert each(event) == (event,)
    assert list(each_of([event, event])) == [event, event]
    assert fact_count([event, event, Event(JOB_ACKED, run=Run(ONE + TWO))]) == 4


def test_fences_count_on_from_the_first() -> None:
    event = Event(JOB_ASSIGNED, client_id="acme", attempt=1, fence=7, run=Run(ONE + TWO + THREE))
    assert each(event) == [
        Event(JOB_ASSIGNED, job_id, "acme", attempt=1, fence=fence)
        for job_id, fence in ((ONE, 7), (TWO, 8), (THREE, 9))
    ]


def test_an_event_without_a_fence_gives_none_to_its_jobs() -> None:
    event = Event(JOB_ENQUEUED, client_id="acme", run=Run(ONE + TWO))
    assert [one.fence for one in each(event)] == [0, 0]


def test_columns_hold_what_differs() -> None:
    run = Run(
        ONE + TWO,
        fences=(9, 4),
        run_ms=(1, 2),
        peak_bytes=(3, 4),
        fetched_bytes=(5, 6),
        held_bytes=(7, 8),
        body_bytes=(9, 10),
        blob_bytes=(11, 12),
        keys=join_keys(["", "b"]),
        requests=(b"x", b""),
    )
    event = Event(
        JOB_ACKED,
        client_id="acme",
        queue="reports",
        exec_name="sum",
        worker_id=THREE,
        attempt=2,
        fence=9,
        priority=1,
        status=1,
        exit_code=3,
        signal=4,
        array_id=THREE,
        detail="so",
        run=run,
    )
    assert each(event) == [
        msgspec.structs.replace(
            event,
            job_id=job_id,
            fence=fence,
            run_ms=1 + n,
            peak_bytes=3 + n,
            fetched_bytes=5 + n,
            held_bytes=7 + n,
            body_bytes=9 + n,
            blob_bytes=11 + n,
            job_key=key,
            request=request,
            run=None,
        )
        for n, (job_id, fence, key, request) in enumerate(((ONE, 9, "", b"x"), (TWO, 4, "b", b"")))
    ]


def test_each_field_of_an_event_reaches_its_jobs() -> None:
    """Also one that is appended later."""
    some = {str: "x", int: 1, bytes: b"x" * 16, type(None): AccessFact("x")}
    values: dict[str, Any] = {
        name: some[type(value)]
        for name, value in msgspec.structs.asdict(Event("")).items()
        if name not in ("job_id", "fence", "run")
    }
    event = Event(**values, run=Run(ONE))
    assert each(event) == [Event(**values, job_id=ONE)]


def test_the_facts_of_many_events_are_in_order() -> None:
    events = [
        Event(JOB_ENQUEUED, run=Run(ONE + TWO)),
        Event(JOB_ACKED, THREE),
        Event(JOB_ASSIGNED, run=Run(TWO)),
    ]
    assert [(e.kind, e.job_id) for e in each_of(events)] == [
        (JOB_ENQUEUED, ONE),
        (JOB_ENQUEUED, TWO),
        (JOB_ACKED, THREE),
        (JOB_ASSIGNED, TWO),
    ]
