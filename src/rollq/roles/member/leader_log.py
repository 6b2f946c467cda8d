"""What the leader writes to its log about others: who comes and goes, and what is lost.

Each kind is written some times and then counted, so that a crowd of clients fills no disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rollq.base.ids import guid_to_text
from rollq.base.names import is_command_line
from rollq.base.repeats import Repeats
from rollq.base.stamp import Clock
from rollq.grid import commands
from rollq.grid.state import GridState
from rollq.roles.member.outputs import Level, Outputs, Warn
from rollq.roles.member.sessions import ClientSession, WorkerSession

LINES_MAX: Final = 20  # of a kind, before they are counted


class LeaderLog:
    """Lines for the log of the process, among the outputs of a turn."""

    __slots__ = ("_clock", "_outputs", "_repeats", "_state")

    def __init__(self, state: Callable[[], GridState], clock: Clock, outputs: Outputs) -> None:
        self._state = state
        self._clock = clock
        self._outputs = outputs
        self._repeats = Repeats(LINES_MAX)

    def joined(self, session: ClientSession | WorkerSession) -> None:
        """Somebody was welcomed."""
        if isinstance(session, WorkerSession):
            patterns = ", ".join(session.patterns)
            text = f"worker {named(session)} joined, serves {patterns}"
            self._tell("worker joined", text, level="info")
        else:
            self._client("joined", session.client_id)

    def left(self, session: ClientSession | WorkerSession) -> None:
        """A session ended."""
        if isinstance(session, WorkerSession):
            self._tell("worker left", f"worker {named(session)} left", level="info")
        else:
            self._client("left", session.client_id)

    def _client(self, what: str, client_id: str) -> None:
        # A command comes and goes with every call: that says nothing of the group.
        level: Level = "debug" if is_command_line(client_id) else "info"
        self._tell(f"client {what}, {level}", f"client {client_id} {what}", level=level)

    def silent(self, session: WorkerSession) -> None:
        """A worker was not heard of for too long."""
        text = f"worker {named(session)} says nothing: it gets no more work until it does"
        self._tell("worker is silent", text)

    def lost(self, due: list[commands.Command]) -> None:
        """Commands that take attempts from workers are proposed."""
        for command in due:
            if isinstance(command, commands.ExpireLeases):
                text = f"attempts lost because their leases ended: {len(command.lost)}"
                self._tell("leases end", text)
            elif isinstance(command, commands.CloseWorker):
                worker = self._state().workers.get(command.worker_id)
                name = (worker.name if worker else "") or guid_to_text(command.worker_id)
                text = f"worker {name} did not come back; attempts lost: {len(command.lost)}"
                self._tell("worker is lost", text)

    def _tell(self, kind: str, text: str, *, level: Level = "warning") -> None:
        line = self._repeats.line(kind, text, self._clock.now_ms())
        if line:
            self._outputs.append(Warn(line, level))


def named(session: WorkerSession) -> str:
    """A worker's name, for people; its id if it has none."""
    return session.name or guid_to_text(session.worker_id)
