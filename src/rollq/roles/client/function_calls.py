"""Calls of functions with Python values, as jobs. What an argument refers to that the grid has
already, a job or a file that one left, is not fetched for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.engine import Engine
from rollq.roles.client.handles import Job
from rollq.roles.client.job_files import JobFile
from rollq.roles.client.outputs import Output
from rollq.roles.client.results import Result
from rollq.roles.client.specs import JobSpec, Options
from rollq.tasks import TASKS, Task
from rollq.values.calls import PackedCall, pack_call
from rollq.values.codec import CannotTravelError, FileInput, PackedInput, Reference


def _run(function: bytes, /, *args: Any, **kwargs: Any) -> Any:
    """How `rollq.pickled` is called. That module is not imported here: to import it is what makes a
    worker run pickled functions, and an application of a worker may import clients."""


RUN: Final = Task("rollq.run", _run)


def call_spec(
    task: Task[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    results: Mapping[Job, Result],
) -> JobSpec:
    """The job that calls a function. `options` are its own, before those of the function. A job
    among the arguments is waited for by the grid, unless its result is in `results`.

    Raises:
        TypeError: it cannot be called so, or an argument cannot be serialized.
    """

    def referred(value: Any) -> Reference | None:
        job = job_in(value)
        if job is None:
            return reference(value)
        return reference(results[job]) if job in results else PackedInput(JobFile(job.job_id))

    task.check_call(args, kwargs)
    packed = pack_call(tuple(args), kwargs, names=task.argument_name, reference=referred)
    return packed_spec(task, packed, options)


def packed_spec(task: Task[..., Any], packed: PackedCall, options: Options) -> JobSpec:
    """The job of arguments that are packed."""
    asked = cast("Options", {**task.options, **options})
    return JobSpec(task.name, files=packed.files, call=packed.call, options=asked)


def reference(value: Any) -> Reference | None:
    """What an argument refers to that the grid has.

    Raises:
        CannotTravelError: a job: only one call can wait for it.
        Exception: what the job of a result raised.
    """
    if isinstance(value, Output):
        return FileInput(value.name.rpartition("/")[2], value.as_input())
    if isinstance(value, JobFile):
        return FileInput(value.name.rpartition("/")[2], value)
    if isinstance(value, Result):
        return packed_input(value)
    if job_in(value) is not None:
        raise CannotTravelError(type(value), "wait for its result, and pass that")
    return None


async def ends_elsewhere(
    engine: Engine, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[Job, Result]:
    """The results of jobs among the arguments that the grid cannot wait for, because they may be
    of another group: waited for here.

    Raises:
        Exception: what one of them raised.
    """
    results: dict[Job, Result] = {}
    for job in jobs_in((*args, *kwargs.values())):
        if job.is_of(engine) and engine.keeps_parents:
            continue
        result = await job.result()
        if not result.ok:
            result.get()
        if not result.is_value and result.is_large:
            await result.aload()
        results[job] = result
    return results


def packed_input(result: Result) -> PackedInput:
    """What a job returned, as an argument: what the grid keeps is not moved."""
    if not result.ok:
        result.get()
    return PackedInput(result.packed_data())


def job_in(value: Any) -> Job | None:
    """The job that a handle is of."""
    inner = getattr(value, "_inner", value)  # of a blocking client
    return inner if isinstance(inner, Job) else None


def task_of(function: Any) -> Task[..., Any]:
    """The task of a function, or a task as it is.

    Raises:
        LocalError: BAD_OPTIONS, if it is not registered.
    """
    if isinstance(function, Task):
        return function
    for one in TASKS.values():
        if one.function is function:
            return one
    raise LocalError(
        ErrorCode.BAD_OPTIONS,
        f"{getattr(function, '__name__', function)!r} is not registered",
        "decorate it with @rollq.task, and start workers with its module as --app",
    )


def as_task(function: Callable[..., Any]) -> tuple[Task[..., Any], tuple[bytes, ...]]:
    """The task that calls a function, and its first arguments: the function itself if no module
    registers it.

    Raises:
        LocalError: BAD_SETUP, if cloudpickle is not installed.
        TypeError: it cannot be pickled.
    """
    if isinstance(function, Task):
        return function, ()
    for one in TASKS.values():
        if one.function is function:
            return one, ()
    try:
        cloudpickle = import_module("cloudpickle")
    except ImportError:
        raise LocalError(
            ErrorCode.BAD_SETUP, "cloudpickle is not installed", "pip install 'rollq[pickle]'"
        ) from None
    try:
        return RUN, (cloudpickle.dumps(function),)
    except Exception as error:  # whatever the parts of the function object to
        raise TypeError(f"{function!r} cannot be pickled: {error}") from error


def jobs_in(values: Sequence[Any]) -> Iterator[Job]:
    """Those among arguments, also in lists, tuples, sets and dicts."""
    for value in values:
        job = job_in(value)
        if job is not None:
            yield job
        elif type(value) in (list, tuple, set, frozenset):
            yield from jobs_in(tuple(value))
        elif type(value) is dict:
            yield from jobs_in(tuple(value.values()))
