"""Checker of durations: whatever the clocks on the wall say, nothing is over before its time.

Measured by the true time of the simulation between the entries that begin and end something, each
at the moment when a leader made it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rollq.base.limits import READER_HOLD_MS_MAX, STAGED_MS_MAX
from rollq.grid import commands
from rollq.grid import events as facts
from rollq.grid.commands import Settings
from rollq.grid.effects import Applied
from rollq.grid.events import Event
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.roles.member.driver import Driver
from rollq.roles.member.leader.batches import EXPIRED
from rollq.roles.member.work import Work
from rollq.testing.checkers.base import LogChecker
from rollq.testing.clock import MS, Timeline
from rollq.testing.sim_member import SimMember

DRIFT_PER_MILLE: Final = 2  # of two oscillators, and some
ROUNDING_MS: Final = 5
ARRAY: Final = b"array "  # before the id of one
# They begin no duration.
QUIET: Final = (facts.RESULT_CONFIRMED, facts.JOB_CANCEL_REQUESTED, facts.JOB_RELEASED)


class Times(LogChecker):
    """When everything began that ends by itself.

    Args:
        timeline: The true time.
        stalled_ms: How far monotonic clocks leapt so far, all members together.
    """

    name = "nothing is over before its time"

    def __init__(self, timeline: Timeline, stalled_ms: Callable[[], int]) -> None:
        super().__init__()
        self._timeline = timeline
        self._stalled_ms = stalled_ms
        self._made_us: dict[tuple[int, int], int] = {}  # by term and index
        self._entry_us = 0  # when the entry that is looked at was made
        self._since_us: dict[bytes, int] = {}  # last change of a job, or of an array as a whole
        self._names_us: dict[tuple[str, ...], int] = {}  # of staged batches and readers
        self._dead: dict[bytes, None] = {}
        self._sharing: dict[bytes, None] = {}  # arrays whose task 0 has their id
        self._ttl_ms = Settings().result_ttl_ms
        self._dead_ttl_ms = Settings().dead_ttl_ms
        self._asked: dict[bytes, None] = {}  # to be forgotten by the entry that is looked at

    def works(self, member: SimMember, driver: Driver, work: Work) -> None:
        if work.ready is not None:
            for entry in work.ready.entries:
                self._made_us.setdefault((entry.term, entry.index), self._timeline.now_us)

    def applied(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        key = (entry.term, entry.index)
        self._entry_us = self._made_us.get(key, self._timeline.now_us)
        self._asked.clear()
        super().applied(member, entry, applied, state)

    def done(self, index: int, command: commands.Command, count: int) -> None:
        if isinstance(command, commands.SetSettings):
            self._ttl_ms = min(self._ttl_ms, command.settings.result_ttl_ms)
            self._dead_ttl_ms = min(self._dead_ttl_ms, command.settings.dead_ttl_ms)
        elif isinstance(command, commands.ForgetJobs):
            self._asked.update(dict.fromkeys(command.job_ids))
        elif isinstance(command, commands.SubmitArray) and not command.first_task:
            self._sharing[command.array_id] = None
        elif isinstance(command, commands.StageJobs):
            self._names_us[command.client_id, command.batch_key] = self._entry_us
        elif isinstance(command, commands.DropBatches) and command.by == EXPIRED:
            for batch in command.batches:
                name = (batch.client_id, batch.batch_key)
                self._check(f"batch {name}", self._names_us.get(name), STAGED_MS_MAX)
        elif isinstance(command, commands.HoldHistory):
            self._names_us[(command.name,)] = self._entry_us
        elif isinstance(command, commands.FreeHistory) and command.by == EXPIRED:
            since_us = self._names_us.get((command.name,))
            self._check(f"reader {command.name}", since_us, READER_HOLD_MS_MAX)

    def followed(self, member: SimMember, applied: Applied, state: GridState) -> None:
        for event in facts.each_of(applied.events):
            if event.job_id == event.array_id or (not event.job_id and self._shares(event)):
                continue  # of no job, or of an array and its task 0 that go together
            key = event.job_id or ARRAY + event.array_id
            if event.kind == facts.JOB_FORGOTTEN:
                self._forgotten(event, key)
            elif event.kind == facts.JOB_EXPIRED and event.job_id in state.jobs:
                expire_ms = state.jobs[event.job_id].options.expire_ms
                self._check(f"job {key.hex()} in its queue", self._since_us.get(key), expire_ms)
            if event.kind not in QUIET:
                self._since_us[key] = self._entry_us
                self._dead.pop(key, None)
            if event.kind in (facts.JOB_DEAD, facts.JOB_EXPIRED) and event.job_id:
                self._dead[key] = None

    def _shares(self, event: Event) -> bool:
        """Whether task 0 of an array has the array's id, as older clients number: who forgets the
        one forgets the other."""
        return event.array_id in self._sharing

    def _forgotten(self, event: Event, key: bytes) -> None:
        # A result that no client asked for gave way to others, or went with its array.
        if (event.job_id or event.array_id) in self._asked:
            ttl_ms = self._dead_ttl_ms if key in self._dead else self._ttl_ms
            self._check(f"the end of {key.hex()}", self._since_us.get(key), ttl_ms)

    def _check(self, what: str, since_us: int | None, duration_ms: int) -> None:
        if since_us is None:
            return  # it began in an entry that came with a snapshot
        passed_ms = (self._entry_us - since_us) // MS
        slack_ms = ROUNDING_MS + self._stalled_ms() + passed_ms * DRIFT_PER_MILLE // 1_000
        if passed_ms + slack_ms < duration_ms:
            self.fail(f"{what} was given up after {passed_ms} ms, and has {duration_ms} ms")
