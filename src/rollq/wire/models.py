"""The legacy JSON models, as C# peers write and read them.

Names are PascalCase, ids are Guid texts, byte arrays are base64. Legacy fields are always written;
ours only if they are set, and unknown fields are skipped. Fields may be added, none removed.

A `Head` is the part of a model that a member reads. It skips arguments and file contents, so a
member never decodes base64 that it only forwards.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import ClientId, JobId, guid_from_text, guid_to_text
from rollq.base.jobs import AttemptRef, JobOptions, JobSecret, ParentRef

# JSON numbers may exceed what can be stored later.
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
OptionalInt: TypeAlias = Int64 | UnsetType

STATUS_OK: Final = "OK"
STATUS_FAILED: Final = "FAILED"
# Of a cache at a worker, beside the two above.
STATUS_SKIPPED: Final = "SKIPPED"
STATUS_WAITING: Final = "WAITING"  # not sent to the worker yet
STATUS_MOVING: Final = "MOVING"  # it is fetching
STATUS_HELD: Final = "HELD"  # it holds the files from before, as it announced


class InputFile(msgspec.Struct, frozen=True, rename="pascal"):
    """One input: its content, the cache that holds it, its blob, or an output of another job. From
    `digest` on, the fields are ours."""

    name: str
    cache_id: str | None = None
    content: bytes | None = None
    digest: str | UnsetType = UNSET  # in hex; with a size
    size: OptionalInt = UNSET
    mode: OptionalInt = UNSET  # permission bits: 0o755 for a program
    parent: str | UnsetType = UNSET  # the job that produces it, which this one waits for
    output: str | UnsetType = UNSET  # of the parent: the name of the file; none: its returned value


class JobRequest(msgspec.Struct, frozen=True, rename="pascal"):
    """What to run. From `priority` on, the fields are `JobOptions`."""

    job_id: str
    client_id: str | None
    exec_name: str
    args: tuple[str, ...] | None = ()
    files: tuple[InputFile, ...] | None = ()
    outputs: tuple[str, ...] | UnsetType = UNSET  # patterns of the output files; all if none
    # in hex: the program itself, if it is shipped with the job
    exec_digest: str | UnsetType = UNSET
    env: dict[str, str] | UnsetType | None = UNSET  # environment variables of its own
    traceparent: str | UnsetType = UNSET  # the span that submitted it, by W3C Trace Context
    submitted_ms: OptionalInt = UNSET  # of the span: when, by the clock of its client
    call: bytes | UnsetType = UNSET  # Python values instead of `args`; see `rollq.values.calls`
    task: OptionalInt = UNSET  # the task number it emulates, for a job that is no task
    priority: OptionalInt = UNSET
    delay_ms: OptionalInt = UNSET
    max_attempts: OptionalInt = UNSET
    lease_ms: OptionalInt = UNSET
    run_ms_soft: OptionalInt = UNSET
    run_ms_max: OptionalInt = UNSET
    expire_ms: OptionalInt = UNSET
    result_ttl_ms: OptionalInt = UNSET
    retry_base_ms: OptionalInt = UNSET
    retry_exit_codes: tuple[Int64, ...] | UnsetType = UNSET
    worker_name: str | UnsetType = UNSET
    ships_exec: bool | UnsetType = UNSET
    secrets: tuple[JobSecret, ...] | UnsetType = UNSET
    resources: tuple[tuple[str, Int64], ...] | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET
    limits: tuple[tuple[str, Int64], ...] | UnsetType = UNSET
    sticky_key: str | UnsetType = UNSET
    after: tuple[ParentRef, ...] | UnsetType = UNSET


class JobRequestHead(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """What a member reads of a JobRequest. From `priority` on, the fields are `JobOptions`."""

    job_id: str
    client_id: str | None = None
    exec_name: str | None = None
    priority: Int64 = 0
    delay_ms: Int64 = 0
    max_attempts: Int64 = 0
    lease_ms: Int64 = 0
    run_ms_soft: Int64 = 0
    run_ms_max: Int64 = 0
    expire_ms: Int64 = 0
    result_ttl_ms: Int64 = 0
    retry_base_ms: Int64 = 0
    retry_exit_codes: tuple[Int64, ...] = ()
    worker_name: str = ""
    ships_exec: bool = False
    secrets: tuple[JobSecret, ...] = ()
    resources: tuple[tuple[str, Int64], ...] = ()
    labels: tuple[str, ...] = ()
    limits: tuple[tuple[str, Int64], ...] = ()
    sticky_key: str = ""
    after: tuple[ParentRef, ...] = ()


class OutputFile(msgspec.Struct, frozen=True, rename="pascal"):
    """One output file, stored as a blob."""

    name: str
    digest: str  # in hex
    size: Int64
    mode: OptionalInt = UNSET


class StreamBlob(msgspec.Struct, frozen=True, rename="pascal"):
    """A complete stream or returned value, stored as a blob; of a stream, the result has the
    end."""

    digest: str  # in hex
    size: Int64


class JobResult(msgspec.Struct, frozen=True, rename="pascal"):
    """The result of a run: the legacy fields, then ours."""

    job_id: str
    client_id: str | None
    exec_name: str | None
    status: str
    stdout: str | None = ""
    stderr: str | None = ""
    output_archive: bytes | None = None
    exit_code: OptionalInt = UNSET
    signal: OptionalInt = UNSET
    run_ms: OptionalInt = UNSET
    peak_bytes: OptionalInt = UNSET
    user_ms: OptionalInt = UNSET
    system_ms: OptionalInt = UNSET
    note: str | UnsetType = UNSET  # the worker's remark: a limit, omitted outputs
    data: bytes | UnsetType = UNSET  # what a function returned, if it was bytes
    outputs: tuple[OutputFile, ...] | UnsetType = UNSET  # those that are not in the archive
    stdout_blob: StreamBlob | UnsetType = UNSET
    stderr_blob: StreamBlob | UnsetType = UNSET
    whole_blob: StreamBlob | UnsetType = UNSET  # this is a stand-in: see `rollq.wire.kept`
    stdout_bytes: bytes | UnsetType = UNSET  # the exact bytes of `stdout`, if it is not UTF-8
    stderr_bytes: bytes | UnsetType = UNSET
    stdout_size: OptionalInt = UNSET  # bytes that were written, if `stdout` is only their end
    stderr_size: OptionalInt = UNSET
    data_blob: StreamBlob | UnsetType = UNSET  # instead of `data`, if that is large
    data_kind: str | UnsetType = UNSET  # what `data` is packed of: see `rollq.base.outcomes`


class JobResultHead(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """What a member reads of a JobResult."""

    status: str
    job_id: str | None = None
    client_id: str | None = None
    exec_name: str | None = None
    exit_code: Int64 = 0
    signal: Int64 = 0
    run_ms: Int64 = 0
    peak_bytes: Int64 = 0


class ClientConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """A client's hello. `features` is ours."""

    client_id: str | None = None
    desired_parallelism: Int64 = 0
    features: tuple[str, ...] | UnsetType = UNSET
    plain: bool | UnsetType = UNSET  # true: it assumed that the member is a legacy leader


