"""What is wanted of rollq, in one list, and whether a run met it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figures import Figures, number
from bench.ratios import BY_KEY


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a ratio; without one, a mark to be seen beside what was measured."""

    key: str  # of the ratio
    text: str
    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float | None) -> bool | None:
        """Whether a measured value is good enough; None if it was not measured or is not bound."""
        if value is None or (self.at_least is None and self.at_most is None):
            return None
        is_enough = self.at_least is None or value >= self.at_least
        return is_enough and (self.at_most is None or value <= self.at_most)

    def bound(self) -> str:
        """The bound, for people."""
        if self.at_least is not None:
            return f"≥ {number(self.at_least)}"
        return "a mark" if self.at_most is None else f"≤ {number(self.at_most)}"


def show_targets(targets: Iterable[Target], figures: Mapping[str, float], to: Console) -> None:
    """Targets that were measured, then every other figure."""
    table = Table(title="Targets", title_justify="left")
    table.add_column("target")
    for column in ("wanted", "measured", "met?"):
        table.add_column(column, justify="right", no_wrap=True)
    keys = set()
    for target in targets:
        keys.add(target.key)
        value = figures.get(target.key)
        if value is not None:
            is_met = target.is_met(value)
            told = {True: "yes", False: "NO", None: "—"}[is_met]
            style = "red" if is_met is False else ""
            table.add_row(target.text, target.bound(), number(value), told, style=style)
    to.print(table)
    for key, value in figures.items():
        if key not in keys:
            to.print(f"{key:<26}{number(value):>10}", highlight=False)


