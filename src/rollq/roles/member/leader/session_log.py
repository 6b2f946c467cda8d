"""Log lines of the leader about its sessions: joins, ends, and lost attempts.

Lines of one kind are written LINES_MAX times and then counted, so that many clients fill no disk.
"""

from __future__ import annotations

from typing import Any, Final

from rollq.base.ids import guid_to_text
from rollq.base.log_events import (
    CLIENT_JOINED,
    CLIENT_LEFT,
    LEASES_EXPIRED,
    WORKER_JOINED,
    WORKER_LEFT,
    WORKER_LOST,
    WORKER_SILENT,
    LogEvent,
    seldom,
)
from rollq.base.repeats import Repeats
from rollq.base.stamp import Clock
from rollq.grid import commands
from rollq.roles.member.leader.sessions import ClientSession, SessionEnd, WorkerSession
from rollq.roles.member.outputs import Outputs
from rollq.roles.member.replica import Replica

LINES_MAX: Final = 20  # of one kind
ENDINGS: Final = {
    SessionEnd.VANISHED: "its connection broke",
    SessionEnd.SILENT: "it does not answer",
    SessionEnd.LEFT: "drained or stopped",
    SessionEnd.REPLACED: "it has a newer connection",
}


class SessionLog:
    """Adds log lines to the outputs of a turn."""

    __slots__ = ("_clock", "_outputs", "_repeats", "_replica")

    def __init__(self, replica: Replica, clock: Clock, outputs: Outputs) -> None:
        self._replica = replica
        self._clock = clock
        self._outputs = outputs
        self._repeats = Repeats(LINES_MAX)

    def joined(self, session: ClientSession | WorkerSession) -> None:
        """A client or worker has joined."""
        if isinstance(session, WorkerSession):
            patterns = ", ".join(session.patterns)
            self._log(WORKER_JOINED, **_fields(session), patterns=patterns)
        else:
            self._log(CLIENT_JOINED, client=session.client_id)

    def left(self, session: ClientSession | WorkerSession) -> None:
        """A session ended."""
        if isinstance(session, WorkerSession):
            self._log(WORKER_LEFT, **_fields(session), cause=ENDINGS[session.ending])
        else:
            self._log(CLIENT_LEFT, client=session.client_id)

    def silent(self, session: WorkerSession) -> None:
        """A worker was silent for too long, or receives nothing from this member."""
        self._log(WORKER_SILENT, **_fields(session))

    def lost(self, due: list[commands.Command]) -> None:
        """Log the proposed commands that take attempts from workers."""
        for command in due:
            if isinstance(command, commands.ExpireLeases):
                self._log(LEASES_EXPIRED, lost=len(command.lost))
            elif isinstance(command, commands.CloseWorker):
                worker = self._replica.state.workers.get(command.worker_id)
                ident = guid_to_text(command.worker_id)
                name = (worker.name if worker else "") or ident
                self._log(WORKER_LOST, name=name, lost=len(command.lost), worker=ident)

    def _log(self, event: LogEvent, **fields: Any) -> None:
        shown = seldom(self._repeats, event.word, self._clock.now_ms(), fields)
        if shown is not None:
            self._outputs.log(event, **shown)


def _fields(session: WorkerSession) -> dict[str, str]:
    return {"name": named(session), "worker": guid_to_text(session.worker_id)}


def named(session: WorkerSession) -> str:
    """A worker's name for log lines; its id if it has none."""
    return session.name or guid_to_text(session.worker_id)
