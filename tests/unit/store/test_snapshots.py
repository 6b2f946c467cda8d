from __future__ import annotations

import hashlib

import msgspec
import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.raft.types import Config, Member, SnapshotMeta
from rollq.store import snapshot_header
from rollq.store import snapshots as module
from rollq.store.snapshots import INCOMING, Snapshots, name_of
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import Chance, Story, crash_everywhere

CONFIG = Config((Member(1, "a:1"), Member(2, "b:2")), (Member(3, "c:3"),))
BODY = b"0123456789" * 60


def _meta(index: int, body: bytes = BODY) -> SnapshotMeta:
    return SnapshotMeta(index, 2, CONFIG, len(body), hashlib.sha256(body).digest())


def test_a_saved_snapshot_is_found_loaded_and_read_in_pieces() -> None:
    disk = VirtualDisk()
    snapshots = Snapshots(disk)
    assert snapshots.newest() is None
    meta = snapshots.save(5, 2, CONFIG, BODY)
    assert meta == _meta(5)
    disk.crash(Chance(0))
    snapshots = Snapshots(disk)
    assert snapshots.newest() == meta
    assert snapshots.load(meta) == BODY
    assert snapshots.read(meta, 7, 10) == BODY[7:17]
    assert snapshots.read(meta, len(BODY) - 3, 10) == BODY[-3:]
    assert snapshots.read(meta, len(BODY) + 3, 10) == b""


def test_two_generations_are_kept_and_the_log_from_the_older() -> None:
    disk = VirtualDisk()
    snapshots = Snapshots(disk)
    assert snapshots.oldest_index() == 0
    snapshots.save(5, 2, CONFIG, BODY)
    assert snapshots.oldest_index() == 0
    snapshots.save(8, 2, CONFIG, BODY)
    assert snapshots.oldest_index() == 5
    snapshots.save(11, 2, CONFIG, BODY)
    assert snapshots.oldest_index() == 8
    assert len(disk.names("snapshots")) == 2


def test_every_flipped_bit_falls_back_to_the_older_generation() -> None:
    disk = VirtualDisk()
    snapshots = Snapshots(disk)
    older = snapshots.save(5, 2, CONFIG, b"old")
    newer = snapshots.save(8, 2, CONFIG, b"new state")
    image = disk.snapshot()
    name = name_of(newer)
    for place in range(disk.size(name) * 8):
        disk.restore(image)
        disk.rot(name, place // 8, place % 8)
        snapshots = Snapshots(disk)
        assert snapshots.newest() == older, place
        assert snapshots.corrupt == [name]
        assert snapshots.oldest_index() == 0
        assert disk.names("broken") == [name.removeprefix("snapshots/")]


def test_every_cut_falls_back_and_nothing_left_is_none() -> None:
    disk = VirtualDisk()
    name = name_of(Snapshots(disk).save(8, 2, CONFIG, b"new state"))
    image = disk.snapshot()
    for length in range(disk.size(name)):
        disk.restore(image)
        disk.truncate(name, length)
        assert Snapshots(disk).newest() is None


def test_a_damaged_body_is_never_served() -> None:
    disk = VirtualDisk()
    snapshots = Snapshots(disk)
    meta = snapshots.save(8, 2, CONFIG, BODY)
    disk.rot(name_of(meta), disk.size(name_of(meta)) - 1, 0)
    with pytest.raises(DiskError) as caught:
        snapshots.load(meta)
    assert caught.value.code is ErrorCode.SNAPSHOT_CORRUPT
    with pytest.raises(DiskError):
        snapshots.load(_meta(9))
    with pytest.raises(DiskError):
        snapshots.read(_meta(8, b"other"), 0, 5)


def test_a_newer_format_stops_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = VirtualDisk()
    monkeypatch.setattr(module, "PLAIN", 4)
    monkeypatch.setattr(snapshot_header, "VERSIONS", (1, 2, 3, 4))
    Snapshots(disk).save(8, 2, CONFIG, BODY)
    monkeypatch.undo()
    with pytest.raises(DiskError) as caught:
        Snapshots(disk).newest()
    assert caught.value.code is ErrorCode.DISK_VERSION


def test_a_sound_header_with_a_strange_meta_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = VirtualDisk()
    monkeypatch.setattr(snapshot_header, "_encoder", _Strange())
    Snapshots(disk).save(8, 2, CONFIG, BODY)
    monkeypatch.undo()
    assert Snapshots(disk).newest() is None


class _Strange:
    def encode(self, fields: tuple[object, ...]) -> bytes:
        return msgspec.msgpack.encode([str(fields[0])])


def test_pieces_are_received_resumed_and_verified() -> None:
    disk = VirtualDisk()
    snapshots = Snapshots(disk)
    meta = _meta(6)
    assert snapshots.received(meta) == 0
    assert snapshots.receive(meta, 0, BODY[:100], False) is None
    assert snapshots.receive(meta, 100, BODY[100:250], False) is None
    snapshots = Snapshots(disk)  # a restart goes on where it was
    assert snapshots.received(meta) == 250
    assert snapshots.received(_meta(7)) == 0
    assert snapshots.receive(meta, 200, BODY[200:300], False) is None  # sent again, longer
    assert snapshots.receive(meta, 300, BODY[300:], True) == meta
    disk.crash(Chance(0))
    assert Snapshots(disk).newest() == meta
    assert Snapshots(disk).load(meta) == BODY


def test_a_new_transfer_starts_over() -> None:
    snapshots = Snapshots(VirtualDisk())
    snapshots.receive(_meta(6), 0, BODY, False)
    other = b"xyz"
    assert snapshots.receive(_meta(7, other), 0, other, True) == _meta(7, other)
    assert snapshots.load(_meta(7, other)) == other


def test_a_wrong_digest_discards_what_came() -> None:
    disk = VirtualDisk()
    snapshots = Snapshots(disk)
    for body in (BODY[:-1] + b"!", BODY[:-1], BODY + b"!"):
        with pytest.raises(DiskError) as caught:
            snapshots.receive(_meta(6), 0, body, True)
        assert caught.value.code is ErrorCode.SNAPSHOT_CORRUPT
        assert disk.size(INCOMING) == -1
        assert snapshots.newest() is None


def test_a_hole_between_pieces_is_our_bug() -> None:
    snapshots = Snapshots(VirtualDisk())
    with pytest.raises(LocalError):
        snapshots.receive(_meta(6), 10, b"x", False)


def _save_three(disk: VirtualDisk, story: Story) -> None:
    snapshots = Snapshots(disk)
    story.wrote(None)
    for index in (3, 6, 9, 12):
        story.wrote((index, BODY[:index]))
        if index == 9:
            meta = _meta(index, BODY[:index])
            snapshots.receive(meta, 0, BODY[:4], False)
            snapshots.receive(meta, 4, BODY[4:index], True)
        else:
            snapshots.save(index, 2, CONFIG, BODY[:index])
        story.synced()


def _newest(disk: VirtualDisk) -> object:
    snapshots = Snapshots(disk)
    meta = snapshots.newest()
    assert snapshots.corrupt == []  # a name that is there is whole
    return None if meta is None else (meta.index, snapshots.load(meta))


def test_a_crash_at_every_disk_call_of_saving_and_receiving() -> None:
    assert crash_everywhere(_save_three, _newest, seeds=20) > 400
