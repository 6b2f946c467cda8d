"""What every store of blobs must do: in a directory, in memory, behind file:// and in S3."""

from __future__ import annotations

import errno
import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError, RemoteError, StateError
from rollq.store.blobs.files import hash_file
from rollq.store.blobs.protocol import BlobStore
from rollq.store.blobs.scrub import Scrub
from rollq.store.blobs.staged import place_of
from tests.contracts.blob_places import (
    Place,
    digest_of,
    get,
    put,
    refused,
)

DATA = b"0123456789" * 1_000
DIGEST = digest_of(DATA)


def test_an_empty_store_has_nothing(store: BlobStore, place: Place) -> None:
    assert store.size(DIGEST) is None
    assert store.missing([DIGEST]) == [DIGEST]
    assert list(store.digests()) == []
    assert list(store.leftovers()) == []
    assert store.sweep(2**62) == []
    assert store.path(DIGEST) is None
    store.remove(DIGEST)
    store.set_aside(DIGEST)
    for call in (store.open, store.verify, store.check):
        with refused(ErrorCode.BLOB_MISSING, StateError, DIGEST):
            call(DIGEST)
    assert place.names() == []


@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["empty", "byte", "more"])
def test_what_was_put_is_there(store: BlobStore, place: Place, data: bytes) -> None:
    digest = put(store, data)
    again = place.open()
    for one in (store, again):
        assert one.size(digest) == len(data)
        assert get(one, digest) == data
        assert get(one, digest, 7_777) == data
        assert one.verify(digest)
        assert one.check(digest)
        assert [blob[:2] for blob in one.digests()] == [(digest, len(data))]
    again.close()
    assert place.names() == [place_of(digest)]


def test_a_reader_reads_from_anywhere(store: BlobStore) -> None:
    put(store, DATA)
    reader = store.open(DIGEST)
    assert reader.size == len(DATA)
    assert reader.read(5_003, 4) == b"3456"
    assert reader.read(1, 3) == b"123"
    assert reader.read(len(DATA) - 2, 100) == b"89"
    assert reader.read(len(DATA), 100) == b""
    assert reader.read(0, 0) == b""
    reader.close()


def test_missing_keeps_the_order(store: BlobStore) -> None:
    first, second, third = (digest_of(bytes([one])) for one in (1, 2, 3))
    put(store, bytes([2]))
    assert store.missing([third, second, first]) == [third, first]
    assert store.missing([]) == []


def test_removed_is_gone_and_can_come_again(store: BlobStore, place: Place) -> None:
    put(store, DATA)
    store.remove(DIGEST)
    assert store.size(DIGEST) is None
    assert place.names() == []
    put(store, DATA)
    assert get(store, DIGEST) == DATA


def test_all_are_listed_from_any_start(store: BlobStore) -> None:
    blobs = {put(store, bytes([one]) * one): one for one in range(20)}
    listed = {blob.digest: blob for blob in store.digests()}
    assert {digest: blob.size for digest, blob in listed.items()} == blobs
    oldest = min(blob.mtime_ms for blob in listed.values())
    assert oldest > 1_600_000_000_000  # a date, in milliseconds
    by_name = sorted(blobs)
    assert [blob.digest for blob in store.digests()] == by_name
    start = by_name[7][0]
    around = [blob.digest for blob in store.digests(start)]
    assert around[0][0] == start
    assert sorted(around) == by_name


def test_a_cut_upload_is_resumed(store: BlobStore, place: Place) -> None:
    with store.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == 0
        for at in range(0, 4_000, 500):
            incoming.write(DATA[at : at + 500])
    assert store.size(DIGEST) is None
    assert list(store.digests()) == []
    again = place.open()
    with again.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == 4_000
        incoming.write(memoryview(DATA)[4_000:])
        incoming.commit()
    assert get(store, DIGEST) == DATA
    assert place.names() == [place_of(DIGEST)]
    again.close()


def test_what_comes_can_be_read_before_it_is_whole(store: BlobStore) -> None:
    with pytest.raises(StateError):
        store.open_part(DIGEST, len(DATA))
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA[:4_000])
        reader = store.open_part(DIGEST, len(DATA))
        assert reader.size == len(DATA)
        assert reader.read(3_990, 100) == DATA[3_990:4_000]
        incoming.write(DATA[4_000:])
        assert reader.read(3_990, 100) == DATA[3_990:4_090]
        incoming.commit()
        assert reader.read(5_000, 100) == DATA[5_000:5_100]
    again = store.open_part(DIGEST, len(DATA))
    assert again.read(3_990, 100) == DATA[3_990:4_090]
    for one in (reader, reader, again):
        one.close()


