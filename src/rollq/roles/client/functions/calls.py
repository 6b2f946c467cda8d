"""Function calls with Python values, as jobs. Arguments that the grid has already, such as results
and files of other jobs, are passed by reference and not downloaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import JobFile, JobSpec
from rollq.roles.client.results.handles import Job
from rollq.roles.client.results.outputs import Output
from rollq.roles.client.results.result import Result
from rollq.tasks import TASKS, Task
from rollq.values.calls import PackedCall, pack_call
from rollq.values.codec import CannotTravelError, FileInput, PackedInput, Reference


def _run(function: bytes, /, *args: Any, **kwargs: Any) -> Any:
    """The signature of `rollq.pickled`. That module must not be imported here: importing it makes a
    worker execute pickled functions, and applications of workers may import clients."""


RUN: Final = Task("rollq.run", _run)


def call_spec(
    task: Task[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    options: Options,
    results: Mapping[Job, Result],
) -> JobSpec:
    """The job of a function call. `options` override those of the function. A job among the
    arguments becomes a dependency, unless its result is in `results`.

    Raises:
        TypeError: the arguments do not match, or one cannot be serialized.
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
    """The job of a call whose arguments are packed."""
    merged = cast("Options", {**task.options, **options})
    return JobSpec(task.name, files=packed.files, call=packed.call, options=merged)


def reference(value: Any) -> Reference | None:
    """The reference for an argument that the grid has already; None for a plain value.

    Raises:
        CannotTravelError: it is a job, which only a single call can depend on.
        Exception: the exception of the job, for a result of one that failed.
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
    """Wait for jobs among the arguments that the grid cannot wait for, because they may belong to
    another group; returns their results.

    Raises:
        Exception: the exception of a job that failed.
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
    """A result as an argument, by reference if the grid keeps it."""
    if not result.ok:
        result.get()
    return PackedInput(result.packed_data())


def job_in(value: Any) -> Job | None:
    """The job of a handle; None for anything else."""
    inner = getattr(value, "_inner", value)  # the asyncio handle behind a blocking one
    return inner if isinstance(inner, Job) else None


def task_of(function: Any) -> Task[..., Any]:
    """The task of a registered function; a task is returned as it is.

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
    """The task that calls a function, and its leading arguments: the pickled function, if no module
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
    except Exception as error:  # any error of a __reduce__ method
        raise TypeError(f"{function!r} cannot be pickled: {error}") from error


def jobs_in(values: Sequence[Any]) -> Iterator[Job]:
    """Iterate over the jobs among arguments, also in nested lists, tuples, sets and dicts."""
    for value in values:
        job = job_in(value)
        if job is not None:
            yield job
        elif type(value) in (list, tuple, set, frozenset):
            yield from jobs_in(tuple(value))
        elif type(value) is dict:
            yield from jobs_in(tuple(value.values()))
