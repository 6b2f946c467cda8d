"""`map`: one program or function over many arguments."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sized
from typing import Any, cast

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import MAP_WINDOW
from rollq.roles.client.asking import Calls
from rollq.roles.client.function_calls import as_task, task_of
from rollq.roles.client.function_map import FunctionRun, MappedFunction, values_of
from rollq.roles.client.handles import Progress
from rollq.roles.client.mapping import MapRun
from rollq.roles.client.specs import FIELDS, JobSpec, Options, as_specs
from rollq.tasks import Task


class MapCalls(Calls):
    """What clients of one group and of several can do alike."""

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
        """One program or function over many arguments. Leaving the loop early cancels the rest.

        Of a program, given by its name: results (`Result`) as they come, or in order. An element of
        `arguments` is a string, a sequence of strings, or bytes (a payload).

        Of a function that is decorated with `@task`: what it returns for each element, in order;
        with several iterables it is called with an element of each, as by Python's own `map`.
        Keywords that are options of jobs (`rollq.Options`) are those of its jobs, others go to
        every call. Calls that are short are put together into one job, a bundle: cancels, attempts
        and limits are the bundle's.

        Args:
            jobs: A name, a function, or jobs as specs without further arguments.
            arguments: May be endless.
            more: Further iterables, for a function.
            ordered: Whether results come in the order of the arguments; left out, those of a
                function do.
            window: How many jobs are on the way at most.
            progress: Told how many ended.
            chunksize: For a function, how many calls are one job; left out, that follows from the
                time that they take: about 10 ms a job.
            return_exceptions: For a function, whether to give what a call raised in its place.
                Otherwise it is raised, and ends the loop.
            options: Of the jobs; for a function, also arguments of every call.

        Raises:
            TypeError: the function cannot be called so, or an argument cannot be serialized.
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
        """The task that calls a function, and its first arguments."""
        if self._engine.allow_pickle:
            return as_task(function)
        return task_of(function), ()
