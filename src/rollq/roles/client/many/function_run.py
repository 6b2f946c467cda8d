"""`map` of a function. Short calls are combined: a bundle is one job whose result has the outcome
of every call. The bundle size starts at one call, and grows while a job takes less than BUNDLE_MS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rollq.base.bundle_limits import (
    BUNDLE_BYTES_MAX,
    BUNDLE_CALLS_MAX,
    BUNDLE_MS,
    BUNDLE_PROBE_MS,
    BUNDLE_PROBES,
)
from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.ids import JobId
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.functions.calls import packed_spec, reference
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.many.map_run import MapRun
from rollq.roles.client.results.handles import Progress
from rollq.roles.client.results.result import Result
from rollq.tasks import Task
from rollq.values.calls import BundlePacker, pack_call
from rollq.wire import messages as wire


class MappedFunction(NamedTuple):
    """The function that is called for every element, and its common arguments."""

    task: Task[..., Any]
    first: tuple[Any, ...]  # leading arguments of every call
    kwargs: Mapping[str, Any]  # keyword arguments of every call
    options: Options


class FailedCall(NamedTuple):
    """Takes the place of the value of a call that raised."""

    error: Exception


def values_of(taken: Iterable[Any]) -> Iterator[Any]:
    """Iterate over taken values.

    Raises:
        Exception: the exception of a call, at its position.
    """
    for one in taken:
        if type(one) is FailedCall:
            raise one.error
        yield one


class BundlePacing:
    """Chooses the bundle size and the number of jobs in flight. Times are of any monotonic clock.

    Args:
        window: The maximum number of jobs in flight.
        chunksize: A fixed bundle size; None: choose it from the run times.

    Attributes:
        size: The size of the next bundle.
        widen_at: When to allow the whole window, if no job ends before; None: it is allowed.
    """

    def __init__(self, window: int, chunksize: int | None) -> None:
        self.size = chunksize or 1
        self.widen_at: float | None = None
        self._is_adaptive = chunksize is None
        self._window = window
        self._allowed = window if chunksize else min(BUNDLE_PROBES, window)

    def allowed(self, now_s: float) -> int:
        """How many jobs may be in flight: few until run times are known, all if none is in time."""
        if self._allowed < self._window:
            if self.widen_at is None:
                self.widen_at = now_s + BUNDLE_PROBE_MS / 1000
            elif now_s >= self.widen_at:
                self._allowed = self._window
        if self._allowed >= self._window:
            self.widen_at = None
        return self._allowed

    def ended(self, count: int, run_ms: int, now_s: float) -> None:
        """Learn from a job of `count` calls that took `run_ms`."""
        self._allowed = min(self._allowed + 1, self._window)
        if self.widen_at is not None:
            self.widen_at = now_s + BUNDLE_PROBE_MS / 1000
        if not self._is_adaptive or count != self.size:
            return  # jobs of another size are no measure for this one
        if run_ms < BUNDLE_MS:
            faster = 8 if run_ms < BUNDLE_MS // 8 else 2
            self.size = min(self.size * faster, BUNDLE_CALLS_MAX)
        elif run_ms > 4 * BUNDLE_MS:
            self.size = max(self.size // 2, 1)


class FunctionRun(MapRun):
    """The calls of one `map` of a function. `take` returns the values of calls, or `FailedCall`.

    Args:
        engine: The client.
        mapped: The function.
        rows: The arguments of each call, read lazily.
        total: The number of calls, if it is known.
        window: How many jobs may be in flight or wait to be taken.
        ordered: Whether values are returned in the order of the arguments.
        progress: Called with the number of calls that ended.
        chunksize: How many calls are one job; None: chosen from their run times.
        return_exceptions: Whether exceptions are returned in place of values.

    Raises:
        LocalError: BAD_OPTIONS, for an invalid chunksize.
    """

    def __init__(
        self,
        engine: Engine,
        mapped: MappedFunction,
        rows: Iterable[tuple[Any, ...]],
        *,
        total: int | None,
        window: int,
        ordered: bool,
        progress: Progress | None,
        chunksize: int | None,
        return_exceptions: bool,
    ) -> None:
        if chunksize is not None and chunksize < 1:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"chunksize={chunksize}", "use 1 or more")
        super().__init__(
            engine,
            self._bundles(mapped, iter(rows)),
            window=window,
            ordered=ordered,
            total=total,
            progress=None,
        )
        self._progress_callback = progress
        self._return_exceptions = return_exceptions
        self._pacing = BundlePacing(window, chunksize)
        self._counts: dict[int, int] = {}  # number of calls of each job in flight
        self._sizes: dict[JobId, int] = {}  # the same for jobs that ended and were not taken
        self._calls_ended = 0

    async def take(self) -> list[Any]:
        """The next values, at least one; empty when all have been taken.

        Raises:
            TypeError: an argument cannot be serialized.
            RollqError: a job was refused, or nothing was accepted for too long.
            Exception: an iterable or the progress callback raised.
        """
        made: list[Any] = []
        for result in await super().take():
            if result.is_large:
                await result.aload()
            made += self._ends(result, self._sizes.pop(result.job_id))
        return made

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Count the calls of jobs that ended."""
        now_s = self._engine.loop.time()
        for one in results:
            number = self._numbers.get(one.job_id)
            if number is None:
                continue
            count = self._sizes[one.job_id] = self._counts.pop(number)
            self._pacing.ended(count, one.run_ms, now_s)
            self._calls_ended += count
        if self._progress_callback is not None:
            self._report_calls(self._progress_callback)
        return super().deliver(results)

    # --- jobs

    def _bundles(
        self, mapped: MappedFunction, rows: Iterator[tuple[Any, ...]]
    ) -> Iterator[JobSpec]:
        """Generate jobs lazily, so that each has the bundle size of the moment when it is sent."""
        task, first, kwargs, options = mapped
        left: tuple[Any, ...] | None = next(rows, None)
        if left is not None:
            task.check_call((*first, *left), kwargs)  # every row has the same number of arguments
        while left is not None:
            count, packer = 1, self._packer(mapped) if self._pacing.size > 1 else None
            alone, left_over = left, None
            if packer is not None:
                packer.add(left)
                while count < self._pacing.size and not packer.has_files:
                    row = next(rows, None)
                    if row is None:
                        break
                    if not packer.add(row):
                        left_over = row
                        break
                    count += 1
            self._counts[self._entered] = count
            if count == 1 or packer is None:
                args = (*first, *alone)
                packed = pack_call(args, kwargs, names=task.argument_name, reference=reference)
            else:
                packed = packer.packed()
            yield packed_spec(task, packed, options)
            left = next(rows, None) if left_over is None else left_over

    @staticmethod
    def _packer(mapped: MappedFunction) -> BundlePacker:
        return BundlePacker(
            *(mapped.first, mapped.kwargs, BUNDLE_BYTES_MAX),
            names=mapped.task.argument_name,
            reference=reference,
        )

    def _room(self) -> int:
        allowed = self._pacing.allowed(self._engine.loop.time())
        self._look_at = self._pacing.widen_at
        return min(super()._room(), allowed - len(self._numbers))

    # --- ends

    def _ends(self, result: Result, count: int) -> list[Any]:
        """The outcome of each call of a job: its value, or what it raised."""
        try:
            if count > 1 and result.is_value:
                values, failures = result.outcomes()
                if len(values) != count:
                    raise RemoteError(
                        ErrorCode.BAD_PAYLOAD,
                        "the result has another number of calls than were submitted",
                    )
                for place, error in failures:
                    values[place] = self._failed_call(error)
                return values
            return [result.get()]  # raises, for a bundle
        except Exception as error:
            return [self._failed_call(error)] * count

    def _failed_call(self, error: Exception) -> Any:
        return error if self._return_exceptions else FailedCall(error)

    def _report_calls(self, progress: Progress) -> None:
        try:
            progress(self._calls_ended, self._total)
        except Exception as error:  # of the callback: raise it in `take`, not in the reader
            self._pump.fail(error)
