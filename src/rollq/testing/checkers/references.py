"""Checker of blob references: nothing that a job or a kept result needs is released.

The model is built from successful commands and from the ledger. That nothing else is kept is an
invariant of the state itself (`rollq.grid.invariants`).
"""

from __future__ import annotations

from rollq.base.ids import JobId
from rollq.base.jobs import BlobRef
from rollq.base.staged import ids_of
from rollq.grid import commands
from rollq.grid.effects import Applied
from rollq.grid.state import GridState
from rollq.testing.checkers.base import LogChecker
from rollq.testing.ledger import DEAD, DONE, RUNNING, WAITING, Ledger
from rollq.testing.sim_member import SimMember

SAMPLE_EVERY = 8  # entries


class References(LogChecker):
    """Inputs of jobs that may run again are referenced, and outputs of jobs that are done."""

    name = "blobs that are needed are held"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self._inputs: dict[JobId, tuple[BlobRef, ...]] = {}  # of jobs and arrays
        self._outputs: dict[JobId, tuple[BlobRef, ...]] = {}

    def on_command(self, index: int, command: commands.Command, count: int) -> None:
        if isinstance(command, commands.SubmitBulk):
            self._inputs.update((item.job_id, item.blobs) for item in command.items)
        elif isinstance(command, commands.SubmitArray):
            self._inputs[command.array_id] = command.blobs
        elif isinstance(command, commands.StageJobs):
            for group in command.groups:
                if group.blobs:
                    ids = ids_of(group.job_ids)
                    self._inputs.update(zip(ids, group.blobs, strict=True))

    def on_run(self, command: commands.Command, positions: list[int]) -> None:
        if isinstance(command, commands.SubmitRun | commands.AckRun) and command.blobs:
            kept = self._inputs if isinstance(command, commands.SubmitRun) else self._outputs
            job_ids = list(ids_of(command.job_ids))
            kept.update((job_ids[at], command.blobs[at]) for at in positions)

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        if applied.index % SAMPLE_EVERY:
            return
        for job_id, job in self._ledger.jobs.items():
            needed: tuple[BlobRef, ...] = ()
            if job.state in (WAITING, RUNNING, DEAD):
                needed = self._inputs.get(job.array_id or job_id, ())
            elif job.state == DONE:
                needed = self._outputs.get(job_id, ())
            for ref in needed:
                if ref.digest not in state.blobs:
                    self.fail(
                        f"{member.name} lets go of blob {ref.size} at {state.applied_index}: "
                        f"job {job_id.hex()} is {job.state}"
                    )
