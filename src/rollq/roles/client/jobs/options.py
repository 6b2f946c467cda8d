"""The options of a job: each is checked here, and converted to what the grid stores. No IO.

Durations are seconds in this API, and milliseconds everywhere else. An error is LocalError
BAD_OPTIONS and names the option.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from rollq.base.edges import CONDITION_WORDS
from rollq.base.environ import check_env
from rollq.base.errors import ErrorCode, LocalError, RemoteError, RollqError
from rollq.base.flow_limits import PARENTS_PER_JOB_MAX
from rollq.base.ids import GUID_BYTES, NIL_ID, JobId, guid_from_text
from rollq.base.job_secrets import check_secrets, secrets_of
from rollq.base.jobs import Condition, JobOptions, JobSecret, ParentRef
from rollq.base.limits import (
    ATTEMPTS_MAX,
    DURATION_MS_MAX,
    LEASE_MS_MIN,
    PRIORITY_MAX,
)
from rollq.base.need_limits import STICKY_KEY_BYTES_MAX
from rollq.base.needs import Amounts, requirements_of, resources_of, tokens_of
from rollq.base.texts import NOT_UTF8_HINT
from rollq.subjects.queues import subject_for

SECONDS_MAX: Final = DURATION_MS_MAX // 1_000
EXIT_CODE_MAX: Final = 255  # 128 + n: killed by signal n
CONDITIONS: Final = {word: number for number, word in CONDITION_WORDS.items()}
CONDITIONS_OR_NONE: Final = ("", *CONDITIONS)
OK_OR_RESULT: Final = {Condition.OK, Condition.RESULT}  # RESULT includes OK
PARENTS_HINT: Final = (
    'give a list of jobs or ids: [first, "1d0b…", (second, "ended")]; '
    f"a condition is one of {', '.join(CONDITIONS)}"
)


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
            if isinstance(value, str):
                value.encode()  # also of the options that are converted elsewhere
            if field_name:
                values[field_name] = convert(value)
        except KeyError:
            hint = f"use one of: {', '.join(FIELDS)}"
            raise LocalError(ErrorCode.BAD_OPTIONS, f"no option {name[:64]!r}", hint) from None
        except UnicodeEncodeError:
            raise bad_option(name, value, NOT_UTF8_HINT) from None
        except (TypeError, ValueError, OverflowError):
            raise bad_option(name, value, NUMBER_HINTS.get(convert, "")) from None
    if not 0 <= values.get("priority", 0) <= PRIORITY_MAX:
        raise bad_option("priority", values["priority"], f"use 0 to {PRIORITY_MAX}, higher first")
    if not 0 <= values.get("max_attempts", 0) <= ATTEMPTS_MAX:
        raise bad_option("max_attempts", values["max_attempts"], f"use 1 to {ATTEMPTS_MAX}")
    if 0 < values.get("lease_ms", 0) < LEASE_MS_MIN:
        hint = f"use {LEASE_MS_MIN / 1000:g} s or more, or leave it out: the cluster's setting"
        raise bad_option("lease", options["lease"], hint)
    if options.get("secrets"):
        values["secrets"] = _checked_secrets(options)
    made = JobOptions(**values)
    return None if made == JobOptions() else made


def subject_of(exec_name: str, options: Options) -> str:
    """The subject for the queue that is given, or for that of the program."""
    queue = options.get("queue", "")
    return f"job.submit.{queue}" if queue else subject_for(exec_name)


def env_of(options: Options) -> dict[str, str] | None:
    """The environment variables, checked."""
    env = options.get("env")
    if not env:
        return None
    if not isinstance(env, Mapping) or not all(isinstance(one, str) for one in env.values()):
        raise bad_option("env", env, "give names and values, both text: {'MODE': 'fast'}")
    try:
        check_env(env)
    except RemoteError as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, error.message, error.hint) from None
    return dict(env)


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


class BadOptionError(LocalError):
    """An option's value is not valid.

    Attributes:
        option: Its name in `Options`.
        value: The value, for people.
    """

    def __init__(self, option: str, value: str, hint: str, called: str = "") -> None:
        super().__init__(ErrorCode.BAD_OPTIONS, f"{called or option} cannot be {value}", hint)
        self.option = option
        self.value = value

    def called(self, name: str) -> BadOptionError:
        """The same error where users know the option by another name."""
        return BadOptionError(self.option, self.value, self.hint, name)


def bad_option(name: str, value: Any, hint: str) -> BadOptionError:
    """The error for an option's value."""
    return BadOptionError(name, repr(value[:64] if isinstance(value, str) else value)[:66], hint)


# --- numbers: an invalid value raises TypeError, ValueError or OverflowError, and `NUMBER_HINTS`
# has the hint for the error message


def whole_number(value: Any) -> int:
    """The value itself. Its bounds depend on the option."""
    if not isinstance(value, int):
        raise TypeError
    return value


