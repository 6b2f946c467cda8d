"""Python functions as jobs: `@task` registers a function under an exec name; `progress` reports the
progress of any job.

A worker that is started with the module (`--app module`) runs the function for every job of that
exec name: a plain function in a warm process, a coroutine function in the worker's own loop. The
arguments come from the job: Python values (`rollq.values`), text or JSON. Nothing is unpickled.
Applications import this module, so it imports the client only when it is used.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import numbers
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, overload

import msgspec

from rollq.base.celery_names import options_of
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import guid_to_text
from rollq.base.job_events import PROGRESS_FILE_ENV, JobProgress, encode_progress
from rollq.base.jobs import ParentEnd
from rollq.base.names import EXEC_NAME_HINT, is_exec_name
from rollq.base.parents import PARENTS_FILE_ENV, Parent, parents_in

P = ParamSpec("P")
R = TypeVar("R")


class Argument(NamedTuple):
    """A positional parameter."""

    name: str
    type: Any
    takes_rest: bool  # *args


class Task(Generic[P, R]):
    """A registered function. Calling it runs it locally; `delay` runs it in the grid.

    Attributes:
        name: The exec name.
        function: The function itself.
        options: Default options of its jobs (`rollq.Options`).
        autoretry_for: Exceptions after which the job is retried.
        initializer: Called once in each process that runs it, before the first call.
        in_loop: Whether it is a coroutine function, and runs in the worker's loop.
        payload_type: The type that the payload of a job without arguments is decoded to.
        arguments: Its positional parameters; empty if all take text.
    """

    def __init__(
        self,
        name: str,
        function: Callable[P, R],
        options: Mapping[str, Any] | None = None,
        autoretry_for: tuple[type[BaseException], ...] = (),
        initializer: Callable[[], Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self.function = function
        self.options = dict(options or {})
        self.autoretry_for = autoretry_for
        self.initializer = initializer
        self.in_loop = inspect.iscoroutinefunction(function)
        parameters = _parameters(function)
        self.payload_type = _payload_type(parameters)
        self.arguments = _arguments(parameters)
        self._parameters = {one.name: one for one in parameters}
        self._signature = inspect.Signature(parameters) if parameters else _signature(function)
        self._placed = _placed_kinds(parameters)
        self._required = sum(one.default is one.empty for one in parameters)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Submit a call with the client of `rollq.connect`; returns a handle when it is accepted.
        `delay(…).get()` waits for the return value.

        Raises:
            TypeError: the arguments do not match, or cannot be serialized.
            RollqError: it was refused, or not accepted in time.
        """
        return self.apply_async(args, kwargs)

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The same, without blocking the event loop: `await (await f.adelay(…)).aget()`."""
        return await _current().asubmit_call(self, args, kwargs, {})

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """The same as `delay`, with options for this job: `countdown=10`, `queue="slow"`."""
        asked = options_of(options, OF_ONE_CALL)
        return _current().submit_call(self, tuple(args), kwargs or {}, asked)

    def s(self, *args: Any, **kwargs: Any) -> Any:
        """A signature, for chains, groups and chords: `add.s(1, 2) | add.s(3)`."""
        return _chains().Signature(self, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Any:
        """An immutable signature, which does not receive the value of the step before."""
        return _chains().Signature(self, args, kwargs, immutable=True)

    def check_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Check that the arguments match the signature.

        Raises:
            TypeError: naming the argument.
        """
        if self._signature is not None:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}(): {error}") from None

    def argument_name(self, place: int) -> str:
        """The name of the positional parameter at an index."""
        names = [name for name, one in self._parameters.items() if one.kind in PLACED]
        return names[place] if place < len(names) else str(place + 1)

    def checked_values(
        self, args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Convert argument values to the annotated types.

        Raises:
            TypeError: naming the argument that cannot be converted.
        """
        if self._signature is None or not self._parameters:
            return tuple(args), kwargs
        if not kwargs and self._required <= len(args) <= len(self._placed):
            # The usual case, ten times as fast as binding.
            for place, (name, kind) in enumerate(self._placed[: len(args)]):
                if kind is not None and type(args[place]) is not kind:
                    args[place] = checked_value(name, args[place], kind)
            return tuple(args), kwargs
        bound = self._signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            parameter = self._parameters[name]
            kind = parameter.annotation
            if _is_unknown(kind) or kind in AS_ANYTHING:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                made: Any = tuple(checked_value(name, one, kind) for one in value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                made = {key: checked_value(key, one, kind) for key, one in value.items()}
            else:
                made = checked_value(name, value, kind)
            bound.arguments[name] = made
        return bound.args, bound.kwargs

    def exit_code_of(self, error: BaseException) -> int:
        """The exit code for an exception; RETRY_EXIT_CODE if `autoretry_for` has it."""
        return RETRY_EXIT_CODE if isinstance(error, self.autoretry_for) else 1

    def call_args(self, args: tuple[str, ...]) -> tuple[Any, ...]:
        """Convert text arguments to the annotated types.

        Raises:
            TypeError: naming the argument that cannot be converted.
        """
        known = self.arguments
        if not known:
            return args
        more = (known[-1],) * (len(args) - len(known)) if known[-1].takes_rest else ()
        places = (*known, *more)
        made = [_converted(one, text) for one, text in zip(places, args, strict=False)]
        return (*made, *args[len(places) :])  # too many: the call raises

    def payload_args(self, body: bytes) -> tuple[Any, ...]:
        """The arguments of a call whose job is a payload: one value, or none.

        Raises:
            msgspec.DecodeError: it is not JSON, or not of the annotated type.
        """
        if not body:
            return ()
        if self.payload_type is bytes:
            return (body,)
        return (msgspec.json.decode(body, type=self.payload_type),)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


@overload
def task(name: Callable[P, R]) -> Task[P, R]: ...
@overload
def task(
    name: str | None = None,
    *,
    autoretry_for: Sequence[type[BaseException]] = (),
    initializer: Callable[[], Any] | None = None,
    **options: Any,
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(
    name: Any = None,
    *,
    autoretry_for: Sequence[type[BaseException]] = (),
    initializer: Callable[[], Any] | None = None,
    **options: Any,
) -> Any:
    """Register a function under an exec name: `@task`, `@task("name")` or `@task(name="name")`;
    by default under its own name.

    Calling it still runs it locally, and `delay` calls it in the grid with Python values. A job
    that was submitted with text arguments, as on the command line, calls it with these, converted
    to the annotated types: numbers, bool (true, false, 1, 0), bytes (UTF-8), Path, dates, enums,
        and
    anything else from JSON. A job that was submitted with a payload calls it with one value: bytes
    if the first parameter is annotated `bytes`, else the payload decoded from JSON. In these two
    cases it may return text, bytes, None or anything that JSON can represent. An exception makes
    the job FAILED.

    Args:
        name: The exec name.
        autoretry_for: Exceptions after which the job is retried.
        initializer: Called without arguments in each warm process of a worker when it starts, for
            example to load a model. Several tasks may share one. If it raises, the worker logs
            the error, and the jobs of these tasks fail with it. Not for coroutine functions.
        options: Options for the jobs of `delay`: `max_retries`, `retry_backoff`, `time_limit`,
            `soft_time_limit`, `expires`, and those of `rollq.Options`.

    Raises:
        LocalError: BAD_SETUP, if the name is invalid or in use; BAD_OPTIONS, for an invalid
            `autoretry_for`, initializer, Celery option, or an unknown option. Values of other
            options are checked on submit.
    """
    retried = _exceptions(autoretry_for)
    _check_initializer(initializer)
    asked = options_of(options)
    if retried:
        asked.setdefault("retry_exit_codes", (RETRY_EXIT_CODE,))
        asked.setdefault("max_attempts", RETRIES + 1)

    def register(function: Callable[P, R]) -> Task[P, R]:
        own = function.__name__ if name is None or callable(name) else name
        return _register(Task(own, function, asked, retried, initializer))

    return register(name) if callable(name) else register


def _exceptions(given: Any) -> tuple[type[BaseException], ...]:
    """Check `autoretry_for`: a wrong type would only fail when the function raises."""
    found = tuple(given) if isinstance(given, Sequence) else (None,)
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in found):
        hint = "give a tuple of exceptions: autoretry_for=(ConnectionError,)"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"autoretry_for={given!r}", hint)
    return found


def _check_initializer(given: Any) -> None:
    if given is not None and not callable(given):
        hint = "give a function without arguments"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"initializer={given!r}", hint)


def progress(done: float = 0, total: float = 0, note: str = "") -> None:
    """Report the progress of this job, in any unit, to its watchers. Outside of a job it does
    nothing. It may be called often: the latest report is sent a few times a second.

    Args:
        done: The amount that is done.
        total: The total amount; 0: unknown.
        note: A remark for users, up to 256 bytes.
    """
    now_s = time.monotonic()
    if now_s - _progress.reported_s < PROGRESS_S_MIN and not done >= total > 0:
        return
    _progress.reported_s = now_s
    report = JobProgress(done, total, note)
    if _progress.reporter is not None:
        _progress.reporter(ATTEMPT.get(), report)
    elif path := os.environ.get(PROGRESS_FILE_ENV):
        with contextlib.suppress(OSError):  # progress is optional: do not fail the job
            with open(f"{path}.new", "wb") as file:
                file.write(encode_progress(report) + b"\n")
            os.replace(f"{path}.new", path)


def context() -> Context:
    """The job that this code runs in: in a function of `--app`, or in a program.

    Raises:
        LocalError: BAD_SETUP, outside of a job.
    """
    ref = ATTEMPT.get()
    if ref is not None:
        return Context(guid_to_text(ref.job_id), ref.attempt, tuple(map(Parent.of, ENDS.get())))
    if job_id := os.environ.get("ROLLQ_JOB_ID"):
        path = os.environ.get(PARENTS_FILE_ENV)
        parents = parents_in(Path(path).read_bytes()) if path else ()
        return Context(job_id, int(os.environ.get("ROLLQ_ATTEMPT", "1")), parents)
    raise LocalError(
        ErrorCode.BAD_SETUP,
        "this code does not run in a job",
        "call it in a function that the grid runs",
    )


class Context(NamedTuple):
    """The job that code runs in."""

    job_id: str
    attempt: int  # from 1; it counts assignments, also of lost attempts
    # The jobs that it waited for, if one of its conditions is `ended` or `failed`.
    parents: tuple[Parent, ...] = ()

    def progress(self, done: float, total: float = 1.0, note: str = "") -> None:
        """Report progress: 0.4 of 1, or 3 of 10; see `rollq.progress`."""
        progress(done, total, note)


def report_to(reporter: Callable[[Any, JobProgress], None]) -> None:
    """Set the function that `progress` calls, with the value of ATTEMPT; for worker processes."""
    _progress.reporter = reporter


class _ProgressState:
    """The state of `progress`."""

    reported_s = 0.0
    reporter: Callable[[Any, JobProgress], None] | None = None


# Parameters of `apply_async` that are not job options.
OF_ONE_CALL: Final = ("job_id", "key", "then", "notify", "timeout", "progress")
PROGRESS_S_MIN: Final = 0.05  # minimum interval between reports
ATTEMPT: Final[ContextVar[Any]] = ContextVar("rollq_attempt", default=None)
ENDS: Final[ContextVar[tuple[ParentEnd, ...]]] = ContextVar("rollq_ends", default=())
_progress: Final = _ProgressState()


def _register(made: Task[P, R]) -> Task[P, R]:
    exec_name = made.name
    if not is_exec_name(exec_name):
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{exec_name[:64]!r} cannot name a task",
            f'{EXEC_NAME_HINT}; a function of another name is given one: @task("name")',
        )
    if exec_name in TASKS:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"two tasks have the name {exec_name!r}: of {TASKS[exec_name].__module__} and of "
            f"{made.__module__}",
            "rename one",
        )
    if made.in_loop and made.initializer is not None:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{exec_name!r} is a coroutine function, which has no process of its own to initialize",
            "make it a plain function, or load what it needs when its module is imported",
        )
    TASKS[exec_name] = made
    return made


def _current() -> Any:
    """The module of the default client. It is imported on the first call, because applications
    import this module."""
    return import_module("rollq.roles.client.blocking.current")


def _chains() -> Any:
    """Imported on first use, for the same reason."""
    return import_module("rollq.roles.client.functions.chains")


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature; None if it cannot be inspected."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters with evaluated annotations; empty if they cannot be evaluated."""
    try:
        return list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, TypeError, ValueError):
        return []