def test_only_the_commit_was_lacking(store: BlobStore) -> None:
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA)
    with store.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == len(DATA)
        incoming.commit()
        incoming.close()
    assert get(store, DIGEST) == DATA


def test_a_part_that_lost_its_bytes_is_found_out(store: BlobStore, place: Place) -> None:
    """As after a power cut, when the file had grown and its bytes had not come to the disk."""
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA[:6_000])
    (place.partial / DIGEST.hex()).write_bytes(DATA[:1_000] + bytes(5_000))
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA[incoming.offset :])
        with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
            incoming.commit()
    assert place.names() == []
    put(store, DATA)
    assert get(store, DIGEST) == DATA


def test_a_part_that_is_too_long_is_not_resumed(store: BlobStore) -> None:
    with store.begin(DIGEST, 2 * len(DATA)) as incoming:
        incoming.write(DATA + b"more")
    with store.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == 0
        incoming.write(DATA)
        incoming.commit()
    assert get(store, DIGEST) == DATA


def test_wrong_bytes_are_refused(store: BlobStore, place: Place) -> None:
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA[:-1] + b"?")
        with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
            incoming.commit()
    assert store.size(DIGEST) is None
    assert place.names() == []


def test_wrong_sizes_are_refused(store: BlobStore, place: Place) -> None:
    with refused(ErrorCode.BAD_PAYLOAD, RemoteError):
        store.begin(DIGEST, -1)
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA[:-1])
        with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
            incoming.commit()
    with store.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == len(DATA) - 1  # what came was right
        with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
            incoming.write(b"9 and more")
    assert place.names() == []
    with store.begin(DIGEST, 3) as incoming:
        incoming.write(DATA[:3])
        with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
            incoming.commit()
    assert place.names() == []


def test_what_is_there_needs_no_bytes(store: BlobStore, place: Place) -> None:
    put(store, DATA)
    with store.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == len(DATA)
        incoming.write(b"")
        with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
            incoming.write(b"x")
        incoming.commit()
    with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
        store.begin(DIGEST, 17)
    assert get(store, DIGEST) == DATA
    assert place.names() == [place_of(DIGEST)]


def test_two_writers_at_once(store: BlobStore, place: Place) -> None:
    other = place.open()
    with store.begin(DIGEST, len(DATA)) as first, other.begin(DIGEST, len(DATA)) as second:
        first.write(DATA[:7_000])
        assert second.offset == 0
        second.write(DATA[:2_000])
        first.write(DATA[7_000:])
        first.commit()
        assert get(store, DIGEST) == DATA
        second.write(DATA[2_000:])
        second.commit()
    assert get(other, DIGEST) == DATA
    assert place.names() == [place_of(DIGEST)]
    other.close()


def test_a_wrong_writer_does_not_hurt_a_right_one(store: BlobStore, place: Place) -> None:
    with store.begin(DIGEST, len(DATA)) as wrong, store.begin(DIGEST, len(DATA)) as right:
        wrong.write(bytes(len(DATA)))
        right.write(DATA)
        right.commit()
        with refused(ErrorCode.BLOB_CORRUPT, RemoteError, DIGEST):
            wrong.commit()
    assert get(store, DIGEST) == DATA
    assert place.names() == [place_of(DIGEST)]


def test_many_threads_put_the_same(store: BlobStore, place: Place) -> None:
    failed: list[BaseException] = []
    gate = threading.Barrier(4)

    def work() -> None:
        try:
            gate.wait()
            for number in range(5):
                put(store, DATA + bytes([number]))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    wanted = sorted(digest_of(DATA + bytes([number])) for number in range(5))
    assert place.names() == [place_of(digest) for digest in wanted]
    assert all(store.verify(digest) for digest in wanted)


