"""What a decision costs where jobs need something: `python -m bench.decisions`.

The time of dispatch alone (credit, decisions, what it follows of applied entries), without the
state machine, consensus, disk or network. Ten workers and jobs that need nothing, given to the
least loaded, beside ten thousand workers with labels and resources, jobs of twelve needs in one
queue, and two limits on each. Times are CPU time of this process, best of several runs, because the
machine may be shared.
"""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from dataclasses import dataclass

from bench.core import is_refusal
from rollq.base.ids import GUID_BYTES
from rollq.base.jobs import JobOptions, Status
from rollq.base.limits import TURN_JOBS_MAX
from rollq.base.needs import Amounts
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import AckRun, Command, OpenWorker, SubmitRun
from rollq.grid.effects import SendAssign
from rollq.grid.rule_commands import PutLimit, PutPolicy
from rollq.grid.state import GridState
from rollq.policy.dispatch import Dispatcher

RUNS = 5
TURNS = 100
JOBS_PER_TURN = 256
WAITING = 20_000
RATIO_MAX = 2.0
CLIENTS = 20
ZONES = 20
NEED_COUNT = 12
NOW_MS = 1_700_000_000_000
TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who is there, and what jobs need."""

    name: str
    workers: int
    slots: int
    has_needs: bool = False
    placement: str = ""


PLAIN = Crowd("10 workers, no needs, least load", 10, 64)
# One slot a worker: a backlog normally means that no credit is idle.
NEEDS = Crowd("10,000 workers, labels, resources, limits", 10_000, 1, has_needs=True)
OTHERS = (
    Crowd("10,000 workers, no needs, least load", 10_000, 1),
    Crowd("10 workers, labels, resources, limits", 10, 64, has_needs=True),
    Crowd("10,000 workers, the same by score", 10_000, 1, has_needs=True, placement="score"),
    Crowd("10,000 workers, the same by stickiness", 10_000, 1, has_needs=True, placement="sticky"),
)


def main() -> int:
    """Measure, print a table, and fail if needs cost too much."""
    crowds = (PLAIN, NEEDS, *OTHERS)
    desks = [BusyDesk(crowd) for crowd in crowds]
    times = [min(found) for found in zip(*(_round(desks) for _ in range(RUNS)), strict=True)]
    for crowd, seconds in zip(crowds, times, strict=True):
        print(f"{crowd.name:<46}{1e6 * seconds:8.2f} us a job{seconds / times[0]:8.2f} x")
    ratio = times[1] / times[0]
    verdict = "" if ratio <= RATIO_MAX else "  MISSED"
    print(f"the second beside the first: {ratio:.2f} x, at most {RATIO_MAX} x{verdict}")
    return 0 if ratio <= RATIO_MAX else 1


def _round(desks: list[BusyDesk]) -> list[float]:
    return [desk.seconds_per_job() for desk in desks]


class BusyDesk:
    """A dispatcher whose workers are always busy: with every turn the attempts that have run
    longest end, and their workers are given others of those that wait."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._chance = random.Random(1)
        self._state = GridState()
        self._dispatcher = Dispatcher(self._state)
        self._index = 0
        self._last_id = 0
        self._running: deque[SendAssign] = deque()
        self._spent_s = 0.0
        self._needs: list[JobOptions | None] = [None]
        if crowd.has_needs:
            self._needs = [self._need(number) for number in range(NEED_COUNT)]
            self._apply([PutLimit("key", "licence", TOKENS), PutLimit("queue", "queue", TOKENS)])
        if crowd.placement:
            self._apply([PutPolicy(">", crowd.placement)])
        for number in range(crowd.workers):
            self._open_worker(number)
        self._apply([self._submit() for _ in range(WAITING)])
        self._turn(JOBS_PER_TURN)

    def seconds_per_job(self) -> float:
        """CPU seconds of dispatch for a job."""
        gc.collect()
        self._spent_s, before = 0.0, self._last_id
        for _ in range(TURNS):
            self._turn(JOBS_PER_TURN)
        return self._spent_s / (self._last_id - before)

    def _need(self, number: int) -> JobOptions:
        labels = (f"zone={number % ZONES}",) if number % 3 else ("!spot",)
        resources: Amounts = (("cpu", 500 * (1 + number % 4)),)
        if number % 4 == 0:
            resources = (*resources, ("gpu", 1_000))
        return JobOptions(labels=labels, resources=resources, limits=(("licence", 1),))

    def _open_worker(self, number: int) -> None:
        worker_id, slots = number.to_bytes(16, "big"), self._crowd.slots
        patterns = ("job.assign.>", f"job.assign.worker{number}")
        labels = (f"zone={number % ZONES}",)
        # Enough for what the slots take on average, so that resources decide now and then.
        resources = (("cpu", slots * 1_500), ("gpu", slots * 500)) if self._crowd.has_needs else ()
        opened = OpenWorker(worker_id, 1, f"w{number}", patterns, slots, (), 0, labels, resources)
        self._apply([opened])
        self._dispatcher.open_worker(worker_id, 1, f"w{number}", patterns)
        self._dispatcher.grant(worker_id, slots)

    def _submit(self) -> SubmitRun:
        self._last_id += 1
        client = f"client{self._chance.randrange(CLIENTS)}"
        options = self._chance.choice(self._needs)
        job_id = self._last_id.to_bytes(GUID_BYTES, "big")
        return SubmitRun(client, "queue", "render", job_id, (b"",), options=options)

    def _turn(self, count: int) -> None:
        """Some attempts end, as many jobs come, and what is free is given away."""
        acks: list[Command] = []
        ended: list[SendAssign] = []
        while self._running and len(acks) < count:
            given = self._running.popleft()
            for at in range(len(given.bodies)):
                job_id = given.job_ids[GUID_BYTES * at : GUID_BYTES * (at + 1)]
                acks.append(AckRun(given.attempt, Status.OK, job_id, (given.fence + at,), (b"",)))
            ended.append(given)
        self._apply([*acks, *(self._submit() for _ in range(count))])
        started = time.process_time()
        for given in ended:
            self._dispatcher.grant(given.worker_id, len(given.bodies))
        decided = self._dispatcher.decide(TURN_JOBS_MAX, NOW_MS)
        self._spent_s += time.process_time() - started
        self._apply(list(decided))

    def _apply(self, commands: list[Command]) -> None:
        self._index += 1
        applied = apply_entry(self._state, self._index, encode_batch(NOW_MS, commands))
        if any(map(is_refusal, applied.outcomes)):
            raise RuntimeError("a command of the measured load was refused")
        self._running.extend(one for one in applied.effects if type(one) is SendAssign)
        started = time.process_time()
        self._dispatcher.observe(applied.events)
        self._spent_s += time.process_time() - started


if __name__ == "__main__":
    raise SystemExit(main())
