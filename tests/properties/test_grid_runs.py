"""Runs against the same jobs one by one: the same state, facts, duties and answers.

Each command of a run is applied to one grid as it is, and to another as runs of one in the same
entry. After every entry nothing may tell the two apart, but for the bytes of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from rollq.base.jobs import BlobRef, JobOptions, Status
from rollq.base.staged import join_keys
from rollq.grid import commands as c
from rollq.grid.acks import part_of
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.effects import Outcome, RunDone, each_effect
from rollq.grid.events import each_of
from rollq.grid.invariants import check
from rollq.grid.rule_commands import PutLimit
from rollq.grid.runs import ids_in
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import ASSIGNED, GridState
from rollq.grid.state_hash import hash_state
from tests.effort import examples

IDS = [bytes([65 + number]) * 16 for number in range(10)]
ARRAY = b"array-of-tasks\0\0"
NAMES = st.lists(st.sampled_from(IDS), min_size=1, max_size=6)
CLIENTS = st.sampled_from(["ann", "bob"])
QUEUES = st.sampled_from(["q", "r"])
WORKERS = st.sampled_from([b"v" * 16, b"w" * 16])
OPTIONS = st.sampled_from(
    [
        None,
        JobOptions(priority=2),
        JobOptions(limits=(("db", 2),)),
        JobOptions(max_attempts=2, retry_exit_codes=(75,)),
        JobOptions(delay_ms=30),
    ]
)
OFTEN_RIGHT = st.sampled_from([0, 0, 0, 0, 0, 1])
BLOB = BlobRef(b"b" * 32, 7)


class RunMachine(RuleBasedStateMachine):
    """Two grids, one given runs and one given their jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = GridState()
        self.ones = GridState()
        self.apply(
            c.OpenWorker(b"v" * 16, 1, "v", (">",), 9),
            c.OpenWorker(b"w" * 16, 1, "w", (">",), 9),
            c.SubmitArray(ARRAY, "bob", "q", "exe", b"body", 12, None, 5, first_task=1),
            PutLimit("exec", "exe", 2, 999_983, 3),
            PutLimit("key", "db", 4, 700, 1),
            PutLimit("client", "bob", 1),
        )

    def apply(self, *commands: c.Command) -> None:
        index = self.runs.applied_index + 1
        parts = [list(ones_of(command)) for command in commands]
        run = apply_entry(self.runs, index, encode_batch(index, commands))
        one = apply_entry(self.ones, index, encode_batch(index, list(chain.from_iterable(parts))))
        assert list(each_of(run.events)) == list(each_of(one.events))
        assert all(event.run is None for event in one.events)
        assert list(each_effect(run.effects)) == list(each_effect(one.effects))
        left = iter(one.outcomes)
        for outcome, part in zip(run.outcomes, parts, strict=True):
            mine = [next(left) for _ in part]
            if isinstance(outcome, RunDone):
                assert flat(outcome, len(part)) == [flat(each, 1)[0] for each in mine]
        hash_state(self.runs, run)
        hash_state(self.ones, one)
        assert self.runs.state_hash == self.ones.state_hash
        self.ones.log_hash = self.runs.log_hash
        assert encode_snapshot(self.runs) == encode_snapshot(self.ones)
        assert not check(self.runs)

    @rule(names=NAMES, client=CLIENTS, queue=QUEUES, options=OPTIONS, extra=st.integers(0, 3))
    def submit(self, names: list[bytes], client: str, queue: str, options: Any, extra: int) -> None:
        keys = join_keys([f"key-{name[0]}" if name[0] % 2 else "" for name in names])
        blobs = tuple((BLOB,) if name[0] % 3 else () for name in names)
        self.apply(
            c.SubmitRun(
                client,
                queue,
                "exe",
                b"".join(names),
                tuple(name[: name[0] % 5] for name in names),
                options,
                keys=keys if extra & 1 else "",
                blobs=blobs if extra == 3 else (),
            )
        )

    @rule(names=NAMES, worker=WORKERS, attempt=st.integers(1, 2), shift=OFTEN_RIGHT)
    def assign(self, names: list[bytes], worker: bytes, attempt: int, shift: int) -> None:
        self.apply(c.AssignRun(worker, 1 + shift, attempt, 50, b"".join(names)))

    @rule(worker=WORKERS)
    def assign_all(self, worker: bytes) -> None:
        names = b"".join(self.runs.jobs)
        if names:
            self.apply(c.AssignRun(worker, 1, 1, 50, names), c.AssignRun(worker, 1, 2, 50, names))

    @rule(worker=WORKERS, count=st.integers(1, 7))
    def assign_tasks(self, worker: bytes, count: int) -> None:
        self.apply(c.AssignTasks(ARRAY, worker, 1, 50, count))

    @rule(
        names=NAMES,
        all_running=st.booleans(),
        attempt=st.sampled_from([1, 1, 1, 2]),
        status=st.sampled_from([*map(int, Status), 7]),
        exit_code=st.sampled_from([0, 75]),
        shift=OFTEN_RIGHT,
        extra=OFTEN_RIGHT,
    )
    def ack(
        self, *, names: list[bytes], all_running: bool, attempt: int, shift: int, **ends: int
    ) -> None:
        jobs = self.runs.jobs
        if all_running:
            names = [name for name, record in jobs.items() if record.state is ASSIGNED] or names
        fences = [jobs[name].fence if name in jobs else 1 for name in names]
        fences[0] += shift
        self.apply(
            c.AckRun(
                attempt,
                ends["status"],
                b"".join(names),
                tuple(fences),
                tuple(name[:3] for name in names),
                ends["exit_code"],
                run_ms=tuple(name[0] % 3 for name in names) if ends["extra"] else (),
                blobs=tuple((BLOB,) if name[0] % 2 else () for name in names)
                if ends["extra"]
                else (),
            )
        )

    @rule(names=NAMES, client=CLIENTS)
    def confirm(self, names: list[bytes], client: str) -> None:
        self.apply(c.ConfirmRun(client, b"".join(names)))

    @rule(names=NAMES)
    def trouble(self, names: list[bytes]) -> None:
        jobs = self.runs.jobs
        lost = tuple(c.LostAttempt(one, jobs[one].attempt, 9) for one in names if one in jobs)
        self.apply(c.ExpireLeases(lost[:1]), c.ReleaseJobs(lost), c.CancelJobs(tuple(names[:1])))

    @rule(client=CLIENTS, cap=st.integers(0, 4))
    def open_client(self, client: str, cap: int) -> None:
        self.apply(c.OpenClient(client, cap))

    @rule(queue=QUEUES, paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        self.apply(c.PauseQueue(queue) if paused else c.ResumeQueue(queue))

    @rule(names=NAMES)
    def forget(self, names: list[bytes]) -> None:
        self.apply(c.ForgetJobs(tuple(names)))

    @rule()
    def read_a_snapshot(self) -> None:
        self.runs = decode_snapshot(encode_snapshot(self.runs))


def ones_of(command: c.Command) -> Iterator[c.Command]:
    """The same as runs of one."""
    if isinstance(command, c.SubmitRun):
        keys = command.keys.split("\0") if command.keys else [""] * len(command.bodies)
        for at, job_id in enumerate(ids_in(command.job_ids)):
            yield c.SubmitRun(
                command.client_id,
                command.queue,
                command.exec_name,
                job_id,
                command.bodies[at : at + 1],
                command.options,
                command.caches,
                keys[at],
                command.blobs[at : at + 1],
            )
    elif isinstance(command, c.AssignRun):
        where = command.worker_id, command.incarnation, command.attempt, command.lease_ms
        for job_id in ids_in(command.job_ids):
            yield c.AssignRun(*where, job_id)
    elif isinstance(command, c.AssignTasks):
        where_to = command.array_id, command.worker_id, command.incarnation, command.lease_ms
        for _ in range(command.count):
            yield c.AssignTasks(*where_to, 1)
    elif isinstance(command, c.AckRun):
        yield from (part_of(command, at) for at in range(len(command.fences)))
    elif isinstance(command, c.ConfirmRun):
        yield from (c.ConfirmRun(command.client_id, one) for one in ids_in(command.job_ids))
    else:
        yield command


def flat(outcome: Outcome, count: int) -> list[Outcome | None]:
    """What became of each job; None: it was done."""
    if not isinstance(outcome, RunDone):
        return [outcome] * count
    others = dict(outcome.others)
    assert outcome.count == count - len(others)
    return [others.get(at) for at in range(count)]


TestRuns = RunMachine.TestCase
TestRuns.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
