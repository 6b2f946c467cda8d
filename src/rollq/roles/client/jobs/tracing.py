"""OpenTelemetry spans of a client. The library is never imported here: without an import by the
application there is no current span, and no cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

API = "opentelemetry.trace"


def current_traceparent() -> str:
    """The current span in the form of a job's option; empty if there is none."""
    api = sys.modules.get(API)
    if api is None:
        return ""
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@contextmanager
def submit_span(exec_name: str, options: Any, count: int = 1) -> Iterator[None]:
    """Wrap a submit in a span, which is the parent of the jobs, unless a trace is given."""
    api = sys.modules.get(API)
    if api is None or options.get("traceparent"):
        yield
        return
    attributes = {"rollq.exec": exec_name, "rollq.count": count}
    tracer, kind = api.get_tracer("rollq"), api.SpanKind.PRODUCER
    with tracer.start_as_current_span("rollq submit", kind=kind, attributes=attributes):
        yield
