"""Load with a fixed number of submits outstanding, bounded in count and time.

Three shapes of client are driven: a raw pipeline on a blocking socket, coroutines, and plain calls.
All give the same figures: acked submits a second, and the latency of each from send to ack.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from bench.figures import Sample, percentile

COUNT_MAX: Final = 400_000
IDLE_S_MAX: Final = 20.0
WARM_UP_S: Final = 0.2
FILL_WINDOW: Final = 2_048


class Pipeline(Protocol):
    """A client that sends without waiting and counts acks as they come, in order."""

    def send(self, count: int) -> None:
        """Send so many more submits."""

    def acked(self) -> int:
        """Block until at least one ack came; how many came."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a loaded client saw."""

    count: int
    seconds: float
    latencies_s: list[float]

    @property
    def per_s(self) -> float:
        """Acked submits a second."""
        return self.count / self.seconds

    def ms(self, share: float) -> float:
        """A percentile of the latency in milliseconds."""
        return percentile(sorted(self.latencies_s), share) * 1e3

    def samples(self, window: int, prefix: str = "") -> list[Sample]:
        """The samples of one cell of the submit tables."""
        at = f"{prefix}submit{window}"
        return [
            Sample(f"{at}_per_s", self.per_s),
            Sample(f"{at}_p50_ms", self.ms(0.5)),
            Sample(f"{at}_p99_ms", self.ms(0.99)),
        ]


def pipeline_rates(
    pipeline: Pipeline, windows: tuple[int, ...], seconds: float
) -> Iterator[tuple[int, Rate]]:
    """The rate of a raw pipeline at each window, after a warm-up."""
    drive(pipeline, 8, WARM_UP_S)
    for window in windows:
        yield window, drive(pipeline, window, seconds)


def drive(pipeline: Pipeline, window: int, seconds: float) -> Rate:
    """Keep `window` submits outstanding for a while, then wait for the last ack."""
    sent_at: deque[float] = deque()
    latencies: list[float] = []
    clock = time.perf_counter
    started = now = clock()
    end = started + seconds
    sent = min(window, COUNT_MAX)
    pipeline.send(sent)
    sent_at.extend([now] * sent)
    while sent_at:
        count = pipeline.acked()
        now = clock()
        latencies.extend(now - sent_at.popleft() for _ in range(count))
        if (now < end or sent < 4 * window) and sent < COUNT_MAX:
            pipeline.send(count)
            sent_at.extend([now] * count)
            sent += count
    return Rate(len(latencies), now - started, latencies)


def fill_s(pipeline: Pipeline, count: int) -> float:
    """Seconds until so many submits are acked, many of them outstanding."""
    started = time.perf_counter()
    sent = stored = 0
    while stored < count:
        more = min(count - sent, FILL_WINDOW - (sent - stored))
        if more and (sent == stored or more >= FILL_WINDOW // 2 or sent + more == count):
            pipeline.send(more)
            sent += more
        stored += pipeline.acked()
    return time.perf_counter() - started


async def drive_async(submit: Callable[[], Awaitable[object]], window: int, seconds: float) -> Rate:
    """One coroutine for each outstanding submit: how asyncio client libraries are used."""
    latencies: list[float] = []
    clock = time.perf_counter
    started = clock()
    end = started + seconds

    async def one_after_the_other() -> None:
        for turn in range(COUNT_MAX // window):
            sent_at = clock()
            if sent_at >= end and turn >= 4:
                return
            await submit()
            latencies.append(clock() - sent_at)

    async with asyncio.timeout(seconds + IDLE_S_MAX), asyncio.TaskGroup() as group:
        for _ in range(window):
            group.create_task(one_after_the_other())
    return Rate(len(latencies), clock() - started, latencies)


def drive_calls(submit: Callable[[], object], seconds: float) -> Rate:
    """One blocking call after the other."""
    latencies: list[float] = []
    clock = time.perf_counter
    started = now = clock()
    end = started + seconds
    while now < end and len(latencies) < COUNT_MAX:
        submit()
        before, now = now, clock()
        latencies.append(now - before)
    return Rate(len(latencies), now - started, latencies)


def keep_busy(
    submit: Callable[[], None],
    collect: Callable[[], int],
    window: int,
    seconds: float,
    has_more: Callable[[], bool] = lambda: True,
) -> float:
    """Jobs a second through a whole peer: `window` in flight until time is over, then the rest.

    Args:
        submit: Sends one job.
        collect: Waits for at least one result; how many came.
        window: Jobs in flight.
        seconds: For how long new jobs are sent.
        has_more: Whether there is a job left to send.
    """
    started = time.perf_counter()
    end = started + seconds
    sent = done = 0
    while True:
        while (
            sent - done < window and sent < COUNT_MAX and has_more() and time.perf_counter() < end
        ):
            submit()
            sent += 1
        if done == sent:
            return done / (time.perf_counter() - started)
        done += collect()
