"""`map`: runs one program or function over many arguments."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sized
from typing import Any, cast

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import MAP_WINDOW
from rollq.roles.client.calls.facades import Calls
from rollq.roles.client.functions.calls import as_task, task_of
from rollq.roles.client.jobs.options import FIELDS, Options
from rollq.roles.client.jobs.specs import JobSpec, as_specs
from rollq.roles.client.many.function_run import FunctionRun, MappedFunction, values_of
from rollq.roles.client.many.map_run import MapRun
from rollq.roles.client.results.handles import Progress
from rollq.tasks import Task


class MapCalls(Calls):
    """Calls that clients of one group and of several share."""

    async def map(
        self,
        jobs: str | Iterable[JobSpec] | Callable[..., Any],
        arguments: Iterable[Any] | None = None,
        *more: Iterable[Any],
        ordered: bool | None = None,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        chunksize: int | None = None,
        return_exceptions: bool = False,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Run a program or function over many arguments; an iterator over results or values.
        Leaving the loop early cancels the rest.

        A program or function by name: yields each `Result` as it arrives, or in order. An element
            of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        A function that is decorated with `@task`: yields its return values, in order; with several
        iterables it is called with one element of each, like Python's `map`. Keywords that are job
        options (`rollq.Options`) apply to its jobs, the others are passed to every call. Short
        calls are combined into one job, a bundle: cancels, attempts and limits apply to the bundle.

        Args:
            jobs: A name, a function, or job specs (without `arguments`).
            arguments: An iterable, read lazily; it may be infinite.
            more: Further iterables, for a function.
            ordered: Whether to keep the order of the arguments; default: for a function only.
            window: The maximum number of jobs in flight.
            progress: Called with the number of jobs that ended.
            chunksize: For a function, the number of calls per job; default: chosen from their run
                times, for about 10 ms per job.
            return_exceptions: For a function, whether to yield the exception of a call in its
                place. Otherwise it is raised, and ends the loop.
            options: Job options; for a function, also arguments of every call.

        Raises:
            TypeError: the arguments do not match the function, or one cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
        """
        run = self._map_run(
            jobs,
            arguments,
            *more,
            ordered=ordered,
            window=window,
            progress=progress,
            chunksize=chunksize,
            return_exceptions=return_exceptions,
            **options,
        )
        try:
            while taken := await run.take():
                for one in values_of(taken):
                    yield one
        finally:
            run.close()

    def _map_run(
        self,
        jobs: str | Iterable[JobSpec] | Callable[..., Any],
        arguments: Iterable[Any] | None = None,
        *more: Iterable[Any],
        ordered: bool | None = None,
        window: int = MAP_WINDOW,
        progress: Progress | None = None,
        chunksize: int | None = None,
        return_exceptions: bool = False,
        **options: Any,
    ) -> MapRun:
        if window < 1:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"a window of {window}", "use 1 or more")
        if callable(jobs) and not isinstance(jobs, str):
            own = {name: options.pop(name) for name in list(options) if name not in FIELDS}
            task, first = self._sent(jobs)
            mapped = MappedFunction(task, first, own, cast("Options", options))
            iterables = more if arguments is None else (arguments, *more)
            sizes = [len(one) if isinstance(one, Sized) else None for one in iterables]
            known = [size for size in sizes if size is not None]
            return FunctionRun(
                *(self._engine, mapped, zip(*iterables, strict=False)),
                total=min(known) if known and len(known) == len(sizes) else None,
                window=window,
                ordered=ordered is not False,
                progress=progress,
                chunksize=chunksize,
                return_exceptions=return_exceptions,
            )
        if more or chunksize is not None or return_exceptions:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "further iterables, chunksize and return_exceptions are for functions",
                "give a function that is decorated with @task, not its name",
            )
        source = jobs if arguments is None else arguments
        return MapRun(
            self._engine,
            as_specs(jobs, arguments, cast("Options", options)),
            window=window,
            ordered=bool(ordered),
            total=len(source) if isinstance(source, Sized) else None,
            progress=progress,
        )

    def _sent(self, function: Callable[..., Any]) -> tuple[Task[..., Any], tuple[bytes, ...]]:
        """The task that calls a function, and its leading arguments."""
        if self._engine.allow_pickle:
            return as_task(function)
        return task_of(function), ()