TARGETS = (
    Target("noop_vs_jetstream_always", "no-op jobs: × JetStream, sync always", at_least=15),
    Target("noop_vs_jetstream_default", "no-op jobs: × JetStream as it comes", at_least=2),
    Target("noop_vs_core_nats", "no-op jobs: × core NATS, stores nothing", at_least=1),
    Target("noop1024_vs_jetstream_always", "no-op, 1024: × JetStream always", at_least=15),
    Target("noop1024_vs_jetstream_default", "no-op, 1024: × JetStream as it comes", at_least=3),
    Target("noop1024_vs_core_nats", "no-op, 1024: × core NATS", at_least=1.2),
    Target("noop1024_r3_vs_r1", "no-op, 1024: three members × one", at_least=0.6),
    Target("sustained_vs_core_nats", "no-op for minutes: × core NATS", at_least=1.2),
    Target("sustained_vs_jetstream_default", "no-op for minutes: × JetStream", at_least=3),
    Target("sustained_jobs_per_s_last_vs_first", "last minute × first: rate", at_least=0.95),
    Target("sustained_p99_ms_last_vs_first", "last minute × first: p99", at_most=1.2),
    Target("sustained_rss_mb_last_vs_first", "last minute × first: memory", at_most=1.05),
    Target("sustained_cpu_all_us", "CPU of a no-op job, all processes µs", at_most=30),
    Target("sustained_cpu_server_us", "of it the member µs", at_most=12),
    Target("sustained_cpu_upkeep_us", "its children: snapshots, history µs", at_most=4),
    Target("sustained_cpu_worker_us", "the worker µs", at_most=5),
    Target("sustained_cpu_client_us", "the client µs", at_most=4),
    Target("submit64_vs_jetstream_always", "submits, 64: × JetStream, sync always", at_least=8),
    Target("submit64_vs_rabbitmq_raw", "submits, 64: × RabbitMQ quorum, raw client", at_least=1),
    Target("submit_many_jobs_per_s", "submit_many: jobs/s", at_least=100_000),
    Target("staged_jobs_per_s", "stage and commit: jobs/s", at_least=100_000),
    Target("submit64_vs_redis_aof_always", "submits, 64: × redis AOF always, raw client"),
    Target("submit1024_vs_redis_aof_always", "submits, 1024: × redis AOF always, raw client"),
    Target("submit1_p50_vs_fdatasync", "submits, 1: p50 × a bare fdatasync", at_most=3),
    Target("r3_submit64_vs_jetstream_r3_always", "three, 64: × JetStream R3 always", at_least=2),
    Target("r3_submit64_vs_etcd", "three, 64: × etcd", at_least=4),
    Target("r3_submit64_vs_jetstream_r3_raw", "three, 64: × JetStream R3 always, raw client"),
    Target(
        "r3_submit1024_vs_jetstream_r3_raw",
        "three, 1024: × JetStream R3 always, raw client",
        at_least=1,
    ),
    Target("large_submit64_vs_jetstream_always", "64 KiB, 64: × JetStream always", at_least=1),
    Target(
        "r3_large_submit64_vs_jetstream_r3_always",
        "three, 64 KiB, 64: × JetStream R3 always",
        at_least=1,
    ),
    Target("lone_p50_vs_fdatasync", "a lone job: p50 × a bare fdatasync", at_most=8),
    Target("lone_half_load_p99_ms", "a lone job at half load: p99 ms", at_most=10),
    Target("beside_many_p99_ms", "submits beside a million: p99 ms", at_most=5),
    Target("beside_commit_p99_ms", "submits beside a commit of a million: p99 ms", at_most=5),
    Target("workers10_vs_one", "ten workers: × one", at_least=0.95),
    Target("clients100_vs_one", "a hundred clients: × one", at_least=0.9),
    Target("array_tasks_per_s", "an array of a million no-ops: tasks/s", at_least=80_000),
    Target("failover_median_s", "kill -9 of the leader: median gap s", at_most=0.3),
    Target("failover_worst_s", "kill -9 of the leader: worst gap s", at_most=1.5),
    Target("failover_stop_median_s", "SIGSTOP of the leader: median gap s", at_most=1),
    Target("failover_kill_result_median_s", "kill -9: median gap to a result s", at_most=1.5),
    Target("failover_stop_result_median_s", "SIGSTOP: median gap to a result s", at_most=1.5),
    Target("failover_lost", "accepted and lost", at_most=0),
    Target("failover_ended_twice", "ended twice", at_most=0),
    Target("failover_run_again", "run again instead of adopted", at_most=0),
    Target("exec_true_vs_spawn", "/bin/true: × a bare spawn loop", at_least=0.87),
    Target("exec_files_vs_spawn", "own directory and file: × the same by hand", at_least=1),
    Target("exec_true_vs_ray", "/bin/true: × Ray", at_least=2),
    Target("exec_files_vs_ray", "own directory and file: × Ray", at_least=2),
    Target("exec_true_vs_dask", "/bin/true: × Dask", at_least=2),
    Target("exec_files_vs_dask", "own directory and file: × Dask", at_least=2),
    Target("backlog_rss_mb", "a million waiting: memory MB", at_most=120),
    Target("backlog_restart_s", "a million waiting: kill -9 to first job s", at_most=1),
    Target("backlog_restart_term_s", "a million waiting: SIGTERM to first job s", at_most=1),
    Target("backlog_stall_ms", "a million waiting: longest stall in a snapshot ms", at_most=20),
    Target("backlog_first_result_s", "start to the first result s", at_most=1),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target with what was measured."""

    target: Target
    value: float | None
    ours: str  # the figure itself
    others: str  # what it is compared with, or what peers gave

    @property
    def is_met(self) -> bool | None:
        """None if there is nothing to say."""
        return self.target.is_met(self.value)

    def to_document(self) -> dict[str, Any]:
        """For the JSON."""
        target = self.target
        return {
            "target": target.text,
            "key": target.key,
            "at_least": target.at_least,
            "at_most": target.at_most,
            "measured": self.value,
            "met": self.is_met,
            "rollq": self.ours,
            "peers": self.others,
        }


def verdicts(figures: Figures) -> list[Verdict]:
    """Every target, in order, also those that were not measured."""
    return [_verdict(target, figures) for target in TARGETS]


def _verdict(target: Target, figures: Figures) -> Verdict:
    ratio = BY_KEY[target.key]
    peer, figure = ratio.ours
    ours = figures.get(ratio.work, peer, figure)
    if ratio.theirs is not None:
        sides = [ratio.theirs]
    else:
        sides = [at for at in figures.places(ratio.work) if at[1] == figure and at[0] != peer]
    others = [
        f"{other} {number(spread.median)}"
        for other, name in sides
        if (spread := figures.get(ratio.work, other, name)) is not None
    ]
    return Verdict(target, ratio.value(figures), ours.text if ours else "", ", ".join(others))
