"""The write-ahead log: entries and hard state, in segments of batches on a `Disk`.

One `append` is one record (`record.py`), one `sync` makes everything appended durable. Segments are
recycled, or zero-filled a little ahead, because syncing over written blocks is cheaper. Invariants:

- A segment opens with its head, twice, synced before anything else is written into it; the one
  before is synced first. So damage inside the log is never an unfinished rotation.
- A name is relied on only after `sync_dir`. Segments go oldest first, each removal made durable
  before the next, so that the log never has a hole.
- After any DiskError the log refuses all further work: the member must stop and read its disk anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.ids import MemberId
from rollq.base.limits import (
    LARGE_BODY_BYTES_MIN,
    LIVES_MAX,
    RECORD_BYTES_MAX,
    SEGMENT_BYTES,
    SPARE_SEGMENTS_MAX,
)
from rollq.raft.types import Entry, HardState, Member, Position, SnapshotMeta
from rollq.store.body_files import BodyFiles
from rollq.store.disk import BROKEN, Disk, prune_broken
from rollq.store.identity import (
    ClusterKey,
    Identity,
    IdentityHead,
    encode_head,
    group_differs,
    identity_lost,
    identity_taken,
    life_of,
    note_boot,
)
from rollq.store.places import FOLDER, SUFFIX, segment_name
from rollq.store.record import HEADER_BYTES, Kind, encode_entries, encode_header
from rollq.store.repair import (
    Recovered,
    SnapshotRelation,
    blank_after,
    link,
    mend,
    put_aside_all,
    split,
    write_zeros,
)
from rollq.store.synced import Vouched, write_vouched
from rollq.store.walk import Walk, WalSegment, read_log

__all__ = ["Recovered", "Wal"]

# A third of a record, since stuffing may make a body longer by a third.
ENTRIES_BYTES_MAX = RECORD_BYTES_MAX // 3
# Small records are written over zeros, which are made ahead in steps of this size. Larger ones
# extend their segment: what their sync takes is the data, not the few blocks that tell of it.
ZEROS_AHEAD_BYTES = 1024 * 1024
SMALL_RECORD_BYTES_MAX = 64 * 1024


class Wal:
    """Made by `open`, and used by one thread, but for `entries`."""

    def __init__(self, disk: Disk, walk: Walk, segment_bytes: int, files: BodyFiles) -> None:
        self._disk = disk
        self._body_files = files
        self._segment_bytes = segment_bytes
        self._segments = walk.segments
        self._places = walk.places
        self._spares: list[str] = []
        self._offset = walk.offset
        # How far the segment that is written to has blocks of its own, zeros or recycled.
        self._zeroed = disk.size(segment_name(walk.segments[-1].number)) if walk.segments else 0
        self._head_end = 0  # end of the head of the current segment, if it was created here
        self._seq = self._synced_seq = self._content_seq = walk.seq
        self._marked_seq = 0  # the marker in the newest record
        self._vouched_seq = 0  # the seq of the mark outside the log
        self._crc = walk.crc
        self._hard_state = walk.hard_state
        self._written_state = walk.hard_state  # that of the newest record
        self._head = walk.head
        self._last = walk.log.last
        self._failed = False
        self._final = _Final(self)

    @classmethod
    def open(
        cls,
        disk: Disk,
        snapshot: SnapshotMeta | None,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        large_bytes_min: int = LARGE_BODY_BYTES_MIN,
        files: BodyFiles | None = None,
    ) -> tuple[Wal, Recovered]:
        """Read the log back and repair it.

        Args:
            disk: where it is.
            snapshot: the one that the caller will load; None if there is no usable one.
            segment_bytes: the size of new segments.
            large_bytes_min: of entries of this size and more it is known where their data is.
            files: segments that are held for the bodies in them; nothing is if it is not given.

        Raises:
            DiskError: DISK_CORRUPT if the disk holds data but no identity, DISK_VERSION if a newer
                rollq wrote it, or what the disk itself raises. Nothing was changed in the first two
                cases.
        """
        base = Position(snapshot.term, snapshot.index) if snapshot else Position()
        files = files or BodyFiles(disk)
        walk = read_log(disk, base.index, large_bytes_min)
        if walk.head is None:
            if walk.seq or walk.corrupt or snapshot is not None:
                raise identity_lost("no valid copy is left in the log")
            recovered = put_aside_all(disk, walk, files)
            return cls(disk, walk, segment_bytes, files), recovered
        recovered = mend(disk, walk, base, segment_bytes=segment_bytes, files=files)
        wal = cls(disk, walk, segment_bytes, files)
        if link(walk.log, base) is SnapshotRelation.STALE:
            wal._reset(base)
        return wal, recovered

    @property
    def identity(self) -> Identity | None:
        """The identity of this disk; None until `create_identity`."""
        return self._head.identity if self._head else None

    @property
    def last(self) -> Position:
        """Where the log ends."""
        return self._last

    @property
    def segment_count(self) -> int:
        """Files in use."""
        return len(self._segments)

    def create_identity(self, identity: Identity) -> None:
        """Name an empty disk; durable when it returns."""
        if self._head is not None:
            raise identity_taken(self._head.identity)
        self._head = IdentityHead(identity)
        self._begin_segment(1)
        self.mark()

    def append(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Write one batch, not yet synced. Entries replace the tail from entries[0].index on."""
        if not entries:
            if hard_state is not None:
                self._write_entries((), hard_state)
            return
        first = entries[0].index
        if not 0 < first <= self._last.index + 1 or entries[-1].index != first + len(entries) - 1:
            raise LocalError(
                ErrorCode.BUG,
                f"entries {first}..{entries[-1].index} do not follow on index {self._last.index}",
                "install() a snapshot before appending behind it",
            )
        for batch in split(entries, ENTRIES_BYTES_MAX):
            self._write_entries(batch, hard_state)

    def has_room(self, size_bytes: int) -> bool:
        """Whether a batch with so many bytes of entries needs no new segment, whose making takes
        long. A guess on the safe side: stuffing and heads add less than as much again."""
        return self._offset + 2 * size_bytes + HEADER_BYTES <= self._segment_bytes

    def entries(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Durable entries of [low, high), at least one, then while they fit; from any thread.
        Raises DiskError DISK_CORRUPT if one cannot be read back."""
        return self._places.read(self._disk, low, high, bytes_max)

    def data_of(self, index: int) -> tuple[int, int] | None:
        """The segment and the offset in it where the data of a large entry stands as it is; from
        any thread."""
        return self._places.data_of(index)

    def carry(self, commit: int) -> None:
        """Let the next record carry this commit index. Needs no write of its own: a lost commit
        index is learned again."""
        self._hard_state = msgspec.structs.replace(self._hard_state, commit=commit)

    def sync(self) -> None:
        """Make all that was appended durable. DiskError: the caller must stop."""
        with self._final:
            if self._synced_seq != self._seq:
                self._disk.sync(segment_name(self._segments[-1].number))
                self._synced_seq = self._seq

    def mark(self) -> None:
        """When idle: record durably that the last batch was synced, and the commit index. No-op if
        that is recorded."""
        self.sync()
        if self._marked_seq < self._content_seq or self._written_state != self._hard_state:
            content_seq = self._content_seq
            self._write_entries(())
            self._content_seq = content_seq
            self.sync()

    def vouch(self) -> None:
        """When idle, after `mark`: record the synced position outside the log, so that corruption
        of its last page can be distinguished from a torn write. No-op if that is recorded."""
        self.mark()
        if self._vouched_seq != self._seq and self._head is not None:
            state = self._hard_state
            with self._final:
                write_vouched(self._disk, Vouched(self._seq, state.term, state.vote, self._last))
            self._vouched_seq = self._seq

    def install(self, snapshot: SnapshotMeta) -> None:
        """A snapshot of a leader is in place: void the log, which goes on behind it. Durable when
        it returns. To be called after the snapshot is durable and before anything is appended."""
        self._reset(Position(snapshot.term, snapshot.index))

    def note_peer_boot(self, member: MemberId, boot: int) -> None:
        """Remember the newest boot seen of a peer; durable when it returns."""
        head = self._named()
        if head.peer_boots.get(member, -1) < boot:
            notes = note_boot(head.peer_boots, member, boot)
            self._change_head(msgspec.structs.replace(head, peer_boots=notes))

    def bump_boot(self, nonce: int = 0, group: str = "", share: bytes = b"") -> int:
        """Count one more start of this disk, told apart from a start of a copy of it by the nonce;
        durable when it returns. The first start for a named group binds the disk to it, and the
        first share that is given stays its share.

        Raises:
            DiskError: WRONG_IDENTITY, if the disk is bound to another group. Nothing was changed.
        """
        head = self._named()
        group = group or head.group
        if head.group not in ("", group):
            raise group_differs(head, group)
        boot = head.identity.boot + 1
        identity = msgspec.structs.replace(head.identity, boot=boot)
        lives = (*head.lives[1 - LIVES_MAX :], life_of(boot, nonce))
        share = head.share or share
        self._change_head(
            msgspec.structs.replace(head, identity=identity, lives=lives, group=group, share=share)
        )
        return boot

    def note_admitted(self) -> None:
        """Record that the group has admitted this member; durable when it returns."""
        head = self._named()
        if not head.admitted:
            self._change_head(msgspec.structs.replace(head, admitted=True))

    @property
    def admitted(self) -> bool:
        """Whether the group ever admitted this member."""
        return self._named().admitted

    @property
    def lives(self) -> tuple[int, ...]:
        """The last LIVES_MAX starts of this disk, this one last."""
        return self._named().lives

    @property
    def share(self) -> bytes:
        """This disk's part of the key of its cluster; empty: none is drawn."""
        return self._named().share

    @property
    def key(self) -> ClusterKey:
        """The key of its cluster, as far as this disk knows it."""
        return self._named().key

    def note_key(self, key: ClusterKey) -> None:
        """The members of the cluster prove this key; durable when it returns."""
        self._change_head(msgspec.structs.replace(self._named(), key=key))

    def join_cluster(
        self, cluster_id: bytes, roster: tuple[Member, ...], key: ClusterKey | None = None
    ) -> None:
        """The disk belongs to this cluster from now on, whose key is this if it is given; durable
        when it returns."""
        head = self._named()
        identity = msgspec.structs.replace(head.identity, cluster_id=cluster_id, roster=roster)
        key = head.key if key is None else key
        self._change_head(msgspec.structs.replace(head, identity=identity, key=key))

    def clear_suspect(self) -> None:
        """The lost entries are back from a leader; durable when it returns."""
        head = self._named()
        if head.suspect is not None:
            self._change_head(msgspec.structs.replace(head, suspect=None))
            prune_broken(self._disk, ".rot")
            self._disk.sync_dir(BROKEN)

    def compact(self, index: int) -> None:
        """Release whole segments whose entries are all at or below `index`."""
        while self.compact_next(index):
            pass

    def compact_next(self, index: int) -> bool:
        """Release the oldest segment if its entries are all at or below `index`."""
        if len(self._segments) < 2 or self._segments[0].last_index > index:
            return False
        with self._final:
            self._places.forget(self._segments[0].number)
            name = segment_name(self._segments[0].number)
            is_usual = self._disk.size(name) <= self._segment_bytes
            if self._body_files.is_held(self._segments[0].number):
                self._body_files.take(self._segments[0].number)
            elif is_usual and len(self._spares) < SPARE_SEGMENTS_MAX:
                spare = name.removesuffix(SUFFIX) + ".spare"
                self._disk.rename(name, spare)
                self._spares.append(spare)
            else:
                self._disk.remove(name)
            # Before the next one is released: a hole in the middle would look like corruption.
            self._disk.sync_dir(FOLDER)
            del self._segments[0]
        return True

    def close(self) -> None:
        """Leave the log in the state that reads back best. Nothing may follow."""
        if not self._failed and self._head is not None:
            self.vouch()
        self._failed = True

    def _write_entries(self, entries: Sequence[Entry], hard_state: HardState | None = None) -> None:
        body = encode_entries(entries)
        self._make_room(HEADER_BYTES + len(body))
        # Not before: a new segment's head must not carry a commit index ahead of these entries,
        # for the log may still hold others in their place.
        self._hard_state = hard_state or self._hard_state
        first = self._last.index + 1
        if entries:
            first, self._last = entries[0].index, Position(entries[-1].term, entries[-1].index)
            segment = self._segments[-1]
            segment.last_index = max(segment.last_index, self._last.index)
            self._places.put(entries, segment.number, self._offset, len(body))
        self._write(*self._record(Kind.ENTRIES, first, body))

    def _reset(self, position: Position) -> None:
        self._named()
        # Not an empty body: a corrupt record of that size must not pass for an empty batch.
        self._make_room(HEADER_BYTES + 1)
        self._last = position
        self._places.reset()
        segment = self._segments[-1]
        segment.last_index = max(segment.last_index, position.index)
        self._write(*self._record(Kind.RESET, position.index + 1, b"\0"))
        self.sync()

    def _change_head(self, head: IdentityHead) -> None:
        self._head = head
        body = encode_head(head)
        self._make_room(2 * (HEADER_BYTES + len(body)))
        self._write(*self._head_pair(body))
        self.sync()

    def _head_pair(self, body: bytes) -> tuple[bytes, ...]:
        first = self._last.index + 1
        return (
            *self._record(Kind.HEAD, first, body, copy=0),
            *self._record(Kind.HEAD, first, body, copy=1),
        )

    def _record(self, kind: int, first: int, body: bytes, copy: int = 0) -> tuple[bytes, bytes]:
        self._seq += 1
        self._content_seq = self._seq
        self._marked_seq = self._synced_seq
        self._written_state = self._hard_state
        header, self._crc = encode_header(
            kind=kind,
            segment=self._segments[-1].number,
            seq=self._seq,
            synced_seq=self._synced_seq,
            prev_crc=self._crc,
            hard_state=self._hard_state,
            first_index=first,
            last=self._last,
            body=body,
            copy=copy,
        )
        return header, body

    def _write(self, *pieces: bytes) -> None:
        with self._final:
            size = sum(map(len, pieces))
            end = self._offset + size
            name = segment_name(self._segments[-1].number)
            blank = blank_after(end, self._segment_bytes)
            if end + len(blank) > self._zeroed and size <= SMALL_RECORD_BYTES_MAX:
                ahead = min(end + ZEROS_AHEAD_BYTES, self._segment_bytes)
                write_zeros(self._disk, name, self._zeroed, ahead)
                self._zeroed = ahead
            self._disk.write(name, self._offset, *pieces, blank)
            self._zeroed = max(self._zeroed, end + len(blank))
            self._offset = end

    def _make_room(self, size: int) -> None:
        """Rotate if the record does not fit; one too large for any segment extends its own."""
        self._named()
        if self._offset + size > self._segment_bytes and self._offset > self._head_end:
            self.sync()
            self._begin_segment(self._segments[-1].number + 1)

    def _begin_segment(self, number: int) -> None:
        with self._final:
            name = segment_name(number)
            self._zeroed = 0
            if self._spares:
                self._disk.rename(self._spares.pop(), name)
                self._zeroed = self._disk.size(name)
            self._segments.append(WalSegment(number))
            self._offset = 0
            self._write(*self._head_pair(encode_head(self._named())))
            self._head_end = self._offset
            self._disk.sync(name)
            self._disk.sync_dir(FOLDER)
            self._synced_seq = self._seq

    def _named(self) -> IdentityHead:
        if self._head is None:
            raise LocalError(ErrorCode.BUG, "the disk has no identity yet", "create_identity first")
        return self._head


class _Final:
    """Any failure of the disk within is the last thing that a log does. Not a generator: every turn
    of a member enters two of them."""

    __slots__ = ("_wal",)

    def __init__(self, wal: Wal) -> None:
        self._wal = wal

    def __enter__(self) -> None:
        if self._wal._failed:
            raise DiskError(
                ErrorCode.DISK_FAILED,
                "the log is closed: its disk failed before, or it was closed",
                "restart the member: it reads its disk anew",
            )

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DiskError):
            self._wal._failed = True
