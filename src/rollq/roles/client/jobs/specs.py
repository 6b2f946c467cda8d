"""Job specs and options as the application gives them, and their encoding. No IO.

Durations are seconds in this API, and milliseconds everywhere else.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.ids import GUID_BYTES, NIL_ID, ClientId, JobId, guid_from_text, job_id_of_key
from rollq.base.jobs import BlobRef
from rollq.base.limits import (
    INLINE_BYTES_MAX,
    JOB_KEY_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
)
from rollq.base.names import EXEC_NAME_HINT, checked_tree, is_exec_name
from rollq.base.staged import KEY_END
from rollq.base.texts import check_utf8, not_utf8
from rollq.base.traces import is_traceparent
from rollq.roles.client.answers import ArgumentTypeError
from rollq.roles.client.jobs.options import Options, bad_option, env_of
from rollq.roles.client.jobs.tracing import current_traceparent
from rollq.wire.models import InputFile, encode_model, job_request


class CacheFile(msgspec.Struct, frozen=True):
    """A file that workers have already: the file of this name in a cache."""

    cache_id: str


class JobFile(msgspec.Struct, frozen=True):
    """An output file of a job. A job that uses it waits for that job to end ok.

    Attributes:
        job_id: The job.
        name: The name of the file; `-`: stdout; empty: the packed value of a function.
    """

    job_id: JobId
    name: str = ""


Payload: TypeAlias = bytes | bytearray | memoryview | str

# Bytes, a path of a file or folder, or a reference to content that the grid has or will have.
Input: TypeAlias = bytes | PathLike[str] | BlobRef | CacheFile | JobFile


class JobSpec(msgspec.Struct, frozen=True):
    """A job to submit: a program or function by name, with arguments and files, or with a payload.
    With an id of your own it may be submitted again, and runs once."""

    exec_name: str
    args: Sequence[str] = ()
    files: Mapping[str, Input] = msgspec.field(default_factory=dict)
    payload: Payload | None = None  # text is encoded as UTF-8
    job_id: JobId | str | None = None
    options: Options = msgspec.field(default_factory=Options)
    outputs: Sequence[str] = ()  # patterns of the output files to keep; empty: all
    key: str = ""  # the same key of the same client means the same job
    call: bytes = b""  # packed Python values instead of arguments: see `function_calls`


def body_of(
    spec: JobSpec, job_id: JobId, client_id: ClientId, bytes_max: int = PAYLOAD_BYTES_MAX
) -> bytes:
    """Encode the body for the worker. The members store a large body as a blob.

    Raises:
        LocalError: BAD_OPTIONS, if it is too large, or something is invalid.
    """
    if not is_exec_name(spec.exec_name):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"no worker can have a program or function named {spec.exec_name[:64]!r}",
            "name a program of the workers' exec directory, or ship one with the job's files; "
            f"{EXEC_NAME_HINT}",
        )
    payload = spec.payload
    if payload is not None:
        if spec.options and spec.options.get("traceparent"):
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "a job that is a bare payload belongs to no trace",
                "give it arguments, and put the payload into a file of the job",
            )
        if spec.args or spec.files or spec.outputs:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "a job has either a payload, or arguments and files",
                "put the payload into a file of the job",
            )
        if spec.options and spec.options.get("env"):
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "a job that is a bare payload has no environment of its own",
                "give it arguments, and put the payload into a file of the job",
            )
        body = payload if type(payload) is bytes else _payload_bytes(payload)
    else:
        args = _texts(spec.args)
        files = _input_files(spec.files) if spec.files else ()
        outputs = _texts(spec.outputs) if spec.outputs else ()
        traceparent = _traceparent_of(spec)
        try:
            request = job_request(
                *(job_id, client_id, spec.exec_name),
                args=args,
                files=files,
                outputs=outputs,
                env=env_of(spec.options),
                traceparent=traceparent,
                submitted_ms=time.time_ns() // 1_000_000 if traceparent else 0,
                call=spec.call,
            )
            body = encode_model(request)
        except UnicodeEncodeError as error:
            raise not_utf8("outputs" if error.object in outputs else "args", error.object) from None
        except TypeError as error:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"cannot be sent: {error}") from None
    if len(body) > bytes_max:
        name = repr(spec.exec_name)
        what = f"arguments and names of files of {name} take"
        if payload is not None:
            what = f"the payload of {name} takes"
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{what} {len(body)} bytes; at most {bytes_max} fit",
            "put them into a file of the job",
        )
    return body


def _payload_bytes(payload: object) -> bytes:
    """Not `bytes(payload)`, which accepts numbers and lists too."""
    if isinstance(payload, BYTES):
        return bytes(payload)
    if isinstance(payload, str):
        try:
            return payload.encode()
        except UnicodeEncodeError:
            raise not_utf8("payload", payload) from None
    raise ArgumentTypeError(
        ErrorCode.BAD_OPTIONS,
        f"the payload is {type(payload).__name__}; it must be bytes or text",
        "send a value as JSON: payload=json.dumps(value)",
    )


def _input_files(files: Mapping[str, Any]) -> tuple[InputFile, ...]:
    """The files of a body; a settled spec has them in this form already."""
    if type(next(iter(files.values()))) is InputFile:
        return tuple(files.values())
    check_names(files)
    return tuple(InputFile(name, None, bytes(content)) for name, content in files.items())


def inline_bytes(spec: JobSpec, names: Iterable[str]) -> int:
    """An upper bound of the body size without the content of its files."""
    listed = list(names)
    env = env_of(spec.options)
    try:
        encoded = msgspec.json.encode(
            (spec.exec_name, _texts(spec.args), tuple(spec.outputs), listed, env)
        )
    except UnicodeEncodeError:  # `body_of` raises it
        return INLINE_BYTES_MAX
    return len(encoded) + base64_bytes(len(spec.call)) + FILE_BYTES * len(listed) + FRAME_BYTES


def base64_bytes(size: int) -> int:
    """The size of bytes in a body."""
    return 4 * (size // 3 + 1)


def _traceparent_of(spec: JobSpec) -> str:
    """The trace of a job: given, or the current one. A job with an id or a key does not get the
    current one, because a repeated submit must be identical."""
    given = spec.options.get("traceparent", "")
    if not given:
        return "" if spec.key or spec.job_id else current_traceparent()
    if not isinstance(given, str) or not is_traceparent(given):
        hint = "give one of W3C Trace Context: 00-(32 hex digits)-(16 hex digits)-01"
        raise bad_option("traceparent", given, hint)
    return given


def check_names(names: Iterable[str]) -> None:
    """Check file names before the submit, with the rules of the workers.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    try:
        checked_tree(names)
    except RemoteError as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, error.message, error.hint) from None


