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


def _noop(key: str, peer: str, work: str = "noop") -> Ratio:
    return Ratio(f"{work}_vs_{key}", work, (R1, "jobs_per_s"), (peer, "jobs_per_s"))


def _wide(key: str, peer: str) -> Ratio:
    return _noop(key, peer, "noop1024")


def _cpu(role: str) -> Ratio:
    return Ratio(f"sustained_cpu_{role}_us", "sustained", (R1, f"cpu_{role}_us"))


def _kept(figure: str) -> Ratio:
    """The last minute divided by the first."""
    return Ratio(
        f"sustained_{figure}_last_vs_first",
        "sustained",
        (R1, f"last_{figure}"),
        (R1, f"first_{figure}"),
    )


def _beside(how: str) -> Ratio:
    figure = f"{how}_p99_ms"
    return Ratio(f"beside_{figure}", "beside", (R1, figure), jobs_min=1_000_000)


def _grown(key: str) -> Ratio:
    return Ratio(f"{key}_vs_one", "growth", (R1, f"{key}_jobs_per_s"), (R1, "one_jobs_per_s"))


def _submit(window: int, key: str, peer: str) -> Ratio:
    figure = f"submit{window}_per_s"
    return Ratio(f"submit{window}_vs_{key}", "submit", (R1, figure), (peer, figure))


def _large(key: str, ours: str, peer: str) -> Ratio:
    figure = "submit64_per_s"
    return Ratio(key, "large", (ours, figure), (peer, figure))


def _r3(window: int, key: str, peer: str) -> Ratio:
    figure = f"submit{window}_per_s"
    return Ratio(f"r3_submit{window}_vs_{key}", "replicated", (R3, figure), (peer, figure))


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
    Ratio("noop_r3_vs_r1", "noop", (R3, "jobs_per_s"), (R1, "jobs_per_s")),
    _wide("jetstream_always", "nats:durable"),
    _wide("jetstream_default", "nats:default"),
    _wide("core_nats", "nats:core"),
    Ratio("noop1024_r3_vs_r1", "noop1024", (R3, "jobs_per_s"), (R1, "jobs_per_s")),
    _noop("core_nats", "nats:core", "sustained"),
    _noop("jetstream_default", "nats:default", "sustained"),
    _kept("jobs_per_s"),
    _kept("p99_ms"),
    _kept("rss_mb"),
    _cpu("all"),
    _cpu("server"),
    _cpu("upkeep"),
    _cpu("worker"),
    _cpu("client"),
    _submit(64, "jetstream_always", "nats:durable"),
    _submit(64, "jetstream_always_raw", "nats-raw:durable"),
    _submit(64, "jetstream_default", "nats:default"),
    _submit(64, "rabbitmq_raw", "rabbitmq-raw:durable"),
    _submit(64, "redis_aof_always", "redis-list:durable"),
    _submit(1024, "redis_aof_always", "redis-list:durable"),
    _submit(64, "etcd", "etcd:r1"),
    _large("large_submit64_vs_jetstream_always", R1, "nats:durable"),
    _large("large_submit64_vs_redis_aof_always", R1, "redis-list:durable"),
    _large("r3_large_submit64_vs_jetstream_r3_always", R3, "nats:r3-durable"),
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
    Ratio(
        "lone_p50_vs_fdatasync",
        "latency",
        (R1, "alone_p50_ms"),
        ("local:overwrite", "alone_p50_ms"),
        lowest=True,
    ),
    Ratio("lone_half_load_p99_ms", "latency", (R1, "half_p99_ms")),
    _beside("many"),
    _beside("commit"),
    _grown("workers10"),
    _grown("clients100"),
    Ratio("array_tasks_per_s", "growth", (R1, "array_per_s"), jobs_min=1_000_000),
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
    _backlog("restart_term_s", "restart_term_s"),
    _backlog("stall_ms", "stall_ms"),
    _backlog("first_result_s", "first_result_s", jobs_min=0),
)

BY_KEY = {ratio.key: ratio for ratio in RATIOS}