def test_rot_is_found_set_aside_and_healed(store: BlobStore, place: Place) -> None:
    put(store, DATA)
    for rotten in (DATA[:-1] + b"8", DATA[:-1], DATA + b"0", b""):
        place.overwrite(place_of(DIGEST), rotten)
        assert not store.check(DIGEST)
        assert store.size(DIGEST) == len(rotten)
        assert not store.verify(DIGEST)
        assert store.size(DIGEST) is None
        assert store.missing([DIGEST]) == [DIGEST]
        assert list(store.digests()) == []
        assert place.names() == [f"rotten/{DIGEST.hex()}"]
        put(store, DATA)
        assert get(store, DIGEST) == DATA
    assert [blob.name for blob in store.leftovers()] == [f"rotten/{DIGEST.hex()}"]
    assert store.sweep(0) == []
    assert [blob.name for blob in store.sweep(2**62)] == [f"rotten/{DIGEST.hex()}"]
    assert place.names() == [place_of(DIGEST)]


def test_an_upload_finds_a_blob_of_another_size_rotten(store: BlobStore, place: Place) -> None:
    put(store, DATA)
    place.overwrite(place_of(DIGEST), DATA[:100])
    put(store, DATA)
    assert get(store, DIGEST) == DATA


def test_a_scrub_finds_rot_in_small_steps(store: BlobStore, place: Place) -> None:
    blobs = [put(store, bytes([one]) * 10_000) for one in range(6)]
    large = put(store, bytes(3_000_000))
    place.overwrite(place_of(blobs[2]), b"x" * 10_000)
    place.overwrite(place_of(large), bytes(2_999_999) + b"x")
    told: list[bytes] = []
    scrub = Scrub(store, told.append, start=128)
    found: list[bytes] = []
    steps = 0
    while not scrub.rounds:
        found += scrub.step(20_000)
        steps += 1
    scrub.close()
    assert sorted(found) == sorted(told) == sorted([blobs[2], large])
    assert steps > 3
    assert store.missing([*blobs, large]) == [blobs[2], large]
    scrub.step(2**40)
    assert scrub.rounds == 2
    assert len(told) == 2


def test_a_file_is_copied(store: BlobStore, place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(DATA)
    assert hash_file(source) == (DIGEST, len(DATA))
    assert store.put_file(source) == (DIGEST, len(DATA))
    assert store.put_file(source) == (DIGEST, len(DATA))
    source.write_bytes(b"changed")
    assert get(store, DIGEST) == DATA
    assert place.names() == [place_of(DIGEST)]
    with refused(ErrorCode.DISK_FAILED, DiskError):
        store.put_file(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path, tmp_path / "pipe"):
        with refused(ErrorCode.BAD_OPTIONS, LocalError):
            store.put_file(odd)
    assert place.names() == [place_of(DIGEST)]


def test_no_room_is_told_before_anything_comes(place: Place, tmp_path: Path) -> None:
    store = place.open(room_bytes=2**62)
    source = tmp_path / "source"
    source.write_bytes(DATA)
    full: tuple[Callable[[], object], ...] = (
        lambda: store.begin(DIGEST, len(DATA)),
        lambda: store.put_file(source),
    )
    for call in full:
        with refused(ErrorCode.DISK_FULL, DiskError):
            call()
        assert place.names() == []
    store.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_gets_full_keeps_nothing(
    store: BlobStore, place: Place, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA[:5_000])
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", fail_with(code))
            with refused(ErrorCode.DISK_FULL, DiskError):
                incoming.write(DATA[5_000:])
    assert place.names() == []
    put(store, DATA)
    assert get(store, DIGEST) == DATA


def test_old_parts_are_swept_and_those_in_use_are_not(store: BlobStore, place: Place) -> None:
    other = digest_of(b"other")
    with store.begin(DIGEST, len(DATA)) as cut:
        cut.write(b"012")
    with store.begin(other, 5) as busy:
        busy.write(b"oth")
        assert sum(one.size for one in store.leftovers()) == 6
        assert store.sweep(0) == []
        (swept,) = store.sweep(2**62)
        assert swept.name.endswith(DIGEST.hex())
        busy.write(b"er")
        busy.commit()
    assert get(store, other) == b"other"
    assert place.names() == [place_of(other)]


@pytest.mark.parametrize("place", ["local", "file", "s3"], indirect=True)
def test_nothing_holds_a_whole_file(store: BlobStore, tmp_path: Path) -> None:
    size = 64 * 1024 * 1024
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.truncate(size)
    tracemalloc.start()
    try:
        digest, _ = store.put_file(source)
        assert store.verify(digest)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert store.size(digest) == size
    assert peak < size // 2


def fail_with(code: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call
