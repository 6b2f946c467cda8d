"""Which rows `rollq watch` and `rollq history tail` show, and how they read."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import LocalError
from rollq.cli.event_lines import EventLines
from rollq.cli.rows import Wanted, state_after
from rollq.cli.watch import Ends
from rollq.grid.events import EVENT_TYPES
from rollq.grid.views import RawArrayView
from rollq.history.schema import HistoryRow
from rollq.roles.client.results.views import ArrayView

JOB = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
WORKER = "aaaa0000-0000-0000-0000-000000000000"
NIL = "00000000-0000-0000-0000-000000000000"
ARRAY = "5d1f0c3e-9a41-7f60-2c77-3f0a00000000"


def row(kind: str, **fields: Any) -> HistoryRow:
    return HistoryRow(7, 0, 1_000, kind, **fields)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"type": "enqueue"}, "waiting"),
        ({"type": "delay", "delayMs": 5}, "delayed"),
        ({"type": "assign"}, "running"),
        ({"type": "ack"}, "ok"),
        ({"type": "ack", "status": 1}, "failed"),
        ({"type": "nack_requeue"}, "waiting"),
        ({"type": "nack_requeue", "delayMs": 5}, "delayed"),
        ({"type": "dlq"}, "dead"),
        ({"type": "expire"}, "dead"),
        ({"type": "cancel"}, "cancelled"),
        ({"type": "worker_up"}, ""),
    ],
    ids=lambda one: "-".join(map(str, one.values())) if isinstance(one, dict) else one or "none",
)
def test_where_a_job_stands_after_an_event(fields: dict[str, Any], state: str) -> None:
    kind = fields.pop("type")
    assert state_after(row(kind, **fields)) == state


@pytest.mark.parametrize(
    "wanted",
    [
        {"kind": "ack"},
        {"job": JOB},
        {"job": "6f9619ff"},
        {"job": ARRAY},
        {"queue": "q"},
        {"exec_name": "calcA"},
        {"client": "ann"},
        {"key": "k1"},
        {"state": "failed"},
        {"worker": "w1"},
        {"worker": "aaaa0000"},
        {"since_ms": 1_000},
        {},
    ],
    ids=lambda one: " ".join(map(str, (*one, *one.values()))) or "all",
)
def test_rows_are_chosen_by_what_they_say(wanted: dict[str, Any]) -> None:
    fits = row(
        "ack",
        jobId=JOB,
        arrayId=ARRAY,
        queue="q",
        execName="calcA",
        clientId="ann",
        jobKey="k1",
        status=1,
        workerId=WORKER,
    )
    other = HistoryRow(7, 1, 999, "release", jobId=WORKER, workerId=JOB)
    assert Wanted(**wanted).fits(fits, "w1")
    assert Wanted(**wanted).fits(other) is not bool(wanted)


@pytest.mark.parametrize("wanted", [{"kind": "frob"}, {"state": "frob"}, {"job": "no id"}])
def test_what_cannot_be_wanted_is_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(LocalError):
        Wanted(**wanted)


def test_events_read_as_sentences() -> None:
    lines = EventLines({}, as_json=False)
    lines.learn(row("worker_up", workerId=WORKER, detail="w1 job.assign.>"))
    failed = {"jobId": JOB, "execName": "calcA", "workerId": WORKER, "runMs": 1_200, "attempt": 2}
    told = lines.text_of(row("ack", status=1, exitCode=3, **failed))
    assert told.endswith(
        f"ack                 {JOB} calcA failed: exit code 3; on w1; after 1.2 s; attempt 2"
    )
    told = lines.text_of(row("nack_requeue", cause=3, delayMs=500, detail="no\nroom\x1b[2J"))
    assert told.endswith("no worker could run it; again after 500 ms: no room·[2J")


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_event_can_be_shown(kind: str) -> None:
    assert kind in EventLines({}, as_json=False).text_of(row(kind))


def test_ends_are_waited_for() -> None:
    ends = Ends()
    ends.handle(row("ack", jobId=JOB))
    assert standing(ends) == (False, True)
    ends.wait_for(JOB, "running")
    ends.handle(row("retry_requeue", jobId=JOB))
    assert standing(ends) == (False, True)
    ends.handle(row("ack", jobId=JOB))
    assert standing(ends) == (True, True)


@pytest.mark.parametrize("kind", ["dlq", "cancel", "expire"])
def test_an_end_that_is_not_well_is_remembered(kind: str) -> None:
    ends = Ends()
    ends.wait_for(JOB, "waiting")
    ends.handle(row(kind, jobId=JOB))
    assert standing(ends) == (True, False)


def test_an_array_ends_with_its_last_task() -> None:
    array = RawArrayView(bytes(16), "ann", "q", "e", 2, 0, False, 1, 1, 1, 0, 0, 0)
    ends = Ends()
    ends.wait_for_array(ArrayView.of(array))
    ends.handle(row("ack", jobId=JOB, arrayId=NIL, status=1))
    assert standing(ends) == (False, False)
    ends.handle(row("array_end", arrayId=NIL))
    assert standing(ends) == (True, False)


def standing(ends: Ends) -> tuple[bool, bool]:
    return ends.are_all, ends.are_ok
