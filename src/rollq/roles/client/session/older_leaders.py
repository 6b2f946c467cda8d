"""What leaders of older versions lack. A legacy leader accepts single jobs only, does not respond
to submits, and may lose them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import JobId
from rollq.base.limits import CLIENT_PENDING_MAX
from rollq.roles.client.session.signals import Request, id_of
from rollq.wire import messages as wire
from rollq.wire import subject_messages as subjects
from rollq.wire.features import SUBJECTS, TASKS

TASKS_TOO_OLD: Final = (
    "the leader numbers the tasks of arrays in an older way: upgrade the members before the clients"
)
TOO_OLD: Final = (
    "publish and subscribe are not supported there: for a router, connect to a member of a group; "
    "for a leader of an older version, upgrade the members before the clients"
)
REFUSAL: Final = "the leader is a legacy one: it accepts only single jobs with small files"


def unsupported(request: Request, features: tuple[str, ...]) -> str:
    """Why a leader with these features cannot take a request; empty if it can."""
    if isinstance(request, subjects.Publish | subjects.Subscribe) and SUBJECTS not in features:
        return TOO_OLD
    if type(request) is wire.SubmitArray and request.first_task and TASKS not in features:
        return TASKS_TOO_OLD
    return ""


class LegacyJobs:
    """Jobs that were sent and have not ended, and the responses to give in the leader's place."""

    __slots__ = ("_answers", "_is_proven", "_unended")

    def __init__(self) -> None:
        # Whether a result has ever arrived, so that submits count as accepted. It stays set.
        self._is_proven = False
        self._unended: dict[JobId, wire.SubmitJob] = {}
        self._answers: list[wire.Accepted | wire.Error] = []

    def may_send(self, request: Request) -> bool:
        """Record a request to be sent; false if a legacy leader does not support it."""
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
        """Remove jobs that ended."""
        for result in results if self._unended else ():
            self._unended.pop(result.job_id, None)

    def unended(self) -> list[wire.SubmitJob]:
        """Jobs to send again after a disconnect, because the leader may have lost them."""
        return list(self._unended.values())

    def prove(self) -> None:
        """A result arrived, so this is a legacy leader."""
        self._is_proven = True

    def cut(self) -> None:
        """The session ended. Without proof of a legacy leader nothing was accepted: the requests
        are still pending. With it, accepted jobs are sent again."""
        if not self._is_proven:
            self._unended.clear()
            self._answers.clear()

    def take_answers(self) -> list[wire.Accepted | wire.Error]:
        """The responses to give, once a legacy leader is proven."""
        if not self._is_proven:
            return []
        answers, self._answers = self._answers, []
        return answers
