from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollq.grid import events as facts
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import AckRun
from rollq.grid.effects import Applied, RunDone
from rollq.grid.events import Event
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.testing.checkers.base import Violation
from rollq.testing.ledger import DONE, GONE, Ledger

JOB = b"j" * 16
MEMBER: Any = SimpleNamespace(name="m1", term=1)


def job(kind: str, **fields: Any) -> Event:
    return Event(kind, JOB, "c", **fields)


def assigned(attempt: int, fence: int) -> Event:
    return job(facts.JOB_ASSIGNED, attempt=attempt, fence=fence, worker_id=b"w" * 16)


class Story:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.state = GridState()

    def tell(self, *events: Event, term: int = 1, index: int = 0, data: bytes = b"") -> None:
        index = index or self.ledger.last_index + 1
        applied = Applied(index, 0, [RunDone(1)] if data else [], list(events), [])
        self.ledger.on_apply(MEMBER, Entry(term, index, 0, data), applied, self.state)


ENQUEUED = job(facts.JOB_ENQUEUED)
FIRST = assigned(1, 1)
ACKED = job(facts.JOB_ACKED, attempt=1, fence=1)


def test_a_whole_life_and_another_under_the_same_id() -> None:
    story = Story()
    story.tell(ENQUEUED, FIRST)
    story.tell(job(facts.JOB_TIMED_OUT, attempt=1), assigned(2, 2))
    story.tell(job(facts.JOB_ACKED, attempt=2, fence=2))
    assert story.ledger.jobs[JOB].state == DONE
    story.tell(job(facts.JOB_FORGOTTEN))
    assert story.ledger.jobs[JOB].state == GONE
    story.tell(ENQUEUED, assigned(1, 3))
    assert story.ledger.ended_count == 1


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ((ENQUEUED, ENQUEUED), "then came enqueue"),
        ((ENQUEUED, ACKED), "was waiting, then came ack"),
        ((ENQUEUED, FIRST, ACKED, ACKED), "was done, then came ack"),
        ((ENQUEUED, FIRST, ACKED, job(facts.JOB_REDRIVEN)), "was done, then came redrive"),
        ((ENQUEUED, FIRST, job(facts.JOB_ACKED, attempt=1, fence=9)), "fence 9 was taken"),
        ((ENQUEUED, FIRST, job(facts.JOB_NACKED), assigned(2, 1)), "fence 1 was given after 1"),
        ((ENQUEUED, FIRST, job(facts.JOB_NACKED), assigned(1, 2)), "attempt 1 of a job came after"),
        (
            (
                Event(facts.CLIENT_OPENED, client_id="c", count=1),
                ENQUEUED,
                FIRST,
                Event(facts.JOB_ENQUEUED, b"k" * 16, "c"),
                Event(facts.JOB_ASSIGNED, b"k" * 16, "c", attempt=1, fence=2),
            ),
            "above its cap of 1",
        ),
    ],
)
def test_what_may_not_happen_is_a_violation(events: tuple[Event, ...], complaint: str) -> None:
    with pytest.raises(Violation, match=complaint):
        Story().tell(*events)


def test_committed_is_committed() -> None:
    story = Story()
    story.tell(ENQUEUED, term=1)
    story.tell(ENQUEUED, term=1, index=1)
    with pytest.raises(Violation, match="applied another entry at 1"):
        story.tell(ENQUEUED, term=2, index=1)
    with pytest.raises(Violation, match="made other events"):
        story.tell(term=1, index=1)
    with pytest.raises(Violation, match="2 was never applied"):
        story.tell(index=3)
    story.state.log_hash = b"other"
    with pytest.raises(Violation, match="another running hash"):
        story.tell(ENQUEUED, term=1, index=1)


def test_an_ack_command_with_a_stale_fence_must_not_be_taken() -> None:
    story = Story()
    story.tell(ENQUEUED, FIRST)
    story.tell(job(facts.JOB_NACKED), assigned(2, 2))
    with pytest.raises(Violation, match="stale fence 1"):
        story.tell(data=encode_batch(0, [AckRun(1, 0, JOB, (1,), (b"",))]))