class HeldAttempt(msgspec.Struct, frozen=True, rename="pascal"):
    """An attempt that a worker still holds."""

    job_id: str
    attempt: Int64
    fence: Int64


class WorkerConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """A worker's hello beyond its id and pattern: all fields are ours."""

    patterns: tuple[str, ...] = ()
    name: str = ""
    incarnation: Int64 = 0
    slots: Int64 = 0
    holding: tuple[HeldAttempt, ...] = ()
    features: tuple[str, ...] = ()
    blob_address: str | UnsetType = UNSET
    plain: bool | UnsetType = UNSET  # as in ClientConfig; or with `holding_count`
    holding_count: OptionalInt = UNSET  # number of attempts that follow in Holdings
    labels: tuple[str, ...] | UnsetType = UNSET
    resources: tuple[tuple[str, Int64], ...] | UnsetType = UNSET


class CacheEntryModel(msgspec.Struct, frozen=True, rename="pascal"):
    """One file of a cache: its content, or (ours) the blob that holds it."""

    name: str
    content: bytes | None = None
    digest: str | UnsetType = UNSET
    size: OptionalInt = UNSET
    mode: OptionalInt = UNSET


class CachePutRequest(msgspec.Struct, frozen=True, rename="pascal"):
    """Files to put under `cache_id` on every worker whose pattern overlaps the target. From
    `kept` on, the fields are a leader's to a worker of ours."""

    cache_id: str
    entries: tuple[CacheEntryModel, ...] | None
    target_pattern: str | None
    kept: bool | UnsetType = UNSET  # true: the group stores it, and announces its removal
    removed: bool | UnsetType = UNSET  # true: it was removed
    sources: tuple[str, ...] | UnsetType = UNSET  # workers to fetch it from, rather than a member


