"""The deliberate bugs: each a replacement of product functions, with the world it thrives in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from rollq.base.errors import DiskError
from rollq.base.limits import SNAPSHOTS_KEPT
from rollq.grid import apply as grid_apply
from rollq.grid import attempts, commands, moves
from rollq.grid.effects import Applied, Outcome, SendAssign
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import ASSIGNED, QUEUED, GridState, JobState
from rollq.policy import holds
from rollq.policy.dispatch import Dispatcher
from rollq.raft import election, membership, node, progress, replication, roles
from rollq.raft.codec import encode_change
from rollq.raft.quorum import committed_index
from rollq.raft.state import RaftOptions
from rollq.raft.types import EntryKind, HardState
from rollq.roles.member import gateway, replica, rollcall, snapshot_order
from rollq.roles.member.driver import Driver
from rollq.roles.member.leadership import Leadership
from rollq.roles.member.reads import Reads
from rollq.store import snapshots, wal, walk
from rollq.store.record import HEADER_BYTES
from rollq.testing.network import NetFaults
from rollq.wire import messages as wire

Swap: TypeAlias = tuple[Any, str, Callable[[Any], Any]]  # owner, attribute, old -> new


@dataclass(slots=True, frozen=True)
class Mutant:
    """One bug."""

    name: str
    swaps: tuple[Swap, ...]
    overrides: dict[str, Any] = field(default_factory=dict)


MUTANTS: dict[str, Mutant] = {}


def mutant(name: str, owner: Any, attribute: str, **overrides: Any) -> Callable[[Any], Any]:
    """Register a function old -> new as a mutant that swaps one attribute."""

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        known = MUTANTS.get(name)
        swaps = known.swaps if known is not None else ()
        MUTANTS[name] = Mutant(name, (*swaps, (owner, attribute, make)), overrides)
        return make

    return register


@contextmanager
def applied_mutant(bug: Mutant) -> Iterator[None]:
    """The product has this bug inside the block."""
    with ExitStack() as stack:
        for owner, attribute, make in bug.swaps:
            stack.enter_context(_swapped(owner, attribute, make))
        yield


@contextmanager
def _swapped(owner: Any, attribute: str, make: Callable[[Any], Any]) -> Iterator[None]:
    if isinstance(owner, dict):
        key = next(kind for kind in owner if kind.__name__ == attribute)
        old = owner[key]
        owner[key] = make(old)
        try:
            yield
        finally:
            owner[key] = old
        return
    old = vars(owner)[attribute]
    plain = getattr(owner, attribute) if isinstance(old, staticmethod | classmethod) else old
    setattr(owner, attribute, make(plain))
    try:
        yield
    finally:
        setattr(owner, attribute, old)


CRASHES = ("crash_power", "crash_point", "crash_disk_op", "crash_all")
SPLITS = ("partition", "isolate_leader", "flap", "one_way")
LOSSY = NetFaults(loss_per_mille=100, delay_ms_max=20)


# --- consensus and its disk


@mutant("vote_not_persisted", wal.Wal, "append", faults=(*CRASHES, *SPLITS))
def _vote_not_persisted(old: Any) -> Any:
    def append(self: Any, hard_state: HardState | None, entries: Any) -> None:
        if hard_state is not None:
            hard_state = msgspec.structs.replace(hard_state, vote=0)
        old(self, hard_state, entries)

    return append


@mutant("term_not_persisted", wal.Wal, "append", faults=(*CRASHES, *SPLITS))
def _term_not_persisted(old: Any) -> Any:
    def append(self: Any, hard_state: HardState | None, entries: Any) -> None:
        if hard_state is not None:
            hard_state = msgspec.structs.replace(hard_state, term=0)
        old(self, hard_state, entries)

    return append


@mutant(
    "commit_counts_old_terms",
    replication,
    "commit_by_counting",
    faults=("choke_leader", "choke_leader", "choke_leader", "isolate_leader", "crash_kill"),
    members=5,
    fault_ms_max=500,
    chaos_ms=16_000,
    raft=RaftOptions(heartbeat_ticks=3, append_bytes_max=1, inflight_appends_max=1),
)
def _commit_counts_old_terms(old: Any) -> Any:
    def commit_by_counting(state: Any) -> bool:
        held = {member_id: progress.match for member_id, progress in state.progress.items()}
        held[state.id] = state.log.stable
        moved: bool = state.log.commit_to(committed_index(state.voters, held))
        return moved

    return commit_by_counting


@mutant("ack_before_fsync", Driver, "_collect", faults=CRASHES)
def _ack_before_fsync(old: Any) -> Any:
    def collect(self: Any) -> Any:
        work = old(self)
        if work is not None and work.ready is not None:
            self._peers.send(self.raft, work.ready.send_after_persist, self._store.snapshots)
            work.ready.send_after_persist = []
        return work

    return collect


@mutant("no_noop_at_term_start", roles, "become_leader", faults=(*CRASHES, *SPLITS))
def _no_noop(old: Any) -> Any:
    def become_leader(state: Any) -> None:
        append = replication.append
        if state.log.last_index:
            replication.append = lambda state, kind, data: state.log.last_index
        try:
            old(state)
        finally:
            replication.append = append

    return become_leader


@mutant("window_not_reset_on_reject", progress.Progress, "refuse", net=LOSSY, faults=SPLITS)
def _window_not_reset(old: Any) -> Any:
    def refuse(self: Any, rejected: int, hint: int) -> bool:
        if self.state is progress.ProgressState.REPLICATE:
            return False
        refused: bool = old(self, rejected, hint)
        return refused

    return refuse


@mutant(
    "two_membership_changes_at_once",
    node.RaftNode,
    "propose_config",
    faults=("empty_disk", "remove_member", "disk_slow"),
)
def _two_changes(old: Any) -> Any:
    def propose_config(self: Any, change: Any) -> int:
        self._check_leads()
        membership.apply_change(self._state.config, change)
        return replication.append(self._state, int(EntryKind.CONFIG), encode_change(change))

    return propose_config


@mutant(
    "removed_member_may_lead",
    election,
    "promotable",
    faults=("remove_member", "crash_kill", "isolate_leader", "transfer", "pause"),
    fault_ms_max=600,
)
def _removed_may_lead(old: Any) -> Any:
    def promotable(state: Any) -> bool:
        return not state.installing and state.suspect is None

    return promotable


@mutant(
    "read_without_read_index",
    Reads,
    "ask",
    faults=("pause", "pause", "isolate_leader", "shut_out", "client_crash"),
    fault_ms_max=500,
    clients=5,
    jobs_per_client=60,
)
def _read_without_index(old: Any) -> Any:
    def ask(self: Any, raft: Any, session: int, query: Any) -> None:
        self._waiting.append((0, session, query))

    return ask


@mutant(
    "old_disk_takes_part",
    rollcall,
    "is_forgotten",
    faults=("old_disk", "crash_kill", "crash_power"),
    fault_ms_max=600,
)
def _old_disk(old: Any) -> Any:
    return lambda lives, life: False


# --- the store


@mutant("crc_not_checked", walk, "decode_body", faults=("rot", *CRASHES), fault_ms_max=400)
def _crc_not_checked(old: Any) -> Any:
    def decode_body(header: Any, data: bytes, offset: int) -> bytes | None:
        begin = offset + HEADER_BYTES
        body = data[begin : begin + header.body_bytes]
        return body if len(body) == header.body_bytes else None

    return decode_body


@mutant(
    "rot_taken_for_torn_tail",
    walk._Walker,
    "_resume",
    faults=("rot", "crash_power", "isolate_leader", "crash_kill", "partition"),
    fault_ms_max=300,
    chaos_ms=16_000,
    members=3,
)
def _rot_as_torn(old: Any) -> Any:
    def resume(self: Any, *arguments: Any) -> Any:
        found = old(self, *arguments)
        if self.walk.rot:
            self.walk.rot, self.walk.torn = False, True
        return found

    return resume


@mutant("retry_after_failed_fsync", wal.Wal, "sync", faults=("sync_fails", *CRASHES))
def _retry_fsync(old: Any) -> Any:
    def sync(self: Any) -> None:
        try:
            old(self)
        except DiskError:
            self._failed = False
            old(self)

    return sync


@mutant(
    "snapshot_rename_without_dir_sync",
    snapshots.Snapshots,
    "_publish",
    faults=CRASHES,
    snapshot_entries=12,
)
def _no_dir_sync(old: Any) -> Any:
    def publish(self: Any, temporary: str, meta: Any) -> None:
        self._disk.sync(temporary)
        self._disk.rename(temporary, snapshots.name_of(meta))
        for name in self._files()[:-SNAPSHOTS_KEPT]:
            self._disk.remove(name)

    return publish


@mutant(
    "snapshot_without_position",
    snapshots.Snapshots,
    "write",
    faults=CRASHES,
    snapshot_entries=12,
)
def _snapshot_without_position(old: Any) -> Any:
    def write(self: Any, meta: Any, pieces: Any) -> Any:
        return old(self, msgspec.structs.replace(meta, index=meta.index - 1), pieces)

    return write


@mutant(
    "snapshot_chunk_off_by_one",
    snapshots.Snapshots,
    "read",
    faults=("empty_disk", "partition", "crash_power"),
    snapshot_entries=12,
)
def _chunk_off_by_one(old: Any) -> Any:
    def read(self: Any, meta: Any, offset: int, length: int) -> Any:
        return old(self, meta, offset + (1 if offset else 0), length)

    return read


@mutant("history_not_sealed", snapshot_order, "_split", faults=CRASHES, snapshot_entries=12)
def _history_not_sealed(old: Any) -> Any:
    return lambda unsealed: []


# --- the grid


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
                moves.enter_assigned(state, record, worker, 1, out.stamp_ms)
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


@mutant(
    "dedup_lost_in_snapshot",
    snapshot_order,
    "snapshot_pieces",
    faults=CRASHES,
    snapshot_entries=12,
)
def _dedup_lost(old: Any) -> Any:
    def pieces(state: GridState) -> Any:
        copy = decode_snapshot(encode_snapshot(state))
        copy.batches.clear()
        return old(copy)

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


# --- the leader's office


@mutant("result_dropped_on_client_death", Leadership, "owe_results", faults=("client_crash",))
def _result_dropped(old: Any) -> Any:
    return lambda self, session: None


@mutant("accepted_before_commit", gateway.HANDLERS, "SubmitJob", faults=("isolate_leader",))
def _accepted_early(old: Any) -> Any:
    def submit(self: Any, number: int, message: wire.SubmitJob) -> None:
        old(self, number, message)
        self._office._send(number, wire.Accepted(message.job_id))

    return submit


@mutant("assigned_before_commit", Leadership, "propose_own", faults=("isolate_leader", "pause"))
def _assigned_early(old: Any) -> Any:
    def propose_own(self: Any) -> None:
        decide = self.dispatcher.decide
        fence = self.state.last_fence

        def early(count_max: int) -> Any:
            nonlocal fence
            decided = decide(count_max)
            for command in decided:
                if isinstance(command, commands.AssignJob):
                    fence += 1
                    self._assign(_early_assignment(self.state, command, fence))
            return decided

        replica_of = self._replica
        known, replica_of.dispatcher = replica_of.dispatcher, _Early(replica_of.dispatcher, early)
        try:
            old(self)
        finally:
            replica_of.dispatcher = known

    return propose_own


class _Early:
    """The dispatcher with another `decide`."""

    def __init__(self, dispatcher: Dispatcher, decide: Callable[[int], Any]) -> None:
        self._dispatcher = dispatcher
        self.decide = decide

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)


def _early_assignment(state: GridState, command: commands.AssignJob, fence: int) -> SendAssign:
    job = state.jobs[command.job_id]
    return SendAssign(
        command.worker_id,
        command.job_id,
        command.attempt,
        fence,
        command.lease_ms,
        job.client.client_id,
        job.queue,
        job.exec_name,
        state.bodies.load(job.body),
        job.options,
    )


@mutant("credit_counted_twice", Dispatcher, "grant", slots=1, workers=2)
def _credit_twice(old: Any) -> Any:
    return lambda self, worker_id, credits: old(self, worker_id, 2 * credits)


_KEPT_CREDITS: dict[bytes, int] = {}


@mutant("credit_survives_the_session", Dispatcher, "close_worker", faults=("cut_sessions",))
def _credit_kept(old: Any) -> Any:
    _KEPT_CREDITS.clear()

    def close_worker(self: Any, worker_id: bytes) -> None:
        if self.credit(worker_id):
            _KEPT_CREDITS[worker_id] = self.credit(worker_id)
        old(self, worker_id)

    return close_worker


@mutant("credit_survives_the_session", Dispatcher, "open_worker", faults=("cut_sessions",))
def _credit_given_back(old: Any) -> Any:
    def open_worker(self: Any, worker_id: bytes, *arguments: Any, **named: Any) -> None:
        old(self, worker_id, *arguments, **named)
        self.grant(worker_id, _KEPT_CREDITS.pop(worker_id, 0))

    return open_worker
