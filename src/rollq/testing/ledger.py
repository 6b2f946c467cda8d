"""The model of the group: committed entries, recorded when a member first applies them.

No product code reads it. It is an independent, naive model of every job, built from events alone,
against which the state of the grid is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from rollq.base.ids import ClientId, JobId, WorkerId
from rollq.base.staged import ids_of
from rollq.grid import events as facts
from rollq.grid.command_codec import decode_batch
from rollq.grid.commands import AckRun
from rollq.grid.effects import Applied, RunDone
from rollq.grid.events import Event
from rollq.grid.state import GridState
from rollq.raft.types import Entry, EntryKind
from rollq.testing.checkers.base import Checker
from rollq.testing.sim_member import SimMember

BLOCKED: Final = "blocked"
WAITING: Final = "waiting"
RUNNING: Final = "running"
DONE: Final = "done"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"
GONE: Final = "gone"  # forgotten or purged: the id may be used again
ENDS: Final = (DONE, DEAD, CANCELLED)

# event -> (allowed states before it, state after it)
MOVES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    facts.JOB_ENQUEUED: ((GONE,), WAITING),
    facts.JOB_DELAYED: ((GONE,), WAITING),
    facts.JOB_RELEASED: ((WAITING,), WAITING),
    facts.JOB_BLOCKED: ((GONE,), BLOCKED),
    facts.JOB_UNBLOCKED: ((BLOCKED,), WAITING),
    facts.JOB_ASSIGNED: ((WAITING,), RUNNING),
    facts.JOB_ACKED: ((RUNNING,), DONE),
    facts.JOB_TIMED_OUT: ((RUNNING,), WAITING),
    facts.JOB_WORKER_LOST: ((RUNNING,), WAITING),
    facts.JOB_NACKED: ((RUNNING,), WAITING),
    facts.JOB_RETRIED: ((RUNNING,), WAITING),
    facts.JOB_DEAD: ((RUNNING,), DEAD),
    facts.JOB_EXPIRED: ((WAITING,), DEAD),
    facts.JOB_CANCELLED: ((BLOCKED, WAITING, RUNNING), CANCELLED),
    facts.JOB_REDRIVEN: ((DEAD,), WAITING),
    facts.JOB_PURGED: ((DEAD,), GONE),
    facts.JOB_FORGOTTEN: (ENDS, GONE),
}


@dataclass(slots=True)
class JobGhost:
    """The model of one job, built from events."""

    job_id: JobId
    client_id: ClientId
    state: str = GONE
    attempt: int = 0
    fence: int = 0
    worker_id: WorkerId = b""
    born_index: int = 0
    ended_index: int = 0
    status: int = 0
    array_id: JobId = b""


@dataclass(slots=True)
class CommittedEntry:
    """One committed entry."""

    term: int
    kind: int
    crc: int
    log_hash: bytes
    state_hash: bytes
    applied: Applied
    # The term of the member that first applied it. The entry was committed in this term or earlier,
    # perhaps later than its own term: a leader commits inherited entries with its first own one.
    applied_term: int


CUTS = {facts.JOB_CANCELLED: CANCELLED, facts.JOB_EXPIRED: DEAD}


@dataclass(slots=True, frozen=True)
class UnrunTasks:
    """The last tasks of an array that ended without ever being assigned."""

    index: int
    count: int
    state: str


@dataclass(slots=True)
class Ledger(Checker):
    """Committed entries and the jobs in them. A checker: a committed entry never changes."""

    name = "committed entries"

    lines: list[CommittedEntry] = field(default_factory=list)  # of index 1, 2, …
    jobs: dict[JobId, JobGhost] = field(default_factory=dict)
    arrays: dict[JobId, int] = field(default_factory=dict)  # array -> index it was accepted at
    cuts: dict[JobId, UnrunTasks] = field(default_factory=dict)  # by array
    # The same, of forgotten arrays: a message sent before may still be in flight.
    past_cuts: dict[JobId, UnrunTasks] = field(default_factory=dict)
    in_flight: dict[ClientId, int] = field(default_factory=dict)
    caps: dict[ClientId, int] = field(default_factory=dict)
    last_fence: int = 0
    ended_count: int = 0

    @property
    def last_index(self) -> int:
        """The highest applied index."""
        return len(self.lines)

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Record a new entry, or compare with the recorded one."""
        index, crc = entry.index, crc32(entry.data)
        if index == len(self.lines) + 1:
            self.lines.append(
                CommittedEntry(
                    entry.term,
                    entry.kind,
                    crc,
                    state.log_hash,
                    state.state_hash,
                    applied,
                    member.term,
                )
            )
            if entry.kind == EntryKind.NORMAL and entry.data:
                self._check_acks(entry, applied)
            for event in facts.each_of(applied.events):
                self._follow(index, event)
            return
        if index > len(self.lines):
            self.fail(f"{member.name} applied {index}, but {len(self.lines) + 1} was never applied")
        line = self.lines[index - 1]
        if (line.term, line.kind, line.crc) != (entry.term, entry.kind, crc):
            self.fail(
                f"{member.name} applied another entry at {index}: "
                f"term {entry.term} and not {line.term}"
            )
        if line.log_hash != state.log_hash:
            self.fail(f"{member.name} has another running hash at {index}")
        if line.state_hash != state.state_hash:
            self.fail(f"{member.name} has another hash of its state at {index}")
        if line.applied.events != applied.events:
            self.fail(f"{member.name} made other events of entry {index}")

    def _check_acks(self, entry: Entry, applied: Applied) -> None:
        """Check the accepted acks against the issued fences, command by command."""
        given = {
            e.job_id: e.fence for e in facts.each_of(applied.events) if e.kind == facts.JOB_ASSIGNED
        }
        batch = decode_batch(entry.data)
        for command, outcome in zip(batch.commands, applied.outcomes, strict=True):
            if not isinstance(command, AckRun) or not isinstance(outcome, RunDone):
                continue
            others = dict(outcome.others)
            for at, job_id in enumerate(ids_of(command.job_ids)):
                job = self.jobs.get(job_id)
                fences = (job.fence if job is not None else 0, given.get(job_id))
                if at not in others and command.fences[at] not in fences:
                    self.fail(
                        f"an ack with the stale fence {command.fences[at]} of job "
                        f"{job_id.hex()} was taken at {entry.index}; it is at {fences[0]}"
                    )

    def _follow(self, index: int, event: Event) -> None:
        if event.kind == facts.ARRAY_ENQUEUED:
            self.arrays[event.array_id] = index
        elif event.kind in CUTS and event.array_id and not event.job_id:
            if event.array_id in self.cuts:
                self.fail(f"array {event.array_id.hex()} was cut again at {index}")
            self.cuts[event.array_id] = UnrunTasks(index, event.count, CUTS[event.kind])
        elif event.kind == facts.JOB_FORGOTTEN and event.array_id and not event.job_id:
            cut = self.cuts.pop(event.array_id, None)
            if cut is not None:
                self.past_cuts[event.array_id] = cut
        elif event.kind == facts.CLIENT_OPENED:
            self.caps[event.client_id] = event.count
        move = MOVES.get(event.kind)
        if move is None or not event.job_id:
            return
        job = self.jobs.get(event.job_id)
        if job is None:
            job = self.jobs[event.job_id] = JobGhost(event.job_id, event.client_id)
        allowed, state = move
        if job.state not in allowed and not (event.array_id and job.state == GONE):
            self.fail(f"job {job.job_id.hex()} was {job.state}, then came {event.kind} at {index}")
        if job.state == GONE:
            job.born_index, job.attempt = index, 0
        self._count(job, state)
        self._change(job, index, event, state)

    def _count(self, job: JobGhost, state: str) -> None:
        """Count the client's jobs in flight, and check its cap."""
        client_id = job.client_id
        if job.state == RUNNING:
            self.in_flight[client_id] -= 1
        if state == RUNNING:
            count = self.in_flight.get(client_id, 0) + 1
            self.in_flight[client_id] = count
            cap = self.caps.get(client_id, 0)
            if cap and count > cap:
                self.fail(f"{count} jobs of {client_id} are in flight, above its cap of {cap}")

    def _change(self, job: JobGhost, index: int, event: Event, state: str) -> None:
        if event.kind == facts.JOB_ASSIGNED:
            if event.fence <= self.last_fence:
                self.fail(f"fence {event.fence} was given after {self.last_fence}")
            self.last_fence = event.fence
            if event.attempt <= job.attempt:
                self.fail(f"attempt {event.attempt} of a job came after {job.attempt}")
            job.fence, job.attempt = event.fence, event.attempt
            job.worker_id, job.array_id = event.worker_id, event.array_id
        elif event.kind == facts.JOB_ACKED:
            if (event.attempt, event.fence) != (job.attempt, job.fence):
                self.fail(
                    f"result of attempt {event.attempt}, fence {event.fence} was taken; the job "
                    f"is at attempt {job.attempt}, fence {job.fence}"
                )
            job.status = event.status
        if state in ENDS:
            job.ended_index = index
            self.ended_count += 1
        job.state = state
