"""What one event makes the worker's machine ask for, gathered. Pure.

What is asked of many attempts is one instruction, however the attempts came mixed: it stands where
the first of them asked for it. So messages keep their order, and a start stands before its kill.
"""

from __future__ import annotations

from rollq.base.jobs import AttemptRef
from rollq.roles.worker.signals import (
    ForgetResults,
    Instruction,
    Send,
    StartJobs,
    StoredResult,
    StoreResults,
)
from rollq.wire.messages import AssignJob, SessionMessage


class Orders:
    """The instructions of one event. `given` is all of them, in order."""

    __slots__ = ("_forgets", "_said", "_starts", "_stores", "given")

    def __init__(self) -> None:
        self.given: list[Instruction] = []
        self._said: list[SessionMessage] = []
        self._starts: list[tuple[AssignJob, AttemptRef]] = []
        self._stores: list[StoredResult] = []
        self._forgets: list[AttemptRef] = []

    def give(self, instruction: Instruction) -> None:
        """One that stands alone."""
        self.given.append(instruction)

    def say(self, message: SessionMessage) -> None:
        """Send this, after what was said before."""
        if not self._said:
            self.given.append(Send(self._said))
        self._said.append(message)

    def start(self, job: AssignJob, ref: AttemptRef) -> None:
        """Run this attempt."""
        if not self._starts:
            self.given.append(StartJobs(self._starts))
        self._starts.append((job, ref))

    def store(self, record: StoredResult) -> None:
        """Make this durable."""
        if not self._stores:
            self.given.append(StoreResults(self._stores))
        self._stores.append(record)

    def forget(self, ref: AttemptRef) -> None:
        """Its result may go."""
        if not self._forgets:
            self.given.append(ForgetResults(self._forgets))
        self._forgets.append(ref)