def _payload_type(parameters: list[inspect.Parameter]) -> Any:
    """The annotation of the first parameter; Any if there is none."""
    if not parameters or parameters[0].kind not in PLACED:
        return Any
    annotation = parameters[0].annotation
    return Any if _is_unknown(annotation) else annotation


def _arguments(parameters: list[inspect.Parameter]) -> tuple[Argument, ...]:
    """The positional parameters to convert; empty if all take text."""
    placed = [
        Argument(
            one.name,
            str if _is_unknown(one.annotation) else one.annotation,
            one.kind is one.VAR_POSITIONAL,
        )
        for one in parameters
        if one.kind in (*PLACED, one.VAR_POSITIONAL)
    ]
    return () if all(one.type in AS_TEXT for one in placed) else tuple(placed)


def _placed_kinds(parameters: list[inspect.Parameter]) -> tuple[tuple[str, Any], ...]:
    """Names and annotations of the positional parameters, None for one that takes anything; empty
    if there are other parameters."""
    if not all(one.kind in PLACED for one in parameters):
        return ()
    return tuple(
        (one.name, None)
        if _is_unknown(one.annotation) or one.annotation in AS_ANYTHING
        else (one.name, one.annotation)
        for one in parameters
    )


def _is_unknown(annotation: Any) -> bool:
    return annotation is inspect.Parameter.empty or isinstance(annotation, str)


