"""Which figures are compared, and what is wanted of each. The keys are part of the format."""

from __future__ import annotations

from dataclasses import dataclass

from bench.figures import Figures

R1 = "rollq:r1"
R3 = "rollq:r3"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of rollq, divided by a peer's if there is one."""

    key: str
    work: str
    ours: tuple[str, str]  # peer, figure
    theirs: tuple[str, str] | None = None
    wanted: float | None = None
    at_least: bool = True
    worst: bool = False  # the largest value instead of the median
    jobs_min: int = 0  # what is wanted holds for so many; with fewer there is no verdict

    def value(self, figures: Figures) -> float | None:
        """None if a side was not measured, or with too few jobs."""
        if self.jobs_min:
            jobs = figures.get(self.work, self.ours[0], "jobs")
            if jobs is None or jobs.low < self.jobs_min:
                return None
        ours = figures.get(self.work, *self.ours)
        if ours is None:
            return None
        mine = ours.high if self.worst else ours.median
        if self.theirs is None:
            return mine
        theirs = figures.get(self.work, *self.theirs)
        return None if theirs is None or not theirs.median else mine / theirs.median

    def is_met(self, value: float) -> bool:
        """Whether the value is as good as wanted."""
        if self.wanted is None:
            return True
        return value >= self.wanted if self.at_least else value <= self.wanted


def _noop(key: str, peer: str, wanted: float | None = None) -> Ratio:
    return Ratio(f"noop_vs_{key}", "noop", (R1, "jobs_per_s"), (peer, "jobs_per_s"), wanted)


def _submit(window: int, key: str, peer: str, wanted: float | None = None) -> Ratio:
    figure = f"submit{window}_per_s"
    return Ratio(f"submit{window}_vs_{key}", "submit", (R1, figure), (peer, figure), wanted)


def _r3(window: int, key: str, peer: str, wanted: float | None = None) -> Ratio:
    figure = f"submit{window}_per_s"
    return Ratio(f"r3_submit{window}_vs_{key}", "replicated", (R3, figure), (peer, figure), wanted)


def _exec(kind: str, key: str, peer: str, wanted: float | None = None) -> Ratio:
    figure = f"{kind}_per_s"
    return Ratio(f"exec_{kind}_vs_{key}", "execs", (R1, figure), (peer, figure), wanted)


def _at_most(
    key: str, work: str, ours: tuple[str, str], wanted: float, worst: bool = False
) -> Ratio:
    return Ratio(key, work, ours, None, wanted, at_least=False, worst=worst)


def _backlog(key: str, ours: tuple[str, str], wanted: float) -> Ratio:
    return Ratio(key, "backlog", ours, None, wanted, at_least=False, jobs_min=1_000_000)


RATIOS = (
    _noop("jetstream_always", "nats:durable", 15),
    _noop("jetstream_default", "nats:default", 2),
    _noop("core_nats", "nats:core", 1),
    _noop("celery", "celery:durable"),
    _noop("rq", "rq:durable"),
    _noop("dramatiq", "dramatiq:durable"),
    _noop("dask", "dask:default"),
    _noop("ray", "ray:default"),
    _submit(64, "jetstream_always", "nats:durable", 8),
    _submit(64, "jetstream_always_raw", "nats-raw:durable"),
    _submit(64, "jetstream_default", "nats:default"),
    _submit(64, "rabbitmq_quorum_raw", "rabbitmq-raw:durable", 1),
    _submit(64, "redis_aof_always", "redis-list:durable"),
    _submit(1024, "redis_aof_always", "redis-list:durable"),
    _submit(64, "etcd", "etcd:r1"),
    Ratio("submit_many_per_s", "submit", (R1, "submit_many_per_s"), None, 100_000),
    Ratio(
        "submit1_p50_vs_fdatasync",
        "submit",
        (R1, "submit1_p50_ms"),
        ("local:overwrite", "submit1_p50_ms"),
        3,
        at_least=False,
    ),
    _r3(64, "jetstream_r3_always", "nats:r3-durable", 2),
    _r3(64, "etcd", "etcd:r3", 4),
    _r3(64, "jetstream_raw", "nats-raw:r3-durable"),
    _r3(1024, "jetstream_raw", "nats-raw:r3-durable"),
    _r3(64, "rabbitmq_quorum_raw", "rabbitmq-raw:r3"),
    _at_most("failover_kill_median_s", "failover", (R3, "kill_gap_s"), 0.3),
    _at_most("failover_kill_worst_s", "failover", (R3, "kill_gap_s"), 1.5, worst=True),
    _at_most("failover_stop_median_s", "failover", (R3, "stop_gap_s"), 1.0),
    _at_most("failover_lost", "failover", (R3, "lost"), 0),
    _at_most("failover_ended_twice", "failover", (R3, "ended_twice"), 0),
    _at_most("failover_run_again", "failover", (R3, "run_again"), 0),
    Ratio(
        "failover_kill_vs_jetstream",
        "failover",
        (R3, "kill_gap_s"),
        ("nats:r3-durable", "kill_gap_s"),
        at_least=False,
    ),
    Ratio(
        "failover_kill_vs_etcd",
        "failover",
        (R3, "kill_gap_s"),
        ("etcd:r3", "kill_gap_s"),
        at_least=False,
    ),
    _exec("true", "spawn", "local:spawn", 0.75),
    _exec("files", "spawn", "local:spawn", 0.75),
    _exec("true", "xargs", "local:xargs"),
    _exec("true", "ray", "ray:default", 2),
    _exec("files", "ray", "ray:default", 2),
    _exec("true", "dask", "dask:default", 2),
    _exec("files", "dask", "dask:default", 2),
    _backlog("backlog_rss_mb", (R1, "rss_full_mb"), 500),
    _backlog("backlog_restart_s", (R1, "restart_kill_s"), 3),
    _backlog("backlog_stall_ms", (R1, "stall_ms"), 50),
    _at_most("first_result_s", "backlog", (R1, "first_result_s"), 1),
)
