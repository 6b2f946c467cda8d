"""What happens to jobs, told by a leader to those who listen."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base import job_events as said
from rollq.base.job_events import JobEvent, JobProgress, decode_event, encode_event
from rollq.roles.member.leader import job_events
from rollq.subjects.reserved import job_event_subject
from rollq.wire import messages as wire
from rollq.wire.subject_messages import Deliver, Publish, Subscribe, Unsubscribe
from tests.unit.roles.members import OURS, Group, job, submit

ANN, BOB, BOX, ASKED = 1, 2, 3, b"r" * 16
SPEAKS = (*OURS, "subjects")


@pytest.fixture
def group() -> Group:
    """One member that leads, two clients and a worker."""
    made = Group()
    made.elect()
    made.client(ANN, "ann", SPEAKS)
    made.client(BOB, "bob", SPEAKS)
    made.worker(BOX, 10, SPEAKS)
    for session in (ANN, BOB, BOX):
        made.hear(session)
    return made


def listen(group: Group, pattern: str) -> None:
    assert group.say(BOB, Subscribe(ASKED, 1, pattern)) == [wire.Accepted(ASKED, 1)]


def heard(group: Group) -> list[tuple[str, str]]:
    """The jobs and kinds of events that came."""
    told: list[Any] = group.hear(BOB)
    events = [(one.subject, decode_event(one.payload)) for one in told if type(one) is Deliver]
    return [(subject[-4:], event.kind) for subject, event in events if event is not None]


@pytest.mark.parametrize("pattern", ["job.event.*", ">", "job.>"])
def test_a_wildcard_hears_of_all_jobs(group: Group, pattern: str) -> None:
    listen(group, pattern)
    group.say(ANN, submit(1), submit(2))
    assert sorted(heard(group)) == [
        *(("0001", "assign"), ("0001", "enqueue")),
        *(("0002", "assign"), ("0002", "enqueue")),
    ]


def test_one_job_is_heard_of_alone(group: Group) -> None:
    listen(group, job_event_subject(job(2)))
    group.say(ANN, submit(1), submit(2), submit(3))
    assert heard(group) == [("0002", "enqueue"), ("0002", "assign")]
    group.say(BOB, Unsubscribe(1))
    group.say(ANN, wire.Cancel(ASKED, (job(2),)))
    assert heard(group) == []


def test_nothing_is_made_for_nobody(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_events, "encode_event", None)
    group.say(BOB, Subscribe(ASKED, 1, "prices.>"))
    group.say(ANN, submit(1))
    listened = group.leader.leader_state.publishing.subscriptions.listened
    assert not listened
    listen(group, "job.event.*")
    assert listened
    group.hang_up(BOB)
    group.settle()
    assert not listened


def test_what_a_worker_said_last_is_remembered(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_events, "PROGRESS_KEPT_MAX", 2)
    group.say(ANN, *map(submit, (1, 2, 3)))
    group.hear(BOX)
    for number in (1, 2, 3, 2):
        event = JobEvent(said.PROGRESS, 1, progress=JobProgress(number, 9))
        group.say(BOX, Publish(job_event_subject(job(number)), encode_event(event)))
    latest = group.leader.leader_state.job_events.latest
    assert latest(job(1)) is None  # the oldest gave way
    told = latest(job(2))
    assert told is not None
    assert told.progress == JobProgress(2, 9)
    group.say(BOX, Publish(job_event_subject(job(3)), b"no event"))
    assert latest(job(3)) is None
    group.say(BOX, Publish(job_event_subject(job(2)), bytes(5_000)))  # too long to be one
    assert latest(job(2)) == told
