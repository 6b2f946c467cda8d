"""Job specs and options as the application gives them, and their encoding. No IO.

Durations are seconds in this API, and milliseconds everywhere else.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, TypeAlias, TypedDict

import msgspec

from rollq.base.environ import check_env
from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.ids import GUID_BYTES, NIL_ID, ClientId, JobId, guid_from_text, job_id_of_key
from rollq.base.job_secrets import check_secrets, secrets_of
from rollq.base.jobs import BlobRef, JobOptions, JobSecret
from rollq.base.limits import (
    ATTEMPTS_MAX,
    INLINE_BYTES_MAX,
    JOB_KEY_BYTES_MAX,
    LEASE_MS_MIN,
    PAYLOAD_BYTES_MAX,
    PRIORITY_MAX,
)
from rollq.base.names import EXEC_NAME_HINT, checked_tree, is_exec_name
from rollq.base.staged import KEY_END
from rollq.base.traces import is_traceparent
from rollq.roles.client.jobs import option_needs
from rollq.roles.client.jobs.job_files import JobFile
from rollq.roles.client.jobs.option_numbers import (
    NUMBER_HINTS,
    exit_codes,
    milliseconds,
    whole_number,
)
from rollq.roles.client.jobs.option_parents import stored_parents
from rollq.roles.client.jobs.tracing import current_traceparent
from rollq.subjects.queues import subject_for
from rollq.wire.messages import SubmitJob
from rollq.wire.models import InputFile, encode_model, job_request
from rollq.wire.staging_messages import StageJobs
from rollq.wire.subject_messages import Publish


class Options(TypedDict, total=False):
    """Options of a job; durations in seconds. The defaults are the cluster's settings."""

    queue: str  # default: the queue named after the program
    priority: int  # 0 to 9, higher first
    delay: float  # start not before this long after acceptance
    max_attempts: int  # dead after this many lost attempts
    lease: float  # how long a worker may be silent before the job runs elsewhere; 1 s at least
    run_limit: float  # kill the process tree after this
    run_limit_soft: float  # send SIGTERM after this
    expire: float  # dead if still waiting after this
    result_ttl: float
    retry_base: float  # the delay before the second attempt; it grows
    retry_exit_codes: Sequence[int]
    worker: str  # run only on workers of this name
    ships_exec: bool  # the program is one of the job's files; detected by default
    env: Mapping[str, str]  # additional environment variables
    secrets: Mapping[str, str]  # variables, and the name of each in the worker's vault
    resources: Mapping[str, str | float]  # free on its worker: {"cpu": 1.5, "memory": "2G"}
    labels: Sequence[str]  # required of its worker: zone=a, zone!=a, gpu, !spot
    # Tokens of limits that it holds while it runs: "matlab", "db=2" or ("db", 2).
    limits: Sequence[str | tuple[str, int]]
    sticky_key: str  # in a sticky queue, jobs with the same key run on the same worker
    # Jobs that must end ok before it starts: handles or ids; ("…id…", "ended"): however they end.
    after: Sequence[Any]
    traceparent: str  # its parent span; default: the current one of OpenTelemetry


class CacheFile(msgspec.Struct, frozen=True):
    """A file that workers have already: the file of this name in a cache."""

    cache_id: str


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


class ArgumentTypeError(LocalError, TypeError):
    """An argument has a wrong type."""


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
                env=_checked_env(spec.options),
                traceparent=traceparent,
                submitted_ms=time.time_ns() // 1_000_000 if traceparent else 0,
                call=spec.call,
            )
            body = encode_model(request)
        except (TypeError, UnicodeEncodeError) as error:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"cannot be sent: {error}") from None
    if len(body) > bytes_max:
        what = "the payload" if spec.payload is not None else "arguments and names of files"
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{what} of {spec.exec_name!r} take {len(body)} bytes; at most {bytes_max} fit",
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
        except UnicodeEncodeError as error:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"cannot be sent: {error}") from None
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
    env = _checked_env(spec.options)
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


def _checked_env(options: Options) -> dict[str, str] | None:
    """The environment variables, checked."""
    env = options.get("env")
    if not env:
        return None
    if not isinstance(env, Mapping) or not all(isinstance(one, str) for one in env.values()):
        raise _bad_option("env", env, "give names and values, both text: {'MODE': 'fast'}")
    try:
        check_env(env)
    except RemoteError as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, error.message, error.hint) from None
    return dict(env)


def _traceparent_of(spec: JobSpec) -> str:
    """The trace of a job: given, or the current one. A job with an id or a key does not get the
    current one, because a repeated submit must be identical."""
    given = spec.options.get("traceparent", "")
    if not given:
        return "" if spec.key or spec.job_id else current_traceparent()
    if not isinstance(given, str) or not is_traceparent(given):
        hint = "give one of W3C Trace Context: 00-(32 hex digits)-(16 hex digits)-01"
        raise _bad_option("traceparent", given, hint)
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


