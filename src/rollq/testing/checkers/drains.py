"""Checker of drains: a drained worker gets no job, whoever leads and however it comes back."""

from __future__ import annotations

from rollq.base.ids import WorkerId
from rollq.grid.commands import AssignRun, AssignTasks, Command, DrainWorkers
from rollq.testing.checkers.base import LogChecker


class Drains(LogChecker):
    """Its own account of who is drained, from the log alone."""

    name = "drains"

    def __init__(self) -> None:
        super().__init__()
        self._drained: set[WorkerId] = set()

    def done(self, index: int, command: Command, count: int) -> None:
        """Workers were drained, or get jobs again."""
        if isinstance(command, DrainWorkers):
            if command.undo:
                self._drained.difference_update(command.worker_ids)
            else:
                self._drained.update(command.worker_ids)

    def done_run(self, command: Command, positions: list[int]) -> None:
        """Jobs were given to a worker."""
        if not isinstance(command, AssignRun | AssignTasks) or not positions:
            return
        if command.worker_id in self._drained:
            self.fail(f"{len(positions)} jobs go to drained worker {command.worker_id.hex()}")
