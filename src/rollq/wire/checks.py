"""What a message must keep to whatever dialect it came in.

Only rules whose breach means that the peer is broken: its connection ends. Whether a request can
be granted (options in range, names of a length we keep) is the grid's answer to one request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import GUID_BYTES, NIL_ID
from rollq.base.jobs import Status
from rollq.base.limits import (
    CLIENT_ID_BYTES_MAX,
    CREDIT_MAX,
    OUTPUT_CHUNK_BYTES_MAX,
    PATTERNS_PER_WORKER_MAX,
)
from rollq.wire import messages as m
from rollq.wire import output_messages as o
from rollq.wire.compact import Message

STATUSES: Final = frozenset(map(int, Status))


def check_message(message: Message) -> None:
    """Refuse what no sound peer would say.

    Raises:
        RemoteError: BAD_HANDSHAKE, BAD_ID, BAD_PAYLOAD or BAD_CREDIT.
    """
    check = CHECKS.get(type(message))
    if check is not None:
        check(message)


def check_messages(messages: Sequence[Message], sound: list[Message]) -> None:
    """Add each message to `sound` until one is refused.

    Raises:
        RemoteError: as `check_message`.
    """
    check_of, take = CHECKS.get, sound.append
    for message in messages:
        check = check_of(type(message))
        if check is not None:
            check(message)
        take(message)


def _check_hello_client(message: m.HelloClient) -> None:
    size = len(message.client_id.encode())
    if not 0 < size <= CLIENT_ID_BYTES_MAX:
        raise RemoteError(
            ErrorCode.BAD_HANDSHAKE,
            f"a client id of {size} bytes",
            f"name the client with 1 to {CLIENT_ID_BYTES_MAX} bytes",
        )


def _check_hello_worker(message: m.HelloWorker) -> None:
    if message.worker_id == NIL_ID:
        raise RemoteError(ErrorCode.BAD_ID, "a worker without an id", "give it one, for ever")
    if len(message.patterns) > PATTERNS_PER_WORKER_MAX:
        raise RemoteError(
            ErrorCode.BAD_HANDSHAKE,
            f"{len(message.patterns)} patterns; at most {PATTERNS_PER_WORKER_MAX}",
            "use wildcards",
        )
    _check_holding(message)


def _check_holding(message: m.HelloWorker | m.Heartbeat) -> None:
    for ref in message.holding:
        _check_id(ref.job_id)


def _check_items(message: m.SubmitBulk) -> None:
    for item in message.items:
        _check_id(item.job_id)


def _check_job(message: m.SubmitJob | m.AssignJob) -> None:
    _check_id(message.job_id)


def _check_array(message: m.SubmitArray) -> None:
    _check_id(message.array_id)


def _check_ack(message: m.AckJob) -> None:
    _check_id(message.job_id)
    if message.status not in STATUSES:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD, f"AckJob: no status has the number {message.status}"
        )


def _check_credit(message: m.Credit) -> None:
    if not 0 <= message.count <= CREDIT_MAX:
        raise RemoteError(
            ErrorCode.BAD_CREDIT, f"a credit of {message.count}", f"grant 0 to {CREDIT_MAX}"
        )


def _check_watch(message: o.WatchOutput | o.TellOutput) -> None:
    _check_id(message.job_id)
    if min(message.offsets) < o.UNWANTED or max(message.offsets) == o.UNWANTED:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"no output is at {message.offsets}")


def _check_output(message: o.OutputChunk) -> None:
    if len(message.data) > OUTPUT_CHUNK_BYTES_MAX:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"{len(message.data)} bytes of output at once",
            f"send {OUTPUT_CHUNK_BYTES_MAX} at most",
        )
    is_known = 0 <= message.stream < len(o.STREAMS) and 0 <= message.end <= o.JOB_ENDED
    if not is_known or message.offset < 0 or min(message.totals) < 0:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, "OutputChunk: a number is out of its range")


def _check_id(job_id: bytes) -> None:
    if len(job_id) != GUID_BYTES or job_id == NIL_ID:
        raise RemoteError(
            ErrorCode.BAD_ID, f"{job_id[:GUID_BYTES].hex()!r} names no job", "send a new Guid"
        )


CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    m.HelloClient: _check_hello_client,
    m.HelloWorker: _check_hello_worker,
    m.SubmitJob: _check_job,
    m.SubmitBulk: _check_items,
    m.SubmitArray: _check_array,
    m.AssignJob: _check_job,
    m.AckJob: _check_ack,
    m.Credit: _check_credit,
    m.Heartbeat: _check_holding,
    o.WatchOutput: _check_watch,
    o.TellOutput: _check_watch,
    o.OutputChunk: _check_output,
}
