"""The legacy dialect: JSON models in the legacy message types, ids and subjects in the frame.

A body or result is never rewritten: bytes of one peer reach the other unchanged. Bytes that are not
the legacy model are opaque, which the first legacy form allows. The encoder sends a SubmitJob's
body as it is; options ride in it as extension fields of JobRequest (`models.job_request`), so an
opaque job of this dialect has none.

Types that the legacy protocol does not have are the same in both dialects (`compact`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import NIL_ID, JobId, guid_from_text, guid_to_text
from rollq.base.jobs import Cause, Status
from rollq.base.limits import CACHE_ID_BYTES_MAX
from rollq.wire import messages as m
from rollq.wire.compact import Message, decode_compact, encode_compact
from rollq.wire.frame import Frame
from rollq.wire.models import (
    STATUS_FAILED,
    STATUS_OK,
    CachePutResult,
    ClientConfig,
    JobRequestHead,
    JobResult,
    JobResultHead,
    LeaderAddress,
    WorkerConfig,
    attempt_refs,
    decode_if_marked,
    decode_model,
    encode_model,
    held_attempts,
    options_of,
)
from rollq.wire.registry import NUMBER_OF

CREDIT: Final = struct.Struct("<i")
ASSIGN_PREFIX: Final = "job.assign."
QUEUE_PREFIXES: Final = (["job", "submit"], ["job", "assign"])
DEFAULT_EXEC: Final = "default"


def encode_legacy(message: Message, group: str = "") -> Frame:
    """The frame of a message in the legacy dialect; `group` is for messages between members."""
    encode = ENCODERS.get(type(message))
    return encode_compact(message, group) if encode is None else encode(message)


def decode_legacy(frame: Frame) -> Message:
    """The message that a frame in the legacy dialect holds.

    Raises:
        RemoteError: UNKNOWN_MESSAGE, BAD_PAYLOAD, BAD_ID or BAD_CREDIT.
    """
    decode = DECODERS.get(frame.type)
    return decode_compact(frame) if decode is None else decode(frame)


# --- hellos


def _encode_hello_client(message: m.HelloClient) -> Frame:
    features = message.features or UNSET
    plain = message.plain or UNSET
    config = ClientConfig(message.client_id, message.desired_parallelism, features, plain)
    return Frame(NUMBER_OF[m.HelloClient], subject=message.client_id, payload=encode_model(config))


def _decode_hello_client(frame: Frame) -> m.HelloClient:
    config = decode_model(frame.payload, ClientConfig) if frame.payload else ClientConfig()
    features = () if config.features is UNSET else config.features
    name, cap = config.client_id or frame.subject, config.desired_parallelism
    return m.HelloClient(name, cap, features, config.plain is True)


def _encode_hello_worker(message: m.HelloWorker) -> Frame:
    config = WorkerConfig(
        patterns=message.patterns,
        name=message.name,
        incarnation=message.incarnation,
        slots=message.slots,
        holding=held_attempts(message.holding),
        features=message.features,
        blob_address=message.blob_address or UNSET,
        plain=message.plain or UNSET,
        holding_count=message.holding_count or UNSET,
        labels=message.labels or UNSET,
        resources=message.resources or UNSET,
    )
    # A legacy peer reads one pattern, and reads it from the subject.
    first = message.patterns[0] if message.patterns else ""
    plain = config == WorkerConfig((first,)) or config == WorkerConfig()
    payload = b"" if plain else encode_model(config)
    return Frame(NUMBER_OF[m.HelloWorker], message.worker_id, subject=first, payload=payload)


def _decode_hello_worker(frame: Frame) -> m.HelloWorker:
    if not frame.payload:
        return m.HelloWorker(frame.msg_id, (frame.subject,))
    config = decode_model(frame.payload, WorkerConfig)
    return m.HelloWorker(
        frame.msg_id,
        patterns=config.patterns or (frame.subject,),
        name=config.name,
        incarnation=config.incarnation,
        slots=config.slots,
        holding=attempt_refs(config.holding),
        features=config.features,
        blob_address="" if config.blob_address is UNSET else config.blob_address,
        plain=config.plain is True,
        holding_count=0 if config.holding_count is UNSET else config.holding_count,
        labels=() if config.labels is UNSET else config.labels,
        resources=() if config.resources is UNSET else config.resources,
    )


def _encode_not_leader(message: m.NotLeader) -> Frame:
    address = LeaderAddress(message.leader, message.members or UNSET)
    return Frame(NUMBER_OF[m.NotLeader], payload=encode_model(address))


def _decode_not_leader(frame: Frame) -> m.NotLeader:
    address = decode_model(frame.payload, LeaderAddress) if frame.payload else LeaderAddress()
    members = () if address.members is UNSET else address.members
    return m.NotLeader(address.leader or "", members)


# --- jobs


def _encode_submit_job(message: m.SubmitJob) -> Frame:
    return Frame(
        NUMBER_OF[m.SubmitJob], message.job_id, subject=message.subject, payload=message.body
    )


def _decode_submit_job(frame: Frame) -> m.SubmitJob:
    head = decode_if_marked(frame.payload, JobRequestHead, "JobId")
    if head is None:
        return m.SubmitJob(
            frame.msg_id,
            client_id="",
            subject=frame.subject,
            exec_name=_last_token(frame.subject),
            body=frame.payload,
        )
    return m.SubmitJob(
        guid_from_text(head.job_id),
        client_id=head.client_id or "",
        subject=frame.subject,
        exec_name=head.exec_name or _last_token(frame.subject),
        body=frame.payload,
        options=options_of(head),
    )


def _encode_assign_job(message: m.AssignJob) -> Frame:
    subject = message.subject
    if not subject.lower().startswith(ASSIGN_PREFIX):
        subject = ASSIGN_PREFIX + subject
    return Frame(NUMBER_OF[m.AssignJob], message.job_id, message.job_id, subject, message.body)


def _decode_assign_job(frame: Frame) -> m.AssignJob:
    head = decode_if_marked(frame.payload, JobRequestHead, "JobId")
    exec_name = (head and head.exec_name) or _last_token(frame.subject)
    return m.AssignJob(
        frame.msg_id if frame.msg_id != NIL_ID else frame.corr_id,
        attempt=0,
        fence=0,
        lease_ms=0,
        subject=frame.subject,
        exec_name=exec_name,
        body=frame.payload,
        options=options_of(head) if head else None,
        client_id=(head and head.client_id) or "",
    )


def _encode_ack_job(message: m.AckJob) -> Frame:
    payload = message.result
    if message.status != Status.OK and _result_head(payload) is None:
        payload = encode_model(_wrap(message.job_id, STATUS_FAILED, payload))
    return Frame(NUMBER_OF[m.AckJob], corr_id=message.job_id, payload=payload)


def _decode_ack_job(frame: Frame) -> m.AckJob:
    head = decode_if_marked(frame.payload, JobResultHead, "Status")
    job_id = _answered(frame, head)
    if head is None:
        return m.AckJob(job_id, result=frame.payload)
    return m.AckJob(
        job_id,
        status=_status_of(head),
        result=frame.payload,
        exit_code=head.exit_code,
        signal=head.signal,
        run_ms=head.run_ms,
        peak_bytes=head.peak_bytes,
    )


def _encode_credit(message: m.Credit) -> Frame:
    return Frame(NUMBER_OF[m.Credit], payload=CREDIT.pack(message.count))


def _decode_credit(frame: Frame) -> m.Credit:
    if len(frame.payload) != CREDIT.size:
        raise RemoteError(
            ErrorCode.BAD_CREDIT,
            f"a credit of {len(frame.payload)} bytes",
            "send a little-endian int32",
        )
    return m.Credit(CREDIT.unpack(frame.payload)[0])


def _encode_result(message: m.Result) -> Frame:
    payload = message.result
    head = _result_head(payload)
    done = message.outcome == "done"
    # A job without a result of its own must not look successful because of an earlier run.
    if head is None or not (done or _status_of(head) != Status.OK):
        status = STATUS_OK if done and message.status == Status.OK else STATUS_FAILED
        stderr = "" if done else _last_words(message)
        result = _wrap(message.job_id, status, payload, stderr)
        result = replace(result, client_id=message.client_id, exec_name=message.exec_name)
        payload = encode_model(result)
    return Frame(NUMBER_OF[m.Result], message.job_id, message.job_id, payload=payload)


def _decode_result(frame: Frame) -> m.Result:
    head = decode_if_marked(frame.payload, JobResultHead, "Status")
    job_id = _answered(frame, head)
    if head is None:
        return m.Result(job_id, "done", result=frame.payload)
    return m.Result(
        job_id,
        "done",
        status=_status_of(head),
        result=frame.payload,
        exec_name=head.exec_name or "",
        exit_code=head.exit_code,
        signal=head.signal,
        run_ms=head.run_ms,
        client_id=head.client_id or "",
    )


# --- caches: who asked is kept in corrId all the way, as in the legacy protocol


def _encode_cache_put(message: m.CachePut) -> Frame:
    ident = message.request_id
    return Frame(NUMBER_OF[m.CachePut], ident, ident, "cache.put", message.payload)


def _decode_cache_put(frame: Frame) -> m.CachePut:
    return m.CachePut(_answered(frame, None), frame.payload)


def _encode_cache_ack(message: m.CacheAck) -> Frame:
    ident = message.request_id
    subject = "cache.ack"
    try:
        told = decode_if_marked(message.payload, CachePutResult, "CacheId")
    except RemoteError:
        told = None
    if told is not None and len(told.cache_id.encode()) <= CACHE_ID_BYTES_MAX:
        subject = f"cache.ack.{told.cache_id}"
    return Frame(NUMBER_OF[m.CacheAck], ident, ident, subject, message.payload)


def _decode_cache_ack(frame: Frame) -> m.CacheAck:
    return m.CacheAck(_answered(frame, None), frame.payload)


# --- helpers


def _last_words(message: m.Result) -> str:
    """Why a job has no result of its own, for people."""
    known = message.cause in Cause.__members__.values()
    why = Cause(message.cause).name.lower() if known else f"cause {message.cause}"
    cause = f" ({why})" if message.cause else ""
    return f"rollq: {message.outcome}{cause} {message.detail}".rstrip()


def _answered(frame: Frame, head: JobResultHead | None) -> bytes:
    """The request id that a frame answers: corrId, else the model's JobId, else msgId."""
    if frame.corr_id != NIL_ID:
        return frame.corr_id
    if head is not None and head.job_id:
        return guid_from_text(head.job_id)
    return frame.msg_id


