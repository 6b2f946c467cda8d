"""The instructions of the worker's machine while it handles one event. Pure.

Instructions of one kind for several attempts become one, at the place of the first. So messages
keep their order, and a start precedes its kill.
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
    """Collects instructions until `take`."""

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
        """Remove and return all instructions, in order."""
        if not self._given:
            return []
        given = self._given
        self._begin()
        return given

    def give(self, instruction: Instruction) -> None:
        """Add an instruction that is not combined with others."""
        self._given.append(instruction)

    def send(self, message: WorkerMessage) -> None:
        """Send a message, after earlier ones."""
        if not self._messages:
            self._given.append(SendToMember(self._messages))
        self._messages.append(message)

    def prepare(self, job: AssignJob, ref: AttemptRef) -> None:
        """Fetch the inputs of an attempt."""
        if not self._prepares:
            self._given.append(PrepareInputs(self._prepares))
        self._prepares.append((job, ref))

    def drop_inputs(self, ref: AttemptRef) -> None:
        """Drop the inputs of an attempt that does not start."""
        if not self._drops:
            self._given.append(DropInputs(self._drops))
        self._drops.append(ref)

    def start(self, job: AssignJob, ref: AttemptRef) -> None:
        """Start an attempt."""
        if not self._starts:
            self._given.append(StartJobs(self._starts))
        self._starts.append((job, ref))

    def call(self, jobs: list[tuple[AssignJob, AttemptRef]]) -> None:
        """Add calls to the line."""
        if not self._calls:
            self._given.append(StartCalls(self._calls))
        self._calls += jobs

    def store_all(self, records: list[StoredResult]) -> None:
        """Store results durably."""
        if not self._stores and records:
            self._given.append(StoreResults(self._stores))
        self._stores += records

    def store(self, record: StoredResult) -> None:
        """Store a result durably."""
        if not self._stores:
            self._given.append(StoreResults(self._stores))
        self._stores.append(record)

    def forget(self, ref: AttemptRef) -> None:
        """Delete the result of an attempt."""
        if not self._forgets:
            self._given.append(ForgetResults(self._forgets))
        self._forgets.append(ref)

    def forget_all(self, refs: list[AttemptRef]) -> None:
        """Delete the results of attempts."""
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
