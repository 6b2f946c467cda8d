"""Checker of drains: a drained worker gets no job, under any leader and in any session."""

from __future__ import annotations

from rollq.base.ids import WorkerId
from rollq.grid.commands import AssignRun, AssignTasks, Command, DrainWorkers
from rollq.testing.checkers.base import LogChecker


class Drains(LogChecker):
    """A model of the drained workers, built from the log."""

    name = "drains"

    def __init__(self) -> None:
        super().__init__()
        self._drained: set[WorkerId] = set()

    def on_command(self, index: int, command: Command, count: int) -> None:
        """Workers were drained or undrained."""
        if isinstance(command, DrainWorkers):
            if command.undo:
                self._drained.difference_update(command.worker_ids)
            else:
                self._drained.update(command.worker_ids)

    def on_run(self, command: Command, positions: list[int]) -> None:
        """Jobs were assigned to a worker."""
        if not isinstance(command, AssignRun | AssignTasks) or not positions:
            return
        if command.worker_id in self._drained:
            self.fail(f"{len(positions)} jobs go to drained worker {command.worker_id.hex()}")
