"""Bugs of the replicated state machine."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rollq.base.ids import GUID_BYTES
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid import apply as grid_apply
from rollq.grid import attempts, commands, jobs, moves, outcomes, refs, staging, submits
from rollq.grid.effects import Applied, Outcome, RunDone
from rollq.grid.runs import ids_in
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import ASSIGNED, QUEUED, GridState, JobState, PastRecord
from rollq.policy import holds
from rollq.roles.member import replica, snapshot_order
from rollq.testing.bugs.registry import CRASHES, mutant


@mutant("fence_not_checked", grid_apply.HANDLERS, "AckRun", faults=("worker_pause", "cut_sessions"))
def _fence_not_checked(old: Any) -> Any:
    def ack_run(state: GridState, command: commands.AckRun, out: Applied) -> Outcome:
        records = [state.jobs.get(job_id) for job_id in ids_in(command.job_ids)]
        fences = tuple(
            record.fence if record is not None and record.state is ASSIGNED else fence
            for record, fence in zip(records, command.fences, strict=True)
        )
        first = records[0]
        attempt = command.attempt
        if first is not None and first.state is ASSIGNED:
            attempt = first.attempt
        command = replace(command, attempt=attempt, fences=fences)
        outcome: Outcome = old(state, command, out)
        return outcome

    return ack_run


@mutant("zombie_ack_taken", grid_apply.HANDLERS, "AckRun", faults=("worker_pause", "cut_sessions"))
def _zombie_ack(old: Any) -> Any:
    def ack_run(state: GridState, command: commands.AckRun, out: Applied) -> Outcome:
        for job_id, fence in zip(ids_in(command.job_ids), command.fences, strict=True):
            record = state.jobs.get(job_id)
            worker = next(iter(state.workers.values()), None)
            if record is None or record.state is not QUEUED or record.attempt != command.attempt:
                continue
            if worker is not None:  # the ack of a lost attempt is accepted while the job is queued
                moves.enter_assigned(state, (record,), worker, 1, out.stamp_ms)
                record.attempt, record.fence = command.attempt, fence
        outcome: Outcome = old(state, command, out)
        return outcome

    return ack_run


@mutant("first_fence_counts_for_the_run", attempts, "enter_assigned", faults=())
def _first_fence_for_all(old: Any) -> Any:
    def enter_assigned(state: GridState, records: Any, *how: Any) -> None:
        old(state, records, *how)
        for record in records:
            record.fence = records[0].fence

    return enter_assigned


@mutant("half_a_run_is_applied", grid_apply.HANDLERS, "SubmitRun", faults=())
def _half_a_run(old: Any) -> Any:
    def submit_run(state: GridState, command: commands.SubmitRun, out: Applied) -> Outcome:
        count = len(command.bodies)
        if count < 2 or command.keys or command.blobs:
            outcome: Outcome = old(state, command, out)
            return outcome
        half = replace(command, job_ids=command.job_ids[:GUID_BYTES], bodies=command.bodies[:1])
        old(state, half, out)
        return RunDone(count)

    return submit_run


@mutant("split_of_a_run_is_lost", attempts, "known_groups", faults=())
def _split_lost(old: Any) -> Any:
    def known_groups(state: GridState, job_ids: Any) -> Any:
        groups = list(old(state, job_ids))
        if not all(group for _, group in groups):
            return groups
        return [(0, [record for _, group in groups for record in group])]

    return known_groups


@mutant("cap_counts_runs", attempts, "room_left", cap=1, slots=3)
def _cap_counts_runs(old: Any) -> Any:
    return lambda state, record: RUN_JOBS_MAX if record.array is None else 1


@mutant("cap_counts_runs", holds.Holds, "room", cap=1, slots=3)
def _cap_counts_runs_in_policy(old: Any) -> Any:
    return lambda self, client: RUN_JOBS_MAX


@mutant("a_confirmed_run_forgets_one", grid_apply.HANDLERS, "ConfirmRun", faults=())
def _run_forgets_one(old: Any) -> Any:
    def confirm_run(state: GridState, command: commands.ConfirmRun, out: Applied) -> Outcome:
        part = replace(command, job_ids=command.job_ids[-GUID_BYTES:])
        outcome: Outcome = old(state, part, out)
        return outcome

    return confirm_run


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


@mutant("cap_not_checked", attempts, "room_left", cap=1, slots=3)
def _cap_leaves_room_in_grid(old: Any) -> Any:
    return lambda state, record: max(1, old(state, record))


@mutant("cap_not_checked", holds.Holds, "is_full", cap=1, slots=3)
def _cap_not_checked_by_policy(old: Any) -> Any:
    return lambda self, client: False


@mutant("cut_is_not_owed", jobs, "cut_array", faults=("cut_sessions", *CRASHES))
def _cut_is_not_owed(old: Any) -> Any:
    def cut_array(state: GridState, array: Any, end: JobState, out: Applied, **how: Any) -> int:
        count: int = old(state, array, end, out, **how)
        if count:  # delivered once, not again until confirmed
            array.client.owed.remove(array.cut_seq)
            array.cut_seq = 0
        return count

    return cut_array


@mutant("blob_is_never_released", refs, "release_blobs", faults=())
def _blob_never_released(old: Any) -> Any:
    return lambda state, blobs, holder: None


@mutant("blob_is_released_twice", refs, "release_files", faults=())
def _blob_released_twice(old: Any) -> Any:
    def release_files(state: GridState, owner: Any, client_id: str) -> None:
        old(state, owner, client_id)
        left = tuple(one for one in owner.blobs if one.digest in state.blobs)
        old(state, PastRecord(blobs=left), client_id)

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
        if calls % 101 == 0:  # like the iteration order of a set
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


@mutant("drain_ends_with_the_session", grid_apply.HANDLERS, "OpenWorker", faults=("cut_sessions",))
def _drain_ends_with_session(old: Any) -> Any:
    def open_worker(state: GridState, command: commands.OpenWorker, out: Applied) -> Outcome:
        state.drained.pop(command.worker_id, None)
        outcome: Outcome = old(state, command, out)
        return outcome

    return open_worker


@mutant("drain_is_not_checked", attempts, "refuse_start", faults=())
def _drain_not_checked(old: Any) -> Any:
    def refuse_start(state: Any, work: Any, array: Any, worker: Any) -> Any:
        refusal = old(state, work, array, worker)
        return None if refusal is outcomes.WORKER_IS_DRAINED else refusal

    return refuse_start
