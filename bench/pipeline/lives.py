"""Histories of a busy grid, made by the real state machine without disk or network.

Everything that can happen to a job happens to some: delays, retries, lost workers, dead letters,
redrives, cancels, arrays, ids that come again after they were forgotten, clocks that step back.
Workers fetch ahead, and run no more at once than they have slots. The same seed gives the same
history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from rollq.base.ids import JobId, WorkerId, task_id
from rollq.base.jobs import AttemptRef, BulkItem, JobOptions, Status
from rollq.grid import commands
from rollq.grid import events as kinds
from rollq.grid.apply import HANDLERS
from rollq.grid.effects import Applied
from rollq.grid.events import Event
from rollq.grid.state import GridState, JobRecord
from rollq.history.schema import to_lines
from rollq.history.segments import Segments
from rollq.store.real_disk import RealDisk

START_MS = 1_790_000_000_000
EXECS = [f"exec{n:02}" for n in range(12)]
QUEUES = [f"queue{n}" for n in range(5)]
CLIENTS = [f"client{n}" for n in range(8)]
WORKERS_MAX = 12
LOST_DELAYS = (0, 0, 700)
AHEAD = 3  # times its slots: so much a worker may have


class Pool:
    """Ids of which one is drawn by chance, in constant time."""

    def __init__(self) -> None:
        self._ids: list[bytes] = []
        self._places: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, one: bytes) -> None:
        if one not in self._places:
            self._places[one] = len(self._ids)
            self._ids.append(one)

    def drop(self, one: bytes) -> None:
        place = self._places.pop(one, -1)
        if place >= 0:
            last = self._ids.pop()
            if last != one:
                self._ids[place] = last
                self._places[last] = place

    def draw(self, chance: Random) -> bytes:
        return self._ids[chance.randrange(len(self._ids))]


class Lives:
    """A grid and those who use it. `rows` yields what happened, index by index."""

    def __init__(self, seed: int, *, turn_ms: int = 400) -> None:
        self._chance = Random(seed)
        self._state = GridState()
        self._turn_ms = turn_ms
        self._now_ms = START_MS
        self._index = 0
        self._queued, self._delayed, self._running = Pool(), Pool(), Pool()
        self._dead, self._ended, self._arrays, self._workers = Pool(), Pool(), Pool(), Pool()
        self._ended_arrays = Pool()
        self._free_ms: dict[bytes, list[int]] = {}  # of workers: since when each slot is free
        self._forgotten: list[bytes] = []
        self._forgotten_arrays: list[bytes] = []
        self._next: list[Any] = []  # commands that must follow the last one
        self._actions: list[tuple[int, Callable[[], Any]]] = [
            (22, self._submit),
            (4, self._submit_bulk),
            (1, self._submit_array),
            (45, self._assign),
            (12, self._assign_task),
            (55, self._ack),
            (2, self._nack),
            (2, self._lose_lease),
            (12, self._release),
            (1, self._expire),
            (2, self._cancel),
            (1, self._redrive),
            (1, self._purge),
            (6, self._confirm),
            (5, self._forget),
            (1, self._come),
            (1, self._go),
        ]

    def rows(self, events_min: int) -> Iterator[tuple[int, int, list[Event]]]:
        """Index, stamp and events of each entry, until there are so many events."""
        weights = [weight for weight, _ in self._actions]
        actions = [action for _, action in self._actions]
        made = 0
        while made < events_min:
            self._index += 1
            self._now_ms += int(self._chance.expovariate(1 / self._turn_ms))
            if self._chance.random() < 0.001:
                self._now_ms -= self._chance.randrange(30_000)  # another leader, another clock
            out = Applied(self._index, self._now_ms, [], [], [])
            wanted = self._chance.choices(actions, weights, k=self._chance.randrange(9))
            for action in wanted:
                command = self._next.pop() if self._next else action()
                if command is not None:
                    known = len(out.events)
                    HANDLERS[type(command)](self._state, command, out)
                    self._notice(out.events[known:])
            made += len(out.events)
            yield self._index, self._now_ms, out.events

    def _notice(self, events: list[Event]) -> None:
        """Where jobs are now: commands that follow ask for it."""
        for event in events:
            if event.job_id:
                self._place(event)
            elif event.kind == kinds.ARRAY_ENQUEUED:
                self._arrays.add(event.array_id)
            elif event.kind == kinds.ARRAY_ENDED:
                self._arrays.drop(event.array_id)
                self._ended_arrays.add(event.array_id)
            elif event.kind == kinds.JOB_FORGOTTEN:
                self._ended_arrays.drop(event.array_id)
                self._forgotten_arrays.append(event.array_id)
            elif event.kind == kinds.WORKER_OPENED:
                self._workers.add(event.worker_id)
                self._free_ms[event.worker_id] = [self._now_ms] * event.count
            elif event.kind == kinds.WORKER_CLOSED:
                self._workers.drop(event.worker_id)

    def _place(self, event: Event) -> None:
        job_id = event.job_id
        record = self._state.jobs.get(job_id)
        pools = (self._queued, self._delayed, self._running, self._ended, self._dead)
        for pool in pools:
            pool.drop(job_id)
        if record is None:
            self._forgotten.append(job_id)
            return
        names = ("QUEUED", "DELAYED", "ASSIGNED", "DONE", "DEAD")
        places = dict(zip(names, pools, strict=True))
        places.get(record.state.name, self._ended).add(job_id)

    def _id(self) -> JobId:
        if self._forgotten and self._chance.random() < 0.1:
            return JobId(self._forgotten.pop(self._chance.randrange(len(self._forgotten))))
        return JobId(self._chance.randbytes(16))

    def _options(self) -> JobOptions | None:
        chance = self._chance
        if chance.random() < 0.6:
            return None
        return JobOptions(
            priority=chance.randrange(4),
            delay_ms=chance.choice((0, 0, 2000)),
            max_attempts=chance.choice((1, 2, 3)),
            retry_exit_codes=chance.choice(((), (75,))),
        )

    def _names(self) -> tuple[str, str, str]:
        exec_name = self._chance.choice(EXECS)
        return self._chance.choice(CLIENTS), self._chance.choice(QUEUES), exec_name

    def _submit(self) -> Any:
        body = bytes(self._chance.randrange(200))
        return commands.SubmitJob(self._id(), *self._names(), body, self._options())

    def _submit_bulk(self) -> Any:
        count = self._chance.randrange(1, 12)
        items = tuple(BulkItem(JobId(self._chance.randbytes(16)), b"body") for _ in range(count))
        return commands.SubmitBulk(*self._names(), items, self._options())

    def _submit_array(self) -> Any:
        array_id = JobId(self._chance.randbytes(16))
        if self._forgotten_arrays and self._chance.random() < 0.5:
            array_id = JobId(self._forgotten_arrays.pop())
        count = self._chance.randrange(1, 40)
        array = commands.SubmitArray(array_id, *self._names(), b"array", count, self._options())
        if self._chance.random() < 0.9:
            return array
        self._next.append(array)  # a job that is older has the id of one of its tasks
        return commands.SubmitJob(task_id(array_id, count // 2), *self._names(), b"taken")

    def _worker(self) -> tuple[WorkerId, int] | None:
        if not self._workers:
            return None
        worker = self._state.workers[WorkerId(self._workers.draw(self._chance))]
        return (
            (worker.worker_id, worker.incarnation)
            if len(worker.held) < AHEAD * worker.slots
            else None
        )

    def _assign(self) -> Any:
        worker = self._worker()
        if worker is None or not self._queued:
            return None
        job_id = JobId(self._queued.draw(self._chance))
        return commands.AssignJob(job_id, *worker, self._state.jobs[job_id].attempt + 1, 30_000)

    def _assign_task(self) -> Any:
        worker = self._worker()
        if worker is None or not self._arrays:
            return None
        return commands.AssignTask(JobId(self._arrays.draw(self._chance)), *worker, 30_000)

    def _ack(self) -> Any:
        if not self._running:
            return None
        chance = self._chance
        record = self._state.jobs[JobId(self._running.draw(chance))]
        status = chance.choices((Status.OK, Status.FAILED, Status.CANCELLED), (90, 9, 1))[0]
        if record.cancel_requested:
            status = Status.CANCELLED
        return commands.AckJob(
            *(record.job_id, record.attempt, record.fence, int(status), b"out"),
            exit_code=chance.choice((1, 75)) if status else 0,
            signal=chance.choice((0, 0, 9)) if status else 0,
            run_ms=self._run_ms(record),
            peak_bytes=chance.randrange(1 << 28),
            retry_delay_ms=chance.choice(LOST_DELAYS),
            fetched_bytes=chance.choice((0, chance.randrange(1 << 20))),
            held_bytes=chance.choice((0, chance.randrange(1 << 20))),
        )

    def _run_ms(self, record: JobRecord) -> int:
        """How long an attempt ran that ends now: no longer than it could have had a slot."""
        worker = self._state.workers[record.worker_id]
        free = self._free_ms[worker.worker_id]
        slot = min(range(len(free)), key=free.__getitem__)
        room_ms = max(self._now_ms - max(free[slot], record.stamp_ms), 0)
        free[slot] = max(free[slot], self._now_ms)
        return min(int(self._chance.lognormvariate(8, 2)), room_ms)

    def _nack(self) -> Any:
        if not self._running:
            return None
        record = self._state.jobs[JobId(self._running.draw(self._chance))]
        delay_ms = self._chance.choice(LOST_DELAYS)
        return commands.NackJob(record.job_id, record.attempt, record.fence, "no room", delay_ms)

    def _lose_lease(self) -> Any:
        return commands.ExpireLeases(self._lost(self._running)) if self._running else None

    def _release(self) -> Any:
        if self._arrays and self._chance.random() < 0.2:
            array_id = JobId(self._arrays.draw(self._chance))
            return commands.ReleaseJobs((commands.LostAttempt(array_id, 0),))
        return commands.ReleaseJobs(self._lost(self._delayed)) if self._delayed else None

    def _lost(self, pool: Pool) -> tuple[commands.LostAttempt, ...]:
        job_id = JobId(pool.draw(self._chance))
        delay_ms = self._chance.choice(LOST_DELAYS)
        return (commands.LostAttempt(job_id, self._state.jobs[job_id].attempt, delay_ms),)

    def _expire(self) -> Any:
        pool = self._chance.choice((self._queued, self._delayed, self._arrays))
        return commands.ExpireJobs((JobId(pool.draw(self._chance)),)) if pool else None

    def _cancel(self) -> Any:
        pools = (self._queued, self._delayed, self._running, self._running, self._arrays)
        pool = self._chance.choice(pools)
        return commands.CancelJobs((JobId(pool.draw(self._chance)),), "people") if pool else None

    def _redrive(self) -> Any:
        if not self._dead:
            return None
        item = commands.RedriveItem(JobId(self._dead.draw(self._chance)))
        return commands.RedriveJobs((item,), "people")

    def _purge(self) -> Any:
        if len(self._dead) < 3:
            return None
        return commands.PurgeJobs((JobId(self._dead.draw(self._chance)),), "people")

    def _confirm(self) -> Any:
        if not self._ended:
            return None
        job_id = JobId(self._ended.draw(self._chance))
        return commands.ConfirmResults(self._state.jobs[job_id].client.client_id, (job_id,))

    def _forget(self) -> Any:
        pool = self._chance.choice((*[self._ended] * 4, self._dead, self._ended_arrays))
        return commands.ForgetJobs((JobId(pool.draw(self._chance)),)) if pool else None

    def _come(self) -> Any:
        chance = self._chance
        slots = chance.randrange(1, 9)
        if len(self._workers) < WORKERS_MAX and chance.random() < 0.5:
            worker_id = WorkerId(chance.randbytes(16))
            return commands.OpenWorker(worker_id, 1, f"node{worker_id[0] % 50}", (">",), slots)
        if not self._workers:
            return None
        worker = self._state.workers[WorkerId(self._workers.draw(chance))]
        held = [self._state.jobs[job_id] for job_id in worker.held]
        running = tuple(AttemptRef(each.job_id, each.attempt, each.fence) for each in held)
        again = chance.random() < 0.5
        return commands.OpenWorker(
            worker.worker_id,
            worker.incarnation + (not again),
            worker.name,
            worker.patterns,
            slots,
            running if again else (),
            chance.choice(LOST_DELAYS),
        )

    def _go(self) -> Any:
        if len(self._workers) < WORKERS_MAX // 2:
            return None
        worker = self._state.workers[WorkerId(self._workers.draw(self._chance))]
        return commands.CloseWorker(worker.worker_id, worker.incarnation)


def seal_lives(
    folder: Path, lives: Lives, events_min: int, *, indexes_each: int = 500
) -> tuple[int, int]:
    """Write a history as a member seals it; it goes on if `lives` has been used before. Returns
    how many events and indexes it has."""
    disk = RealDisk(folder, unsafe_no_fsync=True)
    segments = Segments(disk)
    lines: list[bytes] = []
    first = last = count = 0
    for index, stamp_ms, events in lives.rows(events_min):
        first = first or index
        last = index
        lines += to_lines(index, stamp_ms, events)
        count += len(events)
        if last - first + 1 >= indexes_each:
            segments.seal(first, last, lines)
            lines, first = [], 0
    if first:
        segments.seal(first, last, lines)
    disk.close()
    return count, last
