"""The attempts that a worker answers for, and the slots they take. Pure bookkeeping, no messages.

At most one attempt a job is *held*; an older one that a newer fence ended is *dropped*: it stays in
its slot until its execution is over, and nobody hears of it again. What is over is remembered,
bounded, so that a late delivery does not run it a second time.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import DEDUP_RECORDS_MAX
from rollq.roles.worker.signals import StoredResult
from rollq.wire.messages import AssignJob


class Phase(enum.IntEnum):
    """Where a held attempt stands."""

    WAITING = 0  # accepted, no slot is free yet
    RUNNING = 1
    STOPPING = 2  # told to stop; the execution has not ended yet
    STORING = 3  # ended; its result is on the way to the durable table
    OFFERED = 4  # durable; acked until the grid takes it
    REFUSED = 5  # could not be run; nacked until the grid takes it


# Looking a member up in its class costs as much as making a record, and each job goes through all.
WAITING: Final = Phase.WAITING
RUNNING: Final = Phase.RUNNING
STOPPING: Final = Phase.STOPPING
STORING: Final = Phase.STORING
OFFERED: Final = Phase.OFFERED
REFUSED: Final = Phase.REFUSED


class Held(Struct, gc=False):
    """One attempt that this worker answers for."""

    ref: AttemptRef
    phase: Phase
    lease_ms: int
    job: AssignJob | None = None  # until it is started
    record: StoredResult | None = None  # once it ended
    detail: str = ""  # why it was refused
    not_started: bool = False  # refused before anything was tried

    @property
    def in_slot(self) -> bool:
        """Whether an execution is under way."""
        return self.phase is RUNNING or self.phase is STOPPING


class Attempts:
    """Held, waiting, dropped and remembered attempts."""

    __slots__ = ("_dropped", "_held", "_over", "_over_order", "_slots", "_waiting", "running_count")

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: dict[JobId, Held] = {}
        self._waiting: dict[JobId, Held] = {}  # those of `_held` in WAITING, oldest first
        self._dropped: dict[AttemptRef, None] = {}
        self._over: set[tuple[JobId, int, int]] = set()  # the fields: a ref is dear to hash
        self._over_order: deque[tuple[JobId, int, int]] = deque()  # oldest first
        self.running_count = 0  # slots in use: running, stopping and dropped

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing is owed."""
        return not self._held and not self._dropped

    @property
    def free_count(self) -> int:
        """Slots that nothing runs in and nothing waits for; negative: more waits than fits."""
        return self._slots - self.running_count - len(self._waiting)

    def get(self, job_id: JobId) -> Held | None:
        """The attempt held for a job."""
        return self._held.get(job_id)

    def find(self, ref: AttemptRef) -> Held | None:
        """The held attempt of exactly this name."""
        held = self._held.get(ref.job_id)
        if held is None or (held.ref is not ref and held.ref != ref):
            return None
        return held

    def is_over(self, ref: AttemptRef) -> bool:
        """Whether it ended here, was dropped, or is older than what is held for its job."""
        if (ref.job_id, ref.attempt, ref.fence) in self._over:
            return True
        if self._dropped and ref in self._dropped:
            return True
        held = self._held.get(ref.job_id)
        return held is not None and held.ref.fence > ref.fence

    def hold(self, held: Held) -> None:
        """Answer for one more attempt; its job must not be held."""
        self._held[held.ref.job_id] = held
        if held.phase is WAITING:
            self._waiting[held.ref.job_id] = held

    def hold_started(self, held: Held) -> bool:
        """Answer for one more attempt, in a free slot at once; False: it would have to wait."""
        if self._waiting or self.running_count >= self._slots:
            return False
        self._held[held.ref.job_id] = held
        held.phase = RUNNING
        self.running_count += 1
        return True

    def start_next(self) -> Held | None:
        """Move the oldest waiting attempt into a free slot; None: nothing waits or no slot."""
        if not self._waiting or self.running_count >= self._slots:
            return None
        job_id = next(iter(self._waiting))
        held = self._waiting.pop(job_id)
        held.phase = RUNNING
        self.running_count += 1
        return held

    def waiting(self) -> list[Held]:
        """Those for which no slot was free yet, oldest first."""
        return list(self._waiting.values())

    def leave_slot(self, held: Held, phase: Phase) -> None:
        """It runs or waits no longer."""
        if held.phase is RUNNING or held.phase is STOPPING:
            self.running_count -= 1
        else:
            self._waiting.pop(held.ref.job_id, None)
        held.phase = phase
        held.job = None

    def drop(self, held: Held) -> None:
        """Answer no longer for an attempt that still occupies its slot."""
        del self._held[held.ref.job_id]
        self._dropped[held.ref] = None

    def dropped_ended(self, ref: AttemptRef) -> bool:
        """The execution of a dropped attempt ended; False: it was not a dropped one."""
        if not self._dropped or ref not in self._dropped:
            return False
        del self._dropped[ref]
        self.running_count -= 1
        self._remember(ref)
        return True

    def forget(self, held: Held) -> None:
        """It is over and settled; it must not be in a slot."""
        del self._held[held.ref.job_id]
        if self._waiting:
            self._waiting.pop(held.ref.job_id, None)
        self._remember(held.ref)

    def _remember(self, ref: AttemptRef) -> None:
        key = (ref.job_id, ref.attempt, ref.fence)
        self._over.add(key)
        self._over_order.append(key)
        if len(self._over_order) > DEDUP_RECORDS_MAX:
            self._over.discard(self._over_order.popleft())
