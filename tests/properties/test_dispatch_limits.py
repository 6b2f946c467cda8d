"""Limits, rates and weights, whatever happens: none is exceeded, and all have their turn."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from rollq.base.jobs import JobOptions
from rollq.grid import commands as c
from rollq.grid.commands import AssignRun, AssignTasks
from rollq.grid.effects import Applied
from rollq.grid.events import JOB_ASSIGNED, each_of
from rollq.grid.limits import tokens_in
from rollq.grid.rule_commands import PutLimit, PutWeight, RemoveLimit
from rollq.grid.state import ASSIGNED, QUEUED, JobRecord
from tests.unit.grid.kit import job_id
from tests.unit.policy.kit import EVERYTHING
from tests.unit.policy.scripts import Script

KEYS = ("exec:exe", "exec:saw", "queue:q", "client:ann", "key:gpu", "key:db")
CLIENTS = ("ann", "bob", "eve")
RATE_SPAN_MS = 86_400_000  # of `LimitRecord.rate`


class Random(Script):
    """A desk on which anything happens; keeps an account of its own of what started."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.number = 0
        # By limit, since it was last changed: when a start was, and of how many tokens.
        self.starts: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def apply(self, *commands: c.Command) -> Applied:
        before = {key: limit.running for key, limit in self.state.limits.items()}
        applied = super().apply(*commands)
        for event in each_of(applied.events):
            if event.kind == JOB_ASSIGNED:
                self._count(self.state.jobs[event.job_id])
        for key, limit in self.state.limits.items():
            if limit.running_max and key in before:
                assert limit.running <= max(before[key], limit.running_max), key
        return applied

    def _count(self, record: JobRecord) -> None:
        for key, limit in self.state.limits.items():
            tokens = tokens_in(limit, record)
            if not tokens or not limit.rate:
                continue
            starts = self.starts.setdefault(key, [])
            total = min(tokens, limit.burst)
            for at_ms, earlier in reversed(starts):
                total += earlier
                passed_ms = self.stamp_ms - at_ms + 1  # stamps are whole milliseconds
                assert total <= limit.burst + Fraction(limit.rate * passed_ms, RATE_SPAN_MS), key
            starts.append((self.stamp_ms, tokens))

    def step(self) -> None:
        """Something happens, and then the leader decides."""
        draw = self.chance
        dice = draw.randrange(100)
        if dice < 40:
            self._submit()
        elif dice < 65:
            self._end_some(draw.randrange(4))
        elif dice < 72:
            self.stamp_ms += draw.choice((1, 30, 700))
        elif dice < 80:
            self._change_limit()
        elif dice < 84:
            self.apply(PutWeight(draw.choice(CLIENTS), draw.choice((1, 2, 5))))
        elif dice < 88:
            waiting = [job for job in self.state.jobs.values() if job.state is QUEUED]
            if waiting:
                self.apply(c.CancelJobs((draw.choice(waiting).job_id,)))
        elif dice < 92:
            self.lead([], {"w": str(draw.randrange(6)), "v": str(draw.randrange(6))})
        else:
            self.grant(draw.choice("vw"), draw.randrange(5))
        self.turn()

    def turn(self) -> None:
        """Decide; some of it is applied only after more was decided."""
        while decided := self.dispatcher.decide(self.chance.choice((1, 7, 1_000)), self.stamp_ms):
            more: list[AssignRun | AssignTasks] = []
            if self.chance.random() < 0.3:
                more = self.dispatcher.decide(1_000, self.stamp_ms)
            applied = self.apply(*decided, *more)
            for command, outcome in zip([*decided, *more], applied.outcomes, strict=True):
                others = dict(getattr(outcome, "others", ()))
                self.dispatcher.refused(command, list(others))

    def finish(self) -> None:
        """Time passes, jobs end, and workers have credit: nothing is left in the end."""
        for key, limit in list(self.state.limits.items()):
            if limit.running_max:
                self.apply(PutLimit(*key, max(3, limit.running_max), limit.rate, limit.burst))
                self.starts.pop(key, None)
        for _ in range(2 * len(self.state.jobs) + 200):
            if not self.left():
                break
            self._end_some(1_000)
            self.stamp_ms += 100_000
            self.grant("w", 9)
            self.grant("v", 9)
            self.turn()
        assert not self.left()
        self.stamp_ms += 1_000_000
        self.turn()  # timers that nobody waits for any more
        limits = self.dispatcher._holds.limits
        assert not limits.waiting_count
        assert not limits.called
        assert not limits._holds

    def left(self) -> int:
        """How many jobs and tasks have not ended."""
        open_jobs = [job for job in self.state.jobs.values() if job.state in (QUEUED, ASSIGNED)]
        return len(open_jobs) + sum(array.tasks_waiting for array in self.state.arrays.values())

    def _submit(self) -> None:
        draw = self.chance
        self.number += 1
        keys = [(key, draw.randrange(1, 4)) for key in ("db", "gpu") if draw.random() < 0.4]
        worker = draw.choice(("", "", "", "v"))
        options = JobOptions(draw.choice((0, 0, 5)), worker_name=worker, limits=tuple(keys))
        where = draw.choice(CLIENTS), draw.choice("qr"), draw.choice(("exe", "saw"))
        name = job_id(f"j{self.number}")
        if draw.random() < 0.2:
            most = draw.choice((0, 2))
            self.apply(c.SubmitArray(name, *where, b"", draw.randrange(1, 6), options, most))
            return
        ids = [job_id(f"j{self.number}x{at}") for at in range(draw.choice((1, 1, 6)))]
        self.apply(c.SubmitRun(*where, b"".join(ids), (b"",) * len(ids), options))

    def _end_some(self, count: int) -> None:
        running = [job for job in self.state.jobs.values() if job.state is ASSIGNED]
        for job in self.chance.sample(running, min(count, len(running))):
            which = job.job_id, job.attempt, job.fence
            if self.chance.random() < 0.1:
                self.apply(c.NackJob(*which, "no", 0, True))
            else:
                self.apply(c.AckJob(*which, 0, b""))

    def _change_limit(self) -> None:
        draw = self.chance
        scope, name = draw.choice(KEYS).split(":")
        self.starts.pop((scope, name), None)
        if draw.random() < 0.3:
            self.apply(RemoveLimit(scope, name))
            return
        rate = draw.choice((0, 0, 86_400, 50 * 86_400))
        running = draw.choice((1, 2, 3, 5)) if not rate or draw.random() < 0.5 else 0
        self.apply(PutLimit(scope, name, running, rate, draw.choice((1, 3, 6)) if rate else 0))


