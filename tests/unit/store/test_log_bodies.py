"""Large bodies stay in the log: they are written once, and are there as long as they are needed."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.sealed import seal, sealed_bytes
from rollq.raft.types import Config, Entry, HardState, SnapshotMeta
from rollq.store import body_files
from rollq.store.body_files import BodyFiles
from rollq.store.log_bodies import BodyLog
from rollq.store.places import segment_name
from rollq.store.record import data_offsets, encode_entries
from rollq.store.snapshots import NO_DIGEST, Snapshots, name_of
from rollq.store.spill import FOLDER as SCRATCH
from rollq.store.spill import Spill
from rollq.store.wal import Wal
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import IDENTITY, Chance, Story, crash_everywhere

SEGMENT_BYTES = 1_500
LARGE_BYTES_MIN = 64


class Shelf:
    """A member's disk with the smallest state machine there is: an entry brings a body (`+body`),
    or takes the oldest away (`-`)."""

    def __init__(self, disk: VirtualDisk) -> None:
        self.disk = disk
        self.files = BodyFiles(disk)
        self.snapshots = Snapshots(disk, self.files)
        newest = self.snapshots.newest()
        self.snapshots.claim()
        self.wal, found = Wal.open(
            disk,
            newest,
            segment_bytes=SEGMENT_BYTES,
            large_bytes_min=LARGE_BYTES_MIN,
            files=self.files,
        )
        self.files.sweep()
        if found.identity is None:
            self.wal.create_identity(IDENTITY)
        self.spill_log = BodyLog(self.files, self.wal.data_of, LARGE_BYTES_MIN, SEGMENT_BYTES)
        self.spill = Spill(disk, "a", hot_bytes_max=0, log=self.spill_log)
        self.tokens: list[bytes | int] = []
        self.index = 0
        self.suspect = found.suspect
        if newest is not None:
            self.load(newest)
        for entry in found.entries:
            self.apply(entry)

    def load(self, meta: SnapshotMeta) -> None:
        """Become what a snapshot says."""
        name, start, layout = self.snapshots.pin(meta)
        self.spill.attach(name, start, layout, partial(self.snapshots.unpin, name))
        count = int.from_bytes(self.disk.read(name, start, 4), "big")
        columns = self.disk.read(name, start + 4, 4 * count)
        sizes = [int.from_bytes(columns[at : at + 4], "big") for at in range(0, 4 * count, 4)]
        self.tokens = self.spill.adopt(4 + 4 * count, sizes)
        self.spill.adopted()
        self.index = meta.index

    def apply(self, entry: Entry) -> None:
        """Take or drop a body."""
        self.index = entry.index
        self.spill.entering(entry.index, entry.data)
        if entry.data.startswith(b"+"):
            self.tokens.append(self.spill.keep(entry.data[1:]))
        elif self.tokens:
            self.spill.drop_all((self.tokens.pop(0),))

    def append(self, *texts: bytes) -> None:
        """One record with an entry for each, durable, and applied."""
        entries = [Entry(1, self.index + n, 0, text) for n, text in enumerate(texts, 1)]
        self.wal.append(HardState(1, 7, self.index), entries)
        self.wal.sync()
        for entry in entries:
            self.apply(entry)

    def write(self) -> SnapshotMeta:
        """A snapshot without a name."""
        sizes = [self.spill.size(token) for token in self.tokens]
        head = b"".join(n.to_bytes(4, "big") for n in (len(sizes), *sizes))
        size = len(head) + sum(map(sealed_bytes, sizes))
        self.snapshots.begin()
        meta = SnapshotMeta(self.index, 1, Config(), size, NO_DIGEST)
        pieces = (piece for piece in (head, *self.spill.referred(self.tokens)))
        return self.snapshots.write(meta, pieces, refers=bool(self.spill.segments()))

    def snapshot(self) -> SnapshotMeta:
        """As a member takes one: then the log may shrink."""
        meta = self.write()
        self.snapshots.publish(meta, self.spill.segments())
        self.wal.compact(self.snapshots.oldest_index())
        return meta

    @property
    def bodies(self) -> list[bytes]:
        """All there are."""
        return [self.spill.load(token) for token in self.tokens]


def body(number: int, size: int = 400) -> bytes:
    """One unlike all others."""
    return b"%06d;" % number * (size // 7) + b"." * (size % 7)


def given_up(disk: VirtualDisk) -> list[int]:
    """Segments that are kept for their bodies alone."""
    return [int(name.partition(".")[0]) for name in disk.names(body_files.FOLDER)]


def test_a_large_body_is_written_to_the_log_and_nowhere_else() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    bodies = [body(n) for n in range(6)]
    for one in bodies:
        shelf.append(b"+" + one)
    meta = shelf.snapshot()
    assert shelf.bodies == bodies
    assert b"".join(shelf.spill.sealed(shelf.tokens)).count(b"000003;") == 400 // 7
    assert disk.names(SCRATCH) == []
    assert meta.large_count == 6
    data = disk.read(name_of(meta), 0, 1 << 20)
    assert not any(one in data for one in bodies)


def test_a_small_body_and_one_that_the_log_had_to_change_go_to_a_scratch_file() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    bodies = [b"small", b"RQW\x01" * 30, b"", body(1)]
    for one in bodies:
        shelf.append(b"+" + one)
    meta = shelf.snapshot()
    assert meta.large_count == 1
    assert shelf.bodies == Shelf(disk).bodies == bodies


def test_bodies_that_begin_alike_are_told_apart() -> None:
    shelf = Shelf(VirtualDisk())
    bodies = [b"x" * 90, b"x" * 100, b"x" * 90, b"x" * 70 + b"y"]
    for one in bodies:
        shelf.append(b"+" + one, b"+" + one[::-1])
    assert shelf.bodies == [each for one in bodies for each in (one, one[::-1])]


def test_bodies_that_come_together_are_left_in_the_log_if_they_are_large() -> None:
    shelf = Shelf(VirtualDisk())
    roomy = Spill(shelf.disk, "b", hot_bytes_max=9_999, log=shelf.spill_log)
    bodies = [b"small", body(1), body(2), b"tiny"]
    shelf.append(b"+" + b"|".join(bodies))
    roomy.entering(1, b"+" + b"|".join(bodies))
    tokens = roomy.keep_all(bodies)
    assert [type(token) for token in tokens] == [bytes, int, int, bytes]
    assert roomy.load_all(tokens) == bodies
    assert roomy.keep_all(bodies[::3]) == bodies[::3]


def test_bodies_of_one_size_are_found_again_in_the_log_and_in_the_snapshot() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    changed = (b"RQW\x01" * 100)[:400]  # it is too large for a scratch file by its size alone
    bodies = [body(1), changed, body(2), body(3), changed, b"", b"", b"small", b"smail", body(4)]
    for one in bodies:
        shelf.append(b"+" + one)
    assert shelf.snapshot().large_count == 4
    assert Shelf(disk).bodies == bodies


def test_segments_stay_while_state_or_a_snapshot_needs_them() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    for number in range(20):
        shelf.append(b"+" + body(number))
        if number % 3 == 2:
            shelf.snapshot()
    kept = given_up(disk)
    assert len(kept) > 2
    assert not set(kept) & {int(name[:12]) for name in disk.names("wal")}
    assert shelf.bodies == [body(number) for number in range(20)]
    for _ in range(20):
        shelf.append(b"-")
    assert given_up(disk) == kept  # two snapshots may still have to be loaded
    for _ in range(3):
        shelf.append(b"+small")
        shelf.snapshot()
    assert given_up(disk) == []


def test_a_segment_is_not_kept_for_very_few_bodies() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    bodies = [body(number, 70) for number in range(2)]
    for one in bodies:
        shelf.append(b"+" + one)
        for number in range(9):
            shelf.append(b"+" + body(number))
        shelf.snapshot()
        for _ in range(9):
            shelf.spill.drop_all((shelf.tokens.pop(),))
    for _ in range(2):
        shelf.append(b"+" + body(99))
        shelf.snapshot()
    assert len(given_up(disk)) > 2
    shelf.spill.tidy()
    shelf.spill.tidy()
    assert shelf.bodies[:2] == bodies
    for _ in range(3):
        shelf.append(b"+" + body(99))
        shelf.snapshot()
    assert len(given_up(disk)) <= 2
    assert shelf.bodies[:2] == bodies
    wanted = shelf.bodies
    assert b"".join(shelf.spill.sealed(shelf.tokens[:2])) == b"".join(map(seal, bodies))
    shelf.spill.drop_all((shelf.tokens.pop(0),))
    assert shelf.bodies == wanted[1:]
    shelf.append(b"+")  # nothing else was lost
    shelf.snapshot()
    assert Shelf(disk).bodies[0] == bodies[1]


def test_a_snapshot_that_takes_the_name_of_another_takes_its_holds() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    for number in range(6):
        shelf.append(b"+" + body(number))
    shelf.snapshot()
    shelf.snapshot()
    for _ in range(6):
        shelf.append(b"-")
    for _ in range(3):
        shelf.append(b"+small")
        shelf.snapshot()
    assert given_up(disk) == []


def test_a_restart_goes_on_from_the_bodies_in_the_log() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    for number in range(12):
        shelf.append(b"+" + body(number), b"+small %d" % number)
        if number in (4, 8):
            shelf.snapshot()
    wanted = shelf.bodies
    again = Shelf(disk)
    assert again.bodies == wanted
    meta = again.snapshot()
    assert meta.large_count == 12
    assert Shelf(disk).bodies == wanted


def test_what_nobody_needs_is_removed_at_the_start() -> None:
    disk = VirtualDisk()
    disk.write(f"{body_files.FOLDER}/{3:012d}.log", 0, b"x")
    Shelf(disk)
    assert given_up(disk) == []


def test_a_body_that_is_dropped_before_its_snapshot_is_published_is_in_it() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    for number in range(9):
        shelf.append(b"+" + body(number))
        shelf.snapshot()
    held = shelf.spill.segments()
    shelf.files.state.hold(held)  # as the order of a snapshot does
    meta = shelf.write()
    while shelf.tokens:
        shelf.append(b"-")
    shelf.snapshots.publish(meta, held)
    shelf.files.state.release(held)
    assert Snapshots(disk).newest() == meta
    assert Snapshots(disk).load(meta).count(b"000000;") == 400 // 7


def test_a_rotten_body_is_neither_handed_out_nor_taken_for_valid() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    for number in range(8):
        shelf.append(b"+" + body(number))
        shelf.snapshot()
    segment = given_up(disk)[0]
    name = f"{body_files.FOLDER}/{segment:012d}.log"
    at = disk.read(name, 0, 1 << 20).index(b"000000;")
    disk.rot(name, at, 2)
    with pytest.raises(DiskError) as caught:
        shelf.spill.load(shelf.tokens[0])
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    assert shelf.spill.load(shelf.tokens[1]) == body(1)
    assert Snapshots(disk).newest() is None


def test_every_flipped_bit_of_a_snapshot_that_refers_is_found() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    shelf.append(b"+" + body(1), b"+small", b"+" + body(2))
    meta = shelf.snapshot()
    name = name_of(meta)
    image = disk.snapshot()
    unnoticed = 0
    for place in range(disk.size(name) * 8):
        disk.restore(image)
        disk.rot(name, place // 8, place % 8)
        unnoticed += Snapshots(disk).newest() is not None
    assert unnoticed <= 16 * 8  # in the padding, which says nothing


def test_a_snapshot_whose_segment_is_gone_is_not_valid() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    shelf.append(b"+" + body(1))
    shelf.snapshot()
    disk.remove(segment_name(1))
    assert Snapshots(disk).newest() is None


@pytest.mark.parametrize("length", [7, 100, 333, 1 << 20])
def test_a_peer_gets_all_bodies_and_checks_them(length: int) -> None:
    shelf = Shelf(VirtualDisk())
    for number in range(7):
        shelf.append(b"+" + body(number), b"+small %d" % number)
        shelf.snapshot()
    meta = shelf.snapshot()
    stream = shelf.snapshots.load(meta)
    assert len(stream) == meta.size_bytes
    pieces = [shelf.snapshots.read(meta, at, length) for at in range(0, len(stream), length)]
    assert b"".join(pieces) == stream
    other = Shelf(VirtualDisk())
    at = 0
    for piece in pieces:
        done = at + len(piece) == meta.size_bytes
        whole = other.snapshots.receive(meta, at, piece, done)
        at += len(piece)
    assert whole == meta
    other.wal.install(meta)
    other.load(meta)
    assert other.bodies == shelf.bodies
    assert other.snapshots.load(meta) == stream
    assert Shelf(other.disk).bodies == shelf.bodies
    damaged = bytearray(stream)
    damaged[stream.index(b"000003;") + 3] ^= 1
    with pytest.raises(DiskError) as caught:
        Snapshots(VirtualDisk()).receive(meta, 0, bytes(damaged), True)
    assert caught.value.code is ErrorCode.SNAPSHOT_CORRUPT


def test_a_log_that_is_written_anew_leaves_the_bodies_of_snapshots() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    for number in range(7):
        shelf.append(b"+" + body(number))
    shelf.snapshot()
    shelf.append(b"+later")
    shelf.append(b"+last")
    shelf.wal.close()
    name = f"wal/{disk.names('wal')[-1]}"
    disk.rot(name, disk.read(name, 0, 1 << 20).index(b"+later"), 1)
    again = Shelf(disk)
    assert again.suspect is not None
    assert again.bodies == [body(number) for number in range(7)]
    assert len(given_up(disk)) > 1


def test_entries_that_were_replaced_are_not_looked_at() -> None:
    disk = VirtualDisk()
    shelf = Shelf(disk)
    old = [Entry(1, n, 0, b"+" + body(n)) for n in (1, 2, 3)]
    shelf.wal.append(HardState(1, 7, 0), old)
    new = [Entry(2, 2, 0, b"+" + body(20)), Entry(2, 3, 0, b"-")]
    shelf.wal.append(HardState(2, 7, 0), new)
    shelf.wal.sync()
    assert shelf.wal.data_of(3) is None
    for entry in (old[0], new[0]):
        shelf.apply(entry)
    assert shelf.bodies == [body(1), body(20)]
    assert disk.names(SCRATCH) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from((1, 200, 70_000, 1 << 33)),
            st.sampled_from((1, 127, 128, 300, 1 << 20, 1 << 40)),
            st.sampled_from((0, 1)),
            st.sampled_from((0, 3, 255, 256, 65_535, 65_536)),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_the_data_of_entries_stands_where_it_is_said(rows: list[tuple[int, int, int, int]]) -> None:
    entries = [
        Entry(term, index, kind, bytes([n]) * size)
        for n, (term, index, kind, size) in enumerate(rows)
    ]
    encoded = encode_entries(entries)
    offsets = data_offsets(entries, len(encoded))
    assert len(offsets) == len(entries)
    for entry, at in zip(entries, offsets, strict=True):
        assert encoded[at : at + len(entry.data)] == entry.data
    assert data_offsets(entries, len(encoded) + 1) == []


def _live(disk: VirtualDisk, story: Story) -> None:
    """Bodies come and go, snapshots are taken, segments are given up and removed."""
    story.wrote([])
    shelf = Shelf(disk)
    story.synced()
    bodies: list[bytes] = []
    for number in range(16):
        bodies = [*bodies[number % 4 == 3 :], body(number, 300), b"s%d" % number]
        texts = [b"-"] * (number % 4 == 3) + [b"+" + one for one in bodies[-2:]]
        story.wrote(bodies)
        shelf.append(*texts)
        story.synced()
        if number % 3 == 2:
            shelf.snapshot()
    while len(bodies) > 4:
        bodies = bodies[1:]
        story.wrote(bodies)
        shelf.append(b"-")
        story.synced()
        if len(bodies) % 7 == 0:
            shelf.snapshot()
    assert len(disk.names(body_files.FOLDER)) < 12


def _found(disk: VirtualDisk) -> object:
    shelf = Shelf(disk)
    assert shelf.suspect is None
    return shelf.bodies


def test_a_crash_at_every_disk_call_loses_no_body() -> None:
    assert crash_everywhere(_live, _found, seeds=3) > 400


def test_a_power_cut_while_a_segment_is_given_up() -> None:
    for seed in range(40):
        disk = VirtualDisk()
        shelf = Shelf(disk)
        for number in range(9):
            shelf.append(b"+" + body(number))
            shelf.snapshot()
        assert given_up(disk)
        disk.crash(Chance(seed))
        assert Shelf(disk).bodies == [body(number) for number in range(9)]
