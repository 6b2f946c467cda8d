"""Checker of needs: workers hold only attempts that match their labels and resources."""

from __future__ import annotations

from rollq.base.needs import labels_match
from rollq.grid.effects import Applied
from rollq.grid.state import GridState, WorkerRecord
from rollq.testing.checkers.base import LogChecker
from rollq.testing.sim_member import SimMember


class Needs(LogChecker):
    """Sums up the resources of all attempts of each worker, after every entry."""

    name = "needs"

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        """Check all workers after a new entry."""
        for worker in state.workers.values():
            self._check(worker, state)

    def _check(self, worker: WorkerRecord, state: GridState) -> None:
        free = dict(worker.resources)
        for job_id in worker.held:
            options = state.jobs[job_id].options
            if not labels_match(options.labels, worker.labels):
                self.fail(f"{worker.name} has {worker.labels}, and a job for {options.labels}")
            for name, amount in options.resources:
                free[name] = free.get(name, 0) - amount
        for name, left in free.items():
            if left < 0:
                has = dict(worker.resources).get(name, 0)
                self.fail(f"{worker.name} has {has} of {name}, and its attempts hold {has - left}")