class CachePutHead(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """What a member reads of a CachePutRequest that it forwards."""

    cache_id: str
    target_pattern: str | None = None


class CachePutResult(msgspec.Struct, frozen=True, rename="pascal"):
    """One worker's answer: OK, SKIPPED or FAILED; (ours) MOVING while it fetches."""

    cache_id: str
    status: str
    message: str | None = ""
    worker: str | UnsetType = UNSET  # the worker that answers: its name, else its id
    done_bytes: OptionalInt = UNSET
    total_bytes: OptionalInt = UNSET


class LeaderAddress(msgspec.Struct, frozen=True):
    """The payload of NotLeader; in lower case, as in the legacy protocol. `members` is ours."""

    leader: str | None = None
    members: tuple[str, ...] | UnsetType = UNSET


Model = TypeVar("Model", bound=msgspec.Struct)

encode_model: Final = msgspec.json.Encoder().encode  # any of the above as JSON


def decode_model(payload: bytes, model: type[Model]) -> Model:
    """A model out of JSON.

    Raises:
        RemoteError: BAD_PAYLOAD, naming the field.
    """
    try:
        decoded: Model = DECODERS[model].decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _misfit(model, error) from None
    return decoded


def decode_if_marked(payload: bytes, model: type[Model], mark: str) -> Model | None:
    """A model out of JSON, or None if the payload is something else.

    The payload is the model's if it is a JSON object with a field `mark`. Such an object that does
    not match the model is refused: it is an error, not opaque bytes.

    Raises:
        RemoteError: BAD_PAYLOAD, naming the field.
    """
    if not payload.startswith(JSON_OBJECT_STARTS):
        return None
    try:
        decoded: Model = DECODERS[model].decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            fields = MARKS.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if mark not in fields:
            return None
        raise _misfit(model, error) from None
    return decoded


def job_request(
    job_id: JobId,
    client_id: ClientId,
    exec_name: str,
    *,
    args: tuple[str, ...] = (),
    files: tuple[InputFile, ...] = (),
    outputs: tuple[str, ...] = (),
    exec_digest: str = "",
    options: JobOptions | None = None,
    env: dict[str, str] | None = None,
    traceparent: str = "",
    submitted_ms: int = 0,
    call: bytes = b"",
) -> JobRequest:
    """A JobRequest that carries its options in extension fields."""
    ident = guid_to_text(job_id)
    more = outputs or UNSET, exec_digest or UNSET, env or UNSET
    request = JobRequest(ident, client_id, exec_name, args, files, *more)
    changed = {} if options is None else _changed(options)
    if traceparent:
        changed |= {"traceparent": traceparent, "submitted_ms": submitted_ms}
    if call:
        changed["call"] = call
    return msgspec.structs.replace(request, **changed) if changed else request


def options_of(head: JobRequestHead) -> JobOptions | None:
    """The options in the extension fields; None if there are none."""
    values = msgspec.structs.astuple(head)[FIRST_OPTION:]
    return None if values == NO_OPTIONS else JobOptions(*values)


def held_attempts(refs: tuple[AttemptRef, ...]) -> tuple[HeldAttempt, ...]:
    """Attempts as a hello in JSON names them."""
    return tuple(HeldAttempt(guid_to_text(ref.job_id), ref.attempt, ref.fence) for ref in refs)


def attempt_refs(held: tuple[HeldAttempt, ...]) -> tuple[AttemptRef, ...]:
    """The inverse of `held_attempts`.

    Raises:
        RemoteError: BAD_ID.
    """
    return tuple(AttemptRef(guid_from_text(h.job_id), h.attempt, h.fence) for h in held)


def _misfit(model: type, error: Exception) -> RemoteError:
    # Peers know the model by its legacy name; the text of msgspec names the field.
    return RemoteError(ErrorCode.BAD_PAYLOAD, f"{model.__name__.removesuffix('Head')}: {error}")


def _changed(options: JobOptions) -> dict[str, Any]:
    return {
        field.name: getattr(options, field.name)
        for field in msgspec.structs.fields(JobOptions)
        if getattr(options, field.name) != field.default
    }


MODELS: Final[tuple[type[msgspec.Struct], ...]] = (
    JobRequest,
    JobRequestHead,
    JobResult,
    JobResultHead,
    ClientConfig,
    WorkerConfig,
    CachePutRequest,
    CachePutHead,
    CachePutResult,
    LeaderAddress,
)
DECODERS: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {
    model: msgspec.json.Decoder(model) for model in MODELS
}
MARKS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
JSON_OBJECT_STARTS: Final = (b"{", b" ", b"\t", b"\r", b"\n")
FIRST_OPTION: Final = JobRequestHead.__struct_fields__.index("priority")
NO_OPTIONS: Final = msgspec.structs.astuple(JobOptions())
