"""What a client has at a legacy leader, which takes single jobs, says nothing of having
accepted them, and may lose them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import JobId
from rollq.base.limits import CLIENT_PENDING_MAX
from rollq.roles.client.signals import Request, id_of
from rollq.wire import messages as wire

REFUSAL: Final = "the leader is one of the first system: it takes single jobs with small files"


class PlainJobs:
    """Jobs that were sent and have not ended, and what is said in the leader's place."""

    __slots__ = ("_answers", "_is_proven", "_unended")

    def __init__(self) -> None:
        # Whether some session brought a result, so that jobs count as accepted. For good.
        self._is_proven = False
        self._unended: dict[JobId, wire.SubmitJob] = {}
        self._answers: list[wire.Accepted | wire.Error] = []

    def may_send(self, request: Request) -> bool:
        """Note a request that is to be sent: false if such a leader would not know what it asks."""
        if type(request) is not wire.SubmitJob or request.blobs or request.caches:
            code = int(ErrorCode.UNSUPPORTED_VERSION)
            self._answers.append(wire.Error(id_of(request), code, REFUSAL))
            return False
        self._unended[request.job_id] = request
        if len(self._unended) > CLIENT_PENDING_MAX:
            del self._unended[next(iter(self._unended))]
        self._answers.append(wire.Accepted(request.job_id))
        return True

    def ended(self, results: Iterable[wire.Result]) -> None:
        """Jobs that need not be sent again."""
        for result in results if self._unended else ():
            self._unended.pop(result.job_id, None)

    def unended(self) -> list[wire.SubmitJob]:
        """What is sent again after a cut: the leader may have lost it."""
        return list(self._unended.values())

    def prove(self) -> None:
        """It is a legacy leader: it sent a result."""
        self._is_proven = True

    def cut(self) -> None:
        """The session is over. What was asked of a leader that may not be a legacy one is pending
        still, for whoever answers; what was accepted is sent again."""
        if not self._is_proven:
            self._unended.clear()
            self._answers.clear()

    def take_answers(self) -> list[wire.Accepted | wire.Error]:
        """What to answer, once it is certain that the leader is a legacy one."""
        if not self._is_proven:
            return []
        answers, self._answers = self._answers, []
        return answers
