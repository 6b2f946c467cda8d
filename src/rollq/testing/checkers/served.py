"""Checker of progress: while a startable job waits and a worker with credit can run it, the
leader assigns something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rollq.grid.limits import due_of, limits_of
from rollq.grid.state import QUEUED, ArrayRecord, GridState, JobRecord, LimitRecord
from rollq.policy.needs import need_of
from rollq.policy.pools import DispatchSession
from rollq.roles.member.driver import Driver
from rollq.subjects.matcher import matches
from rollq.subjects.queues import assign_subject
from rollq.testing.checkers.base import Checker
from rollq.testing.sim_member import SimMember

TURNS_MAX: Final = 20  # turns of a leader without an assignment although one is possible


class Served(Checker):
    """Counts the idle turns of each leader."""

    name = "whoever can start is served"

    def __init__(self) -> None:
        # By member: its term, the last fence, and the turns since then with a startable job.
        self._idle: dict[SimMember, tuple[int, int, int]] = {}

    def on_turn(self, member: SimMember, driver: Driver) -> None:
        """Check a leader after its turn."""
        if not driver.leading:
            self._idle.pop(member, None)
            return
        state, term = driver.state, driver.raft.term
        found = _servable(driver)
        before = self._idle.get(member, (0, 0, 0))
        if found is None or before[:2] != (term, state.last_fence):
            self._idle[member] = term, state.last_fence, 0
            return
        turns = before[2] + 1
        self._idle[member] = term, state.last_fence, turns
        if turns > TURNS_MAX:
            work, session = found
            self.fail(
                f"{member.name} assigned nothing in {turns} turns, though {work.seq} of queue "
                f"{work.queue} could run on {session.name}"
            )


def _servable(driver: Driver) -> tuple[JobRecord | ArrayRecord, DispatchSession] | None:
    """A startable job and a worker for it; None while decisions are pending."""
    dispatcher, state = driver.replica.dispatcher, driver.state
    free = [session for session in dispatcher._sessions.values() if session.credit > 0]
    holds = dispatcher._holds
    if not free or holds.jobs or holds.task_sessions():
        return None
    wanted = _wanted(state) if state.limits else {}
    for work in _waiting(state):
        if _may_start(driver, work, wanted):
            for session in free:
                if _suits(state, session, work):
                    return work, session
    return None


def _waiting(state: GridState) -> Iterator[JobRecord | ArrayRecord]:
    yield from (job for job in state.jobs.values() if job.state is QUEUED)
    yield from (one for one in state.arrays.values() if one.tasks_waiting and not one.delayed)


def _wanted(state: GridState) -> dict[tuple[str, str], int]:
    """The most tokens that one of the waiting jobs needs, by limit."""
    wanted: dict[tuple[str, str], int] = {}
    for work in _waiting(state):
        for limit, tokens in _limits(state, work):
            key = limit.scope, limit.name
            wanted[key] = max(tokens, wanted.get(key, 0))
    return wanted


def _may_start(
    driver: Driver, work: JobRecord | ArrayRecord, wanted: dict[tuple[str, str], int]
) -> bool:
    state, client = driver.state, work.client
    cap = state.cap_of(client)
    array = work.array if isinstance(work, JobRecord) else work
    if state.queues[work.queue].paused or (cap and client.in_flight >= cap):
        return False
    if array is not None and array.running_max and array.running >= array.running_max:
        return False
    now_us = driver.time.rates_ms() * 1_000
    for limit, _ in _limits(state, work):
        # A job that needs more tokens than are free may block the jobs behind it.
        tokens = wanted[limit.scope, limit.name]
        is_full = limit.running_max and limit.running + tokens > limit.running_max
        if is_full or due_of(limit, tokens) > now_us:
            return False
    return True


def _limits(state: GridState, work: JobRecord | ArrayRecord) -> tuple[tuple[LimitRecord, int], ...]:
    return limits_of(state, work.queue, work.client.client_id, work.exec_name, work.options)


def _suits(state: GridState, session: DispatchSession, work: JobRecord | ArrayRecord) -> bool:
    worker = state.workers.get(session.worker_id)
    if worker is None or session.worker_id in state.drained:
        return False
    subject = assign_subject(work.queue)
    return (
        work.options.worker_name in ("", worker.name)
        and session.can_run(need_of(work))
        and session.room.has(work.options.resources)
        and session.reserved_for is None
        and any(matches(pattern, subject) for pattern in worker.patterns)
    )
