"""What the pure core costs: `python -m bench.core [--json FILE]`.

A job's whole life (submit, assign, ack; commands encoded and decoded) goes through consensus of
one, the state machine and dispatch, without disk or network, in batches as the member's loop makes
them: once with each submit and each ack as a command of its own, and once in runs. What is decided
comes in runs in both. Times are CPU time of this process, best of several runs, because the
machine may be shared; memory is what the allocator counts, measured in a first pass while the heap
is still empty.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rollq.base.jobs import Status
from rollq.base.limits import TURN_JOBS_MAX
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import AckRun, Command, OpenWorker, SubmitArray, SubmitRun
from rollq.grid.effects import Effect, Outcome, Refused, RunDone, SendAssign, SendResult
from rollq.grid.state import GridState
from rollq.policy.dispatch import Dispatcher
from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.types import Config, EntryKind, Member, SnapshotMeta
from rollq.subjects.trie import Trie
from rollq.wire.frame import Frame, FrameDecoder, encode_frame

RUNS = 5
JOBS_PER_RUN = 25_600
JOBS_PER_TURN = 256
BODY = bytes(100)
RESULT = bytes(32)
RUN_JOBS = 64
GROUPS = 10  # queues are named group.queue, and each worker serves the queues of one group


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a grid is while its jobs are timed."""

    workers: int
    slots: int
    queues: int
    clients: int
    waiting: int


SMALL = Scale(workers=10, slots=64, queues=10, clients=10, waiting=1_000)
# One slot a worker: a backlog normally means that no credit is idle, and the ratio depends on it.
LARGE = Scale(workers=10_000, slots=1, queues=1_000, clients=10_000, waiting=1_000_000)
# With four slots credit is idle while a million jobs wait: more of it is granted than a turn ends.
IDLE = Scale(workers=10_000, slots=4, queues=1_000, clients=10_000, waiting=1_000_000)


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that must be reached."""

    key: str
    unit: str
    limit: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        """Whether a measured value is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit


TARGETS = (
    Target("jobs_per_s_in_runs", "jobs/s", 250_000, at_least=True),
    Target("jobs_per_s", "jobs/s", 90_000, at_least=True),
    Target("scale_cost_ratio", "x", 1.5, at_least=False),
    Target("scale_cost_ratio_idle", "x", 1.5, at_least=False),
    Target("bytes_per_waiting_job", "bytes", 120, at_least=False),
    Target("frames_per_s", "frames/s", 500_000, at_least=True),
    Target("match_cost_ratio", "x", 2, at_least=False),
    Target("array_state_bytes", "bytes", 1024 * 1024 - 1, at_least=False),
)


