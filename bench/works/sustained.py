"""No-op jobs for minutes: whether rate, latency or memory drift, and what a job costs in all.

The first minute is compared with the last one, or the first half with the second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final, cast

from bench.cpu import Meter
from bench.figures import Sample
from bench.peers.base import Peer
from bench.works import Scale, Work
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW, RunsJobs

PART_S: Final = 60.0
LOOK_S: Final = 1.0


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """One long load."""
    runner = cast(RunsJobs, peer)
    runner.noop(PAYLOAD, WIDE_WINDOW, WARM_UP_S)
    meter = Meter(peer)
    before = meter.read()
    with MemoryWatch(meter) as memory:
        rate = runner.noop(PAYLOAD, WIDE_WINDOW, scale.sustained_s)
    used = meter.read().since(before)
    part_s = min(PART_S, rate.seconds / 2)
    first, last = rate.part(0, part_s), rate.part(rate.seconds - part_s, rate.seconds)
    yield Sample("seconds", rate.seconds)
    yield Sample("jobs_per_s", rate.per_s)
    yield Sample("first_jobs_per_s", first.per_s)
    yield Sample("last_jobs_per_s", last.per_s)
    yield Sample("first_p99_ms", first.ms(0.99))
    yield Sample("last_p99_ms", last.ms(0.99))
    yield Sample("first_rss_mb", memory.most(0, part_s))
    yield Sample("last_rss_mb", memory.most(rate.seconds - part_s, rate.seconds))
    yield from used.samples(rate.count, meter.has_roles)


class MemoryWatch:
    """Looks at the servers' memory every second, from a thread."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._began_s = time.perf_counter()
        self.seen: list[tuple[float, float]] = []  # seconds, MB

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def most(self, begin_s: float, end_s: float) -> float:
        """The most that was seen between two times."""
        return max((mb for at, mb in self.seen if begin_s <= at <= end_s), default=0.0)

    def _watch(self) -> None:
        while True:
            self.seen.append((time.perf_counter() - self._began_s, self._meter.server_mb()))
            if self._is_over.wait(LOOK_S):
                return


WORK = Work(
    "sustained",
    "No-op jobs for minutes, 200 B, 1024 in flight: first minute and last",
    ("rollq:r1", "nats:core", "nats:default"),
    measure,
    case_s_max=120,
    columns=(
        ("jobs_per_s", "jobs/s"),
        ("seconds", "s"),
        ("first_jobs_per_s", "first minute /s"),
        ("last_jobs_per_s", "last /s"),
        ("first_p99_ms", "p99 ms, first"),
        ("last_p99_ms", "last"),
        ("first_rss_mb", "server MB, first"),
        ("last_rss_mb", "last"),
        ("cpu_all_us", "CPU µs a job"),
        ("cpu_server_us", "server"),
        ("cpu_upkeep_us", "its children"),
        ("cpu_worker_us", "workers"),
        ("cpu_client_us", "client"),
    ),
    repeats=False,
)
