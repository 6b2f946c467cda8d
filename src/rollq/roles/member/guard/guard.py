"""Checks every message against the rules of its account: accepts it, whole or narrowed to what is
permitted, or refuses it.

A refusal names account, action and resource. A job or blob of another account is refused with the
same error as one that does not exist, so its existence is not revealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from rollq.base.access import Action, LinkRole, Principal
from rollq.base.errors import RollqError
from rollq.base.ids import NIL_ID
from rollq.base.stamp import Jitter
from rollq.roles.access import Decisions, RefusedError, is_anonymous
from rollq.roles.blobs.failures import as_answer
from rollq.roles.member.guard.names import FREE, AccessRequest, requests_of_message
from rollq.roles.member.guard.narrowed import NARROWED
from rollq.roles.member.guard.sight import Sight
from rollq.roles.member.guard.targets import Targets
from rollq.roles.member.leader.clients import NAMELESS
from rollq.roles.member.leader.effect_messages import refusal_of
from rollq.wire import blob_messages as blobs
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.messages import CacheAck, CachePut, Error, HelloClient, SubmitJob
from rollq.wire.models import STATUS_FAILED, CachePutResult, encode_model
from rollq.wire.registry import ROW_OF, ROWS, Phase
from rollq.wire.subject_messages import Publish, Subscribe

CLUSTER: Final = "cluster"  # the method of a member that proved the cluster key
MEMBER: Final = "member"  # the role of its certificate
SESSIONS: Final = frozenset({LinkRole.CLIENT, LinkRole.WORKER})
AMONG_MEMBERS: Final = frozenset({LinkRole.MEMBER, LinkRole.BLOBS})
UNJUDGED: Final = frozenset(row.struct for row in ROWS if row.action in FREE) - NARROWED.keys()


class AccountGuard:
    """The guard of one member.

    Args:
        decisions: By the rules of the group.
        targets: Owners of jobs, workers and blobs.
        about_to_lead: Whether messages of sessions must wait until this member has applied all
            committed entries.
        jitter: For generated client names.
    """

    def __init__(
        self,
        decisions: Decisions,
        targets: Targets,
        about_to_lead: Callable[[], bool],
        jitter: Jitter,
    ) -> None:
        self._sight = Sight(decisions, targets)
        self._targets = targets
        self._about_to_lead = about_to_lead
        self._jitter = jitter

    def must_wait(self, principal: Principal) -> bool:
        """Whether the owners of jobs are not known yet for a message of this session."""
        return principal.role in SESSIONS and self._about_to_lead()

    def judge(self, principal: Principal, message: Message) -> Message:
        """The message, narrowed to what the principal is permitted.

        Raises:
            RefusedError: nothing of it is permitted.
        """
        kind = type(message)
        if kind in UNJUDGED or is_trusted(principal):
            return message
        try:
            narrow = NARROWED.get(kind)
            if narrow is not None:
                narrowed: Message = narrow(self._sight, principal, message)
                return narrowed
            if isinstance(message, HelloClient) and not message.client_id:
                return self._named(principal, message)
            if isinstance(message, blobs.HelloBlobs) and message.who == blobs.MEMBER:
                self._sight.authorize(
                    principal, [AccessRequest(Action.GROUP_REPLICATE, ("group:*",))]
                )
            self._sight.authorize(principal, requests_of_message(self._targets, principal, message))
        except RollqError as error:
            raise _refused(principal, message, error) from None
        return message

    def _named(self, principal: Principal, hello: HelloClient) -> HelloClient:
        """Give a client without a name one of its account."""
        name = f"{principal.account}/{NAMELESS}{self._jitter.draw_id().hex()}"
        named = principal._replace(name=name)
        self._sight.authorize(named, [AccessRequest(Action.CLIENT_CONNECT, (f"client:{name}",))])
        return replace(hello, client_id=name)


def is_trusted(principal: Principal) -> bool:
    """Whether no rule is checked: for a link without a login where that is permitted, and for links
    between members, which prove the cluster key."""
    if is_anonymous(principal) or principal.role is LinkRole.MEMBER:
        return True
    is_member = principal.method == CLUSTER or principal.certificate_role == MEMBER
    return is_member and principal.role in AMONG_MEMBERS


def _refused(principal: Principal, message: Any, error: RollqError) -> RefusedError:
    """The answer in terms of the request. A link is closed if its peer waits for no answer, because
    it would continue as if accepted; except for publishes, which are at most once, and
    subscriptions, which are answered."""
    if isinstance(message, blobs.BlobGet):
        return RefusedError((blobs.BlobInfo(message.digest, 0, *as_answer(error)),))
    if isinstance(message, blobs.BlobPut):
        return RefusedError((blobs.BlobGo(message.digest, 0, *as_answer(error)),))
    if isinstance(message, CachePut):
        result = encode_model(CachePutResult("", STATUS_FAILED, str(error)))
        ack = (CacheAck(message.request_id, result),)
        return RefusedError(ack, ack)
    request_id = request_id_of(message)
    answer = Error(
        request_id, int(error.code), error.message, hint=error.hint, retryable=error.retryable
    )
    if isinstance(message, Publish | Subscribe):
        return RefusedError((answer,) if request_id != NIL_ID else ())
    row = ROW_OF[type(message)]
    ends = request_id == NIL_ID or row.phase != Phase.OPEN or principal.role is LinkRole.WORKER
    plain: tuple[Message, ...] = ()
    if isinstance(message, SubmitJob):
        plain = (refusal_of(message.job_id, principal.name, str(error)),)
    return RefusedError((answer,), plain, str(error) if ends else "")
