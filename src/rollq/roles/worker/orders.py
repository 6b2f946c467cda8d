"""The instructions that the worker's machine gives while it handles one event. Pure.

What is asked of many attempts is one instruction, however the attempts came mixed: it stands where
the first of them asked for it. So messages keep their order, and a start stands before its kill.
"""

from __future__ import annotations

from rollq.base.jobs import AttemptRef
from rollq.roles.worker.signals import (
    DropInputs,
    ForgetResults,
    Instruction,
    PrepareInputs,
    SendToMember,
    StartCalls,
    StartJobs,
    StoredResult,
    StoreResults,
)
from rollq.wire.messages import AssignJob, WorkerMessage


class Orders:
    """Gathers instructions; `take` hands them out and begins anew."""

    __slots__ = (
        "_calls",
        "_drops",
        "_forgets",
        "_given",
        "_messages",
        "_prepares",
        "_starts",
        "_stores",
    )

    def __init__(self) -> None:
        self._begin()

    def take(self) -> list[Instruction]:
        """All since the last call, in order."""
        if not self._given:
            return []
        given = self._given
        self._begin()
        return given

    def give(self, instruction: Instruction) -> None:
        """One that stands alone."""
        self._given.append(instruction)

    def send(self, message: WorkerMessage) -> None:
        """Send this, after what was sent before."""
        if not self._messages:
            self._given.append(SendToMember(self._messages))
        self._messages.append(message)

    def prepare(self, job: AssignJob, ref: AttemptRef) -> None:
        """Bring the inputs of this attempt."""
        if not self._prepares:
            self._given.append(PrepareInputs(self._prepares))
        self._prepares.append((job, ref))

    def drop_inputs(self, ref: AttemptRef) -> None:
        """This attempt does not start: its inputs may go."""
        if not self._drops:
            self._given.append(DropInputs(self._drops))
        self._drops.append(ref)

    def start(self, job: AssignJob, ref: AttemptRef) -> None:
        """Run this attempt."""
        if not self._starts:
            self._given.append(StartJobs(self._starts))
        self._starts.append((job, ref))

    def call(self, jobs: list[tuple[AssignJob, AttemptRef]]) -> None:
        """Let these calls stand in line."""
        if not self._calls:
            self._given.append(StartCalls(self._calls))
        self._calls += jobs

    def store_all(self, records: list[StoredResult]) -> None:
        """Make these durable."""
        if not self._stores and records:
            self._given.append(StoreResults(self._stores))
        self._stores += records

    def store(self, record: StoredResult) -> None:
        """Make this durable."""
        if not self._stores:
            self._given.append(StoreResults(self._stores))
        self._stores.append(record)

    def forget(self, ref: AttemptRef) -> None:
        """Its result may go."""
        if not self._forgets:
            self._given.append(ForgetResults(self._forgets))
        self._forgets.append(ref)

    def forget_all(self, refs: list[AttemptRef]) -> None:
        """The results of these may go."""
        if not self._forgets and refs:
            self._given.append(ForgetResults(self._forgets))
        self._forgets += refs

    def _begin(self) -> None:
        self._given: list[Instruction] = []
        # Each of these lists is part of an instruction in `_given` once it is not empty.
        self._messages: list[WorkerMessage] = []
        self._prepares: list[tuple[AssignJob, AttemptRef]] = []
        self._drops: list[AttemptRef] = []
        self._starts: list[tuple[AssignJob, AttemptRef]] = []
        self._calls: list[tuple[AssignJob, AttemptRef]] = []
        self._stores: list[StoredResult] = []
        self._forgets: list[AttemptRef] = []