def _last_token(subject: str) -> str:
    """The program that a subject implies if nothing else names one."""
    tokens = [token for token in subject.split(".") if token]
    if [token.lower() for token in tokens[:2]] in QUEUE_PREFIXES:
        tokens = tokens[2:]
    return tokens[-1] if tokens else DEFAULT_EXEC


def _status_of(head: JobResultHead) -> Status:
    return Status.OK if head.status.upper() == STATUS_OK else Status.FAILED


def _result_head(payload: bytes) -> JobResultHead | None:
    """A JobResult for bytes of our own; fields that do not fit are omitted."""
    try:
        return decode_if_marked(payload, JobResultHead, "Status")
    except RemoteError:
        return None


def _wrap(job_id: JobId, status: str, raw: bytes, stderr: str = "") -> JobResult:
    """A JobResult around bytes that are not one: as text if they are text."""
    try:
        stdout, archive = raw.decode(), None
    except UnicodeDecodeError:
        stdout, archive = "", raw
    return JobResult(
        guid_to_text(job_id),
        "",
        exec_name="",
        status=status,
        stdout=stdout,
        stderr=stderr,
        output_archive=archive,
    )


ENCODERS: Final[dict[type, Callable[[Any], Frame]]] = {
    m.HelloClient: _encode_hello_client,
    m.HelloWorker: _encode_hello_worker,
    m.NotLeader: _encode_not_leader,
    m.SubmitJob: _encode_submit_job,
    m.AssignJob: _encode_assign_job,
    m.AckJob: _encode_ack_job,
    m.Credit: _encode_credit,
    m.Result: _encode_result,
    m.CachePut: _encode_cache_put,
    m.CacheAck: _encode_cache_ack,
}
DECODERS: Final[dict[int, Callable[[Frame], Message]]] = {
    NUMBER_OF[m.HelloClient]: _decode_hello_client,
    NUMBER_OF[m.HelloWorker]: _decode_hello_worker,
    NUMBER_OF[m.NotLeader]: _decode_not_leader,
    NUMBER_OF[m.SubmitJob]: _decode_submit_job,
    NUMBER_OF[m.AssignJob]: _decode_assign_job,
    NUMBER_OF[m.AckJob]: _decode_ack_job,
    NUMBER_OF[m.Credit]: _decode_credit,
    NUMBER_OF[m.Result]: _decode_result,
    NUMBER_OF[m.CachePut]: _decode_cache_put,
    NUMBER_OF[m.CacheAck]: _decode_cache_ack,
}
