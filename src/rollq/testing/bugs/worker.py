"""Bugs of the worker: slots, credit, prefetch, give-back, inputs and outputs."""

from __future__ import annotations

from typing import Any

from rollq.base.errors import ErrorCode, RemoteError
from rollq.roles.worker.assignments import Assignments
from rollq.roles.worker.attempts import Attempts
from rollq.roles.worker.credit import PrefetchWindow, SessionCredit
from rollq.testing.bugs.registry import mutant


@mutant("worker_credit_given_twice", SessionCredit, "grant")
def _credit_given_twice(old: Any) -> Any:
    def grant(self: Any, in_hand: int) -> int:
        count: int = old(self, in_hand)
        self.granted -= count // 2  # half of the grant is not recorded, and granted again
        return count

    return grant


@mutant("worker_give_back_lost", Assignments, "give_back", ahead=8, usual_run_ms=8)
def _give_back_lost(old: Any) -> Any:
    return lambda self, held, detail: self._forget(held)


@mutant("worker_prefetch_beyond_cap", PrefetchWindow, "size", ahead=3, usual_run_ms=8)
def _prefetch_beyond_cap(old: Any) -> Any:
    return property(lambda self: 2 * old.fget(self))


@mutant("worker_prefetch_behind_a_long_job", PrefetchWindow, "size", ahead=8, usual_run_ms=8)
def _prefetch_behind_a_long_job(old: Any) -> Any:
    def size(self: Any) -> int:
        is_stuck, self.is_stuck = self.is_stuck, False
        try:
            return int(old.fget(self))
        finally:
            self.is_stuck = is_stuck

    return property(size)


@mutant("worker_cpu_cap_ignored", SessionCredit, "_due", faults=("worker_busy",))
def _cpu_cap_ignored(old: Any) -> Any:
    def due(self: Any, taken: int) -> int:
        is_busy, self.cpu_busy = self.cpu_busy, False
        try:
            return int(old(self, taken))
        finally:
            self.cpu_busy = is_busy

    return due


@mutant("worker_slot_leaked", Attempts, "free_slot")
def _slot_leaked(old: Any) -> Any:
    def free_slot(self: Any, ref: Any) -> None:
        held = self.find(ref)
        old(self, ref)
        if held is not None and held.ref.fence % 7 == 0:
            self.running_count += 1

    return free_slot


@mutant("worker_inputs_not_awaited", Assignments, "assigned")
def _inputs_not_awaited(old: Any) -> Any:
    def assigned(self: Any, message: Any, *, is_draining: bool) -> bool:
        is_new: bool = old(self, message, is_draining=is_draining)
        held = self.attempts.get(message.job_id)
        if held is not None:
            self.inputs_ready((held.ref,))
        return is_new

    return assigned


@mutant("worker_line_lost", Assignments, "call_waits")
def _line_lost(old: Any) -> Any:
    return lambda self, ref, rest: old(self, ref, rest[1:])


@mutant("worker_line_behind_a_wait", Attempts, "leave_line")
def _line_behind_a_wait(old: Any) -> Any:
    def leave_line(self: Any, ref: Any, now_ms: int) -> None:
        old(self, ref, now_ms)
        self.running_count = max(self.running_count - 1, 0)

    return leave_line


@mutant("worker_damaged_input_is_final", Assignments, "inputs_failed", faults=("blobs_damaged",))
def _damaged_input_is_final(old: Any) -> Any:
    def inputs_failed(self: Any, ref: Any, error: Any) -> None:
        old(self, ref, RemoteError(ErrorCode.BAD_PAYLOAD, error.message))

    return inputs_failed


@mutant("worker_lost_outputs_stay", Assignments, "refused_by_leader", faults=("blobs_missing",))
def _lost_outputs_stay(old: Any) -> Any:
    return lambda self, message: None
