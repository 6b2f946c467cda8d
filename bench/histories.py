"""A member's state directory with a long history, made without a network.

Commands of made-up jobs go through the real driver of a group of one (consensus, apply, snapshots,
sealing), on a real disk without waiting for it, and by a clock of their own: a day of work of some
clients, queues, programs and workers, with retries, dead jobs and delays. A member started on the
directory serves what happened in it.

    python -m bench.histories DIR --events 5000000 --address 127.0.0.1:5000
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollq.base.jobs import JobOptions, Status
from rollq.grid import commands as c
from rollq.grid.command_codec import encode_batch
from rollq.grid.state import QUEUED
from rollq.raft.node import RaftOptions
from rollq.roles.member.calendar import ZoneCalendar
from rollq.roles.member.driver import Driver
from rollq.roles.member.setup import MemberSetup
from rollq.store.real_disk import RealDisk

STARTED_MS = 1_767_225_600_000  # a day in 2026, UTC
DAY_MS = 86_400_000
JOBS_PER_TURN = 64
WORKERS = 16
EVENTS_PER_JOB = 5  # enqueue, assign, ack, confirm, forget
BODY = b'{"Args":["--input","data.csv","--seed","7"]}'
# Name, typical run time in milliseconds, share of attempts that fail.
EXECS = (
    ("resize", 40, 0.002),
    ("convert", 180, 0.01),
    ("simulate", 2_500, 0.03),
    ("report", 700, 0.005),
    ("train", 20_000, 0.06),
)
QUEUES = ("interactive", "batch", "night", "models")
CLIENTS = ("web", "etl", "science", "billing")
RETRY_CODE = 75
POISON = 0  # ids that begin so are of jobs that fail as often as they are tried
RETRIED = JobOptions(max_attempts=3, retry_exit_codes=(RETRY_CODE,), retry_base_ms=1_000)


@dataclass(slots=True)
class Made:
    """What is on the disk now."""

    events: int
    jobs: int
    last_index: int
    seconds: float


def make(
    state_dir: Path, events: int, address: str = "127.0.0.1:5000", *, group: str = "default"
) -> Made:
    """Make a state directory whose history has at least so many events.

    Args:
        state_dir: must not hold anything yet.
        events: how many.
        address: of the member that will be started on it.
        group: its group.
    """
    begun = time.perf_counter()
    disk = RealDisk(state_dir, unsafe_no_fsync=True)
    setup = MemberSetup(
        address, group=group, raft=RaftOptions(fixed_leader=True), hot_bytes_max=256 * 1024 * 1024
    )
    clock = DayClock()
    driver = Driver(setup, disk, clock, Chance(), lambda _: None, calendar=ZoneCalendar())
    while not driver.leading:
        driver.tick()
        _turns(driver)
    life = Life(driver)
    clock.step_ms = max(1, DAY_MS * EVENTS_PER_JOB * JOBS_PER_TURN // events)
    while life.events < events:
        clock.ms += clock.step_ms
        for batch in life.turn():
            driver.raft.propose(encode_batch(clock.ms, batch))
            _turns(driver)
    last_index = driver.state.applied_index
    driver.close()
    disk.close()
    return Made(life.events, life.jobs, last_index, time.perf_counter() - begun)


def _turns(driver: Driver) -> None:
    """Everything that there is to do, and a snapshot if one is due."""
    while (work := driver.begin()) is not None:
        work.run()
        driver.finish(work)
    driver.take_outputs()
    order = driver.begin_snapshot()
    if order is not None:
        order.publish(order.write())
        driver.finish_snapshot(order)


class Life:
    """What happens: jobs come, run on workers, fail at times, and their results are taken."""

    def __init__(self, driver: Driver) -> None:
        self.jobs = 0
        self._others = 0  # events but those of submits and of jobs that are forgotten
        self._driver = driver
        self._draw = random.Random(20_260_101)
        self._workers = [self._draw.randbytes(16) for _ in range(WORKERS)]
        self._queued: deque[bytes] = deque()
        self._running: deque[bytes] = deque()
        self._ended: list[bytes] = []
        self._is_open = False

    @property
    def events(self) -> int:
        """How many rows the history has by now."""
        return 2 * self.jobs - len(self._driver.state.jobs) + self._others

    def turn(self) -> Iterator[list[c.Command]]:
        """The entries of one turn; each is applied before the next is asked for."""
        if not self._is_open:
            self._is_open = True
            yield [
                *(c.OpenClient(client) for client in CLIENTS),
                *(
                    c.OpenWorker(worker, 1, f"node-{n}", (">",), 32)
                    for n, worker in enumerate(self._workers)
                ),
            ]
        yield [self._submit() for _ in range(JOBS_PER_TURN)]
        yield list(self._assign(2 * JOBS_PER_TURN))
        # Some turns later, so that there is always something that runs.
        yield list(self._report(max(0, len(self._running) - 8 * JOBS_PER_TURN)))
        if len(self._ended) >= 4 * JOBS_PER_TURN:
            yield self._confirm()

    def _submit(self) -> c.SubmitJob:
        draw = self._draw
        name, _, _ = EXECS[min(int(draw.expovariate(0.8)), len(EXECS) - 1)]
        job_id = draw.randbytes(16)
        self.jobs += 1
        self._queued.append(job_id)
        options = RETRIED if draw.random() < 0.5 else None
        return c.SubmitJob(job_id, draw.choice(CLIENTS), draw.choice(QUEUES), name, BODY, options)

    def _assign(self, most: int) -> Iterator[c.Command]:
        for _ in range(min(most, len(self._queued))):
            job_id = self._queued.popleft()
            record = self._driver.state.jobs[job_id]
            if record.state is not QUEUED:
                continue
            worker = self._draw.choice(self._workers)
            self._others += 1
            self._running.append(job_id)
            yield c.AssignJob(job_id, worker, 1, record.attempt + 1, 30_000)

    def _report(self, most: int) -> Iterator[c.Command]:
        for _ in range(most):
            job_id = self._running.popleft()
            record = self._driver.state.jobs[job_id]
            _, run_ms, failures = next(one for one in EXECS if one[0] == record.exec_name)
            chance = self._draw.random()
            self._others += 1
            if chance < 0.002:
                yield c.NackJob(job_id, record.attempt, record.fence, "no room", 0)
                self._queued.append(job_id)
                continue
            is_bad = chance > 1 - failures or job_id[0] == POISON
            code = self._draw.choice((1, RETRY_CODE, 139)) if is_bad else 0
            if job_id[0] == POISON:
                code = RETRY_CODE
            took_ms = int(run_ms * self._draw.lognormvariate(0, 0.6)) + 1
            peak = self._draw.randrange(20, 400) << 20
            retries = code == RETRY_CODE and record.options.max_attempts and record.attempt < 3
            (self._queued if retries else self._ended).append(job_id)
            yield c.AckJob(
                *(job_id, record.attempt, record.fence),
                Status.FAILED if is_bad else Status.OK,
                b"",
                exit_code=code,
                run_ms=took_ms,
                peak_bytes=peak,
            )

    def _confirm(self) -> list[c.Command]:
        by_client: dict[str, list[bytes]] = {}
        for job_id in self._ended:
            record = self._driver.state.jobs.get(job_id)
            if record is not None:
                by_client.setdefault(record.client.client_id, []).append(job_id)
        self._others += sum(map(len, by_client.values()))
        self._ended.clear()
        return [c.ConfirmResults(client, tuple(ids)) for client, ids in by_client.items()]


class DayClock:
    """Goes as the life that is made up needs it; timers do not."""

    def __init__(self) -> None:
        self.ms = STARTED_MS
        self.step_ms = 1

    def now_ms(self) -> int:
        """Stands still: no lease is ever lost."""
        return 0

    def now_us(self) -> int:
        """Stands still too."""
        return 0

    def wall_ms(self) -> int:
        """Of the day that is made up."""
        return self.ms


class Chance:
    """The same every time."""

    def __init__(self) -> None:
        self._draw = random.Random(7)

    def draw(self, low: int, high: int) -> int:
        """An integer, low <= x < high."""
        return self._draw.randrange(low, high) if high > low else low

    def draw_id(self) -> bytes:
        """Sixteen bytes."""
        return self._draw.randbytes(16)


def main() -> None:
    """Make one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--address", default="127.0.0.1:5000")
    parser.add_argument("--group", default="default")
    given = parser.parse_args()
    made = make(given.directory, given.events, given.address, group=given.group)
    print(
        f"{made.events:,} events of {made.jobs:,} jobs up to index {made.last_index:,} in "
        f"{made.seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