def checked_value(name: str, value: Any, kind: Any) -> Any:
    """Check a value against an annotation, or convert it without loss.

    Raises:
        TypeError: naming the argument.
    """
    if isinstance(kind, type) and isinstance(value, NUMBERS.get(kind, kind)):
        return value
    try:
        return msgspec.convert(value, kind, from_attributes=True)
    except msgspec.ValidationError as error:
        wanted = kind.__name__ if type(kind) is type else str(kind)
        problem = f"must be {wanted}, and {repr(value)[:64]} is not: {error}"
        raise TypeError(f"argument {name!r} {problem}") from None
    except TypeError:  # an annotation that only type checkers understand
        return value


def _converted(argument: Argument, text: str) -> Any:
    kind = argument.type
    try:
        if kind in AS_TEXT:
            return text
        if kind is bytes:
            return text.encode()
        if kind is Path or kind is PurePath:
            return kind(text)
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError:
            return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, TypeError, ValueError):
        wanted = kind.__name__ if type(kind) is type else str(kind)
        raise TypeError(
            f"argument {argument.name!r} must be {wanted}, and {text[:64]!r} is not"
        ) from None


PLACED: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
AS_TEXT: Final = (str, Any, object)
AS_ANYTHING: Final = (Any, object)
NUMBERS: Final[dict[Any, Any]] = {int: numbers.Integral, complex: numbers.Complex}  # numpy's too
RETRY_EXIT_CODE: Final = 75  # EX_TEMPFAIL: the function raised an exception of `autoretry_for`
RETRIES: Final = 3  # if `autoretry_for` is given and `max_retries` is not, as in Celery
TASKS: Final[dict[str, Task[..., Any]]] = {}
