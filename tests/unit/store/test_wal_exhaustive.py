"""Every bit flipped, every cut, every crash: the same prefix or a report, never a silent change."""

from __future__ import annotations

import hashlib

from rollq.raft.types import Config, Entry, Position, SnapshotMeta
from rollq.store.repair import Recovered
from rollq.store.snapshots import Snapshots
from rollq.testing.disk import DiskImage, VirtualDisk
from tests.unit.store.kit import (
    IDENTITY,
    Story,
    crash_everywhere,
    entry,
    hard,
    new_wal,
    open_wal,
)

FIRST = "wal/000000000001.log"
SECOND = "wal/000000000002.log"


def _two_segments() -> tuple[DiskImage, Recovered]:
    """About 2.5 KiB: two segments, a replaced tail, a head in the middle, a marker at the end."""
    disk = VirtualDisk()
    wal = new_wal(disk, 1400)
    wal.append(hard(1), [entry(1), entry(2)])
    wal.append(hard(1, 1), [entry(3)])
    wal.sync()
    wal.bump_boot()
    wal.append(hard(2, 2), [entry(3, 2), entry(4, 2)])
    wal.sync()
    for index in range(5, 8):
        wal.append(hard(3, index - 1), [entry(index, 3)])
        wal.sync()
    wal.close()
    assert disk.names("wal") == [FIRST[4:], SECOND[4:]]
    _, recovered = open_wal(disk, None, 1400)
    return disk.snapshot(), recovered


def _used(image: DiskImage, name: str) -> int:
    return len(image.files[name].rstrip(b"\0")) + 100  # the blank behind the log, too


def _same_again(disk: VirtualDisk, found: Recovered) -> None:
    _, again = open_wal(disk, None, 1400)
    assert not again.damaged  # it was written anew
    again.torn, again.damaged = found.torn, found.damaged
    assert again == found


def test_every_bit_flip_is_harmless_or_reported() -> None:
    image, whole = _two_segments()
    disk = VirtualDisk()
    outcomes = {"whole": 0, "suspect": 0}
    for name in (FIRST, SECOND):
        for offset in range(min(_used(image, name), len(image.files[name]))):
            for bit in range(8):
                disk.restore(image)
                disk.rot(name, offset, bit)
                _, found = open_wal(disk, None, 1400)
                where = f"{name} byte {offset} bit {bit}"
                assert found.identity == whole.identity, where
                assert found.hard_state.term == whole.hard_state.term, where
                assert found.hard_state.vote == whole.hard_state.vote, where
                if found.entries == whole.entries:
                    assert found.suspect is None, where
                    outcomes["whole"] += 1
                else:
                    _check_suspect(found, whole, where)
                    outcomes["suspect"] += 1
                if bit == offset % 8:
                    _same_again(disk, found)
    assert outcomes["whole"] > 0
    assert outcomes["suspect"] > 0


def _check_suspect(found: Recovered, whole: Recovered, where: str) -> None:
    """Entries that were once in the log at these places, and a report of how far it reached."""
    assert found.suspect == Position(3, 7), where
    assert found.hard_state.commit <= len(found.entries), where
    # Rot of the batch that replaced entry 3 leaves the older entry 3, which was in the log too.
    once = whole.entries if len(found.entries) != 3 else [entry(1), entry(2), entry(3)]
    assert found.entries == once[: len(found.entries)], where


def test_every_cut_leaves_a_prefix() -> None:
    image, whole = _two_segments()
    entries = [entry(1), entry(2), entry(3)]
    disk = VirtualDisk()
    for length in range(len(image.files[FIRST]) + 1):
        disk.restore(DiskImage({FIRST: image.files[FIRST][:length]}))
        _, found = open_wal(disk, None, 1400)
        if found.identity is None:
            assert length < 300
            assert found.entries == []
        elif len(found.entries) > 3:
            assert found.entries == whole.entries[: len(found.entries)]
        else:
            assert found.entries == entries[: len(found.entries)]
            assert found.suspect is None
        _same_again(disk, found)


def test_a_cut_first_segment_is_rot_if_a_second_proves_it() -> None:
    image, whole = _two_segments()
    disk = VirtualDisk()
    used = len(image.files[FIRST].rstrip(b"\0"))
    for length in range(0, used, 7):
        disk.restore(image)
        disk.truncate(FIRST, length)
        _, found = open_wal(disk, None, 1400)
        assert found.identity == whole.identity
        assert found.suspect == Position(3, 7)
        _same_again(disk, found)


def test_rot_of_the_last_batch_without_a_marker_is_a_torn_tail() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk)
    wal.append(hard(1), [entry(1)])
    wal.sync()
    wal.append(hard(2), [entry(2, 2)])
    wal.sync()
    disk.rot(FIRST, len(disk.read(FIRST, 0, 9999).rstrip(b"\0")) - 1, 0)
    _, found = open_wal(disk)
    assert (found.torn, found.suspect) == (True, None)
    assert (found.hard_state.term, found.entries) == (1, [entry(1)])
    assert len(disk.names("broken")) == 1


