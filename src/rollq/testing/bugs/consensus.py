"""Bugs of consensus and of the roll call of members."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from rollq.raft import election, membership, node, progress, replication, roles
from rollq.raft.codec import encode_change
from rollq.raft.quorum import committed_index
from rollq.raft.state import RaftOptions
from rollq.raft.types import EntryKind, HardState
from rollq.roles.member import rollcall
from rollq.roles.member.driver import Driver
from rollq.roles.member.keyring import KeyRing
from rollq.roles.member.leader.reads import Reads
from rollq.roles.member.peers import Peers
from rollq.roles.member.work import BootNote
from rollq.store import wal
from rollq.testing.bugs.registry import CRASHES, LOSSY, SPLITS, mutant


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
    "query",
    faults=("sleep_alone",),
    fault_ms_max=1_500,
    clients=4,
)
def _read_without_index(old: Any) -> Any:
    def query(self: Any, session: Any, query: Any) -> None:
        self._waiting.append((0, partial(self._send_answer, session.number, query)))

    return query


@mutant(
    "old_disk_takes_part",
    rollcall,
    "is_forgotten",
    faults=("old_disk", "crash_kill", "crash_power"),
    fault_ms_max=600,
)
def _old_disk(old: Any) -> Any:
    return lambda lives, life: False


@mutant(
    "start_believed_at_once", Peers, "_handle_hello", faults=("forge", "crash_kill", "blackhole")
)
def _start_believed(old: Any) -> Any:
    def handle_hello(self: Any, note: BootNote, *rest: Any) -> None:
        old(self, note, *rest)
        claim = self._claims.pop(note.hello.member_id, None)
        if claim is not None:
            self._accept(claim, *rest)

    return handle_hello


@mutant(
    "unproven_is_heard",
    Driver,
    "peer_message",
    faults=("forge", "forge", "isolate_leader", "pause"),
)
def _unproven_heard(old: Any) -> Any:
    def peer_message(self: Any, address: str, message: Any, boot: int = 0, **_: Any) -> Any:
        return old(self, address, message, boot, is_proven=True)

    return peer_message


@mutant(
    "key_sure_before_all_hold_it",
    KeyRing,
    "_holds",
    faults=("isolate_leader", "isolate_leader", "crash_kill"),
    fault_ms_max=150,
    chaos_ms=3_000,
)
def _sure_too_early(old: Any) -> Any:
    return lambda self, member_id: self.mark.key_id != b""


@mutant("key_not_persisted", wal.Wal, "note_key", faults=CRASHES)
def _key_not_persisted(old: Any) -> Any:
    return lambda self, key: None
