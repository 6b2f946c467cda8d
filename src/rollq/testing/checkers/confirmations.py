"""Checker of confirmations: a confirmed result is not delivered again; for each job of a run."""

from __future__ import annotations

from rollq.base.ids import ClientId, JobId
from rollq.base.staged import ids_of
from rollq.grid import commands
from rollq.grid.effects import Applied
from rollq.grid.state import GridState
from rollq.testing.checkers.base import LogChecker
from rollq.testing.ledger import Ledger
from rollq.testing.sim_member import SimMember


class Confirmations(LogChecker):
    """Every result named by a committed confirmation is marked as confirmed."""

    name = "what is confirmed is owed no more"

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self._named: list[tuple[ClientId, JobId]] = []  # by confirmations of the entry

    def on_command(self, index: int, command: commands.Command, count: int) -> None:
        if isinstance(command, commands.ConfirmRun):
            self._named += [(command.client_id, job_id) for job_id in ids_of(command.job_ids)]

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        for client_id, job_id in self._named:
            record = state.jobs.get(job_id)
            if record is None or record.end is None or record.client.client_id != client_id:
                continue
            ended_before = self._ledger.jobs[job_id].ended_index < applied.index
            if ended_before and not record.end.confirmed_seq:
                self.fail(f"the result of job {job_id.hex()} is still owed at {applied.index}")
        self._named.clear()