def main() -> int:
    """Measure everything, print a table, and fail if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.core", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    figures = measure()
    print(f"{'figure':<24}{'measured':>14}  {'target':>14}  unit")
    for target in TARGETS:
        value = figures[target.key]
        bound = f"{'>=' if target.at_least else '<='} {target.limit:,.12g}"
        verdict = "" if target.is_met(value) else "  MISSED"
        print(f"{target.key:<24}{value:>14,.2f}  {bound:>14}  {target.unit}{verdict}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if all(target.is_met(figures[target.key]) for target in TARGETS) else 1


def measure() -> dict[str, float]:
    """All figures by key. Memory comes first, on an empty heap."""
    array_state_bytes = measure_array()
    bytes_per_waiting_job = measure_memory(LARGE)
    runs_s, small_s, large_s, idle_s = measure_lives()
    return {
        "jobs_per_s_in_runs": 1 / runs_s,
        "jobs_per_s": 1 / small_s,
        "scale_cost_ratio": large_s / small_s,
        "scale_cost_ratio_idle": idle_s / small_s,
        "bytes_per_waiting_job": bytes_per_waiting_job,
        "frames_per_s": measure_frames(),
        "match_cost_ratio": measure_matching(),
        "array_state_bytes": array_state_bytes,
    }


# --- a job's whole life


def measure_lives() -> list[float]:
    """CPU seconds a job: in runs and alone on a small grid, alone on large ones, the second with
    idle credit. By turns: the machine may be shared."""
    members = OneMember(SMALL, RUN_JOBS), OneMember(SMALL), OneMember(LARGE), OneMember(IDLE)
    rounds = [[member.seconds_per_job(JOBS_PER_RUN) for member in members] for _ in range(RUNS)]
    return [min(times) for times in zip(*rounds, strict=True)]


class OneMember:
    """A group of one with its state and its dispatcher, whose workers are always busy.

    Jobs wait, so no credit does: with every turn the jobs that have run longest end, and their
    workers are given others.
    """

    def __init__(self, scale: Scale, run_jobs: int = 1) -> None:
        config = Config((Member(1, "here"),))
        start = RaftStart(snapshot=SnapshotMeta(config=config))
        self._raft = RaftNode(1, RaftOptions(), start, SeededJitter())
        self._state = GridState()
        self._dispatcher = Dispatcher(self._state)
        self._scale = scale
        self._run_jobs = run_jobs
        self._random = random.Random(scale.waiting)
        self._last_id = 0
        self._running: deque[SendAssign] = deque()
        self._ended = 0
        self._raft.campaign()
        self._settle([])
        self._open_workers()
        self._fill()
        self.turn([], 0)

    def seconds_per_job(self, jobs: int) -> float:
        """CPU seconds that a job costs from submit to ack while others keep waiting."""
        submits = [self._submits(JOBS_PER_TURN) for _ in range(jobs // JOBS_PER_TURN)]
        gc.collect()
        before, started = self._ended, time.process_time()
        for commands in submits:
            self.turn(commands, JOBS_PER_TURN)
        return (time.process_time() - started) / (self._ended - before)

    def turn(self, commands: list[Command], ends: int) -> None:
        """One turn of the member's loop: what arrived, so many ends, what is decided, one entry."""
        running = self._running
        while ends > 0 and running:
            given = running.popleft()
            count = len(given.bodies)
            commands += acks_of(given, min(self._run_jobs, count))
            self._dispatcher.grant(given.worker_id, count)
            ends -= count
        self._settle([*commands, *self._dispatcher.decide(TURN_JOBS_MAX)])

    def _settle(self, commands: list[Command]) -> None:
        raft = self._raft
        if commands:
            raft.propose(encode_batch(1_700_000_000_000, commands))
        while raft.has_ready():
            ready = raft.ready()
            for entry in ready.committed:
                data = entry.data if entry.kind == EntryKind.NORMAL else b""
                applied = apply_entry(self._state, entry.index, data)
                self._dispatcher.observe(applied.events)
                if any(map(is_refusal, applied.outcomes)):
                    raise RuntimeError("a command of the measured load was refused")
                self._work(applied.effects)
            raft.advance(ready)

    def _work(self, effects: list[Effect]) -> None:
        """Take the assignments to their workers, and count the results."""
        for effect in effects:
            if type(effect) is SendAssign:
                self._running.append(effect)
            elif type(effect) is SendResult:
                self._ended += len(effect.ends)

    def _open_workers(self) -> None:
        scale = self._scale
        for number in range(scale.workers):
            worker_id = number.to_bytes(16, "big")
            group = f"job.assign.group{number % GROUPS}"
            patterns = (f"{group}.>", f"{group}.worker{number}")
            self._settle([OpenWorker(worker_id, 1, f"worker{number}", patterns, scale.slots)])
            self._dispatcher.open_worker(worker_id, 1, f"worker{number}", patterns)
            self._dispatcher.grant(worker_id, scale.slots)

    def _fill(self) -> None:
        """Let `waiting` jobs wait, spread over queues and clients by chance."""
        for _ in range(self._scale.waiting // 1_000):
            self._settle(self._submits(1_000))

    def _submits(self, count: int) -> list[Command]:
        run = self._run_jobs
        return [self._submit(min(run, count - at)) for at in range(0, count, run)]

    def _submit(self, count: int) -> SubmitRun:
        first = self._last_id + 1
        self._last_id += count
        queue = self._random.randrange(self._scale.queues)
        client = self._random.randrange(self._scale.clients)
        return SubmitRun(
            f"client{client}",
            f"group{queue % GROUPS}.queue{queue}",
            "render",
            b"".join([number.to_bytes(16, "big") for number in range(first, first + count)]),
            (BODY,) * count,
        )


def is_refusal(outcome: Outcome) -> bool:
    """Whether anything of a command was not done."""
    return type(outcome) is Refused or (type(outcome) is RunDone and bool(outcome.others))


def acks_of(given: SendAssign, run_jobs: int) -> Iterator[AckRun]:
    """The ends of attempts that a worker was given, in runs of so many."""
    for at in range(0, len(given.bodies), run_jobs):
        job_ids = given.job_ids[16 * at : 16 * (at + run_jobs)]
        count = len(job_ids) // 16
        fences = tuple(range(given.fence + at, given.fence + at + count))
        yield AckRun(given.attempt, Status.OK, job_ids, fences, (RESULT,) * count)


class SeededJitter:
    """Chance for consensus, which has nothing to decide in a group of one."""

    def __init__(self) -> None:
        self._random = random.Random(0)

    def draw(self, low: int, high: int) -> int:
        """An integer, low <= x < high."""
        return self._random.randrange(low, high)

    def draw_id(self) -> bytes:
        """Sixteen random bytes."""
        return self._random.randbytes(16)


# --- memory


def measure_memory(scale: Scale) -> float:
    """Bytes that a waiting job takes in state and dispatch index, beyond its payload."""
    state = GridState()
    dispatcher = Dispatcher(state)
    chance = random.Random(scale.waiting)
    gc.collect()
    tracemalloc.start()
    for index in range(1, scale.waiting // 1_000 + 1):
        data = encode_batch(0, list(waiting_jobs(scale, chance, index * 1_000, 1_000)))
        dispatcher.observe(apply_entry(state, index, data).events)
        del data
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / len(state.jobs) - len(BODY)


def waiting_jobs(scale: Scale, chance: random.Random, first: int, count: int) -> Iterator[Command]:
    """Submits spread over queues and clients by chance: most lanes hold one job, the worst case."""
    for number in range(first, first + count):
        queue = f"group0.queue{chance.randrange(scale.queues)}"
        client = f"client{chance.randrange(scale.clients)}"
        yield SubmitRun(client, queue, "render", number.to_bytes(16, "big"), (BODY,))


def measure_array() -> float:
    """Bytes of state that a waiting array of a million tasks takes."""
    state = GridState()
    dispatcher = Dispatcher(state)
    command = SubmitArray(bytes(16), "client", "queue", "render", BODY, 1_000_000)
    data = encode_batch(0, [command])
    gc.collect()
    tracemalloc.start()
    dispatcher.observe(apply_entry(state, 1, data).events)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return float(taken)


# --- wire and subjects


def measure_frames() -> float:
    """Small frames decoded a second, fed in pieces as a socket gives them."""
    frame = encode_frame(Frame(3, bytes(range(16)), bytes(16), "job.assign.render", bytes(32)))
    count = 100_000
    stream = frame * count
    pieces = [stream[at : at + 65_536] for at in range(0, len(stream), 65_536)]

    def decode() -> None:
        decoder = FrameDecoder()
        seen = 0
        for piece in pieces:
            decoder.feed(piece)
            seen += len(decoder.frames())
        if seen != count:
            raise RuntimeError(f"{seen} frames came out of {count}")

    return count / best_seconds(decode)


def measure_matching() -> float:
    """Cost of a match against a million patterns, relative to a thousand."""
    return matching_seconds(1_000_000) / matching_seconds(1_000)


def matching_seconds(patterns: int) -> float:
    """CPU seconds of many matches against a tree of so many patterns, half with wildcards."""
    trie: Trie[int] = Trie()
    groups = patterns // 100
    for number in range(patterns):
        group, member = number % groups, number // groups
        tail = ("*", ">", f"worker{member}", f"worker{member}.>")[member % 4]
        trie.insert(f"job.assign.group{group}.queue{member}.{tail}", number)
    chance = random.Random(patterns)
    # As many different subjects in both: it is the number of patterns that is compared.
    different = [
        f"job.assign.group{chance.randrange(groups)}.queue{chance.randrange(100)}.worker7"
        for _ in range(1_000)
    ]
    subjects = different * 20

    def match() -> None:
        for subject in subjects:
            trie.match(subject)

    return best_seconds(match)


def best_seconds(run: Callable[[], None]) -> float:
    """CPU seconds of the fastest of several runs."""
    times = []
    for _ in range(RUNS):
        gc.collect()
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    raise SystemExit(main())
