"""Counters of a worker, and all its metrics by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rollq.base.counters import (
    JOB_MS,
    MS_PER_S,
    US_PER_S,
    Family,
    Histogram,
    counter,
    counters_by,
    gauge,
    gauges_by,
    histogram,
)
from rollq.base.jobs import Status
from rollq.net.counted import LINKS
from rollq.roles.process import process_families
from rollq.roles.worker.session import OPEN
from rollq.roles.worker.signals import InputsFailed, StartFailed, StoredResult, UploadFailed

if TYPE_CHECKING:
    from rollq.roles.worker.blobs import WorkerBlobs
    from rollq.roles.worker.live_output_sender import LiveOutputSender
    from rollq.roles.worker.machine import WorkerMachine
    from rollq.roles.worker.writer import ResultWriter

# The step at which an attempt ended without a result.
FAILED_STEPS: Final = {InputsFailed: "inputs", StartFailed: "start", UploadFailed: "upload"}


class WorkerCounters:
    """Counters of one worker since its process began.

    Attributes:
        started: Attempts by kind: program or function.
        results: By `Status`.
        killed: Results of programs that a signal ended.
        run_ms: Run times of attempts with a result.
        input_bytes: Of their inputs: fetched, or held already.
        failed: Attempts without a result, by step.
        given_back: Attempts that were returned to the leader.
        disconnected: Lost connections to leaders.
        capped: How often the CPU cap took effect.
    """

    def __init__(self) -> None:
        self.started = {"program": 0, "function": 0}
        self.results = [0] * len(Status)
        self.killed = 0
        self.run_ms = Histogram(JOB_MS)
        self.input_bytes = {"fetched": 0, "held": 0}
        self.failed = dict.fromkeys(FAILED_STEPS.values(), 0)
        self.given_back = 0
        self.disconnected = 0
        self.capped = 0

    def ended(self, results: Sequence[StoredResult]) -> None:
        """Count the results of executions."""
        if not results:
            return
        self.run_ms.add_all([record.run_ms for record in results])
        for record in results:
            self.results[record.status] += 1
            if record.signal:
                self.killed += 1
            if record.fetched_bytes or record.held_bytes:
                self.input_bytes["fetched"] += record.fetched_bytes
                self.input_bytes["held"] += record.held_bytes


def worker_families(
    counted: WorkerCounters,
    machine: WorkerMachine,
    writer: ResultWriter,
    blobs: WorkerBlobs,
    output: LiveOutputSender,
    *,
    slots: int,
    layers: Sequence[str],
    is_capped: bool,
) -> list[Family]:
    """All families, with their present values."""
    return [
        gauge("rollq_slots", slots),
        gauge("rollq_slots_used", machine.running_count),
        gauge("rollq_worker_attempts_waiting", machine.waiting_count),
        gauge("rollq_worker_attempts_held", len(machine.holding)),
        gauge("rollq_credit", machine.credit),
        gauge("rollq_worker_connected", int(machine.link is OPEN)),
        gauge("rollq_worker_cpu_capped", int(is_capped)),
        counter("rollq_worker_cpu_capped_total", counted.capped),
        gauges_by("rollq_worker_sandbox_layer", "layer", dict.fromkeys(layers, 1)),
        counters_by("rollq_worker_attempts_started_total", "kind", {**counted.started}),
        counters_by(
            "rollq_worker_results_total",
            "outcome",
            {status.name.lower(): counted.results[status] for status in Status},
        ),
        counter("rollq_worker_killed_total", counted.killed),
        histogram("rollq_worker_run_seconds", counted.run_ms, MS_PER_S),
        counters_by("rollq_worker_attempts_failed_total", "step", {**counted.failed}),
        counter("rollq_worker_given_back_total", counted.given_back),
        counter("rollq_worker_disconnects_total", counted.disconnected),
        histogram("rollq_worker_result_sync_seconds", writer.sync_us, US_PER_S),
        counters_by("rollq_worker_input_bytes_total", "source", {**counted.input_bytes}),
        histogram("rollq_worker_fetch_seconds", blobs.fetch_ms, MS_PER_S),
        gauge("rollq_worker_cache_bytes", blobs.bytes_stored),
        gauge("rollq_worker_cache_files", blobs.count),
        gauge("rollq_worker_outputs_watched", output.watch_count),
        counter("rollq_worker_output_bytes_total", output.sent_bytes),
        *LINKS.families(),
        *process_families(),
    ]