def _state(found: Recovered) -> object:
    identity = found.identity
    return (
        None if identity is None else identity.boot,
        found.hard_state,
        tuple(found.entries),
        tuple(found.peer_boots.items()),
    )


class _Script:
    """Drives a log and tells the story what each call is meant to leave behind."""

    def __init__(self, disk: VirtualDisk, story: Story) -> None:
        self.story = story
        self.wal, found = open_wal(disk)
        self.found = found
        story.wrote(_state(found))
        story.synced()

    def create(self) -> None:
        self.found.identity = IDENTITY
        self.story.wrote(_state(self.found))
        self.wal.create_identity(IDENTITY)
        self.story.synced()

    def append(self, term: int, entries: list[Entry], commit: int = 0) -> None:
        state = hard(term, commit)
        self.found.hard_state = state
        if entries:
            kept = [old for old in self.found.entries if old.index < entries[0].index]
            self.found.entries = kept + entries
        self.story.wrote(_state(self.found))
        self.wal.append(state, entries)

    def sync(self) -> None:
        self.wal.sync()
        self.story.synced()

    def note(self, member: int, boot: int) -> None:
        self.found.peer_boots[member] = boot
        self.story.wrote(_state(self.found))
        self.wal.note_peer_boot(member, boot)
        self.story.synced()


def _append_and_rotate(disk: VirtualDisk, story: Story) -> None:
    script = _Script(disk, story)
    script.create()
    index = 0
    for step in range(12):
        index += 1
        script.append(1 + step // 4, [entry(index, 1 + step // 4, 60 + 40 * (step % 3))])
        if step % 2:
            script.append(1 + step // 4, [], index)
        if step % 3 == 2:
            script.sync()
        if step == 7:
            script.note(9, 4)
            index -= 2  # the next one replaces the tail
    script.wal.mark()
    script.story.synced()


def test_a_crash_at_every_disk_call_of_append_and_rotate() -> None:
    crashes = crash_everywhere(_append_and_rotate, lambda disk: _state(open_wal(disk)[1]), seeds=20)
    assert crashes > 500


def _compact_and_recycle(disk: VirtualDisk, story: Story) -> None:
    """Snapshots are saved and the log is compacted behind them, into recycled files."""
    story.wrote((0, 0))
    wal = new_wal(disk, 700)
    snapshots = Snapshots(disk)
    for index in range(1, 25):
        story.wrote((hard(1, index - 1).commit, index))
        wal.append(hard(1, index - 1), [entry(index, 1, 80)])
        wal.sync()
        story.synced()
        if index % 5 == 0:
            snapshots.save(index, 1, Config(), b"%d" % index)
            wal.compact(snapshots.oldest_index())
    assert wal.segment_count <= 7


def _recover_compacted(disk: VirtualDisk) -> object:
    snapshot = Snapshots(disk).newest()
    _, found = open_wal(disk, snapshot, 700)
    base = snapshot.index if snapshot else 0
    assert found.suspect is None
    assert found.entries == [entry(base + n + 1, 1, 80) for n in range(len(found.entries))]
    # A commit index below the snapshot is raised to it.
    commit, last = found.hard_state.commit, base + len(found.entries)
    return (last - 1 if last and commit == last else commit, last)


def test_a_crash_at_every_disk_call_of_compaction_and_recycling() -> None:
    assert crash_everywhere(_compact_and_recycle, _recover_compacted) > 400


def _install(disk: VirtualDisk, story: Story) -> None:
    """A snapshot of a leader supersedes a log of an older history, then the log goes on."""
    story.wrote((0, ()))
    wal = new_wal(disk)
    stale = tuple(entry(index, 1) for index in range(1, 8))
    story.wrote((0, stale))
    wal.append(hard(1), stale)
    wal.sync()
    story.synced()
    body = b"state" * 300
    meta = SnapshotMeta(5, 3, Config(), len(body), hashlib.sha256(body).digest())
    story.wrote((5, ()))
    snapshots = Snapshots(disk)
    assert snapshots.receive(meta, 0, body[:700], False) is None
    assert snapshots.receive(meta, 700, body[700:], True) == meta
    story.synced()
    wal.install(meta)
    fresh = (entry(6, 3), entry(7, 3))
    story.wrote((5, fresh))
    wal.append(hard(3, 5), fresh)
    wal.sync()
    story.synced()


def _recover_installed(disk: VirtualDisk) -> object:
    snapshot = Snapshots(disk).newest()
    _, found = open_wal(disk, snapshot)
    assert found.suspect is None
    return (snapshot.index if snapshot else 0, tuple(found.entries))


def test_a_crash_at_every_disk_call_of_a_snapshot_install() -> None:
    assert crash_everywhere(_install, _recover_installed, seeds=20) > 300
