"""Recovery of a member from its disk: identity, snapshot, log, and checks on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import NIL_ID, MemberId
from rollq.base.limits import TERM_LEAP_MAX, TERM_MAX
from rollq.base.stamp import Jitter
from rollq.history.segments import Segments
from rollq.raft.node import RaftNode, RaftStart
from rollq.raft.types import NO_MEMBER, Config, HardState, Member, SnapshotMeta
from rollq.roles.member.history_log import HistoryLog
from rollq.roles.member.keyring import KeyRing
from rollq.roles.member.replica import Replica
from rollq.roles.member.rollcall import RollCall
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.snapshot_order import SnapshotPace
from rollq.roles.member.states import States
from rollq.roles.member.work import MemberStore
from rollq.security.mode import Mode
from rollq.store.body_files import BodyFiles
from rollq.store.disk import Disk
from rollq.store.identity import NONCE_BITS, Identity, identity_lost
from rollq.store.log_bodies import BodyLog
from rollq.store.snapshots import Snapshots
from rollq.store.wal import Wal

MEMBER_ID_BYTES = 7  # fits every language's signed 64-bit integer


class Damage(NamedTuple):
    """What of the disk was unreadable, and was put aside."""

    log: bool  # parts of it
    snapshots: tuple[str, ...]


@dataclass(slots=True)
class Recovery:
    """What a driver starts from."""

    store: MemberStore
    replica: Replica
    raft: RaftNode
    roll: RollCall
    peer_boots: dict[MemberId, int]
    damage: Damage


def recover(setup: MemberSetup, disk: Disk, jitter: Jitter) -> Recovery:
    """Open a member's disk, or give an empty one an identity. Raises DiskError if the member must
    not start: the disk is of another group, or damaged with no peer to repair it from."""
    files = BodyFiles(disk)
    snapshots = Snapshots(disk, files)
    newest = snapshots.newest()
    snapshots.claim()
    wal, found = Wal.open(
        disk,
        newest,
        segment_bytes=setup.segment_bytes,
        large_bytes_min=setup.large_bytes_min,
        files=files,
    )
    files.sweep()
    if found.identity is None:
        wal.create_identity(Identity(NIL_ID, _draw_member_id(jitter), setup.address))
    share = wal.share or jitter.draw_id() + jitter.draw_id()
    wal.bump_boot(jitter.draw(0, 1 << NONCE_BITS), setup.group, share)
    identity = wal.identity
    assert identity is not None, "a disk has an identity once one is created"
    segments = Segments(disk)
    segments.clear_temporaries()
    log = BodyLog(files, wal.data_of, setup.large_bytes_min, setup.segment_bytes)
    states = States(disk, snapshots, log, setup.hot_bytes_max)
    replica = Replica(
        states.empty() if newest is None else states.load(newest),
        HistoryLog(segments),
        pace=SnapshotPace(
            setup.snapshot_entries, snapshots.file_bytes(newest) if newest is not None else 0
        ),
        placement=setup.placement,
        replay_to=found.entries[-1].index if found.entries else 0,
    )
    last_term = max(found.entries[-1].term if found.entries else 0, newest.term if newest else 0)
    start = RaftStart(
        hard_state=plausible(found.hard_state, last_term),
        snapshot=newest or SnapshotMeta(config=Config(voters=identity.roster)),
        entries=found.entries,
        suspect=found.suspect,
        reader=wal,
    )
    raft = RaftNode(identity.member_id, setup.raft, start, jitter)
    alone = [voter.id for voter in raft.config.voters] == [identity.member_id]
    if found.suspect is not None and alone:
        raise _rotten_alone()
    if found.suspect is not None and not raft.config.voters:
        raise identity_lost("the record that names its cluster was lost to rot")
    me = Member(identity.member_id, setup.address)
    keys = KeyRing(
        wal.key,
        share,
        jitter.draw_id(),
        initial=setup.peers,
        explicit=setup.credentials.cluster_keys,
        # Under TLS `require` every peer has already shown the certificate of a member.
        is_closed=setup.auth is Mode.REQUIRE and setup.tls is not Mode.REQUIRE,
    )
    roll = RollCall(
        me, identity.cluster_id, identity.roster, wal.lives, keys, admitted=wal.admitted
    )
    return Recovery(
        MemberStore(wal, snapshots, segments, states),
        replica,
        raft,
        roll,
        peer_boots=dict(found.peer_boots),
        damage=Damage(found.damaged, tuple(snapshots.corrupt)),
    )


def plausible(hard_state: HardState, last_term: int) -> HardState:
    """The hard state, with its term reduced if a forged message raised it beyond TERM_MAX, before
    terms had bounds. That term never had a leader, since no entry has it. This member was never in
    the reduced term, so it cannot have voted there.

    Raises:
        DiskError: DISK_CORRUPT if the log itself has such a term.
    """
    if hard_state.term <= TERM_MAX:
        return hard_state
    term = last_term + TERM_LEAP_MAX
    if term > TERM_MAX:
        raise DiskError(
            ErrorCode.DISK_CORRUPT,
            f"the log is of term {last_term}, after which no leader can be elected",
            "start the group anew with empty state directories; the history of the old one can be "
            "read with rollq history tail --state",
        )
    return HardState(term, NO_MEMBER, hard_state.commit)


def start_of_cluster(
    setup: MemberSetup, wal: Wal, member_id: MemberId, roster: tuple[Member, ...], jitter: Jitter
) -> RaftNode:
    """Raft at log index 0 of a new cluster: its configuration is the roster."""
    start = RaftStart(HardState(), SnapshotMeta(config=Config(voters=roster)), [], reader=wal)
    return RaftNode(member_id, setup.raft, start, jitter)


def _draw_member_id(jitter: Jitter) -> MemberId:
    return int.from_bytes(jitter.draw_id()[:MEMBER_ID_BYTES], "big") or 1


def _rotten_alone() -> DiskError:
    return DiskError(
        ErrorCode.DISK_CORRUPT,
        "the log is damaged where it may hold accepted jobs, and this group has no other member "
        "to fetch them from",
        "restore the state directory from a backup; the damaged part is kept in its folder broken/",
    )
