"""A long history of a live member read by `format("rollq")`, beside the same rows from Parquet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bench.figures import percentile
from bench.files.latency import Countdown, Probe
from bench.histories import QUEUES, make
from bench.peers.rollq_wire import who_leads
from bench.procs import HOST, Process, free_ports, python, wait_until
from rollq import BlockingClient
from rollq.roles.reader.reader import Reader

COLUMNS_S_MAX: Final = 600.0  # until a member has made the columns of such a history
WARM_JOBS: Final = 200


def measure_read(
    spark: SparkSession, folder: Path, events: int, rounds: int, idle_s: float
) -> dict[str, float]:
    """Both by turns, and small jobs of the same member all along: what they wait for while Spark
    reads Parquet, which is not the member's, is what two busy cores cost anybody."""
    address = f"{HOST}:{free_ports(1)[0]}"
    made = make(folder / "state", events, address)
    parquet = str(folder / "parquet")
    reads: list[float] = []
    others: list[float] = []
    loaded: list[float] = []
    loaded_by_others: list[float] = []
    with member(folder, address) as server, Probe(address) as probe:
        columns_s = until_columnar(address)
        source(spark, address).write.parquet(parquet)  # also warms up
        for _ in range(WARM_JOBS):
            probe.job_ms()
        idle = sorted(probe.jobs_while(Countdown(idle_s)).values())
        table = source(spark, address)
        rows = table.count()
        stored = spark.read.parquet(parquet)
        for _ in range(rounds):
            took_s, times = beside(probe, lambda: drain(source(spark, address)))
            reads.append(took_s)
            loaded += times
            took_s, times = beside(probe, lambda: drain(stored))
            others.append(took_s)
            loaded_by_others += times
        rss_mb = server.rss_mb()
    loaded.sort()
    loaded_by_others.sort()
    return {
        "read_rows": float(rows),
        "read_rows_per_s": rows / median(reads),
        "read_vs_parquet": median(reads) / median(others),
        "parquet_rows_per_s": rows / median(others),
        "read_p99_vs_idle": percentile(loaded, 0.99) / percentile(idle, 0.99),
        "idle_p99_ms": percentile(idle, 0.99),
        "read_p99_ms": percentile(loaded, 0.99),
        "parquet_p99_ms": percentile(loaded_by_others, 0.99),
        "read_probe_jobs": float(len(loaded)),
        "history_made_s": made.seconds,
        "columns_made_s": columns_s,
        "member_rss_mb": rss_mb,
    }


@contextmanager
def member(folder: Path, address: str) -> Iterator[Process]:
    """A member on the state that was made."""
    port = address.rpartition(":")[2]
    argv = python("rollq", "leader", port, "--state", str(folder / "state"))
    argv += ["--history-days", "0"]  # the day that was made is long ago
    process = Process(argv, folder / "member.log")
    try:
        process.wait_for(lambda: who_leads(address) == address, "a leader")
        with BlockingClient(address) as client:
            for queue in QUEUES:  # what was running when the story ended is nobody's work
                client.pause(queue)
        yield process
    finally:
        process.stop()


def until_columnar(address: str) -> float:
    """Wait until all that is sealed can be sent as columns; how long it took."""
    began = time.monotonic()

    def is_done() -> bool:
        with Reader(address) as reader:
            cuts = reader.cuts(1, reader.span().applied)
        return bool(cuts) and all(cut.has_columns for cut in cuts)

    wait_until(is_done, "columns of all segments", COLUMNS_S_MAX)
    return time.monotonic() - began


def source(spark: SparkSession, servers: str) -> DataFrame:
    """All events, all columns."""
    return spark.read.format("rollq").option("servers", servers).load()


def drain(table: DataFrame) -> None:
    """Every row and column, to nowhere."""
    table.write.format("noop").mode("overwrite").save()


def timed(work: Callable[[], None]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def beside(probe: Probe, work: Callable[[], None]) -> tuple[float, list[float]]:
    """How long work takes, and the latencies of small jobs meanwhile."""
    took: list[float] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            took.append(timed(work))
        except Exception as error:  # raised again below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    times = probe.jobs_while(thread.is_alive)
    thread.join()
    if failures:
        raise failures[0]
    return took[0], list(times.values())
