"""One job that fails twice, as logs, trace, history, metrics and `explain` tell its story."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from typer.testing import CliRunner

from rollq.base.counters import Family
from rollq.cli.fleet import Fleet, write_program
from rollq.cli.main import app
from rollq.net.ports import free_ports
from rollq.roles.client.blocking.clients import BlockingClient
from rollq.roles.reader.observer import Observer
from tests.integration.procs import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class Collector(BaseHTTPRequestHandler):
    """Takes spans by OTLP over HTTP."""

    spans: ClassVar[list[Span]] = []

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Span]]:
    """Spans of all processes that are started from now on."""
    Collector.spans = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", where)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    yield Collector.spans
    server.shutdown()
    server.server_close()


@pytest.fixture
def fleet(tmp_path: Path, collected: list[Span]) -> Iterator[Fleet]:
    """A member and a worker that log JSON."""
    write_program(tmp_path / "bin", "bad", 'echo "$TRACEPARENT" >&2; exit 7')
    write_program(tmp_path / "bin", "good", 'echo "$TRACEPARENT"')
    with Fleet(tmp_path / "fleet") as made:
        made.start_members(free_ports(1), "--log-format", "json", "--log-level", "debug")
        made.start_worker("w1", "--exec-dir", str(tmp_path / "bin"), "--log-format", "json")
        yield made


def lines(fleet: Fleet, name: str, job: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in fleet.log_of(name).splitlines()]
    return [row for row in rows if row["fields"].get("job") == job]


def spans_of(collected: list[Span], job: str) -> list[tuple[int, str, dict[str, Any], Span]]:
    """By attempt, in the order of time."""
    found = []
    for span in collected:
        told = {one.key: one.value for one in span.attributes}
        if "rollq.job" in told and told["rollq.job"].string_value == job:
            found.append((told["rollq.attempt"].int_value, span.name, told, span))
    return sorted(found, key=lambda one: (one[0], one[3].start_time_unix_nano))


async def figures(address: str) -> dict[str, dict[str, float]]:
    observer = Observer((address,), "")
    await observer.start()
    try:
        _, value = await observer.query("metrics")
    finally:
        await observer.stop()
    families = msgspec.msgpack.decode(value, type=list[Family])
    return {
        one.name: {" ".join(sample.labels): sample.value for sample in one.samples}
        for one in families
    }


def test_all_tell_the_same_story_of_a_job_that_failed(fleet: Fleet, collected: list[Span]) -> None:
    with BlockingClient(fleet.servers) as client:
        handle = client.jobs.submit(
            "bad", max_attempts=2, retry_exit_codes=(7,), retry_base=0.01, traceparent=PARENT
        )
        result = handle.result(timeout=60)
        told = client.jobs.explain(handle.id)
    job, (member,) = handle.id, fleet.addresses
    assert (result.status, result.attempts, result.exit_code) == ("DEAD", 2, 7)
    assert told is not None
    assert (told.state, told.code) == ("dead", "exit_code")

    at_leader = [
        (row["event"], row["level"], row["fields"]["attempt"]) for row in lines(fleet, member, job)
    ]
    assert at_leader == [
        ("job_assigned", "debug", 1),
        ("job_retried", "info", 1),
        ("job_assigned", "debug", 2),
        ("job_dead", "warning", 2),
    ]
    told_causes = [row["fields"].get("cause") for row in lines(fleet, member, job)]
    causes = [cause for cause in told_causes if cause]
    at_worker = [
        (row["event"], row["fields"]["attempt"], row["fields"]["exit_code"])
        for row in lines(fleet, "w1", job)
    ]
    assert at_worker == [("job_failed", 1, 7), ("job_failed", 2, 7)]

    until(lambda: len(spans_of(collected, job)) == 5)
    spans = spans_of(collected, job)
    assert [(attempt, name) for attempt, name, _, _ in spans] == [
        (1, "rollq queue"),
        (1, "rollq run"),
        (1, "rollq result"),
        (2, "rollq run"),
        (2, "rollq result"),
    ]
    assert {span.trace_id.hex() for _, _, _, span in spans} == {TRACE}
    runs = [span for _, name, _, span in spans if name == "rollq run"]
    assert [span.status.message for span in runs] == ["exit code 7"] * 2
    assert (result.stderr or "").strip() == f"00-{TRACE}-{runs[1].span_id.hex()}-01"

    history = CliRunner().invoke(
        app, ["history", "tail", "--job", job, "--json"], env={"ROLLQ_SERVERS": fleet.servers}
    )
    rows = [json.loads(line) for line in history.stdout.splitlines()]
    facts = [(row["type"], row.get("attempt", 0)) for row in rows]
    assert facts[:6] == [
        ("enqueue", 0),
        ("assign", 1),
        ("retry_requeue", 1),
        ("release", 1),
        ("assign", 2),
        ("dlq", 2),
    ]
    assert PARENT in rows[0]["request"]
    assert {row["exitCode"] for row in rows if row["type"] in ("retry_requeue", "dlq")} == {7}

    counted = asyncio.run(figures(member))
    assert counted["rollq_attempts_started_total"] == {"": 2}
    assert counted["rollq_attempts_lost_total"]["failed"] == 1
    dead = {cause for cause, count in counted["rollq_jobs_dead_total"].items() if count}
    assert dead == set(causes) == {"exit_code"}

    starts_ms = [span.start_time_unix_nano // 1_000_000 for span in runs]
    assigned_ms = [row["ts"] for row in rows if row["type"] == "assign"]
    assert assigned_ms + starts_ms == [*sorted(assigned_ms), *sorted(starts_ms)]


def test_an_array_and_a_submit_of_the_command_line_belong_to_a_trace(
    fleet: Fleet, collected: list[Span], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")  # of this process
    runner = CliRunner()
    env = {"ROLLQ_SERVERS": fleet.servers, "ROLLQ_TIMEOUT": "60", "TRACEPARENT": PARENT}
    done = runner.invoke(app, ["submit", "good", "--wait"], env=env)
    assert done.exit_code == 0, done.output
    version, trace, _, flags = done.stdout.strip().split("-")
    assert (version, trace, flags) == ("00", TRACE, "01")
    done = runner.invoke(app, ["submit", "good", "--array", "3", "--wait"], env=env)
    assert done.exit_code == 0, done.output
    until(lambda: sum(span.name == "rollq run" for span in collected) == 4)
    assert {span.trace_id.hex() for span in collected} == {TRACE}
    done = runner.invoke(app, ["submit", "good", "--wait"], env=env | {"TRACEPARENT": "nonsense"})
    assert (done.exit_code, done.stdout.strip()) == (0, "")
