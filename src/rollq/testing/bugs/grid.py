"""Bugs of the replicated state machine."""

from __future__ import annotations

from typing import Any

import msgspec

from rollq.grid import apply as grid_apply
from rollq.grid import attempts, commands, jobs, moves, outcomes, refs, staging, submits
from rollq.grid.effects import Applied, Outcome
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import ASSIGNED, QUEUED, GridState, JobState, PastRecord
from rollq.policy import holds
from rollq.roles.member import replica, snapshot_order
from rollq.testing.bugs.registry import CRASHES, mutant


@mutant("fence_not_checked", grid_apply.HANDLERS, "AckJob", faults=("worker_pause", "cut_sessions"))
def _fence_not_checked(old: Any) -> Any:
    def ack_job(state: GridState, command: commands.AckJob, out: Applied) -> Outcome:
        record = state.jobs.get(command.job_id)
        if record is not None and record.state is ASSIGNED:
            command = msgspec.structs.replace(command, attempt=record.attempt, fence=record.fence)
        outcome: Outcome = old(state, command, out)
        return outcome

    return ack_job


@mutant("zombie_ack_taken", grid_apply.HANDLERS, "AckJob", faults=("worker_pause", "cut_sessions"))
def _zombie_ack(old: Any) -> Any:
    def ack_job(state: GridState, command: commands.AckJob, out: Applied) -> Outcome:
        record = state.jobs.get(command.job_id)
        if record is not None and record.state is QUEUED and record.attempt == command.attempt:
            worker = next(iter(state.workers.values()), None)
            if worker is not None:  # the job waits again, and still the lost attempt's ack counts
                moves.enter_assigned(state, (record,), worker, 1, out.stamp_ms)
                record.attempt, record.fence = command.attempt, command.fence
        outcome: Outcome = old(state, command, out)
        return outcome

    return ack_job


@mutant("cap_leaks_on_requeue", moves, "leave_assigned", faults=("worker_crash", "worker_pause"))
def _cap_leaks(old: Any) -> Any:
    def leave_assigned(state: Any, record: Any, new: JobState, stamp_ms: int) -> None:
        old(state, record, new, stamp_ms)
        if new in (JobState.QUEUED, JobState.DELAYED):
            record.client.in_flight += 1

    return leave_assigned


@mutant("cap_not_checked", attempts, "refuse_start", cap=1, slots=3)
def _cap_not_checked_by_grid(old: Any) -> Any:
    def refuse_start(state: Any, work: Any, array: Any, worker: Any) -> Any:
        cap, work.client.cap = work.client.cap, 0
        refusal = old(state, work, array, worker)
        work.client.cap = cap
        return refusal

    return refuse_start


@mutant("cap_not_checked", holds.Holds, "is_full", cap=1, slots=3)
def _cap_not_checked_by_policy(old: Any) -> Any:
    return lambda self, client: False


@mutant("cut_is_not_owed", jobs, "cut_array", faults=("cut_sessions", *CRASHES))
def _cut_is_not_owed(old: Any) -> Any:
    def cut_array(state: GridState, array: Any, end: JobState, out: Applied, **how: Any) -> int:
        count: int = old(state, array, end, out, **how)
        if count:  # told once, and never again
            array.client.owed.remove(array.cut_seq)
            array.cut_seq = 0
        return count

    return cut_array


@mutant("blob_is_never_released", refs, "release_blobs", faults=())
def _blob_never_released(old: Any) -> Any:
    return lambda state, blobs: None


@mutant("blob_is_released_twice", refs, "release_files", faults=())
def _blob_released_twice(old: Any) -> Any:
    def release_files(state: GridState, owner: Any) -> None:
        old(state, owner)
        old(state, PastRecord(blobs=tuple(one for one in owner.blobs if one.digest in state.blobs)))

    return release_files


@mutant(
    "dedup_lost_in_snapshot",
    snapshot_order,
    "snapshot_pieces",
    faults=CRASHES,
    snapshot_entries=12,
)
def _dedup_lost(old: Any) -> Any:
    def pieces(state: GridState, _: Any) -> Any:
        copy = decode_snapshot(encode_snapshot(state))
        copy.batches.clear()
        return old(copy, copy.bodies.sealed)

    return pieces


@mutant("apply_differs_by_member", replica, "apply_entry", faults=())
def _apply_differs(old: Any) -> Any:
    calls = 0

    def apply_entry(state: GridState, index: int, data: bytes) -> Applied:
        nonlocal calls
        calls += 1
        applied: Applied = old(state, index, data)
        if calls % 101 == 0:  # as if a set had been walked in this process's own order
            state.last_seq += 1
        return applied

    return apply_entry


@mutant("commit_is_not_idempotent", staging, "settled_before", faults=("client_crash", *CRASHES))
def _commit_not_idempotent(old: Any) -> Any:
    return lambda state, name: None


@mutant("unnamed_parts_are_taken", staging, "chunks_named", faults=())
def _unnamed_parts_taken(old: Any) -> Any:
    def chunks_named(parts: Any, wanted: Any) -> Any:
        named = old(parts, wanted)
        if not isinstance(named, list):
            return named
        others = [part for name, part in parts.items() if name.endswith("-")]
        return named + [chunk for part in others for chunk in part.values()]

    return chunks_named


@mutant("reserved_ids_are_free", submits, "refuse_job", faults=("pause", "disk_slow"))
def _reserved_ids_free(old: Any) -> Any:
    def refuse_job(state: GridState, job_id: bytes, body: bytes) -> Any:
        refusal = old(state, job_id, body)
        return None if refusal is outcomes.BEING_UNPACKED else refusal

    return refuse_job


@mutant(
    "unpacking_begins_anew_after_a_snapshot",
    snapshot_order,
    "snapshot_pieces",
    faults=CRASHES,
    snapshot_entries=12,
)
def _unpacking_begins_anew(old: Any) -> Any:
    def pieces(state: GridState, _: Any) -> Any:
        copy = decode_snapshot(encode_snapshot(state))
        for batch in copy.committed.values():
            batch.position = 0
        return old(copy, copy.bodies.sealed)

    return pieces
