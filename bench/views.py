"""What views cost the loop of a member: `python -m bench.views [--jobs N]`.

A state with a million jobs, in all states and by many clients, is made without disk and network;
then each view is asked for as a page would, until a page is full. A step is what the loop does at
once: the worst of them is what a job may have to wait for. Times are CPU time of this process,
because the machine may be shared.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from rollq.base.jobs import Status
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import (
    AckRun,
    AssignRun,
    Command,
    NackJob,
    OpenWorker,
    SetSettings,
    Settings,
    SubmitArray,
    SubmitRun,
)
from rollq.grid.matching import JobFilter
from rollq.grid.pages import IdFilter
from rollq.grid.state import GridState
from rollq.roles.member.calendar import ZoneCalendar
from rollq.roles.member.driver import Driver
from rollq.roles.member.queries import as_answer, read, rest_of
from rollq.roles.member.setup import MemberSetup
from rollq.testing.disk import VirtualDisk
from rollq.testing.jitter import SeededJitter
from rollq.wire.messages import Query

RUN_JOBS: Final = 100
QUEUES: Final = 1_000
CLIENTS: Final = 10_000
WORKERS: Final = 10_000
ARRAYS: Final = 10_000
BODY: Final = b'{"JobId":"","ExecName":"calc","Args":["a","b"],"Priority":0}'
STEP_MS_MAX: Final = 2.0  # the target
STEPS_MAX: Final = 2_000


class Asked(NamedTuple):
    """A view as somebody asks for it."""

    name: str
    what: str
    key: bytes = b""
    limit: int = 50


def main() -> int:
    """Measure, and print a table; 1 if a step takes too long."""
    parser = argparse.ArgumentParser(prog="python -m bench.views", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, metavar="N", help="in the state")
    options = parser.parse_args()
    setup, jitter = MemberSetup("here:1"), SeededJitter("views")
    driver = Driver(setup, VirtualDisk(), Clock(), jitter, lambda _: None, calendar=ZoneCalendar())
    driver.replica.replace(make_state(options.jobs))
    gc.collect()
    gc.freeze()
    print(f"{len(driver.state.jobs):,} jobs; ms of CPU time")
    print(f"{'view':<44}{'rows':>6}{'steps':>7}{'worst step':>12}{'all':>10}")
    worst_ms = 0.0
    for asked in views():
        rows, steps_ms = measure(driver, asked)
        worst_ms = max(worst_ms, *steps_ms)
        figures = f"{rows:>6}{len(steps_ms):>7}{max(steps_ms):>12.2f}{sum(steps_ms):>10.1f}"
        print(f"{asked.name:<44}{figures}")
    print(f"worst step: {worst_ms:.2f} ms (target: {STEP_MS_MAX:g})")
    return int(worst_ms > STEP_MS_MAX)


def measure(driver: Driver, asked: Asked) -> tuple[int, list[float]]:
    """How many rows came, and what each step cost."""
    query: Query | None = Query(bytes(16), asked.what, asked.key, asked.limit)
    steps_ms: list[float] = []
    rows = 0
    while query is not None and len(steps_ms) < STEPS_MAX:
        began = time.process_time()
        found = read(driver.leader_state.reads.sources(query, leads=True), query)
        steps_ms.append(1_000 * (time.process_time() - began))
        as_answer(query, 1, found)  # readers have that done by their threads
        jobs = getattr(found, "jobs", found)
        rows += len(jobs) if isinstance(jobs, list) else 1
        query = rest_of(query, found)
    return rows, steps_ms


def views() -> Iterator[Asked]:
    """What pages ask for."""
    for name in ("counts", "cluster", "settings", "unserved", "queues", "clients", "workers"):
        yield Asked(name, name)
    yield Asked("workers, 1,000 rows", "workers", limit=1_000)
    yield Asked("arrays", "arrays")
    yield Asked("dead", "dead")
    yield Asked("caches", "caches")
    yield Asked("ids, by digits", "ids", msgspec.msgpack.encode(IdFilter("7f3a")))
    yield Asked("job", "job", (7).to_bytes(16, "big"))
    yield Asked("explain", "explain", (7).to_bytes(16, "big"))
    yield Asked("jobs, 1,000 rows", "jobs", limit=1_000)
    filters = {
        "newest": JobFilter(newest=True),
        "waiting": JobFilter(state="waiting", newest=True),
        "running": JobFilter(state="running", newest=True),
        "failed": JobFilter(state="failed", newest=True),
        "ok, of a queue": JobFilter(state="ok", queue="g.q7", newest=True),
        "dead": JobFilter(state="dead", newest=True),
        "cancelled: none": JobFilter(state="cancelled"),
        "queue": JobFilter(queue="g.q7", newest=True),
        "client": JobFilter(client_id="client7", newest=True),
        "client, again": JobFilter(client_id="client7", newest=True),
        "key": JobFilter(key="key 777", newest=True),
        "key, again": JobFilter(key="key 777", newest=True),
        "program: none": JobFilter(exec_name="none", newest=True),
        "time": JobFilter(since_ms=1_010, until_ms=1_012),
        "text": JobFilter(text="ey 7777", newest=True),
    }
    for name, wanted in filters.items():
        yield Asked(f"jobs: {name}", "jobs", msgspec.msgpack.encode(wanted))


# --- the state


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        """Of no importance."""
        return 0

    def now_us(self) -> int:
        """The same."""
        return 0

    def wall_ms(self) -> int:
        """Neither."""
        return 0


def make_state(jobs: int) -> GridState:
    """A third of the jobs has ended, most of them well; some run, some are dead, others wait."""
    state = GridState()

    def apply(*commands: Command) -> None:
        index = state.applied_index + 1
        apply_entry(state, index, encode_batch(1_000 + index // 100, list(commands)))

    apply(SetSettings(Settings(max_attempts=1)))
    for number in range(WORKERS):
        apply(OpenWorker(number.to_bytes(16, "big"), 1, f"w{number}", ("q",), 4))
    for number in range(ARRAYS):
        array_id = (2**100 + 2**40 * number).to_bytes(16, "big")
        apply(SubmitArray(array_id, f"client{number % 10}", "g.q1", "calc", BODY, 10))
    for number in range(jobs // RUN_JOBS):
        first = number * RUN_JOBS
        ids = b"".join(one.to_bytes(16, "big") for one in range(first, first + RUN_JOBS))
        client, queue = f"client{number % CLIENTS}", f"g.q{number % QUEUES}"
        keys = "\0".join(f"key {one}" for one in range(first, first + RUN_JOBS))
        apply(SubmitRun(client, queue, "calc", ids, (BODY,) * RUN_JOBS, keys=keys))
        if number % 3 == 0:
            _run(state, apply, ids, number)
    return state


def _run(state: GridState, apply: Callable[..., None], ids: bytes, number: int) -> None:
    """Start the jobs of a run, and end most of them."""
    fence = state.last_fence + 1
    apply(AssignRun((number % WORKERS).to_bytes(16, "big"), 1, 1, 30_000, ids))
    if number % 300 == 0:  # 1 % of those runs still runs
        return
    fences = tuple(range(fence, fence + RUN_JOBS))
    if number % 600 == 3:
        job_ids = [ids[at : at + 16] for at in range(0, len(ids), 16)]
        nacks = zip(job_ids, fences, strict=True)
        apply(*(NackJob(job_id, 1, one, "no such program") for job_id, one in nacks))
        return
    status = Status.FAILED if number % 900 == 6 else Status.OK
    apply(AckRun(1, status, ids, fences, (b"",) * RUN_JOBS))


if __name__ == "__main__":
    raise SystemExit(main())