def as_id(given: JobId | str) -> JobId:
    """Convert an id of either form to bytes.

    Raises:
        RollqError: BAD_ID.
    """
    made = guid_from_text(given) if isinstance(given, str) else bytes(given)
    if len(made) != GUID_BYTES or made == NIL_ID:
        raise LocalError(ErrorCode.BAD_ID, "a job id has 16 bytes and is not nil")
    return made


def id_for(spec: JobSpec, client_id: ClientId) -> JobId:
    """The id of a job: its own, that of its key, or a random one.

    Raises:
        RollqError: BAD_ID, or BAD_OPTIONS for an invalid key.
    """
    key = spec.key
    if key:
        check_utf8("key", key)
        if KEY_END in key or len(key.encode()) > JOB_KEY_BYTES_MAX:
            hint = f"use up to {JOB_KEY_BYTES_MAX} bytes, none of them 0"
            raise bad_option("key", key, hint)
    if spec.job_id is not None:
        return as_id(spec.job_id)
    return job_id_of_key(client_id, key) if key else draw_id()


def draw_id() -> JobId:
    """Draw a random 16-byte id. Random bytes are read in blocks, because each read is a system
    call.
    """
    try:
        return _drawn.pop()
    except IndexError:
        drawn = secrets.token_bytes(GUID_BYTES * DRAWN_AT_ONCE)
        first, *others = (drawn[at : at + GUID_BYTES] for at in range(0, len(drawn), GUID_BYTES))
        _drawn.extend(others)
        return first


