"""Messages whose body or result is too large for the log, before they become commands.

The bytes are stored as a blob first, and the message continues with a stand-in and a reference
(`rollq.wire.kept`). It continues even if its sender disconnects meanwhile. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from rollq.base.errors import ErrorCode, RemoteError, RollqError
from rollq.base.ids import ClientId
from rollq.base.jobs import BlobRef, BulkItem, Status
from rollq.base.limits import INLINE_BYTES_MAX, PAYLOAD_BYTES_MAX
from rollq.roles.member.leader.effect_messages import failed_report
from rollq.roles.member.leader.keeping import Keeping
from rollq.roles.member.leader.sessions import WorkerSession
from rollq.wire.kept import stand_in_for_body, stand_in_for_result
from rollq.wire.messages import AckJob, SubmitArray, SubmitBulk, SubmitJob

Submit = TypeVar("Submit", SubmitJob, SubmitBulk, SubmitArray)


class LargeMessages:
    """Stores large bodies and results.

    Args:
        keeping: Of the same leader.
        refuse: Called with session, message and error if a message is refused.
        worker_left: Called if a worker disconnected before its last result was stored.
    """

    def __init__(
        self,
        keeping: Keeping,
        refuse: Callable[[int, SubmitJob | SubmitBulk | SubmitArray, RollqError], None],
        worker_left: Callable[[WorkerSession], None],
    ) -> None:
        self._keeping = keeping
        self._refuse = refuse
        self._worker_left = worker_left

    def job(
        self,
        number: int,
        client_id: ClientId,
        message: SubmitJob,
        go_on: Callable[[SubmitJob], None],
    ) -> None:
        """Store the body of a job. Raises StateError OVERLOADED, as do `array` and `items`."""

        def with_blob(refs: Sequence[BlobRef]) -> SubmitJob:
            body = stand_in_for_body(refs[0], message.job_id, client_id, message.exec_name)
            return replace(message, body=body, blobs=(*message.blobs, refs[0]))

        self._keep(number, message, (message.body,), with_blob, go_on)

    def array(
        self,
        number: int,
        client_id: ClientId,
        message: SubmitArray,
        go_on: Callable[[SubmitArray], None],
    ) -> None:
        """Store the body that the tasks of an array share."""

        def with_blob(refs: Sequence[BlobRef]) -> SubmitArray:
            body = stand_in_for_body(refs[0], message.array_id, client_id, message.exec_name)
            return replace(message, body=body, blobs=(*message.blobs, refs[0]))

        self._keep(number, message, (message.body,), with_blob, go_on)

    def items(
        self,
        number: int,
        client_id: ClientId,
        message: SubmitBulk,
        go_on: Callable[[SubmitBulk], None],
    ) -> None:
        """Store the large bodies of a bulk."""
        parts = tuple(item.body for item in message.items if is_large(item.body))

        def with_blobs(refs: Sequence[BlobRef]) -> SubmitBulk:
            left = iter(refs)

            def with_blob(item: BulkItem) -> BulkItem:
                if not is_large(item.body):
                    return item
                ref = next(left)
                body = stand_in_for_body(ref, item.job_id, client_id, message.exec_name)
                return replace(item, body=body, blobs=(*item.blobs, ref))

            return replace(message, items=tuple(map(with_blob, message.items)))

        self._keep(number, message, parts, with_blobs, go_on)

    def result(
        self, session: WorkerSession, message: AckJob, go_on: Callable[[AckJob], None]
    ) -> None:
        """Store a result. If that is impossible, the attempt fails for this reason instead of being
        retried: the job would run again without use."""

        def over(ack: AckJob) -> None:
            try:
                go_on(ack)
            except RollqError as error:  # the voters or the blob store have changed meanwhile
                if error.retryable:
                    self.result(session, message, go_on)
                else:
                    go_on(failed_ack(message, error))
            session.results_kept -= 1
            if session.has_left and not session.results_kept:
                self._worker_left(session)

        def kept(refs: Sequence[BlobRef]) -> None:
            result = stand_in_for_result(refs[0], message.job_id, message.result)
            over(replace(message, result=result, blobs=(*message.blobs, refs[0])))

        session.results_kept += 1
        self._keeping.keep(
            (message.result,), kept, lambda error: over(failed_ack(message, error)), must=True
        )

    def _keep(
        self,
        number: int,
        message: Submit,
        parts: tuple[bytes, ...],
        with_blobs: Callable[[Sequence[BlobRef]], Submit],
        go_on: Callable[[Submit], None],
    ) -> None:
        def kept(refs: Sequence[BlobRef]) -> None:
            try:
                go_on(with_blobs(refs))
            except RollqError as error:
                self._refuse(number, message, error)

        self._keeping.keep(parts, kept, lambda error: self._refuse(number, message, error))


def failed_ack(message: AckJob, error: RollqError) -> AckJob:
    """The ack in place of one whose result cannot be stored."""
    why = f"the result, {len(message.result)} bytes, cannot be stored: {error}"
    report = failed_report(message.job_id, "", why)
    return replace(message, status=Status.FAILED, result=report, blobs=())


def is_large(body: bytes) -> bool:
    """Whether a body or result is too large for the log, and is stored as a blob.

    Raises:
        RemoteError: BAD_PAYLOAD, if no frame could carry it to the next peer.
    """
    if len(body) <= INLINE_BYTES_MAX:
        return False
    if len(body) > PAYLOAD_BYTES_MAX:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"body or result of {len(body)} bytes exceeds the limit of {PAYLOAD_BYTES_MAX}",
            "send the data as files",
        )
    return True
