"""Log lines of the leader about its sessions: who comes and goes, and which attempts are lost.

Lines of one kind are written LINES_MAX times and then counted, so that many clients fill no disk.
"""

from __future__ import annotations

from typing import Final

from rollq.base.ids import guid_to_text
from rollq.base.names import is_command_line
from rollq.base.repeats import Repeats
from rollq.base.stamp import Clock
from rollq.grid import commands
from rollq.roles.member.leader.sessions import ClientSession, WorkerSession
from rollq.roles.member.outputs import Level, Outputs, Warn
from rollq.roles.member.replica import Replica

LINES_MAX: Final = 20  # of one kind


class SessionLog:
    """Lines for the log of the process, among the outputs of a turn."""

    __slots__ = ("_clock", "_outputs", "_repeats", "_replica")

    def __init__(self, replica: Replica, clock: Clock, outputs: Outputs) -> None:
        self._replica = replica
        self._clock = clock
        self._outputs = outputs
        self._repeats = Repeats(LINES_MAX)

    def joined(self, session: ClientSession | WorkerSession) -> None:
        """A client or worker was welcomed."""
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
        """A worker was silent for too long, or does not hear us."""
        text = f"worker {named(session)} does not answer: it gets no more jobs until it reconnects"
        self._tell("worker is silent", text)

    def lost(self, due: list[commands.Command]) -> None:
        """Commands that take attempts from workers are proposed."""
        for command in due:
            if isinstance(command, commands.ExpireLeases):
                text = f"attempts lost to expired leases: {len(command.lost)}"
                self._tell("leases end", text)
            elif isinstance(command, commands.CloseWorker):
                worker = self._replica.state.workers.get(command.worker_id)
                name = (worker.name if worker else "") or guid_to_text(command.worker_id)
                text = f"worker {name} did not reconnect; attempts lost: {len(command.lost)}"
                self._tell("worker is lost", text)

    def _tell(self, kind: str, text: str, *, level: Level = "warning") -> None:
        line = self._repeats.line(kind, text, self._clock.now_ms())
        if line:
            self._outputs.append(Warn(line, level))


def named(session: WorkerSession) -> str:
    """A worker's name, for people; its id if it has none."""
    return session.name or guid_to_text(session.worker_id)
