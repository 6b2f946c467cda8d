"""OpenTelemetry spans of a worker: queueing, inputs, run and report of traced jobs. Imported only
if tracing is on; an untraced job then costs one search in its body.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from opentelemetry.trace import Span, StatusCode, Tracer
from opentelemetry.trace import Status as SpanStatus
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rollq.base.ids import guid_to_text
from rollq.base.jobs import AttemptRef, Status
from rollq.base.traces import is_traceparent
from rollq.roles.worker.signals import StoredResult
from rollq.wire.messages import AssignJob
from rollq.wire.models import JSON_OBJECT_STARTS

MARK: Final = b'"Traceparent":"'
NS_PER_MS: Final = 1_000_000


class _Traced(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The fields read from the body of a job."""

    job_id: str
    traceparent: str
    submitted_ms: int = 0


_decode: Final = msgspec.json.Decoder(_Traced).decode


@dataclass(slots=True)
class _Attempt:
    """A traced attempt; at most one of its spans is open."""

    context: Any  # of the submit
    attributes: dict[str, str | int]
    span: Span


class JobTraces:
    """Spans of the worker's attempts.

    Args:
        tracer: Creates them.
        worker: The name of the worker.
    """

    def __init__(self, tracer: Tracer, worker: str) -> None:
        self._tracer = tracer
        self._worker = worker
        self._attempts: dict[AttemptRef, _Attempt] = {}

    def prepares(self, jobs: Iterable[tuple[AssignJob, AttemptRef]]) -> None:
        """The inputs of these attempts are being fetched."""
        for job, ref in jobs:
            self._goes_on(job, ref, "rollq fetch inputs")

    def starts(self, jobs: Iterable[tuple[AssignJob, AttemptRef]]) -> None:
        """These attempts start."""
        for job, ref in jobs:
            self._goes_on(job, ref, "rollq run")

    def traceparent_of(self, ref: AttemptRef) -> str:
        """The span of an attempt, as parent of the job's own spans; empty: none."""
        attempt = self._attempts.get(ref)
        if attempt is None:
            return ""
        context = attempt.span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def ended(self, results: Iterable[StoredResult]) -> None:
        """These attempts ended; their results are being reported."""
        for result in results:
            attempt = self._attempts.get(result.ref)
            if attempt is None:
                continue
            span = attempt.span
            if result.status == Status.FAILED:
                by_signal = f"signal {result.signal}" if result.signal else ""
                self._fail(span, by_signal or f"exit code {result.exit_code}")
            span.set_attribute("rollq.exit_code", result.exit_code)
            span.set_attribute("rollq.status", Status(result.status).name.lower())
            self._next(attempt, "rollq result")

    def taken(self, refs: Iterable[AttemptRef]) -> None:
        """The grid has taken these results, or does not need them."""
        for ref in refs:
            attempt = self._attempts.pop(ref, None)
            if attempt is not None:
                attempt.span.end()

    def given_back(self, ref: AttemptRef, cause: str) -> None:
        """An attempt was returned."""
        attempt = self._attempts.pop(ref, None)
        if attempt is not None:
            self._fail(attempt.span, cause)
            attempt.span.end()

    def close(self) -> None:
        """The worker stops: its open attempts are lost."""
        for ref in list(self._attempts):
            self.given_back(ref, "the worker stops")

    def _goes_on(self, job: AssignJob, ref: AttemptRef, name: str) -> None:
        attempt = self._attempts.get(ref)
        if attempt is not None:
            self._next(attempt, name)
        elif MARK in job.body and job.body.startswith(JSON_OBJECT_STARTS):
            self._begin(job, ref, name)

    def _begin(self, job: AssignJob, ref: AttemptRef, name: str) -> None:
        try:
            traced = _decode(job.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if not is_traceparent(traced.traceparent):
            return
        carrier = {"traceparent": traced.traceparent}
        context = TraceContextTextMapPropagator().extract(carrier)
        attributes: dict[str, str | int] = {
            "rollq.job": guid_to_text(ref.job_id),
            "rollq.attempt": ref.attempt,
            "rollq.worker": self._worker,
            "rollq.exec": job.exec_name,
        }
        now_ns = time.time_ns()
        if ref.attempt == 1 and traced.submitted_ms > 0:
            since_ns = min(traced.submitted_ms * NS_PER_MS, now_ns)  # clocks differ
            waited = self._tracer.start_span(
                "rollq queue", context, attributes=attributes, start_time=since_ns
            )
            waited.end(now_ns)
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=now_ns)
        self._attempts[ref] = _Attempt(context, attributes, span)

    def _next(self, attempt: _Attempt, name: str) -> None:
        now_ns = time.time_ns()
        attempt.span.end(now_ns)
        attempt.span = self._tracer.start_span(
            name, attempt.context, attributes=attempt.attributes, start_time=now_ns
        )

    def _fail(self, span: Span, cause: str) -> None:
        span.set_status(SpanStatus(StatusCode.ERROR, cause))
