"""Files of every format version that was ever written: today's code must read them for ever.

A file in `golden/` is never changed. A new version adds a file and a test; the old ones stay.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from zlib import crc32

import pytest
from msgspec.structs import replace

from rollq.base.sealed import SEAL_BYTES, seal
from rollq.grid.events import Event, Run
from rollq.history.packed import pack
from rollq.history.packed_file import PackedFooter, footer_in, plain_of
from rollq.history.schema import from_line
from rollq.history.segments import Segments
from rollq.raft.types import Config, Entry, EntryKind, HardState, Member, Position, SnapshotMeta
from rollq.store.identity import Identity
from rollq.store.snapshot_layout import LargeBody
from rollq.store.snapshots import NO_DIGEST, Snapshots
from rollq.store.synced import Vouched, read_vouched, write_vouched
from rollq.store.wal import Wal
from rollq.testing.disk import DiskImage, VirtualDisk

GOLDEN = Path(__file__).parent / "golden"
SEGMENT_BYTES = 4096
ROSTER = (Member(7, "host-a:5000"), Member(9, "host-b:5000"))
IDENTITY = Identity(bytes(range(16)), 7, "host-a:5000", 2, ROSTER)
CONFIG = Config((Member(7, "host-a:5000"),), (Member(11, "host-c:5000"),))
SNAPSHOT_BODY = b"the state at index 12\n" * 3
LARGE = [b"one large body " * 20, b"and another one " * 30]
WAL_NAME = "wal/000000000001.log"
SNAPSHOT_NAME = "snapshots/00000000000000000012-00000000000000000003.snap"
HISTORY_NAME = "history/00000000000000000001-00000000000000000004.jsonl"
PACKED_NAME = "history/00000000000000000001-00000000000000000004.runs"
PACKED = [
    pack(
        1,
        1_700_000_000_001,
        [
            Event("worker_up", worker_id=bytes(range(16)), detail="w1"),
            Event("assign", client_id="c", queue="q", fence=7, run=Run(bytes(range(48)))),
        ],
    ),
    pack(2, 1_700_000_000_002, []),
    pack(3, 1_700_000_000_003, [Event("ack", run=Run(bytes(range(32)), run_ms=(3, 0)))]),
]
LINES = [b'{"index":1,"event":"enqueue"}', b'{"index":3,"event":"assign"}']
ENTRIES = [
    Entry(1, 1, EntryKind.CONFIG, b"\x91\x90"),
    Entry(1, 2, EntryKind.NORMAL, b"RQW\x01 in a payload"),
    Entry(2, 3, EntryKind.NORMAL, bytes(range(256))),
    Entry(2, 4),
]


def _disk(name: str, golden: str) -> VirtualDisk:
    disk = VirtualDisk()
    disk.restore(DiskImage({name: (GOLDEN / golden).read_bytes()}))
    return disk


def _write_wal() -> VirtualDisk:
    disk = VirtualDisk()
    wal, _ = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    wal.create_identity(Identity(bytes(16), 7, "host-a:5000"))
    wal.bump_boot()
    wal.bump_boot(group="red")
    wal.join_cluster(bytes(range(16)), ROSTER)
    wal.note_peer_boot(9, 5)
    wal.append(HardState(1, 7, 0), [*ENTRIES[:2], Entry(1, 3, 0, b"to be replaced")])
    wal.append(HardState(2, 9, 2), ENTRIES[2:])
    wal.sync()
    wal.close()
    return disk


@pytest.mark.parametrize("golden", ["wal-v1.bin", "wal-v1-group.bin"])
def test_wal_v1_is_read(golden: str) -> None:
    _, found = Wal.open(_disk(WAL_NAME, golden), None, segment_bytes=SEGMENT_BYTES)
    assert found.identity == IDENTITY
    assert found.hard_state == HardState(2, 9, 2)
    assert found.entries == ENTRIES
    assert (found.suspect, found.torn, found.peer_boots) == (None, False, {9: 5})


def test_wal_v1_behind_a_snapshot_is_read() -> None:
    disk = _disk(WAL_NAME, "wal-v1.bin")
    _, found = Wal.open(disk, SnapshotMeta(3, 2), segment_bytes=SEGMENT_BYTES)
    assert found.entries == ENTRIES[3:]


def test_wal_v1_that_was_rewritten_after_rot_is_read() -> None:
    name = "wal/000000000002.log"
    disk = _disk(name, "wal-v1-suspect.bin")
    _, found = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    assert (found.identity, found.hard_state) == (IDENTITY, HardState(2, 9, 2))
    assert found.suspect == Position(2, 4)
    assert [entry.index for entry in found.entries] == [1, 2, 3]


def test_wal_v1_is_still_written_with_the_group_in_its_head() -> None:
    disk = _write_wal()
    assert disk.read(WAL_NAME, 0, SEGMENT_BYTES) == (GOLDEN / "wal-v1-group.bin").read_bytes()


def test_snapshot_v1_is_read() -> None:
    disk = _disk(SNAPSHOT_NAME, "snapshot-v1.bin")
    meta = Snapshots(disk).newest()
    digest = hashlib.sha256(SNAPSHOT_BODY).digest()
    assert meta == SnapshotMeta(12, 3, CONFIG, len(SNAPSHOT_BODY), digest)
    assert Snapshots(disk).load(meta) == SNAPSHOT_BODY


def test_snapshot_is_still_written_as_v1() -> None:
    disk = VirtualDisk()
    Snapshots(disk).save(12, 3, CONFIG, SNAPSHOT_BODY)
    golden = (GOLDEN / "snapshot-v1.bin").read_bytes()
    assert disk.read(SNAPSHOT_NAME, 0, 9999) == golden


def _bodies_disk() -> VirtualDisk:
    """A log whose first two entries are large bodies, and nothing else."""
    disk = VirtualDisk()
    wal, _ = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    wal.create_identity(Identity(bytes(16), 7, "host-a:5000"))
    wal.append(HardState(1, 7, 0), [Entry(1, 1, 0, LARGE[0]), Entry(1, 2, 0, LARGE[1])])
    wal.sync()
    return disk


def _write_referring(disk: VirtualDisk) -> SnapshotMeta:
    data = disk.read(WAL_NAME, 0, SEGMENT_BYTES)
    bodies = [LargeBody(len(body), crc32(body), 1, data.index(body)) for body in LARGE]
    one, two = (seal(body)[-SEAL_BYTES:] for body in LARGE)
    pieces = (SNAPSHOT_BODY, bodies[0], one, b"between", bodies[1], two)
    size = len(SNAPSHOT_BODY) + len(b"between") + sum(map(len, map(seal, LARGE)))
    snapshots = Snapshots(disk)
    snapshots.begin()
    meta = snapshots.write(SnapshotMeta(12, 3, CONFIG, size, NO_DIGEST), pieces, refers=True)
    snapshots.publish(meta)
    return meta


def test_snapshot_v2_that_refers_to_the_log_is_read_and_written() -> None:
    golden = (GOLDEN / "snapshot-v2.bin").read_bytes()
    disk = _bodies_disk()
    disk.write(SNAPSHOT_NAME, 0, golden)
    meta = Snapshots(disk).newest()
    assert meta is not None
    stream = SNAPSHOT_BODY + seal(LARGE[0]) + b"between" + seal(LARGE[1])
    assert Snapshots(disk).load(meta).startswith(stream)
    fresh = _bodies_disk()
    assert _write_referring(fresh) == meta
    assert fresh.read(SNAPSHOT_NAME, 0, 9999) == golden


def test_snapshot_v3_that_came_from_a_peer_is_read_and_written() -> None:
    golden = (GOLDEN / "snapshot-v3.bin").read_bytes()
    disk = _disk(SNAPSHOT_NAME, "snapshot-v3.bin")
    meta = Snapshots(disk).newest()
    assert meta is not None
    stream = Snapshots(disk).load(meta)
    assert stream.startswith(SNAPSHOT_BODY + seal(LARGE[0]) + b"between" + seal(LARGE[1]))
    fresh = VirtualDisk()
    assert Snapshots(fresh).receive(meta, 0, stream, True) == meta
    assert fresh.read(SNAPSHOT_NAME, 0, 9999) == golden
    sender = _bodies_disk()
    assert Snapshots(sender).load(_write_referring(sender)) == stream


def test_history_v1_is_read() -> None:
    segments = Segments(_disk(HISTORY_NAME, "history-v1.jsonl"))
    assert list(segments.read(1, 4)) == LINES
    assert segments.covered_to() == 4


def test_history_is_still_written_as_v1() -> None:
    disk = VirtualDisk()
    Segments(disk).seal(1, 4, LINES)
    assert disk.read(HISTORY_NAME, 0, 9999) == (GOLDEN / "history-v1.jsonl").read_bytes()


@pytest.mark.parametrize(
    "golden", ["history-v1.runs", "history-v1-access.runs", "history-v1-parents.runs"]
)
def test_packed_history_v1_is_read(golden: str) -> None:
    """The second since events may say who asked for what, the third since jobs have parents."""
    segments = Segments(_disk(PACKED_NAME, golden))
    assert [one for _, lines in segments.chunks(1, 4) for one in lines] == [
        line for index in PACKED for line in index.lines()
    ]
    assert (segments.covered_to(), segments.newest_ms(1, 4)) == (4, 1_700_000_000_003)
    first, second, *_ = map(from_line, segments.read(1, 4))
    assert (first.type, first.ordinal, first.jobId) == ("worker_up", 0, "")
    assert (second.type, second.ordinal, second.jobId[:8]) == ("assign", 1, "03020100")


def test_packed_history_is_still_written_as_v1() -> None:
    """But for compression, of which each version of zstd has its own."""
    disk = VirtualDisk()
    Segments(disk).seal_packed(1, 4, PACKED)
    golden = (GOLDEN / "history-v1-parents.runs").read_bytes()
    data = disk.read(PACKED_NAME, 0, 9999)
    assert data[:8] == golden[:8]
    ours, theirs = footer_in(data, ""), footer_in(golden, "")
    assert ours is not None
    assert theirs is not None
    assert _plain(data, ours) == _plain(golden, theirs)
    without = {"size": 0, "crc": 0}
    assert [replace(one, **without) for one in ours.blocks] == [
        replace(one, **without) for one in theirs.blocks
    ]


def _plain(data: bytes, footer: PackedFooter) -> list[bytes]:
    return [plain_of(data[one.offset : one.offset + one.size]) for one in footer.blocks]


def test_mark_v1_is_read_and_written() -> None:
    data = (GOLDEN / "mark-v1.bin").read_bytes()
    disk = _disk("mark/synced", "mark-v1.bin")
    assert read_vouched(disk) == Vouched(9, 3, 7, Position(2, 12))
    fresh = VirtualDisk()
    write_vouched(fresh, Vouched(8, 2, 9, Position(2, 11)))
    write_vouched(fresh, Vouched(9, 3, 7, Position(2, 12)))
    assert fresh.read("mark/synced", 0, 10_000) == data