def subject_of(exec_name: str, options: Options) -> str:
    """The subject for the queue that is given, or for that of the program."""
    queue = options.get("queue", "")
    return f"job.submit.{queue}" if queue else subject_for(exec_name)


def job_options(options: Options) -> JobOptions | None:
    """Convert the options to the grid's; None if there are none.

    Raises:
        LocalError: BAD_OPTIONS, naming the option.
    """
    if not options:
        return None
    values: dict[str, Any] = {}
    for name, value in options.items():
        try:
            field_name, convert = FIELDS[name]
            if field_name:
                values[field_name] = convert(value)
        except KeyError:
            hint = f"use one of: {', '.join(FIELDS)}"
            raise LocalError(ErrorCode.BAD_OPTIONS, f"no option {name[:64]!r}", hint) from None
        except (TypeError, ValueError, OverflowError):
            raise _bad_option(name, value, NUMBER_HINTS.get(convert, "")) from None
    if not 0 <= values.get("priority", 0) <= PRIORITY_MAX:
        raise _bad_option("priority", values["priority"], f"use 0 to {PRIORITY_MAX}, higher first")
    if not 0 <= values.get("max_attempts", 0) <= ATTEMPTS_MAX:
        raise _bad_option("max_attempts", values["max_attempts"], f"use 1 to {ATTEMPTS_MAX}")
    if 0 < values.get("lease_ms", 0) < LEASE_MS_MIN:
        hint = f"use {LEASE_MS_MIN / 1000:g} s or more, or leave it out: the cluster's setting"
        raise _bad_option("lease", options["lease"], hint)
    if options.get("secrets"):
        values["secrets"] = _checked_secrets(options)
    made = JobOptions(**values)
    return None if made == JobOptions() else made


def _checked_secrets(options: Options) -> tuple[JobSecret, ...]:
    """The references to secrets. Errors do not show the value: it may be the secret itself, given
    by mistake."""
    asked = options["secrets"]
    if not isinstance(asked, Mapping) or not all(isinstance(one, str) for one in asked.values()):
        hint = "give variables and names of a vault: {'TOKEN': 'github', 'KEY': 'file:site.key'}"
        raise LocalError(ErrorCode.BAD_OPTIONS, "secrets are not names of secrets", hint)
    try:
        made = secrets_of(asked)
        check_secrets(made, options.get("env") or ())
    except RemoteError as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, error.message, error.hint) from None
    return made


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
    if key and (KEY_END in key or len(key.encode()) > JOB_KEY_BYTES_MAX):
        hint = f"use up to {JOB_KEY_BYTES_MAX} bytes, none of them 0"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"key={key[:64]!r}", hint)
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


def request_bytes(request: Any) -> int:
    """The approximate size of a request on the wire."""
    if type(request) is SubmitJob:
        return len(request.body) + 128
    if type(request) is StageJobs:
        return sum(len(group.bodies) + len(group.job_ids) + 128 for group in request.groups)
    if type(request) is Publish:
        return len(request.payload) + 128
    return len(getattr(request, "body", b"")) + 128


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


def _bad_option(name: str, value: Any, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, f"{name}={str(value)[:64]!r}", hint)


DRAWN_AT_ONCE: Final = 256
_drawn: list[JobId] = []
os.register_at_fork(after_in_child=_drawn.clear)  # parent and child must not use the same ids
FRAME_BYTES: Final = 512  # ids and field names of a body
FILE_BYTES: Final = 176  # field names and digest of one file
BYTES: Final = (bytes, bytearray, memoryview)
FIELDS: Final[dict[str, tuple[str, Any]]] = {
    "queue": ("", str),
    "priority": ("priority", whole_number),
    "delay": ("delay_ms", milliseconds),
    "max_attempts": ("max_attempts", whole_number),
    "lease": ("lease_ms", milliseconds),
    "run_limit": ("run_ms_max", milliseconds),
    "run_limit_soft": ("run_ms_soft", milliseconds),
    "expire": ("expire_ms", milliseconds),
    "result_ttl": ("result_ttl_ms", milliseconds),
    "retry_base": ("retry_base_ms", milliseconds),
    "retry_exit_codes": ("retry_exit_codes", exit_codes),
    "worker": ("worker_name", str),
    "ships_exec": ("ships_exec", bool),
    "resources": ("resources", option_needs.stored_resources),
    "labels": ("labels", option_needs.stored_labels),
    "limits": ("limits", option_needs.stored_tokens),
    "sticky_key": ("sticky_key", option_needs.checked_sticky_key),
    "after": ("after", stored_parents),
    "env": ("", dict),
    "secrets": ("", dict),
    "traceparent": ("", str),
}
