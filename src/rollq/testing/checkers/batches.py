"""Checker of staged batches: each job of a committed batch is created once, of any other never.

The model is built from successful commands and from events.
"""

from __future__ import annotations

from rollq.base.ids import ClientId, JobId
from rollq.base.staged import ids_of
from rollq.grid import commands
from rollq.grid import events as facts
from rollq.grid.effects import Applied
from rollq.grid.state import GridState
from rollq.testing.checkers.base import LogChecker
from rollq.testing.sim_member import SimMember

CREATIONS = (facts.JOB_ENQUEUED, facts.JOB_DELAYED, facts.JOB_BLOCKED)
REMOVALS = (facts.JOB_FORGOTTEN, facts.JOB_PURGED)  # after these the id may be reused


class BatchChecker(LogChecker):
    """Model of what was staged and committed, and of the jobs created from it."""

    name = "a committed batch is each of its jobs once"

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[tuple[ClientId, str], tuple[int, list[JobId]]] = {}  # index, new jobs
        self._staged: dict[tuple[ClientId, str], dict[str, dict[int, commands.StageJobs]]] = {}
        self._uncommitted: dict[JobId, None] = {}  # staged ids that are not committed
        self._creations: dict[JobId, int] = {}
        self._removals: dict[JobId, int] = {}
        self._to_redrive: dict[
            JobId, None
        ] = {}  # dead jobs of committed batches that must be redriven

    def on_command(self, index: int, command: commands.Command, count: int) -> None:
        if isinstance(command, commands.StageJobs):
            parts = self._staged.setdefault((command.client_id, command.batch_key), {})
            parts.setdefault(command.part, {})[command.number] = command
            for group in command.groups:
                if not group.redrives:
                    self._uncommitted.update(dict.fromkeys(ids_of(group.job_ids)))
        elif isinstance(command, commands.CommitBatch):
            self._commit(index, command, count)
        elif isinstance(command, commands.DropBatches):
            for name in command.batches:
                self._staged.pop((name.client_id, name.batch_key), None)

    def _commit(self, index: int, command: commands.CommitBatch, count: int) -> None:
        name = (command.client_id, command.batch_key)
        if name in self.committed:
            self.fail(f"batch {command.batch_key} was committed twice")
        parts = self._staged.pop(name, {})
        new: list[JobId] = []
        redriven: list[JobId] = []
        for part in command.parts:
            for staged in parts.get(part.part, {}).values():
                for group in staged.groups:
                    (redriven if group.redrives else new).extend(ids_of(group.job_ids))
        if len(new) + len(redriven) != count:
            self.fail(f"batch {command.batch_key} was committed with {count} jobs")
        self.committed[name] = (index, new)
        self._to_redrive.update(dict.fromkeys(redriven))
        for job_id in new:
            self._uncommitted.pop(job_id, None)

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        for event in facts.each_of(applied.events):
            if event.kind in CREATIONS and event.job_id:
                self._created(event.job_id)
            elif event.kind in REMOVALS:
                self._removals[event.job_id] = self._removals.get(event.job_id, 0) + 1
            elif event.kind == facts.JOB_REDRIVEN:
                self._to_redrive.pop(event.job_id, None)

    def _created(self, job_id: JobId) -> None:
        if job_id in self._uncommitted:
            self.fail(f"job {job_id.hex()} was staged, not committed, and is there")
        self._creations[job_id] = self._creations.get(job_id, 0) + 1

    def on_finish(self, members: list[SimMember]) -> None:
        for (_, batch_key), (_, job_ids) in self.committed.items():
            for job_id in job_ids:
                creations = self._creations.get(job_id, 0)
                if not 1 <= creations <= 1 + self._removals.get(job_id, 0):
                    self.fail(f"job {job_id.hex()} of batch {batch_key} is there {creations} times")
        if self._to_redrive:
            self.fail(f"{len(self._to_redrive)} dead jobs of a committed batch did not run again")
