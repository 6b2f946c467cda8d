"""The attempts that a worker is responsible for, and their slots. Pure, without messages.

At most one attempt of a job is *held*. One that a newer fence superseded while it ran is *dropped*:
it keeps its slot until its execution ends, and is not reported. Ended attempts are remembered, up
to a bound, so that a late delivery does not run them again.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from msgspec import Struct

from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import DEDUP_RECORDS_MAX
from rollq.roles.worker.signals import StoredResult
from rollq.wire.messages import AssignJob


class AttemptPhase(enum.IntEnum):
    """The phase of a held attempt. Up to ENDING it is work, from STORING on a report."""

    PREPARING = 0  # inputs are being fetched; no slot
    WAITING = 1  # waits for a free slot
    LINED = 2  # a call in the line, queued or under way; the line takes one slot
    RUNNING = 3  # in a slot
    STOPPING = 4  # in a slot, stop requested; the execution has not ended yet
    ENDING = 5  # slot freed; the result is not known yet
    STORING = 6  # ended; its result is being stored
    OFFERED = 7  # result durable; acked until the grid takes it
    REFUSED = 8  # could not be run; nacked until the grid takes it


# Enum lookups cost as much as creating a record, and every job passes all phases.
PREPARING: Final = AttemptPhase.PREPARING
WAITING: Final = AttemptPhase.WAITING
LINED: Final = AttemptPhase.LINED
RUNNING: Final = AttemptPhase.RUNNING
STOPPING: Final = AttemptPhase.STOPPING
ENDING: Final = AttemptPhase.ENDING
STORING: Final = AttemptPhase.STORING
OFFERED: Final = AttemptPhase.OFFERED
REFUSED: Final = AttemptPhase.REFUSED


class Held(Struct, gc=False):
    """One attempt that this worker is responsible for."""

    ref: AttemptRef
    phase: AttemptPhase
    lease_ms: int
    job: AssignJob | None = None  # until it starts, or leaves the line
    has_inputs: bool = False  # to fetch or fetched; belong to the execution once it starts
    since_ms: int = 0  # start of waiting for a slot, then of running
    record: StoredResult | None = None  # from STORING on
    detail: str = ""  # of REFUSED
    not_started: bool = False  # REFUSED before anything ran

    @property
    def in_slot(self) -> bool:
        """Whether an execution is under way."""
        return self.phase is RUNNING or self.phase is STOPPING


class Attempts:
    """Held, waiting, dropped and remembered attempts.

    Attributes:
        running_count: Slots used by held and dropped attempts, without the slot of the line. With
            it, never more than all slots.
        lined_count: Calls in the line.
    """

    __slots__ = (
        "_dropped",
        "_held",
        "_in_hand",
        "_over",
        "_over_order",
        "_slots",
        "_storing_count",
        "_waiting",
        "lined_count",
        "running_count",
    )

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: dict[JobId, Held] = {}
        self._waiting: dict[JobId, Held] = {}  # held in WAITING, oldest first
        self._dropped: dict[AttemptRef, Held] = {}  # until their executions end
        # By job, the newest ended fence: attempts with this or an older fence have ended.
        self._over: dict[JobId, int] = {}
        self._over_order: deque[JobId] = deque()  # oldest first; may name a job more than once
        self._in_hand = 0  # held up to ENDING
        self._storing_count = 0  # held in STORING
        self.lined_count = 0
        self.running_count = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing is left to report."""
        return not self._held and not self._dropped

    @property
    def in_hand(self) -> int:
        """Attempts whose work has not ended, dropped ones included."""
        return self._in_hand + len(self._dropped)

    @property
    def is_storing(self) -> bool:
        """Whether results are being stored: acks follow."""
        return self._storing_count > 0

    @property
    def waiting_count(self) -> int:
        """Attempts that wait for a slot."""
        return len(self._waiting)

    def get(self, job_id: JobId) -> Held | None:
        """The attempt held for a job."""
        return self._held.get(job_id)

    def find(self, ref: AttemptRef) -> Held | None:
        """The held attempt with exactly this ref."""
        held = self._held.get(ref.job_id)
        if held is None or (held.ref is not ref and held.ref != ref):
            return None
        return held

    def is_over(self, ref: AttemptRef) -> bool:
        """Whether it has ended, was dropped, or is older than the held attempt of its job."""
        if ref.fence <= self._over.get(ref.job_id, -1):
            return True
        if self._dropped and ref in self._dropped:
            return True
        held = self._held.get(ref.job_id)
        return held is not None and held.ref.fence > ref.fence

    def are_new(self, ids: Sequence[JobId]) -> bool:
        """Whether all of these jobs are unknown here."""
        return (
            not self._dropped
            and self._held.keys().isdisjoint(ids)
            and self._over.keys().isdisjoint(ids)
            and len(set(ids)) == len(ids)
        )

    def may_line_up(self, count: int, most: int) -> bool:
        """Whether so many calls may join the line at once: no attempt waits before them."""
        if self._waiting or self.lined_count + count > most:
            return False
        return self.lined_count > 0 or self.has_room

    def hold_all(self, ids: Sequence[JobId], held: Iterable[Held], *, in_line: bool) -> None:
        """Hold more attempts, all LINED or all WAITING; their jobs must not be held."""
        new = dict(zip(ids, held, strict=True))
        self._held.update(new)
        self._in_hand += len(new)
        if in_line:
            self.lined_count += len(new)
        else:
            self._waiting.update(new)

    def hold(self, held: Held) -> None:
        """Hold one more attempt; its job must not be held."""
        self._held[held.ref.job_id] = held
        if held.phase is WAITING:
            self._waiting[held.ref.job_id] = held
        self._in_hand += held.phase <= ENDING

    def wait(self, held: Held, now_ms: int) -> None:
        """Its inputs are complete: it waits for a slot."""
        held.phase = WAITING
        held.since_ms = now_ms
        self._waiting[held.ref.job_id] = held

    @property
    def has_room(self) -> bool:
        """Whether a slot is free."""
        return self.running_count + (self.lined_count > 0) < self._slots

    def next_waiting(self) -> Held | None:
        """The oldest waiting attempt."""
        return next(iter(self._waiting.values()), None)

    def line_up(self, calls: frozenset[str], most: int) -> list[Held]:
        """Move the oldest waiting attempts into the line, up to the first that is no call."""
        moved: list[Held] = []
        for held in islice(self._waiting.values(), most):
            if held.job is None or held.job.exec_name not in calls:
                break
            held.phase = LINED
            moved.append(held)
        if len(moved) == len(self._waiting):
            self._waiting.clear()
        else:
            for held in moved:
                del self._waiting[held.ref.job_id]
        self.lined_count += len(moved)
        return moved

    def leave_line(self, ref: AttemptRef, now_ms: int) -> None:
        """A call of the line waits: move it to a slot of its own."""
        held = self.find(ref) or self._dropped.get(ref)
        if held is not None and held.phase is LINED:
            self.lined_count -= 1
            self.running_count += 1
            held.phase = RUNNING
            held.since_ms = now_ms
            held.job = None
            held.has_inputs = False

    def back_in_front(self, refs: Sequence[AttemptRef], now_ms: int) -> None:
        """Move the rest of the line back to WAITING, before all others."""
        front: dict[JobId, Held] = {}
        for ref in refs:
            held = self.find(ref)
            if held is not None and held.phase is LINED:
                self.lined_count -= 1
                held.phase = WAITING
                held.since_ms = now_ms
                front[ref.job_id] = held
            elif held is None:
                self.dropped_ended(ref)
        self._waiting = front | self._waiting

    def start_next(self, now_ms: int) -> Held | None:
        """Move the oldest waiting attempt into a free slot; None if none waits or no slot is
        free."""
        if not self._waiting or not self.has_room:
            return None
        job_id = next(iter(self._waiting))
        held = self._waiting.pop(job_id)
        held.phase = RUNNING
        held.since_ms = now_ms
        self.running_count += 1
        return held

    def free_slot(self, ref: AttemptRef) -> None:
        """Free the slot of a held or dropped attempt whose execution ended. Idempotent."""
        held = self.find(ref) or (self._dropped.get(ref) if self._dropped else None)
        if held is not None and (held.phase is RUNNING or held.phase is STOPPING):
            self.running_count -= 1
            held.phase = ENDING
        elif held is not None and held.phase is LINED:
            self.lined_count -= 1
            held.phase = ENDING
            held.job = None

    def not_begun(self, *, with_line: bool = False) -> list[Held]:
        """The attempts that prepare or wait, oldest first; optionally with those in the line."""
        last = LINED if with_line else WAITING
        return [held for held in self._held.values() if held.phase <= last]

    def waited_since(self, before_ms: int) -> list[Held]:
        """The attempts that have waited since before this time, oldest first."""
        return [held for held in self._waiting.values() if held.since_ms < before_ms]

    def oldest_start_ms(self) -> int | None:
        """The start of the longest run under way; None if nothing runs."""
        every = chain(self._held.values(), self._dropped.values())
        return min([held.since_ms for held in every if held.in_slot], default=None)

    def end(self, held: Held, phase: AttemptPhase) -> None:
        """End the work of an attempt; a report is left: `phase` is STORING or REFUSED."""
        if held.phase is RUNNING or held.phase is STOPPING:
            self.running_count -= 1
        elif held.phase is LINED:
            self.lined_count -= 1
        elif held.phase is WAITING:
            self._waiting.pop(held.ref.job_id, None)
        self._in_hand -= held.phase <= ENDING
        self._storing_count += phase is STORING
        held.phase = phase
        held.job = None

    def end_all(self, results: Sequence[StoredResult]) -> list[StoredResult]:
        """Executions ended: move held attempts to STORING; returns their results."""
        if self._dropped:
            results = [record for record in results if not self.dropped_ended(record.ref)]
        ended: list[StoredResult] = []
        get = self._held.get
        for record in results:
            ref = record.ref
            held = get(ref.job_id)
            if held is None or (held.ref is not ref and held.ref != ref) or held.phase > ENDING:
                continue
            if held.phase is LINED:  # the usual case
                self.lined_count -= 1
                self._in_hand -= 1
                self._storing_count += 1
                held.phase = STORING
                held.job = None
            else:
                self.end(held, STORING)
            held.record = record
            ended.append(record)
        return ended

    def offer_all(self, refs: Sequence[AttemptRef]) -> tuple[list[Held], list[AttemptRef]]:
        """The results of these attempts are durable, or their outputs are uploaded again. Returns
        the attempts to ack, and the superseded ones."""
        offered: list[Held] = []
        superseded: list[AttemptRef] = []
        get = self._held.get
        for ref in refs:
            held = get(ref.job_id)
            if held is None or (held.ref is not ref and held.ref != ref):
                superseded.append(ref)
            elif held.phase is STORING:
                self._storing_count -= 1
                held.phase = OFFERED
                offered.append(held)
            elif held.phase is OFFERED:
                offered.append(held)
        return offered, superseded

    def drop(self, held: Held) -> None:
        """Stop holding an attempt whose execution has not ended."""
        del self._held[held.ref.job_id]
        self._in_hand -= 1
        self._dropped[held.ref] = held

    def dropped_ended(self, ref: AttemptRef) -> bool:
        """Remove a dropped attempt whose execution ended; false if it is not a dropped one."""
        if not self._dropped or ref not in self._dropped:
            return False
        self.free_slot(ref)
        del self._dropped[ref]
        self._remember(ref)
        return True

    def forget(self, held: Held) -> None:
        """Remove a settled attempt; it must not be in a slot."""
        del self._held[held.ref.job_id]
        self._in_hand -= held.phase <= ENDING
        self._storing_count -= held.phase is STORING
        if self._waiting:
            self._waiting.pop(held.ref.job_id, None)
        self._remember(held.ref)

    def forget_taken(self, ids: Iterable[JobId], attempts: Iterable[int]) -> list[Held]:
        """Remove attempts whose reports were taken; returns those that were OFFERED or REFUSED."""
        held, get = self._held, self._held.get
        over: list[Held] = []
        for job_id, attempt in zip(ids, attempts, strict=True):
            one = get(job_id)
            if one is None or one.ref.attempt != attempt:
                continue
            if one.phase is OFFERED or one.phase is REFUSED:
                del held[job_id]
                over.append(one)
        # The held attempt of a job is its newest known one.
        self._over.update([(one.ref.job_id, one.ref.fence) for one in over])
        self._over_order.extend([one.ref.job_id for one in over])
        self._forget_oldest()
        return over

    def _remember(self, ref: AttemptRef) -> None:
        self._over[ref.job_id] = max(ref.fence, self._over.get(ref.job_id, -1))
        self._over_order.append(ref.job_id)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        order, over = self._over_order, self._over
        for _ in range(len(order) - DEDUP_RECORDS_MAX):
            over.pop(order.popleft(), None)
