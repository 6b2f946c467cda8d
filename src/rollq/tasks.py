"""Python functions as jobs: `@task` registers one under an exec name.

A worker that is started with the module (`--app module`) runs the function for every job of that
exec name: a plain function in a warm process, a coroutine function in the worker's own loop. What
a function is called with comes from the job alone, as text or JSON; nothing is unpickled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple, TypeVar, overload

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.names import is_exec_name

Function = TypeVar("Function", bound=Callable[..., Any])


class Argument(NamedTuple):
    """One parameter that is given by its place."""

    name: str
    type: Any
    takes_rest: bool  # *args


@dataclass(slots=True, frozen=True)
class Task:
    """One registered function."""

    name: str
    function: Callable[..., Any]
    in_loop: bool  # a coroutine function
    payload_type: Any  # what the payload of a job without arguments is decoded to
    arguments: tuple[Argument, ...] = ()  # by their place; none if all are taken as text

    def call_args(self, args: tuple[str, ...]) -> tuple[Any, ...]:
        """The arguments of a call, each as its parameter is annotated.

        Raises:
            TypeError: naming the argument that is not what it must be.
        """
        known = self.arguments
        if not known:
            return args
        more = (known[-1],) * (len(args) - len(known)) if known[-1].takes_rest else ()
        places = (*known, *more)
        made = [_converted(one, text) for one, text in zip(places, args, strict=False)]
        return (*made, *args[len(places) :])  # too many: the function itself objects

    def payload_args(self, body: bytes) -> tuple[Any, ...]:
        """The arguments of a call whose job is a bare payload: one value, or nothing.

        Raises:
            msgspec.DecodeError: it is not JSON, or not what the function says it takes.
        """
        if not body:
            return ()
        if self.payload_type is bytes:
            return (body,)
        return (msgspec.json.decode(body, type=self.payload_type),)


@overload
def task(name: Function) -> Function: ...
@overload
def task(name: str | None = None) -> Callable[[Function], Function]: ...
def task(name: Any = None) -> Any:
    """Register a function under an exec name: `@task`, `@task("name")` or `@task(name="name")`;
    without a name under its own.

    The function is called with the job's arguments, which are text. Those whose parameter has an
    annotation are converted: numbers, bool (true, false, 1, 0), bytes (UTF-8), Path, dates, enums,
    and anything else from JSON. A job that was submitted as a bare payload calls it with one value:
    the payload as bytes if the parameter is annotated `bytes`, else decoded from JSON to the
    annotated type. It may return text, bytes, None or anything that JSON can hold; an exception
    makes the job FAILED.

    Raises:
        LocalError: BAD_SETUP, if the name cannot be an exec name or is taken.
    """
    if callable(name):
        return _register(name, name.__name__)
    return lambda function: _register(function, function.__name__ if name is None else name)


def _register(function: Function, exec_name: str) -> Function:
    if not is_exec_name(exec_name):
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{exec_name[:64]!r} cannot name a task",
            "use up to 64 letters, digits and _ . -",
        )
    if exec_name in TASKS:
        raise LocalError(
            ErrorCode.BAD_SETUP, f"two tasks have the name {exec_name!r}", "rename one"
        )
    parameters = _parameters(function)
    TASKS[exec_name] = Task(
        exec_name,
        function,
        inspect.iscoroutinefunction(function),
        _payload_type(parameters),
        _arguments(parameters),
    )
    return function


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Its parameters; none if they or their annotations cannot be told."""
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
    """What is converted of arguments by their place; nothing if all are text."""
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


def _is_unknown(annotation: Any) -> bool:
    return annotation is inspect.Parameter.empty or isinstance(annotation, str)


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
TASKS: Final[dict[str, Task]] = {}
