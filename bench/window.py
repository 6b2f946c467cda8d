"""Load with a fixed number of submits outstanding, bounded in count and time.

Three shapes of client are driven: a raw pipeline on a blocking socket, coroutines, and plain calls.
All give the same figures: acked submits a second, and the latency of each from send to ack.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bench.figures import Sample, percentile

COUNT_MAX: Final = 400_000
IDLE_S_MAX: Final = 20.0
WARM_UP_S: Final = 0.2
FILL_WINDOW: Final = 2_048
NO_END: Final = 10**12
MARK_S: Final = 1.0


class Pipeline(Protocol):
    """A client that sends without waiting and counts acks as they come, in order."""

    def send(self, count: int) -> None:
        """Send so many more submits."""

    def acked(self) -> int:
        """Block until at least one ack came; how many came."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a load had come."""

    seconds: float
    count: int
    latencies: int  # how many had been noted


@dataclass(frozen=True, slots=True)
class Rate:
    """What a loaded client saw.

    Attributes:
        count: Acked submits, or jobs whose result came.
        seconds: From the first submit to the last answer.
        latencies_s: Of all of them, or of those that were timed.
        marks: One about every second, if the load was recorded.
    """

    count: int
    seconds: float
    latencies_s: Sequence[float]
    marks: tuple[Mark, ...] = ()

    @property
    def per_s(self) -> float:
        """Acked submits a second."""
        return self.count / self.seconds

    def ms(self, share: float) -> float:
        """A percentile of the latency in milliseconds."""
        return percentile(sorted(self.latencies_s), share) * 1e3

    def part(self, begin_s: float, end_s: float) -> Rate:
        """What was seen between two times, to the nearest marks."""
        begin = min(self.marks, key=lambda mark: abs(mark.seconds - begin_s))
        end = min(self.marks, key=lambda mark: abs(mark.seconds - end_s))
        return Rate(
            end.count - begin.count,
            end.seconds - begin.seconds,
            self.latencies_s[begin.latencies : end.latencies],
        )

    def samples(self, window: int) -> list[Sample]:
        """The samples of one cell of the submit tables."""
        at = f"submit{window}"
        return [
            Sample(f"{at}_per_s", self.per_s),
            Sample(f"{at}_p50_ms", self.ms(0.5)),
            Sample(f"{at}_p99_ms", self.ms(0.99)),
        ]


class Recorder:
    """Notes what a load does, for hours if need be: four bytes a latency."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._latencies = array("f")
        self._count = 0
        self.started_s = clock()
        self._marks = [Mark(0.0, 0, 0)]
        self._next_s = self.started_s + MARK_S

    def add(self, now: float, latency_s: float) -> None:
        """One more, and how long it took."""
        self.time(latency_s)
        self.count(now)

    def count(self, now: float) -> None:
        """One more."""
        self._count += 1
        if now >= self._next_s:
            self._mark(now)
            self._next_s = now + MARK_S

    def time(self, latency_s: float) -> None:
        """How long one took."""
        self._latencies.append(latency_s)

    def rate(self) -> Rate:
        """All of it."""
        now = self._clock()
        self._mark(now)
        return Rate(self._count, now - self.started_s, self._latencies, tuple(self._marks))

    def _mark(self, now: float) -> None:
        self._marks.append(Mark(now - self.started_s, self._count, len(self._latencies)))


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


async def drive_async(
    submit: Callable[[], Awaitable[object]],
    window: int,
    seconds: float,
    count_max: int = COUNT_MAX,
) -> Rate:
    """One coroutine for each outstanding submit: how asyncio client libraries are used."""
    clock = time.perf_counter
    seen = Recorder(clock)
    end = seen.started_s + seconds

    async def one_after_the_other() -> None:
        for turn in range(max(1, count_max // window)):
            sent_at = clock()
            if sent_at >= end and turn >= 4:
                return
            await submit()
            now = clock()
            seen.add(now, now - sent_at)

    async with asyncio.timeout(seconds + IDLE_S_MAX), asyncio.TaskGroup() as group:
        for _ in range(window):
            group.create_task(one_after_the_other())
    return seen.rate()


async def drive_until(
    submit: Callable[[], Awaitable[object]], is_over: Callable[[], bool], seconds_max: float
) -> Rate:
    """One after the other until something else is over."""
    clock = time.perf_counter
    seen = Recorder(clock)
    async with asyncio.timeout(seconds_max):
        while not is_over():
            sent_at = clock()
            await submit()
            now = clock()
            seen.add(now, now - sent_at)
    return seen.rate()


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
) -> Rate:
    """Jobs through a whole peer: `window` in flight until time is over, then the rest.

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
        while sent - done < window and has_more() and time.perf_counter() < end:
            submit()
            sent += 1
        if done == sent:
            return Rate(done, time.perf_counter() - started, [])
        done += collect()
