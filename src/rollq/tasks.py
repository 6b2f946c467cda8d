"""Python functions as jobs: `@task("name")` registers one under an exec name.

A worker that is started with the module (`--app module`) runs the function for every job of that
exec name: a plain function in a warm process, a coroutine function in the worker's own loop. What
a function is called with comes from the job alone, as text or JSON; nothing is unpickled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.names import is_exec_name

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(slots=True, frozen=True)
class Task:
    """One registered function."""

    name: str
    function: Callable[..., Any]
    in_loop: bool  # a coroutine function
    payload_type: Any  # what the payload of a job without arguments is decoded to

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


def task(name: str | None = None) -> Callable[[Function], Function]:
    """Register a function under an exec name (its own name if none is given).

    The function is called with the job's arguments, which are strings. A job that was submitted
    as a bare payload calls it with one value: the payload as bytes if the parameter is annotated
    `bytes`, else decoded from JSON to the annotated type. It may return text, bytes, None or
    anything that JSON can hold; an exception makes the job FAILED.

    Raises:
        LocalError: BAD_SETUP, if the name cannot be an exec name or is taken.
    """

    def register(function: Function) -> Function:
        exec_name = function.__name__ if name is None else name
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
        TASKS[exec_name] = Task(
            exec_name, function, inspect.iscoroutinefunction(function), _payload_type(function)
        )
        return function

    return register


def _payload_type(function: Callable[..., Any]) -> Any:
    """The annotation of the first parameter; Any if there is none that can be resolved."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError):
        return Any
    for parameter in parameters:
        is_plain = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        annotation = parameter.annotation
        known = annotation is not parameter.empty and not isinstance(annotation, str)
        return annotation if is_plain and known else Any
    return Any


TASKS: Final[dict[str, Task]] = {}
