"""Which figures are compared. The keys are part of the format; what is wanted is in `targets`."""

from __future__ import annotations

from dataclasses import dataclass

from bench.figures import Figures

R1 = "rollq:r1"
R3 = "rollq:r3"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure, divided by a peer's if there is one."""

    key: str
    work: str
    ours: tuple[str, str]  # peer, figure
    theirs: tuple[str, str] | None = None
    worst: bool = False  # the largest value instead of the median
    lowest: bool = False  # the other side is a limit of the machine: its best run is nearest to it
    jobs_min: int = 0  # with fewer jobs the figure says nothing

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
        if theirs is None or not theirs.low:
            return None
        return mine / (theirs.low if self.lowest else theirs.median)


def _noop(key: str, peer: str) -> Ratio:
    return Ratio(f"noop_vs_{key}", "noop", (R1, "jobs_per_s"), (peer, "jobs_per_s"))


def _submit(window: int, key: str, peer: str) -> Ratio:
    figure = f"submit{window}_per_s"
    return Ratio(f"submit{window}_vs_{key}", "submit", (R1, figure), (peer, figure))


def _large(key: str, peer: str) -> Ratio:
    figure = "large_submit64_per_s"
    return Ratio(f"large_submit64_vs_{key}", "submit", (R1, figure), (peer, figure))


def _r3(window: int, key: str, peer: str) -> Ratio:
    figure = f"submit{window}_per_s"
    return Ratio(f"r3_submit{window}_vs_{key}", "replicated", (R3, figure), (peer, figure))


def _large_r3(key: str, peer: str) -> Ratio:
    figure = "large_submit64_per_s"
    return Ratio(f"r3_large_submit64_vs_{key}", "replicated", (R3, figure), (peer, figure))


def _exec(kind: str, key: str, peer: str) -> Ratio:
    figure = f"{kind}_per_s"
    return Ratio(f"exec_{kind}_vs_{key}", "execs", (R1, figure), (peer, figure))


def _failover(key: str, peer: str, figure: str, worst: bool = False) -> Ratio:
    return Ratio(f"failover_{key}", "failover", (peer, figure), worst=worst)


def _backlog(key: str, figure: str, jobs_min: int = 1_000_000) -> Ratio:
    return Ratio(f"backlog_{key}", "backlog", (R1, figure), jobs_min=jobs_min)


RATIOS = (
    _noop("jetstream_always", "nats:durable"),
    _noop("jetstream_default", "nats:default"),
    _noop("core_nats", "nats:core"),
    _noop("rabbitmq", "rabbitmq:durable"),
    _noop("celery", "celery:durable"),
    _noop("rq", "rq:durable"),
    _noop("dramatiq", "dramatiq:durable"),
    _noop("dask", "dask:default"),
    _noop("ray", "ray:default"),
    Ratio(
        "noop_map_default_vs_jetstream_always",
        "noop",
        (R1, "map_jobs_per_s"),
        ("nats:durable", "jobs_per_s"),
    ),
    _submit(64, "jetstream_always", "nats:durable"),
    _submit(64, "jetstream_always_raw", "nats-raw:durable"),
    _submit(64, "jetstream_default", "nats:default"),
    _submit(64, "rabbitmq_raw", "rabbitmq-raw:durable"),
    _submit(64, "redis_aof_always", "redis-list:durable"),
    _submit(1024, "redis_aof_always", "redis-list:durable"),
    _submit(64, "etcd", "etcd:r1"),
    _large("jetstream_always", "nats:durable"),
    _large("redis_aof_always", "redis-list:durable"),
    Ratio("submit_many_jobs_per_s", "submit", (R1, "submit_many_per_s")),
    Ratio("staged_jobs_per_s", "submit", (R1, "staged_per_s")),
    Ratio(
        "submit1_p50_vs_fdatasync",
        "submit",
        (R1, "submit1_p50_ms"),
        ("local:overwrite", "submit1_p50_ms"),
        lowest=True,
    ),
    _r3(64, "jetstream_r3_always", "nats:r3-durable"),
    _r3(64, "etcd", "etcd:r3"),
    _r3(64, "jetstream_r3_raw", "nats-raw:r3-durable"),
    _r3(1024, "jetstream_r3_raw", "nats-raw:r3-durable"),
    _r3(64, "rabbitmq_raw", "rabbitmq-raw:r3"),
    _large_r3("jetstream_r3_always", "nats:r3-durable"),
    _failover("median_s", R3, "kill_gap_s"),
    _failover("worst_s", R3, "kill_gap_s", worst=True),
    _failover("stop_median_s", R3, "stop_gap_s"),
    _failover("kill_result_median_s", R3, "kill_result_gap_s"),
    _failover("stop_result_median_s", R3, "stop_result_gap_s"),
    _failover("lost", R3, "lost"),
    _failover("ended_twice", R3, "ended_twice"),
    _failover("run_again", R3, "run_again"),
    _failover("rabbitmq_median_s", "rabbitmq:r3", "kill_gap_s"),
    _failover("etcd_median_s", "etcd:r3", "kill_gap_s"),
    _failover("jetstream_median_s", "nats:r3-durable", "kill_gap_s"),
    _exec("true", "spawn", "local:spawn"),
    _exec("files", "spawn", "local:spawn"),
    _exec("true", "xargs", "local:xargs"),
    _exec("true", "ray", "ray:default"),
    _exec("files", "ray", "ray:default"),
    _exec("true", "dask", "dask:default"),
    _exec("files", "dask", "dask:default"),
    _backlog("rss_mb", "rss_full_mb"),
    _backlog("restart_s", "restart_kill_s"),
    _backlog("stall_ms", "stall_ms"),
    _backlog("first_result_s", "first_result_s", jobs_min=0),
)

BY_KEY = {ratio.key: ratio for ratio in RATIOS}
