"""The grid against a plain model: random commands, and after each the same answer from both.

The model is a dict of small dicts and knows nothing of seqs, fences' origins, shelves or counts.
After every step all laws hold, every move is in the lifecycle table, and a copy of the state that
went through a snapshot one step before has done exactly the same.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollq.base.jobs import AttemptRef, JobOptions, Status
from rollq.grid import commands as c
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.effects import Applied, Duplicate, Refused, SendAssign
from rollq.grid.invariants import check
from rollq.grid.lifecycle import is_allowed
from rollq.grid.rule_commands import PutLimit, RemoveLimit
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState, JobState
from tests.effort import examples

IDS = [bytes([65 + number]) * 16 for number in range(4)]
PICKS = st.integers(0, 15)  # which job of those in the right state; the last one: any job at all
CLIENTS = st.sampled_from(["ann", "bob"])
QUEUES = st.sampled_from(["q", "r"])
WORKERS = st.sampled_from([b"v" * 16, b"w" * 16])
LIMITS = st.sampled_from(
    [("exec", "exe"), ("queue", "q"), ("client", "ann"), ("key", "db"), ("key", "db")]
)
DELAYS = st.sampled_from([0, 30])
MAX_ATTEMPTS = 2
RETRIED_EXIT = 75


class Model:
    """What should be true."""

    def __init__(self) -> None:
        self.jobs: dict[bytes, dict[str, Any]] = {}
        self.caps: dict[str, int] = {}
        self.paused: dict[str, bool] = {}
        self.workers: dict[bytes, int] = {}

    def in_flight(self, client: str) -> int:
        return sum(j["state"] == "assigned" and j["client"] == client for j in self.jobs.values())

    def may_assign(self, name: bytes, worker: bytes, incarnation: int, attempt: int) -> bool:
        job = self.jobs.get(name)
        return (
            job is not None
            and job["state"] == "queued"
            and attempt == job["attempt"] + 1
            and self.workers.get(worker) == incarnation
            and not self.paused.get(job["queue"])
            and (
                not self.caps.get(job["client"])
                or self.in_flight(job["client"]) < self.caps[job["client"]]
            )
        )

    def lose(self, name: bytes, delay_ms: int) -> None:
        job = self.jobs[name]
        job["fence"] = job["worker"] = None
        if job["cancel"]:
            self.end(name, "cancelled")
        elif job["attempt"] - job["base"] >= MAX_ATTEMPTS:
            self.end(name, "dead")
        else:
            job["state"] = "delayed" if delay_ms else "queued"

    def end(self, name: bytes, how: str, result: bytes = b"") -> None:
        self.jobs[name].update(state=how, owed=True, cancel=False, result=result)


OFTEN_RIGHT = st.sampled_from([0, 0, 0, 1])  # shifts an attempt or fence to a wrong one


class GridMachine(RuleBasedStateMachine):
    """Random life of a grid with few jobs, two clients and two workers."""

    def __init__(self) -> None:
        super().__init__()
        self.state = GridState()
        self.twin = GridState()
        self.model = Model()
        self.stamp_ms = 0
        for worker in (b"v" * 16, b"w" * 16):
            self.open_worker(worker, 1, False, 0)

    def apply(self, command: c.Command) -> Applied:
        before = {name: record.state for name, record in self.state.jobs.items()}
        self.twin = decode_snapshot(encode_snapshot(self.state))
        self.stamp_ms += 1
        data = encode_batch(self.stamp_ms, [command])
        index = self.state.applied_index + 1
        applied = apply_entry(self.state, index, data)
        assert apply_entry(self.twin, index, data) == applied
        for name in {**before, **self.state.jobs}:
            record = self.state.jobs.get(name)
            now = None if record is None else record.state
            assert is_allowed(before.get(name), type(command), now), (command, name)
        return applied

    def pick(self, number: int, *states: str) -> bytes:
        """Mostly a job in one of these states, at times any other."""
        fitting = [name for name, job in self.model.jobs.items() if job["state"] in states]
        if number == 15 or not fitting:
            return IDS[number % len(IDS)]
        return fitting[number % len(fitting)]

    def any_in(self, *states: str) -> bool:
        return any(job["state"] in states for job in self.model.jobs.values())

    def refused(self, applied: Applied) -> bool:
        return isinstance(applied.outcomes[0], Refused)

    @precondition(lambda self: len(self.model.jobs) < len(IDS))
    @rule(client=CLIENTS, worker=WORKERS)
    def submit_and_assign(self, client: str, worker: bytes) -> None:
        name = next(name for name in IDS if name not in self.model.jobs)
        self.submit(name, client, "q", 0)
        self.start(name, worker, 0)

    @rule(name=st.sampled_from(IDS), client=CLIENTS, queue=QUEUES, delay_ms=DELAYS)
    def submit(self, name: bytes, client: str, queue: str, delay_ms: int) -> None:
        options = JobOptions(
            delay_ms=delay_ms,
            max_attempts=MAX_ATTEMPTS,
            retry_exit_codes=(RETRIED_EXIT,),
            limits=(("db", 2),),
        )
        applied = self.apply(c.SubmitJob(name, client, queue, "exe", name, options))
        job = self.model.jobs.get(name)
        if job is None:
            self.model.jobs[name] = {
                "client": client,
                "queue": queue,
                "delay": delay_ms,
                "attempt": 0,
                "base": 0,
                "state": "delayed" if delay_ms else "queued",
                "cancel": False,
                "owed": False,
                "fence": None,
                "worker": None,
                "result": b"",
            }
            assert not self.refused(applied)
        elif (job["client"], job["queue"], job["delay"]) != (client, queue, delay_ms):
            assert self.refused(applied)
        else:
            ended = job["state"] in ("done", "dead", "cancelled")
            assert applied.outcomes == [Duplicate(ended)]
            assert len(applied.effects) == ended

    @rule(
        what=st.sampled_from(["open", "close", "cap", "pause", "resume", "resume"]),
        worker=WORKERS,
        incarnation=st.integers(1, 2),
        flag=st.booleans(),
        delay_ms=DELAYS,
        client=CLIENTS,
        queue=QUEUES,
    )
    def disturb(
        self,
        *,
        what: str,
        worker: bytes,
        incarnation: int,
        flag: bool,
        delay_ms: int,
        client: str,
        queue: str,
    ) -> None:
        """One rule for what happens around the jobs, so that most steps are about jobs."""
        if what == "open":
            self.open_worker(worker, incarnation, flag, delay_ms)
        elif what == "close":
            self.close_worker(worker, incarnation)
        elif what == "cap":
            self.open_client(client, incarnation if flag else 0)
        else:
            self.pause(queue, what == "pause")

    def open_worker(self, worker: bytes, incarnation: int, announce: bool, delay_ms: int) -> None:
        held = [name for name, job in self.model.jobs.items() if job["worker"] == worker]
        refs = tuple(
            AttemptRef(name, self.model.jobs[name]["attempt"], self.model.jobs[name]["fence"])
            for name in held
            if announce
        )
        applied = self.apply(c.OpenWorker(worker, incarnation, "w", (">",), 2, refs, delay_ms))
        known = self.model.workers.get(worker, incarnation)
        if known != incarnation and not announce:
            for name in held:
                self.model.lose(name, delay_ms)
        resent = [one for one in applied.effects if isinstance(one, SendAssign)]
        assert len(resent) == (len(held) if known == incarnation and not announce else 0)
        self.model.workers[worker] = incarnation

    def close_worker(self, worker: bytes, incarnation: int) -> None:
        applied = self.apply(c.CloseWorker(worker, incarnation))
        if self.model.workers.get(worker) != incarnation:
            assert self.refused(applied)
            return
        del self.model.workers[worker]
        for name, job in self.model.jobs.items():
            if job["worker"] == worker:
                self.model.lose(name, 0)

    @precondition(lambda self: self.any_in("queued"))
    @rule(pick=PICKS, worker=WORKERS, shift=OFTEN_RIGHT)
    def assign(self, pick: int, worker: bytes, shift: int) -> None:
        self.start(self.pick(pick, "queued"), worker, shift)

    def start(self, name: bytes, worker: bytes, shift: int) -> None:
        job = self.model.jobs.get(name)
        attempt = (job["attempt"] if job else 0) + 1 + shift
        incarnation = self.model.workers.get(worker, 1)
        may = self.model.may_assign(name, worker, incarnation, attempt)
        applied = self.apply(c.AssignJob(name, worker, incarnation, attempt, 500))
        assert self.refused(applied) != may
        if job is not None and may:
            order = applied.effects[0]
            assert isinstance(order, SendAssign)
            job.update(state="assigned", attempt=attempt, worker=worker, fence=order.fence)

    @precondition(lambda self: self.any_in("assigned"))
    @rule(
        pick=PICKS,
        status=st.sampled_from(list(Status)),
        exit_code=st.sampled_from([0, 75]),
        stale=OFTEN_RIGHT,
        delay_ms=DELAYS,
    )
    def ack(self, pick: int, status: Status, exit_code: int, stale: int, delay_ms: int) -> None:
        name = self.pick(pick, "assigned")
        job = self.model.jobs.get(name)
        attempt, fence = (job["attempt"], job["fence"] or 0) if job else (1, 1)
        applied = self.apply(
            c.AckJob(name, attempt, fence + stale, status, name, exit_code, retry_delay_ms=delay_ms)
        )
        if job is None or stale or job["state"] != "assigned":
            assert self.refused(applied) or applied.outcomes == [Duplicate(ended=True)]
            assert not applied.events
            return
        retried = status is Status.FAILED and exit_code == RETRIED_EXIT
        if retried or (status is Status.CANCELLED and not job["cancel"]):
            self.model.lose(name, delay_ms)
        else:
            how = "cancelled" if status is Status.CANCELLED else "done"
            job["worker"] = None
            self.model.end(name, how, name)

    @precondition(lambda self: self.any_in("assigned"))
    @rule(pick=PICKS, delay_ms=DELAYS, shift=OFTEN_RIGHT, nack=st.booleans())
    def lose(self, pick: int, delay_ms: int, shift: int, nack: bool) -> None:
        name = self.pick(pick, "assigned")
        job = self.model.jobs.get(name)
        attempt = (job["attempt"] if job else 1) + shift
        fence = (job["fence"] if job else 0) or 0
        self.apply(
            c.NackJob(name, attempt, fence, "", delay_ms)
            if nack
            else c.ExpireLeases((c.LostAttempt(name, attempt, delay_ms),))
        )
        if job is not None and job["state"] == "assigned" and not shift:
            self.model.lose(name, delay_ms)

    @precondition(lambda self: self.any_in("delayed"))
    @rule(pick=PICKS, shift=OFTEN_RIGHT)
    def release(self, pick: int, shift: int) -> None:
        name = self.pick(pick, "delayed")
        job = self.model.jobs.get(name)
        attempt = (job["attempt"] if job else 0) + shift
        self.apply(c.ReleaseJobs((c.LostAttempt(name, attempt),)))
        if job is not None and job["state"] == "delayed" and not shift:
            job["state"] = "queued"

    @rule(pick=PICKS)
    def expire(self, pick: int) -> None:
        name = self.pick(pick, "queued", "delayed")
        self.apply(c.ExpireJobs((name,)))
        if name in self.model.jobs and self.model.jobs[name]["state"] in ("queued", "delayed"):
            self.model.end(name, "dead")

    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        name = self.pick(pick, "queued", "delayed", "assigned")
        self.apply(c.CancelJobs((name,)))
        job = self.model.jobs.get(name)
        if job is not None and job["state"] == "assigned":
            job["cancel"] = True
        elif job is not None and job["state"] in ("queued", "delayed"):
            self.model.end(name, "cancelled")

    @precondition(lambda self: self.any_in("dead"))
    @rule(pick=PICKS, edit=st.booleans())
    def redrive(self, pick: int, edit: bool) -> None:
        name = self.pick(pick, "dead")
        body = b"edited" if edit else None
        applied = self.apply(c.RedriveJobs((c.RedriveItem(name, body),)))
        job = self.model.jobs.get(name)
        dead = job is not None and job["state"] == "dead"
        assert self.refused(applied) != dead
        if job is not None and dead:
            job.update(state="queued", base=job["attempt"], owed=False, fence=None)

    @precondition(lambda self: self.any_in("done", "dead", "cancelled"))
    @rule(pick=PICKS, purge=st.booleans())
    def forget(self, pick: int, purge: bool) -> None:
        name = self.pick(pick, "done", "dead", "cancelled")
        self.apply(c.PurgeJobs((name,)) if purge else c.ForgetJobs((name,)))
        job = self.model.jobs.get(name)
        gone = ("dead",) if purge else ("done", "dead", "cancelled")
        if job is not None and job["state"] in gone:
            del self.model.jobs[name]

    @precondition(lambda self: self.any_in("done", "dead", "cancelled"))
    @rule(pick=PICKS, client=CLIENTS)
    def confirm(self, pick: int, client: str) -> None:
        name = self.pick(pick, "done", "dead", "cancelled")
        self.apply(c.ConfirmResults(client, (name,)))
        job = self.model.jobs.get(name)
        if job is not None and job["client"] == client:
            job["owed"] = False

    def open_client(self, client: str, cap: int) -> None:
        self.apply(c.OpenClient(client, cap))
        self.model.caps[client] = cap

    def pause(self, queue: str, pause: bool) -> None:
        self.apply(c.PauseQueue(queue) if pause else c.ResumeQueue(queue))
        self.model.paused[queue] = pause

    @precondition(lambda self: self.model.jobs)
    @rule(client=CLIENTS)
    def resend(self, client: str) -> None:
        owed = [
            name for name, job in self.model.jobs.items() if job["owed"] and job["client"] == client
        ]
        record = self.state.clients.get(client)
        assert sorted(owed) == sorted(record.owed if record else ())

    @rule(limit=LIMITS, running_max=st.integers(1, 3), rate=st.sampled_from([0, 0, 86_399_983]))
    def put_limit(self, limit: tuple[str, str], running_max: int, rate: int) -> None:
        self.apply(PutLimit(*limit, running_max, rate, 2 if rate else 0))

    @rule(limit=LIMITS)
    def remove_limit(self, limit: tuple[str, str]) -> None:
        self.apply(RemoveLimit(*limit))

    @invariant()
    def tokens_are_those_of_what_runs(self) -> None:
        for (scope, name), limit in self.state.limits.items():
            jobs = [job for job in self.model.jobs.values() if job["state"] == "assigned"]
            if scope == "key":
                assert limit.running == 2 * len(jobs)
            elif scope == "exec":
                assert limit.running == len(jobs)
            else:
                assert limit.running == sum(job[scope] == name for job in jobs)

    @invariant()
    def no_law_is_broken(self) -> None:
        assert check(self.state) == []

    @invariant()
    def grid_and_model_agree(self) -> None:
        assert set(self.state.jobs) == set(self.model.jobs)
        for name, job in self.model.jobs.items():
            record = self.state.jobs[name]
            assert record.state is JobState[job["state"].upper()], name
            assert record.attempt == job["attempt"]
            assert record.cancel_requested == job["cancel"]
            if record.end is not None:
                assert (record.end.confirmed_seq == 0) == job["owed"]
                assert record.end.result in (job["result"], name)
        for client, record_ in self.state.clients.items():
            assert record_.in_flight == self.model.in_flight(client)
        assert {name: one.incarnation for name, one in self.state.workers.items()} == (
            self.model.workers
        )


TestGridMachine = GridMachine.TestCase
TestGridMachine.settings = settings(max_examples=examples(150), stateful_step_count=60)
