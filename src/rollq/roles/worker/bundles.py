"""Bundles: several calls of one function in one job. An exception of one call does not affect the
others. The job fails if a call raised; it is retried if a call raised an `autoretry_for`
exception."""

from __future__ import annotations

from typing import Any

from rollq.base.bundle_limits import BUNDLE_TRACE_CHARS_MAX
from rollq.base.jobs import Status
from rollq.base.limits import STREAM_BYTES_MAX
from rollq.base.outcomes import VALUE_DATA
from rollq.roles.worker.app import raised
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.tasks import RETRY_EXIT_CODE, Task
from rollq.values.calls import Bundle
from rollq.values.codec import Buffer, CannotTravelError
from rollq.values.outcomes import OutcomePacker


class BundleRun:
    """Collects the outcomes of the calls of a bundle.

    Attributes:
        bundle: The calls."""

    def __init__(self, task: Task[..., Any], bundle: Bundle) -> None:
        self.bundle = bundle
        self._task = task
        self._outcomes = OutcomePacker()
        self._exit_code = 0

    def returned(self, value: Any) -> None:
        """A call returned."""
        try:
            self._outcomes.returned(value)
        except CannotTravelError as error:
            self.raised(TypeError(f"what was returned: {error}"))
        except Exception as error:  # raised by the class or the library of the value
            self.raised(error)

    def raised(self, error: Exception) -> None:
        """A call raised."""
        trace = raised(error).stderr[-BUNDLE_TRACE_CHARS_MAX:]
        self._outcomes.raised(error, trace)
        if self._exit_code != RETRY_EXIT_CODE:
            self._exit_code = self._task.exit_code_of(error)

    def ending(self) -> tuple[ExecutionEnd, list[Buffer]]:
        """The end of the job, and the parts of its data."""
        count, failures = len(self._outcomes), self._outcomes.failures
        summary = f"{count - len(failures)} of {count} calls returned"
        ending = ExecutionEnd(stdout=summary, exit_code=self._exit_code, data_kind=VALUE_DATA)
        if failures:
            ending.status = Status.FAILED
            texts = (f"call {one.place + 1}:\n{one.trace}" for one in failures)
            ending.stderr = "".join(texts)[:STREAM_BYTES_MAX]
        return ending, self._outcomes.parts()