@pytest.mark.parametrize("seed", range(12))
def test_no_limit_is_exceeded_and_nothing_is_left(seed: int) -> None:
    desk = Random(seed)
    desk.worker("v", 2)
    desk.worker("w", 3)
    for _ in range(80):
        desk.step()
    desk.finish()


@pytest.mark.parametrize("seed", range(8))
def test_turns_are_in_proportion_to_weights(seed: int) -> None:
    chance = random.Random(seed)
    desk = Script()
    weights = {client: chance.choice((1, 1, 2, 3, 7)) for client in CLIENTS}
    desk.weigh([], {client: str(weight) for client, weight in weights.items()})
    for client in CLIENTS:
        ids = [job_id(f"{client}{number}") for number in range(300)]
        desk.apply(c.SubmitRun(client, "q", "exe", b"".join(ids), (b"",) * len(ids)))
    desk.worker("w", 0, EVERYTHING)
    given = dict.fromkeys(CLIENTS, 0)
    credit = chance.choice((1, 2, 5, 30, 64))
    total = sum(weights.values())
    while sum(given.values()) < 250:
        desk.grant("w", credit)
        for run in desk.dispatcher.decide(1_000, desk.stamp_ms):
            assert isinstance(run, AssignRun)
            desk.apply(run)
            for at in range(0, len(run.job_ids), 16):
                given[desk.state.jobs[run.job_ids[at : at + 16]].client.client_id] += 1
        count = sum(given.values())
        for client, weight in weights.items():
            fair = count * weight / total
            # No more than one turn ahead or behind, of as many jobs as a visit may have.
            assert abs(given[client] - fair) <= weight * (1 + credit // total) + credit % total + 7
