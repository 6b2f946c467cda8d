"""Checker of durations: nothing expires before its time, whatever the wall clocks show.

Measured in true simulated time between the moments when leaders made the entries that begin and
end a duration.
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
from rollq.testing.clock import MS, VirtualTimeline
from rollq.testing.sim_member import SimMember

DRIFT_PER_MILLE: Final = 2  # more than two oscillators can drift apart
ROUNDING_MS: Final = 5
ARRAY: Final = b"array "  # prefix of the key of an array
# Events that do not begin a duration.
QUIET: Final = (facts.RESULT_CONFIRMED, facts.JOB_CANCEL_REQUESTED, facts.JOB_RELEASED)


class Times(LogChecker):
    """When everything with a deadline began.

    Args:
        timeline: The true time.
        stalled_ms: The sum of all leaps of monotonic clocks so far.
    """

    name = "nothing is over before its time"

    def __init__(self, timeline: VirtualTimeline, stalled_ms: Callable[[], int]) -> None:
        super().__init__()
        self._timeline = timeline
        self._stalled_ms = stalled_ms
        self._made_us: dict[tuple[int, int], int] = {}  # by term and index
        self._entry_us = 0  # when the current entry was made
        self._since_us: dict[bytes, int] = {}  # last change, by job, or by array as a whole
        self._names_us: dict[tuple[str, ...], int] = {}  # last change, by staged batch or reader
        self._dead: dict[bytes, None] = {}
        self._sharing: dict[bytes, None] = {}  # arrays whose task 0 shares their id
        self._ttl_ms = Settings().result_ttl_ms
        self._dead_ttl_ms = Settings().dead_ttl_ms
        self._asked: dict[bytes, None] = {}  # to be forgotten by the current entry

    def on_write(self, member: SimMember, driver: Driver, work: Work) -> None:
        if work.ready is not None:
            for entry in work.ready.entries:
                self._made_us.setdefault((entry.term, entry.index), self._timeline.now_us)

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        key = (entry.term, entry.index)
        self._entry_us = self._made_us.get(key, self._timeline.now_us)
        self._asked.clear()
        super().on_apply(member, entry, applied, state)

    def on_command(self, index: int, command: commands.Command, count: int) -> None:
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

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        for event in facts.each_of(applied.events):
            if event.job_id == event.array_id or (not event.job_id and self._shares(event)):
                continue  # no job, or an array and its task 0 with a shared id
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
        """Whether task 0 of an array shares the array's id, as older clients number: both are
        forgotten together."""
        return event.array_id in self._sharing

    def _forgotten(self, event: Event, key: bytes) -> None:
        # Other results were evicted, or forgotten with their array.
        if (event.job_id or event.array_id) in self._asked:
            ttl_ms = self._dead_ttl_ms if key in self._dead else self._ttl_ms
            self._check(f"the end of {key.hex()}", self._since_us.get(key), ttl_ms)

    def _check(self, what: str, since_us: int | None, duration_ms: int) -> None:
        if since_us is None:
            return  # it began before the snapshot
        passed_ms = (self._entry_us - since_us) // MS
        slack_ms = ROUNDING_MS + self._stalled_ms() + passed_ms * DRIFT_PER_MILLE // 1_000
        if passed_ms + slack_ms < duration_ms:
            self.fail(f"{what} was given up after {passed_ms} ms, and has {duration_ms} ms")
