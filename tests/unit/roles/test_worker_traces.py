"""The spans of a worker, seen by an exporter in memory."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rollq.base.jobs import AttemptRef, Status
from rollq.roles.worker.environment import env_of
from rollq.roles.worker.signals import StoredResult
from rollq.roles.worker.tracing import JobTraces
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest, encode_model, job_request

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
JOB = bytes(range(16))


class Desk:
    """A worker's spans, and those that are over."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.traces = JobTraces(provider.get_tracer("test"), "w1")

    def names(self) -> list[str]:
        return [span.name for span in self.spans()]

    def spans(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())


def assigned(
    traceparent: str = PARENT, attempt: int = 1, body: bytes = b""
) -> tuple[AssignJob, AttemptRef]:
    request = job_request(JOB, "ann", "calc", traceparent=traceparent, submitted_ms=1_000)
    ref = AttemptRef(JOB, attempt, attempt)
    return AssignJob(JOB, attempt, attempt, 0, "q", "calc", body or encode_model(request)), ref


def test_an_attempt_waits_fetches_runs_and_gives_its_result() -> None:
    desk, (job, ref) = Desk(), assigned()
    desk.traces.prepares([(job, ref)])
    desk.traces.starts([(job, ref)])
    desk.traces.ended([StoredResult(ref, 0)])
    desk.traces.taken([ref])
    assert desk.names() == ["rollq queue", "rollq fetch inputs", "rollq run", "rollq result"]
    for span in desk.spans():
        assert span.context is not None
        assert span.parent is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert f"{span.parent.span_id:016x}" == SPAN
        assert span.attributes is not None
        assert span.attributes["rollq.attempt"] == 1
    queue, fetch, run, result = desk.spans()
    assert queue.start_time == 1_000 * 1_000_000
    assert queue.end_time == fetch.start_time
    assert fetch.end_time == run.start_time
    assert run.end_time == result.start_time


def test_a_failed_attempt_is_an_error_and_the_next_one_did_not_wait_since_the_submit() -> None:
    desk = Desk()
    for attempt in (1, 2):
        job, ref = assigned(attempt=attempt)
        desk.traces.starts([(job, ref)])
        desk.traces.ended([StoredResult(ref, 0, Status.FAILED, exit_code=3)])
        desk.traces.taken([ref])
    assert desk.names() == ["rollq queue", *["rollq run", "rollq result"] * 2]
    runs = [span for span in desk.spans() if span.name == "rollq run"]
    assert [span.status.description for span in runs] == ["exit code 3"] * 2


def test_what_is_given_back_and_what_a_stop_leaves_is_over() -> None:
    desk, (job, ref) = Desk(), assigned()
    other = AttemptRef(JOB, 2, 9)
    desk.traces.starts([(job, ref), (job, other)])
    desk.traces.given_back(ref, "no room")
    desk.traces.close()
    told = [span.status.description for span in desk.spans() if span.name == "rollq run"]
    assert told == ["no room", "the worker stops"]


@pytest.mark.parametrize(
    "body",
    [b'"Traceparent":"x', b'{"Traceparent":"x"}', b'{"JobId":"a","Traceparent":"x"}', b"plain"],
    ids=["no JSON", "no job", "no traceparent", "payload"],
)
def test_a_job_of_no_trace_has_no_spans(body: bytes) -> None:
    desk, (job, ref) = Desk(), assigned(body=body)
    desk.traces.starts([(job, ref)])
    desk.traces.close()
    assert desk.names() == []
    assert desk.traces.traceparent_of(ref) == ""


def test_the_job_sees_the_span_of_its_attempt_or_else_that_of_the_submit() -> None:
    desk, (job, ref) = Desk(), assigned()
    desk.traces.starts([(job, ref)])
    own = desk.traces.traceparent_of(ref)
    desk.traces.close()
    (run,) = [span for span in desk.spans() if span.name == "rollq run"]
    assert run.context is not None
    assert own == f"00-{TRACE}-{run.context.span_id:016x}-01"
    request = job_request(JOB, "ann", "calc", traceparent=PARENT, submitted_ms=1)
    assert env_of(request, may_load=False, traceparent=own) == {"TRACEPARENT": own}
    assert env_of(request, may_load=False) == {"TRACEPARENT": PARENT}
    forged = JobRequest("a", "b", "c", traceparent="x\ny", env={"A": "1"})
    assert env_of(forged, may_load=False) == {"A": "1"}
    named = JobRequest("a", "b", "c", traceparent=PARENT, env={"TRACEPARENT": "own"})
    assert env_of(named, may_load=False) == {"TRACEPARENT": "own"}
