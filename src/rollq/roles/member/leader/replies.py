"""Answers to sessions: accepted, errors, results that stand for errors, and closing a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId, MessageId, guid_to_text
from rollq.base.log_events import JOB_REFUSED, LogEvent
from rollq.grid.commands import Command
from rollq.grid.effects import Applied, Duplicate, Outcome, Refused
from rollq.grid.runs import alone
from rollq.raft.types import Config
from rollq.roles.member.leader.effect_messages import refusal_of
from rollq.roles.member.leader.origins import Origin
from rollq.roles.member.leader.sessions import ClientSession, Sessions
from rollq.roles.member.outputs import Mishap, Outputs
from rollq.wire import messages
from rollq.wire.checks import request_id_of
from rollq.wire.features import ALIVE, agree

RETRYABLE = (ErrorCode.GRID_FULL, ErrorCode.OVERLOADED)  # refusals of the grid


class Replies:
    """Adds answers to the outputs of the turn.

    Attributes:
        member_id: Of this member, for Welcome; set when leadership is gained.
        refused: Refused requests, by error code.
    """

    __slots__ = ("_config", "_group", "_outputs", "_sessions", "member_id", "refused")

    def __init__(
        self, group: str, sessions: Sessions, outputs: Outputs, config: Callable[[], Config]
    ) -> None:
        self.member_id = 0
        self.refused: Counter[int] = Counter()
        self._config = config  # the present one
        self._group = group
        self._sessions = sessions
        self._outputs = outputs

    def send(self, number: int, message: messages.MemberMessage) -> None:
        """Send a message in this turn."""
        self._outputs.mail(number).append(message)

    def welcome(self, number: int, offered: tuple[str, ...], owed: int = 0) -> None:
        """Answer a hello with the agreed features, and the group's addresses."""
        features = agree(offered)
        ping_ms = self._sessions.ping_ms if ALIVE in features else 0
        welcome = messages.Welcome(
            self._group,
            self.member_id,
            features,
            owed,
            ping_ms=ping_ms,
            members=tuple(member.address for member in self._config().voters),
        )
        self.send(number, welcome)

    def accept(self, number: int, request_id: MessageId, count: int = 1) -> None:
        """Answer a request with Accepted and a count."""
        self.send(number, messages.Accepted(request_id, count))

    def settle_request(
        self, origin: Origin, command: Command, outcome: Outcome, applied: Applied
    ) -> None:
        """The command of a request is applied: answer with Accepted or Error."""
        session = self._sessions.get(origin.session)
        if session is None:
            return
        outcome = alone(outcome)
        if isinstance(outcome, Refused):
            code, retryable = int(outcome.code), outcome.code in RETRYABLE
            self.refused[code] += 1
            error = messages.Error(origin.request_id, code, outcome.message, retryable=retryable)
            self.send(origin.session, error)
            self._refuse_job(origin.session, origin.request_id, outcome.message)
            return
        self._sessions.asked(session, origin.request_id)
        if isinstance(outcome, Duplicate):
            accepted = messages.Accepted(origin.request_id, outcome.count, True, outcome.ended)
        else:
            accepted = messages.Accepted(origin.request_id, outcome.count)
        self.send(origin.session, accepted)

    def error(self, number: int, request_id: MessageId, error: RollqError) -> None:
        """Answer a request with an error."""
        self.refused[int(error.code)] += 1
        self.send(
            number,
            messages.Error(
                request_id,
                int(error.code),
                error.message,
                hint=error.hint,
                retryable=error.retryable,
            ),
        )

    def refuse(self, number: int, message: messages.ToMemberMessage, error: RollqError) -> None:
        """Answer a refused message with an error."""
        self.error(number, request_id_of(message), error)
        if isinstance(message, messages.SubmitJob):
            self._refuse_job(number, message.job_id, str(error))

    def _refuse_job(self, number: int, job_id: JobId, why: str) -> None:
        """Send a failed result to a client that reads no errors, as it would wait for ever."""
        session = self._sessions.get(number)
        if isinstance(session, ClientSession) and not session.reads_errors:
            job, client = guid_to_text(job_id), session.client_id
            self.log(JOB_REFUSED, job=job, client=client, cause=why)
            self.send(number, refusal_of(job_id, session.client_id, why))

    def failed(self, number: int, message: messages.ToMemberMessage, error: Exception) -> None:
        """A handler raised an unexpected exception. The session ends, with an error that is not
        retryable: another leader has the same bug."""
        name = type(message).__name__
        self._outputs.append(Mishap(f"session {number}: {name}", error))
        bug = LocalError(ErrorCode.BUG, f"cannot handle {name}: {error!r}", "report the log")
        self.error(number, request_id_of(message), bug)
        self.close(number, str(bug))

    def close(self, number: int, reason: str) -> None:
        """Close a session."""
        self._sessions.remove(number)
        self._outputs.close(number, reason)

    def log(self, event: LogEvent, **fields: str) -> None:
        """Log an event."""
        self._outputs.log(event, **fields)
