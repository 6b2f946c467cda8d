"""The only entry point of the state machine: apply a committed entry, return its events and
effects.

Deterministic: the same entries give the same state, events and hash on every member and in every
process. A command that cannot be executed is refused and changes nothing; the other commands of the
entry are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from zlib import crc32

from rollq.base.errors import ErrorCode, LocalError
from rollq.grid import (
    access_commands,
    commands,
    flow_commands,
    rule_commands,
    schedule_commands,
    topic_commands,
)
from rollq.grid.access import (
    note_act,
    note_refusals,
    put_account,
    put_role,
    remove_account,
    remove_role,
)
from rollq.grid.acks import ack_job, ack_run
from rollq.grid.arrays import assign_task, assign_tasks, submit_array
from rollq.grid.attempts import assign_job, assign_run, expire_leases, nack_job
from rollq.grid.caches import put_cache, remove_cache
from rollq.grid.clients import confirm_results, confirm_run, open_client
from rollq.grid.command_codec import decode_batch
from rollq.grid.effects import Applied, Outcome
from rollq.grid.hints import set_hints
from rollq.grid.jobs import (
    cancel_jobs,
    expire_jobs,
    forget_jobs,
    purge_jobs,
    redrive_jobs,
    release_jobs,
)
from rollq.grid.limits import put_limit, remove_limit
from rollq.grid.policies import put_policy, put_weight, remove_policy
from rollq.grid.queues import pause_queue, resume_queue, set_settings
from rollq.grid.readers import free_history, hold_history
from rollq.grid.schedules import (
    fire_schedule,
    pause_schedule,
    put_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
)
from rollq.grid.settling import settle, settle_children
from rollq.grid.staging import commit_batch, drop_batches, stage_jobs
from rollq.grid.state import HASH_BYTES, GridState
from rollq.grid.submits import submit_bulk, submit_job, submit_run
from rollq.grid.times import advance_time
from rollq.grid.topics import (
    forget_cursor,
    move_cursors,
    open_cursor,
    publish_kept,
    put_topic,
    remove_topic,
    trim_topics,
)
from rollq.grid.unpacking import unpack_batch
from rollq.grid.workers import close_worker, drain_workers, open_worker

Handler: TypeAlias = Callable[[GridState, Any, Applied], Outcome]

HANDLERS: Final[dict[type, Handler]] = {
    commands.SubmitJob: submit_job,
    commands.SubmitBulk: submit_bulk,
    commands.SubmitArray: submit_array,
    commands.AssignJob: assign_job,
    commands.AssignTask: assign_task,
    commands.AckJob: ack_job,
    commands.NackJob: nack_job,
    commands.ExpireLeases: expire_leases,
    commands.ReleaseJobs: release_jobs,
    commands.ExpireJobs: expire_jobs,
    commands.CancelJobs: cancel_jobs,
    commands.RedriveJobs: redrive_jobs,
    commands.PurgeJobs: purge_jobs,
    commands.ConfirmResults: confirm_results,
    commands.ForgetJobs: forget_jobs,
    commands.OpenClient: open_client,
    commands.OpenWorker: open_worker,
    commands.CloseWorker: close_worker,
    commands.PauseQueue: pause_queue,
    commands.ResumeQueue: resume_queue,
    commands.SetSettings: set_settings,
    commands.PutCache: put_cache,
    commands.RemoveCache: remove_cache,
    commands.StageJobs: stage_jobs,
    commands.CommitBatch: commit_batch,
    commands.DropBatches: drop_batches,
    commands.UnpackBatch: unpack_batch,
    commands.HoldHistory: hold_history,
    commands.FreeHistory: free_history,
    commands.SetHints: set_hints,
    commands.AdvanceTime: advance_time,
    commands.SubmitRun: submit_run,
    commands.AssignRun: assign_run,
    commands.AssignTasks: assign_tasks,
    commands.AckRun: ack_run,
    commands.ConfirmRun: confirm_run,
    access_commands.PutAccount: put_account,
    access_commands.RemoveAccount: remove_account,
    access_commands.PutRole: put_role,
    access_commands.RemoveRole: remove_role,
    access_commands.NoteRefusals: note_refusals,
    access_commands.NoteAct: note_act,
    commands.DrainWorkers: drain_workers,
    rule_commands.PutPolicy: put_policy,
    rule_commands.RemovePolicy: remove_policy,
    rule_commands.PutLimit: put_limit,
    rule_commands.RemoveLimit: remove_limit,
    rule_commands.PutWeight: put_weight,
    topic_commands.PutTopic: put_topic,
    topic_commands.RemoveTopic: remove_topic,
    topic_commands.PublishKept: publish_kept,
    topic_commands.MoveCursors: move_cursors,
    topic_commands.TrimTopics: trim_topics,
    topic_commands.OpenCursor: open_cursor,
    topic_commands.ForgetCursor: forget_cursor,
    flow_commands.SettleChildren: settle_children,
    schedule_commands.PutSchedule: put_schedule,
    schedule_commands.RemoveSchedule: remove_schedule,
    schedule_commands.PauseSchedule: pause_schedule,
    schedule_commands.ResumeSchedule: resume_schedule,
    schedule_commands.FireSchedule: fire_schedule,
    schedule_commands.RunSchedule: run_schedule,
}
# From this batch version on time is monotonic, and states are hashed. Older entries keep their
# stamps and do not count for the hash: a member may have them only in a snapshot.
MONOTONIC_VERSION: Final = 5
# From this version on the log hash covers larger entries by their checksums.
SUMMED_VERSION: Final = 6
SUMMED_BYTES_MIN: Final = 16 * 1024


def apply_entry(state: GridState, index: int, data: bytes) -> Applied:
    """Apply the entry at `index`, which must follow the last one. Empty data changes no record.

    Raises:
        LocalError: BUG if an entry is missing or comes again, UNSUPPORTED_VERSION if it cannot be
            read. The state is as before; the member must stop.
    """
    if index != state.applied_index + 1:
        raise LocalError(ErrorCode.BUG, f"entry {index} applied after entry {state.applied_index}")
    out = Applied(index, 0, outcomes=[], events=[], effects=[])
    if data:
        batch = decode_batch(data)
        out.stamp_ms = batch.stamp_ms
        if data[0] >= MONOTONIC_VERSION:
            state.time_ms = out.stamp_ms = max(state.time_ms, batch.stamp_ms)
        # One dict lookup per command, by exact type: commands are never subclassed.
        outcomes, handlers = out.outcomes, HANDLERS
        unsettled = state.edges.unsettled
        had_unsettled = bool(unsettled)
        for command in batch.commands:
            outcomes.append(handlers[type(command)](state, command, out))
        if unsettled and not had_unsettled:
            settle(state, out)
        state.job_index.file_fresh()
    state.applied_index = index
    state.log_hash = chain_hash(state.log_hash, index, data)
    return out


def chain_hash(previous: bytes, index: int, data: bytes) -> bytes:
    """The hash of a log up to an entry, from the hash up to the previous one. A large entry counts
    by its length and checksum: hashing it would cost as much as applying it."""
    if len(data) >= SUMMED_BYTES_MIN and data[0] >= SUMMED_VERSION:
        data = len(data).to_bytes(8, "little") + crc32(data).to_bytes(4, "little")
    chain = blake2b(previous, digest_size=HASH_BYTES)
    chain.update(index.to_bytes(8, "little"))
    chain.update(data)
    return chain.digest()