def milliseconds(seconds: Any) -> int:
    """A duration in milliseconds."""
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError
    # 0 means the cluster's default, so a positive duration must not round to 0.
    return max(1, round(seconds * 1000)) if seconds else 0


def exit_codes(given: Any) -> tuple[int, ...]:
    """Exit codes from 1 to 255."""
    codes = tuple(given)
    for code in codes:
        if not isinstance(code, int) or not 0 < code <= EXIT_CODE_MAX:
            raise bad_option("retry_exit_codes", code, f"use exit codes from 1 to {EXIT_CODE_MAX}")
    return codes


# --- placement


def stored_resources(given: Any) -> Amounts:
    """Resource names and amounts, in stored form."""
    if not isinstance(given, Mapping):
        raise bad_option("resources", given, 'give names and amounts: {"cpu": 1.5, "gpu": 1}')
    return resources_of(given)


def stored_labels(given: Any) -> tuple[str, ...]:
    """Label requirements, in stored form."""
    if not _is_list(given) or not all(isinstance(one, str) for one in given):
        raise bad_option("labels", given, 'give a list: ["zone=a", "!spot"]')
    return requirements_of(given)


def stored_tokens(given: Any) -> Amounts:
    """Limit keys and how many tokens of each, in stored form."""
    if not _is_list(given) or not all(isinstance(one, str) or _is_pair(one) for one in given):
        raise bad_option("limits", given, 'give a list: ["matlab", ("db", 2)]')
    return tokens_of(given)


def checked_sticky_key(given: Any) -> str:
    """A sticky key, checked for its type and length."""
    if not isinstance(given, str) or len(given.encode(errors="replace")) > STICKY_KEY_BYTES_MAX:
        raise bad_option("sticky_key", given, f"give text of up to {STICKY_KEY_BYTES_MAX} bytes")
    return given


def _is_list(given: Any) -> bool:
    return isinstance(given, list | tuple | set | frozenset)


def _is_pair(given: Any) -> bool:
    return (
        isinstance(given, list | tuple)
        and len(given) == len(("name", "tokens"))
        and isinstance(given[0], str)
        and type(given[1]) is int
    )


# --- the jobs before it


def stored_parents(given: Any) -> tuple[ParentRef, ...]:
    """Convert handles of jobs or arrays, ids, texts ID[:CONDITION], and pairs of one of these with
    a condition. Duplicates are merged if their conditions agree.

    Raises:
        LocalError: BAD_OPTIONS, if a value is none of these.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise bad_option("after", given, PARENTS_HINT)
    found: dict[JobId, ParentRef] = {}
    for one in given:
        parent = _parent(one)
        known = found.setdefault(parent.job_id, parent)
        if known is parent:
            continue
        if {known.condition, parent.condition} == OK_OR_RESULT:
            found[parent.job_id] = ParentRef(parent.job_id, Condition.RESULT)
        elif known != parent:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, "after names a job with two conditions", "give one of them"
            )
    if len(found) > PARENTS_PER_JOB_MAX:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"after names {len(found)} jobs; at most {PARENTS_PER_JOB_MAX} can be waited for",
            "put a job between: it waits for some of them, and this one for it",
        )
    return tuple(found.values())


def _parent(given: Any) -> ParentRef:
    condition = ""
    if isinstance(given, tuple | list) and len(given) == len(("job", "condition")):
        given, condition = given
    elif isinstance(given, str) and ":" in given:
        given, _, condition = given.partition(":")
    if condition not in CONDITIONS_OR_NONE:
        hint = f"use one of: {', '.join(CONDITIONS)}"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"after: no condition {condition!r}", hint)
    made = _parent_id(given)
    if len(made) != GUID_BYTES or made == NIL_ID:
        raise bad_option("after", given, PARENTS_HINT)
    return ParentRef(made, CONDITIONS[condition or "ok"])


def _parent_id(given: Any) -> JobId:
    if isinstance(given, bytes):
        return given
    for name in ("array_id", "job_id"):  # Batch has the first, Job the second
        if isinstance(own := getattr(given, name, None), bytes):
            return own
    try:
        return guid_from_text(given) if isinstance(given, str) else b""
    except RollqError:
        return b""


NUMBER_HINTS: Final[dict[Any, str]] = {
    whole_number: "give a whole number",
    milliseconds: f"give seconds, from 0 to {SECONDS_MAX} ({SECONDS_MAX // 86_400} days)",
    exit_codes: f"give a list of exit codes, each from 1 to {EXIT_CODE_MAX}: [75]",
}
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
    "resources": ("resources", stored_resources),
    "labels": ("labels", stored_labels),
    "limits": ("limits", stored_tokens),
    "sticky_key": ("sticky_key", checked_sticky_key),
    "after": ("after", stored_parents),
    "env": ("", dict),
    "secrets": ("", dict),
    "traceparent": ("", str),
}
