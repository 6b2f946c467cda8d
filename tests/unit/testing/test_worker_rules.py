"""The checker of the worker's rules sees a read as the machine does: message after message."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.signals import (
    Connected,
    Event,
    Instruction,
    MessageReceived,
    Started,
    StartJobs,
)
from rollq.testing.checkers.base import Violation
from rollq.testing.checkers.workers import WorkerRules
from rollq.testing.sim_worker import SimWorker
from rollq.wire import messages as wire
from tests.unit.roles.worker_machines import assign, finished, machine, received, ref, started


class Watched:
    """A machine, and the checker that is told what it does."""

    def __init__(self) -> None:
        self.machine: WorkerMachine = machine(slots=4)
        self.rules = WorkerRules()
        told = SimpleNamespace(name="w", life=1, table={}, slots=4, ahead=8, machine=self.machine)
        self.worker = cast(SimWorker, cast(Any, told))
        for event in (Started(), Connected(), received(wire.Welcome("g", 1))):
            self.handle(event)

    def handle(self, event: Event) -> list[Instruction]:
        done = self.machine.handle(event)
        self.rules.on_worker_event(self.worker, event, list(done))
        return list(done)


def together(*events: MessageReceived) -> MessageReceived:
    return MessageReceived([message for event in events for message in event.messages])


def test_two_attempts_of_a_job_in_one_read() -> None:
    watched = Watched()
    done = watched.handle(together(assign(ref(1, 1)), assign(ref(1, 2))))
    assert started(done) == [ref(1, 1), ref(1, 2)]
    watched.handle(finished(ref(1, 1)))
    watched.handle(finished(ref(1, 2)))


def test_an_attempt_that_was_replaced_earlier_may_not_start() -> None:
    watched = Watched()
    watched.handle(assign(ref(1, 2)))
    (message,) = assign(ref(1, 1)).messages
    late = StartJobs([(cast(Any, message), ref(1, 1))])
    with pytest.raises(Violation):
        watched.rules.on_worker_event(watched.worker, assign(ref(2)), [late])
