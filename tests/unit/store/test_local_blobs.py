"""Blobs in a directory: what the contract of all stores does not say."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import BROKEN_COPIES_MAX, WRITEBACK_BYTES
from rollq.store.blobs import partial
from rollq.store.blobs.local import LocalBlobs, Use
from rollq.store.blobs.staged import place_of
from tests.contracts.blob_places import digest_of

DATA = b"0123456789" * 1_000
DIGEST = digest_of(DATA)

CRASH = """
import os, sys
from pathlib import Path
from rollq.store.blobs.local import LocalBlobs
store = LocalBlobs(Path(sys.argv[1]), room_bytes=0)
incoming = store.begin(bytes.fromhex(sys.argv[2]), 10_000)
second = store.begin(bytes.fromhex(sys.argv[2]), 10_000)
second.write(b"0123")
while incoming.offset < 4_000:
    incoming.write(b"0123456789")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def store(folder: Path) -> Iterator[LocalBlobs]:
    store = LocalBlobs(folder, room_bytes=0)
    yield store
    store.close()
    store.close()


def put(store: LocalBlobs, data: bytes = DATA) -> Path:
    with store.begin(digest_of(data), len(data)) as incoming:
        incoming.write(data)
        incoming.commit()
    path = store.path(digest_of(data))
    assert path is not None
    return path


def test_a_blob_is_read_only_and_can_be_linked_to(store: LocalBlobs, tmp_path: Path) -> None:
    path = put(store)
    assert path.stat().st_mode & 0o777 == 0o444
    os.link(path, tmp_path / "link")
    store.remove(DIGEST)
    assert (tmp_path / "link").read_bytes() == DATA


def test_who_was_killed_is_followed_where_it_was(store: LocalBlobs, folder: Path) -> None:
    words = [sys.executable, "-c", CRASH, str(folder), DIGEST.hex()]
    killed = subprocess.run(words, env={**os.environ, "PYTHONPATH": _source()}, check=False)
    assert killed.returncode == -9
    assert len(list(store.leftovers())) == 2
    with store.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == 4_000
        incoming.write(DATA[4_000:])
        incoming.commit()
    assert store.verify(DIGEST)
    (swept,) = store.sweep(2**62)  # the second writer's part, which nobody can resume
    assert swept.size == 4
    assert list(store.leftovers()) == []


def test_bytes_and_name_are_synced_before_the_promise(
    store: LocalBlobs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story: list[str] = []
    fsync, rename = os.fsync, os.rename

    def sync(fd: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).relative_to(folder)
        story.append(f"sync {name}")
        fsync(fd)

    def move(old: Path, new: Path) -> None:
        story.append(f"rename {old.relative_to(folder)}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", move)
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA)
        story.clear()
        incoming.commit()
    part, fan = f"partial/{DIGEST.hex()}", DIGEST.hex()[:2]
    assert story == [f"sync {part}", "sync .", f"rename {part}", f"sync {fan}"]


def test_large_uploads_go_to_the_disk_on_the_way(
    store: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int, int]] = []
    monkeypatch.setattr(partial, "write_out", lambda _fd, start, end: steps.append((start, end)))
    piece = bytes(WRITEBACK_BYTES // 4)
    with store.begin(DIGEST, 10**9) as incoming:
        for _ in range(9):
            incoming.write(piece)
    assert steps == [(0, WRITEBACK_BYTES), (WRITEBACK_BYTES, 2 * WRITEBACK_BYTES)]


@pytest.mark.parametrize("call", ["fsync", "rename", "fchmod", "mkdir"])
def test_what_fails_at_the_end_leaves_nothing(
    store: LocalBlobs, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, _full)
            with pytest.raises(DiskError) as caught:
                incoming.commit()
    assert caught.value.code is ErrorCode.DISK_FULL
    assert store.size(DIGEST) is None
    assert list(store.leftovers()) == []
    put(store)


def test_a_name_that_was_not_synced_is_taken_back(
    store: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store)
    store.remove(DIGEST)  # its folder is there
    calls: list[int] = []
    fsync = os.fsync

    def second_fails(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.EIO, "bad")
        fsync(fd)

    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", second_fails)
            with pytest.raises(DiskError) as caught:
                incoming.commit()
    assert caught.value.code is ErrorCode.DISK_FAILED
    assert store.size(DIGEST) is None


def test_what_the_disk_cannot_read_is_rotten(
    store: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", _bad)
        assert not store.verify(DIGEST)
    assert store.missing([DIGEST]) == [DIGEST]


def test_so_many_rotten_blobs_are_kept(store: LocalBlobs) -> None:
    for number in range(BROKEN_COPIES_MAX + 3):
        data = bytes([number]) * 10
        path = put(store, data)
        path.chmod(0o644)
        path.write_bytes(b"rot")
        assert not store.verify(digest_of(data))
    assert len(list(store.leftovers())) == BROKEN_COPIES_MAX


def test_others_may_share_it_or_look_but_not_clear_it_away(store: LocalBlobs, folder: Path) -> None:
    put(store)
    with LocalBlobs(folder, room_bytes=0).begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == len(DATA)
    look = LocalBlobs(folder, Use.LOOK)
    assert look.check(DIGEST)
    assert look.size(DIGEST) == len(DATA)
    with pytest.raises(DiskError) as caught:
        LocalBlobs(folder, Use.ALONE)
    assert caught.value.code is ErrorCode.DISK_BUSY
    with pytest.raises(DiskError) as caught:
        LocalBlobs(folder / "none", Use.LOOK)
    assert caught.value.code is ErrorCode.DISK_FAILED
    assert not (folder / "none").exists()


def test_who_clears_away_is_alone(folder: Path) -> None:
    alone = LocalBlobs(folder, Use.ALONE)
    with pytest.raises(DiskError) as caught:
        LocalBlobs(folder)
    assert caught.value.code is ErrorCode.DISK_BUSY
    alone.close()
    LocalBlobs(folder).close()


def test_other_files_are_no_blobs(store: LocalBlobs, folder: Path, tmp_path: Path) -> None:
    path = put(store)
    (path.parent / "README").write_text("x")
    (path.parent / DIGEST.hex()[2:].upper()).write_text("x")
    (path.parent / ("0" * 62)).mkdir()
    (tmp_path / "secret").write_text("x")
    other = digest_of(b"other")
    (folder / place_of(other)).parent.mkdir()
    (folder / place_of(other)).symlink_to(tmp_path / "secret")
    assert [blob.digest for blob in store.digests()] == [DIGEST]
    assert store.missing([other]) == [other]
    with pytest.raises(DiskError):
        store.open(other)


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "full")


def _bad(*_: object) -> bytes:
    raise OSError(errno.EIO, "bad")


def _source() -> str:
    return str(Path(__file__).parents[3] / "src")
