"""Which trace a job that is submitted belongs to."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider

from rollq.base.errors import LocalError
from rollq.base.requests import request_document, request_in
from rollq.roles.client.jobs.specs import JobSpec, body_of
from rollq.roles.client.jobs.tracing import API, current_traceparent

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def sent(spec: JobSpec) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(body_of(spec, bytes(16), "ann"))
    return fields


def test_a_job_without_a_trace_says_nothing_of_one() -> None:
    assert sent(JobSpec("calc")).keys().isdisjoint({"Traceparent", "SubmittedMs"})


def test_a_job_belongs_to_the_trace_that_it_is_given() -> None:
    body = body_of(JobSpec("calc", options={"traceparent": PARENT}), bytes(16), "ann")
    assert msgspec.json.decode(body)["Traceparent"] == PARENT
    assert request_document(request_in(body))["traceparent"] == PARENT


@pytest.mark.parametrize("given", ["00-0-0-01", "x" * 1000, 7], ids=["short", "long", "a number"])
def test_what_is_no_traceparent_is_refused(given: Any) -> None:
    with pytest.raises(LocalError, match="traceparent"):
        sent(JobSpec("calc", options={"traceparent": given}))


def test_a_bare_payload_belongs_to_no_trace() -> None:
    with pytest.raises(LocalError, match="belongs to no trace"):
        body_of(JobSpec("calc", payload=b"x", options={"traceparent": PARENT}), bytes(16), "ann")


def test_a_job_belongs_to_the_current_span_unless_it_may_be_submitted_again() -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("here"):
        here = current_traceparent()
        assert sent(JobSpec("calc"))["Traceparent"] == here
        assert sent(JobSpec("calc", options={"traceparent": PARENT}))["Traceparent"] == PARENT
        assert "Traceparent" not in sent(JobSpec("calc", key="mine"))
        assert "Traceparent" not in sent(JobSpec("calc", job_id=bytes(range(16))))
    assert "Traceparent" not in sent(JobSpec("calc"))


def test_nothing_is_imported_for_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, API)
    assert current_traceparent() == ""
    assert API not in sys.modules