def changes(
    args: Sequence[str] | None, env: Mapping[str, str | None] | None, queue: str
) -> dict[str, Any]:
    """The changes of a request, in the form of the wire."""
    variables = env or {}
    return {
        "keeps_args": args is None,
        "args": () if args is None else _texts(args),
        "env": tuple((name, value) for name, value in variables.items() if value is not None),
        "unset": tuple(name for name, value in variables.items() if value is None),
        "queue": queue,
    }


def as_specs(
    jobs: str | Iterable[JobSpec], arguments: Iterable[Any] | None, options: Options
) -> Iterable[JobSpec]:
    """Make specs from a name and many arguments, or check given specs.

    An element of `arguments` is one job: a string (its only argument), bytes (its payload), or a
    sequence of strings.

    Raises:
        ArgumentTypeError: BAD_OPTIONS, if `jobs` is neither a name nor iterable.
        LocalError: BAD_OPTIONS, if specs come with arguments or options.
    """
    if isinstance(jobs, str):
        if arguments is None:
            raise ArgumentTypeError(
                ErrorCode.BAD_OPTIONS,
                f"jobs is the name {jobs[:64]!r}, and there are no arguments",
                "give an iterable with the arguments of each job, or an iterable of JobSpec",
            )
        for one in arguments:
            if isinstance(one, BYTES):
                yield JobSpec(jobs, payload=bytes(one), options=options)
            else:
                yield JobSpec(jobs, _texts(one), options=options)
    elif arguments is not None or options:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "specs carry their own arguments and options",
            "name a program and give arguments, or give specs alone",
        )
    elif not isinstance(jobs, Iterable):
        raise ArgumentTypeError(
            ErrorCode.BAD_OPTIONS,
            f"jobs is {type(jobs).__name__}",
            "give an iterable of JobSpec, or a name and an iterable of arguments",
        )
    else:
        for number, spec in enumerate(jobs):
            yield checked_spec(spec, f"jobs[{number}]")


def checked_spec(given: object, called: str) -> JobSpec:
    """Check that an argument, whose name is `called`, is a JobSpec.

    Raises:
        ArgumentTypeError: BAD_OPTIONS, if it is not.
    """
    if isinstance(given, JobSpec):
        return given
    raise ArgumentTypeError(
        ErrorCode.BAD_OPTIONS, f"{called} is {type(given).__name__}", "give a JobSpec"
    )


def args_given(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The arguments of a program: one sequence of strings, by position or as `args=`."""
    if len(args) > 1:
        raise ArgumentTypeError(
            ErrorCode.BAD_OPTIONS,
            f"{len(args)} arguments after the name",
            "give the arguments of a program as one list: submit('add', ['1', '2'])",
        )
    return args[0] if args else options.pop("args", ())


def _texts(args: Any) -> tuple[str, ...]:
    if isinstance(args, str):
        return (args,)
    try:
        texts = tuple(args)
    except TypeError:
        texts = (args,)
    for one in texts:
        if not isinstance(one, str):
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"an argument is {type(one).__name__}: {str(one)[:64]!r}",
                "arguments are strings; send anything else as `payload`",
            )
    return texts


DRAWN_AT_ONCE: Final = 256
_drawn: list[JobId] = []
os.register_at_fork(after_in_child=_drawn.clear)  # parent and child must not use the same ids
FRAME_BYTES: Final = 512  # ids and field names of a body
FILE_BYTES: Final = 176  # field names and digest of one file
BYTES: Final = (bytes, bytearray, memoryview)
