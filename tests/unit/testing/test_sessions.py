"""What the simulator's checkers of clients must let pass, and what not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollq.base.staged import StagedGroup, StagedPart
from rollq.grid import commands
from rollq.grid import events as facts
from rollq.grid.command_codec import encode_batch
from rollq.grid.effects import Applied, Done
from rollq.grid.events import Event
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.testing.checkers.base import Violation
from rollq.testing.checkers.batches import BatchChecker
from rollq.testing.checkers.sessions import ClientBook
from rollq.testing.ledger import Ledger
from rollq.wire import messages as wire

ARRAY = b"a" * 16
JOB = b"j" * 16
MEMBER: Any = SimpleNamespace(name="m1", term=1)
CLIENT: Any = SimpleNamespace(name="c1", client_id="c")
CUT = Event(facts.JOB_CANCELLED, client_id="c", count=4, array_id=ARRAY)


def array_fact(kind: str) -> Event:
    return Event(kind, client_id="c", count=4, array_id=ARRAY)


class Told:
    """An array of four that was cancelled before any of its tasks ran."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.book = ClientBook(self.ledger)
        self.book.asked(CLIENT, wire.SubmitArray(ARRAY, "c", "q", "tool", b"", 4))

    def tell(self, *events: Event) -> None:
        index = self.ledger.last_index + 1
        applied = Applied(index, 0, [], list(events), [])
        self.ledger.on_apply(MEMBER, Entry(1, index, 0, b""), applied, GridState())

    def deliver(self, count: int) -> None:
        self.book.delivered(CLIENT, wire.Result(ARRAY, "cancelled", 2, b"", "tool", count=count))


def test_the_end_of_a_cut_may_arrive_after_its_array_was_forgotten() -> None:
    """The message was on its way when the TTL of the array ended."""
    told = Told()
    told.tell(array_fact(facts.ARRAY_ENQUEUED))
    told.tell(CUT)
    told.tell(array_fact(facts.JOB_FORGOTTEN))
    told.deliver(4)
    with pytest.raises(Violation, match="was told as"):
        told.deliver(3)


def test_the_end_of_a_cut_that_was_never_committed_is_a_violation() -> None:
    told = Told()
    told.tell(array_fact(facts.ARRAY_ENQUEUED))
    with pytest.raises(Violation, match="never committed"):
        told.deliver(4)


def born(*kinds: str) -> BatchChecker:
    """A committed batch of one job, and what happened to the job then."""
    group = StagedGroup("q", "tool", JOB, (0,), b"")
    batch: list[commands.Command] = [
        commands.StageJobs("c", "key", "0", 0, (group,)),
        commands.CommitBatch("c", "key", (StagedPart("0", 1, 0),)),
    ]
    checker = BatchChecker()
    events = [Event(kind, JOB, "c") for kind in kinds]
    applied = Applied(1, 0, [Done(1), Done(1)], events, [])
    checker.on_apply(MEMBER, Entry(1, 1, 0, encode_batch(0, batch)), applied, GridState())
    return checker


def test_a_job_of_a_batch_that_was_forgotten_may_be_submitted_again() -> None:
    born(facts.JOB_ENQUEUED, facts.JOB_FORGOTTEN, facts.JOB_ENQUEUED).on_finish([])


@pytest.mark.parametrize(
    ("kinds", "times"), [((), 0), ((facts.JOB_ENQUEUED, facts.JOB_ENQUEUED), 2)]
)
def test_a_job_of_a_batch_that_is_lost_or_there_twice_is_a_violation(
    kinds: tuple[str, ...], times: int
) -> None:
    with pytest.raises(Violation, match=f"is there {times} times"):
        born(*kinds).on_finish([])
