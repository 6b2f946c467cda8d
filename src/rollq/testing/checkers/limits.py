"""Checker of limits: no limit and no rate is exceeded. Counted from the log and from the attempts
that workers hold, not from the product's own counters.

A decision is based on the limits at the time it was made, and pending decisions on older ones. So
an entry that starts jobs may leave as many tokens running as the highest maximum since the oldest
pending decision was made. A rate is checked only for starts decided under its current setting.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, TypeAlias

from rollq.base.jobs import JobOptions
from rollq.grid import events as facts
from rollq.grid.commands import Command
from rollq.grid.effects import Applied
from rollq.grid.events import Event
from rollq.grid.rule_commands import PutLimit, RemoveLimit
from rollq.grid.state import GridState, JobRecord
from rollq.grid.times import elapsed_ms
from rollq.raft.types import Entry
from rollq.roles.member.driver import Driver
from rollq.roles.member.work import Work
from rollq.testing.checkers.base import LogChecker
from rollq.testing.sim_member import SimMember

Key: TypeAlias = tuple[str, str]

NO_LIMIT: Final = PutLimit("", "")
ANY_NUMBER: Final = 1 << 60
RATE_SPAN_MS: Final = 86_400_000  # rates are per day


class LimitsKept(LogChecker):
    """A model of the limits, of the attempts that run under them, and of their starts."""

    name = "no limit is exceeded"

    def __init__(self) -> None:
        super().__init__()
        # By limit: its settings, each with the index from which it is in force.
        self._history: dict[Key, list[tuple[int, PutLimit]]] = {}
        self._floors: dict[SimMember, tuple[int, int]] = {}  # by leader: life, and see `on_write`
        # By term and index: the applied index of the leader that decided it.
        self._made: dict[tuple[int, int], int] = {}
        self._known: dict[int, int] = {}  # the same, by index of applied entries
        # By limit, since its last change: times of starts, and their tokens.
        self._starts: dict[Key, list[tuple[int, int]]] = {}
        self._index = 0

    def on_write(self, member: SimMember, driver: Driver, work: Work) -> None:
        """An entry is first written by the leader that made it. Its decisions may be from an
        earlier turn, if the log was full then."""
        life, floor = self._floors.get(member, (member.life, 0))
        if life != member.life:
            floor = 0
        if work.ready is not None:
            for entry in work.ready.entries:
                self._made.setdefault((entry.term, entry.index), floor)
        if not driver.leader_state.proposals:
            floor = driver.state.applied_index
        self._floors[member] = member.life, floor

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Record what the leader that made an entry had applied."""
        self._index = entry.index
        self._known.setdefault(entry.index, self._made.get((entry.term, entry.index), 0))
        super().on_apply(member, entry, applied, state)

    def on_command(self, index: int, command: Command, count: int) -> None:
        """Limits were changed."""
        if isinstance(command, PutLimit | RemoveLimit):
            key = command.scope, command.name
            new = command if isinstance(command, PutLimit) else NO_LIMIT
            self._history.setdefault(key, []).append((index, new))
            self._starts.pop(key, None)

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        """Check everything that an entry started."""
        if not self._history:
            return
        started: dict[Key, None] = {}
        for event in facts.each_of(applied.events):
            record = state.jobs.get(event.job_id)
            if event.kind == facts.JOB_ASSIGNED and record is not None:
                for key, tokens in tokens_of(event, record.options):
                    started[key] = None
                    self._check_rate(key, tokens, applied.stamp_ms, state)
        for key in started:
            self._check_running(key, state)

    def _check_running(self, key: Key, state: GridState) -> None:
        limit = max(one.running_max or ANY_NUMBER for one in self._in_force(key))
        if limit == ANY_NUMBER:
            return
        held = [state.jobs[job_id] for worker in state.workers.values() for job_id in worker.held]
        running = sum(_tokens_in(record, key) for record in held)
        if running > limit:
            self.fail(f"{':'.join(key)}: {running} tokens run, at most {limit} may")

    def _check_rate(self, key: Key, tokens: int, stamp_ms: int, state: GridState) -> None:
        in_force = self._in_force(key)
        limit, starts = in_force[-1], self._starts.setdefault(key, [])
        if len(in_force) == 1 and limit.rate:
            total = min(tokens, limit.burst)
            for at_ms, earlier in reversed(starts):
                total += earlier
                # Clock leaps do not count as time, and stamps are rounded to milliseconds.
                passed_ms = elapsed_ms(state, at_ms, stamp_ms) + 1
                if total > limit.burst + Fraction(limit.rate * passed_ms, RATE_SPAN_MS):
                    self.fail(
                        f"{':'.join(key)}: {total} started in {passed_ms} ms, at {limit.rate} "
                        f"a day and {limit.burst} at once"
                    )
        starts.append((stamp_ms, tokens))

    def _in_force(self, key: Key) -> list[PutLimit]:
        """The settings of a limit since the oldest pending decision, in order."""
        since = self._known.get(self._index, 0)
        since = min(self._known.get(index, 0) for index in range(since + 1, self._index + 1))
        found = [NO_LIMIT]
        for index, one in self._history.get(key, ()):
            if index <= since:
                found = []
            found.append(one)
        return found


def tokens_of(event: Event, options: JobOptions) -> list[tuple[Key, int]]:
    """The tokens that an attempt takes, by limit; these may be unset."""
    taken = [
        (("exec", event.exec_name), 1),
        (("queue", event.queue), 1),
        (("client", event.client_id), 1),
    ]
    return taken + [(("key", name), tokens) for name, tokens in options.limits]


def _tokens_in(record: JobRecord, key: Key) -> int:
    scope, name = key
    if scope == "key":
        return dict(record.options.limits).get(name, 0)
    whose = {"exec": record.exec_name, "queue": record.queue, "client": record.client.client_id}
    return int(whose[scope] == name)
