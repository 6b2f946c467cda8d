"""Inputs that are blobs, outputs that become blobs, and streams that are kept as a whole."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import DiskError, ErrorCode, RemoteError, StateError
from rollq.base.jobs import AttemptRef, BlobRef
from rollq.base.limits import INLINE_BYTES_MAX, STREAM_BYTES_MAX
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.roles.worker.capture import SpooledTail, Tail
from rollq.roles.worker.fitting import fit
from rollq.roles.worker.inputs import Input, Stamps, checked_inputs, place_all
from rollq.roles.worker.outputs import (
    LISTED_BYTES_MAX,
    ExecutionEnd,
    Left,
    Terms,
    collect_outputs,
    split,
)
from rollq.roles.worker.pending_uploads import PendingUploads
from rollq.roles.worker.signals import ResultStored, StoredResult, UploadFailed
from rollq.store.blobs.local import LocalBlobs
from rollq.store.safe_dir import Found, SafeDir
from rollq.wire.messages import AssignJob
from rollq.wire.models import InputFile

TEXT = b"content of a blob"
DIGEST = hashlib.sha256(TEXT).digest()


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 20))


def blob_in(folder: Path) -> LocalBlobs:
    store = LocalBlobs(folder)
    with store.begin(DIGEST, len(TEXT)) as incoming:
        incoming.write(TEXT)
        incoming.commit()
    return store


def path_in(store: LocalBlobs, digest: bytes) -> Path:
    path = store.path(digest)
    assert path is not None
    return path


# --- the way in


def test_digests_are_checked_with_the_names() -> None:
    one = InputFile("a", None, None, DIGEST.hex(), len(TEXT), 0o755)
    assert checked_inputs((one,)) == [Input(("a",), None, DIGEST, is_program=True)]
    with pytest.raises(RemoteError, match="not a SHA-256 digest"):
        checked_inputs((InputFile("a", None, None, "../../x"),))
    with pytest.raises(RemoteError, match="is in a cache"):
        checked_inputs((InputFile("a", "cache"),))


@pytest.mark.parametrize("links", [True, False])
def test_blobs_are_linked_or_copied_and_programs_are_always_copied(
    tmp_path: Path, links: bool
) -> None:
    store = blob_in(tmp_path / "store")
    (tmp_path / "job").mkdir()
    inputs = [
        Input(("deep", "data"), None, DIGEST),
        Input(("tool",), None, DIGEST, is_program=True),
        Input(("inline",), b"1", is_program=True),
    ]
    stamps: Stamps = {}
    with SafeDir(str(tmp_path / "job")) as files:
        linked = place_all(files, inputs, stamps, lambda one: path_in(store, one), links=links)
        ending = ExecutionEnd()
        terms = Terms(links=[link.inode for link in linked])
        assert collect_outputs(files, stamps, ending, terms).large == []
    blob = os.stat(path_in(store, DIGEST))
    data = os.stat(tmp_path / "job" / "deep" / "data")
    tool = os.stat(tmp_path / "job" / "tool")
    assert (data.st_ino == blob.st_ino) == links == bool(linked)
    assert tool.st_ino != blob.st_ino
    assert (data.st_mode & 0o777, tool.st_mode & 0o777) == (0o444, 0o555)
    assert (tmp_path / "job" / "deep" / "data").read_bytes() == TEXT
    assert os.access(tmp_path / "job" / "inline", os.X_OK)
    assert (ending.archive, ending.notes) == (None, [])


def test_an_input_under_another_name_is_an_output_though_it_is_a_link(tmp_path: Path) -> None:
    store = blob_in(tmp_path / "store")
    (tmp_path / "job").mkdir()
    stamps: Stamps = {}
    inputs = [Input(("data",), None, DIGEST)]
    with SafeDir(str(tmp_path / "job")) as files:
        (link,) = place_all(files, inputs, stamps, lambda one: path_in(store, one), links=True)
        os.rename(tmp_path / "job" / "data", tmp_path / "job" / "moved")
        strange, ours = ExecutionEnd(), ExecutionEnd()
        collect_outputs(files, stamps, strange)
        collect_outputs(files, stamps, ours, Terms(links=(link.inode,)))
    assert (strange.archive, ours.notes) == (None, [])
    assert "is also a file outside" in strange.notes[0]
    assert ours.archive is not None


def test_a_blob_that_a_job_wrote_to_is_set_aside(tmp_path: Path) -> None:
    async def story() -> None:
        blobs = WorkerBlobs(tmp_path, ("127.0.0.1:1",), 1 << 30, 1 << 40)
        blob_in(tmp_path / "blobs").close()
        await blobs.start()
        ref = BlobRef(DIGEST, len(TEXT))
        blobs.pin((ref,))
        (tmp_path / "job").mkdir()
        with SafeDir(str(tmp_path / "job")) as files:
            links = place_all(files, [Input(("a",), None, DIGEST)], {}, blobs.path, links=True)
        path = blobs.path(DIGEST)
        path.chmod(0o600)
        await asyncio.wrap_future(blobs.check_links(links))
        assert path.stat().st_mode & 0o777 == 0o444
        path.chmod(0o600)
        path.write_bytes(b"X" * len(TEXT))
        blobs.check_links(links)
        await blobs.stop()
        assert not path.exists()
        with pytest.raises(StateError, match=DIGEST.hex()):
            blobs.path(DIGEST)

    run(story())


def test_a_store_that_is_too_large_lets_go_of_what_nobody_uses(tmp_path: Path) -> None:
    async def story() -> None:
        blobs = WorkerBlobs(tmp_path, ("127.0.0.1:1",), 0, 1 << 40)
        await blobs.start()
        (tmp_path / "file").write_bytes(TEXT)
        first = await blobs.keep_open(os.open(tmp_path / "file", os.O_RDONLY))
        assert first == BlobRef(DIGEST, len(TEXT))
        path = blobs.path(DIGEST)
        blobs.unpin((first,))
        await blobs.stop()
        assert not path.exists()

    run(story())


def test_what_is_old_or_rotten_goes(tmp_path: Path) -> None:
    async def story(age_ms: int) -> None:
        store = blob_in(tmp_path / f"{age_ms}" / "blobs")
        path = path_in(store, DIGEST)
        store.close()
        os.utime(path, (1, 1))
        path.chmod(0o600)
        path.write_bytes(TEXT[::-1])
        os.utime(path, (1, 1))
        blobs = WorkerBlobs(tmp_path / f"{age_ms}", ("127.0.0.1:1",), 1 << 30, age_ms)
        await blobs.start()
        blobs.tick()
        await blobs.stop()
        assert not path.exists()
        rotten = tmp_path / f"{age_ms}" / "blobs" / "rotten"
        assert rotten.exists() == (age_ms > 1_000)

    run(story(1_000))
    run(story(1 << 60))


# --- the way out


def found(name: str, size: int) -> Found:
    return Found(name, os.stat_result((0o100644, 1, 1, 1, 0, 0, size, 0, 0, 0)), "")


@given(
    st.lists(st.integers(0, 3_000_000), max_size=300),
    st.integers(-1_000, INLINE_BYTES_MAX),
    st.integers(1, 200),
)
def test_a_split_loses_nothing_without_a_word(
    sizes: list[int], room_bytes: int, name_chars: int
) -> None:
    outputs = [found(f"{number:0{name_chars}}", size) for number, size in enumerate(sizes)]
    left_out: list[str] = []
    small, large = split(outputs, room_bytes, left_out)
    assert len(small) + len(large) + len(left_out) == len(outputs)
    assert not set(small) & set(large)
    raw_bytes = sum(one.status.st_size for one in small) * 4 // 3
    assert raw_bytes <= max(room_bytes, 0)
    assert sum(len(one.name) for one in large) <= LISTED_BYTES_MAX


def test_results_with_blobs_fit(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"file-{number:03}").write_bytes(os.urandom(2_000))
    ending = ExecutionEnd(stdout="\x07" * STREAM_BYTES_MAX)
    with SafeDir(str(tmp_path)) as files:
        left = collect_outputs(files, {}, ending, Terms(as_blobs=True))
    assert ending.archive is None
    assert len(left.large) > 250
    assert "has no room in the result" in ending.notes[0]
    job = AssignJob(bytes(16), 1, 1, 1, "s", "e", b"")
    assert len(fit(job, ending, as_blobs=True)) <= INLINE_BYTES_MAX
    assert ending.separate == (("stdout", b"\x07" * STREAM_BYTES_MAX),), "it goes as a blob, whole"


def test_patterns_choose_outputs_and_tell_what_fits_nothing(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a.csv", "b.log", "deep/c.csv"):
        (tmp_path / name).write_bytes(bytes(300_000))
    ending = ExecutionEnd()
    with SafeDir(str(tmp_path)) as files:
        terms = Terms(wanted=("**/*.csv", "*.txt"), as_blobs=True)
        left = collect_outputs(files, {}, ending, terms)
    assert [one.name for one in left.large] == ["a.csv", "deep/c.csv"]
    assert ending.notes == ["no output fits '*.txt'"]


def test_without_blobs_large_outputs_are_named_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(300_000))
    ending = ExecutionEnd()
    with SafeDir(str(tmp_path)) as files:
        assert collect_outputs(files, {}, ending) == Left(["a"], [])
    assert ending.notes == ["1 output files of 300000 bytes are too large inline"]


# --- streams


@given(st.lists(st.binary(max_size=12_000), max_size=12))
def test_a_long_stream_is_kept_as_a_whole(pieces: list[bytes]) -> None:
    plain, spooled = Tail(), SpooledTail("/tmp")
    for piece in pieces:
        plain.feed(piece)
        spooled.feed(piece)
    whole = b"".join(pieces)
    assert spooled.end() == plain.end()
    assert spooled.is_spooled == (len(whole) > STREAM_BYTES_MAX)
    if spooled.whole is not None:
        assert os.pread(spooled.whole.fileno(), len(whole) + 1, 0) == whole
    spooled.close()
    spooled.close()


def test_a_stream_without_end_or_room_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = SpooledTail(str(tmp_path), whole_max=50_000)
    for _ in range(10):
        tail.feed(b"x" * 12_000)
    assert tail.cut == "only the first 50000 bytes are kept"
    assert tail.whole is not None
    assert os.fstat(tail.whole.fileno()).st_size == 50_000
    tail.close()
    nowhere = SpooledTail(str(tmp_path / "gone"))
    nowhere.feed(b"x" * 30_000)
    assert nowhere.whole is None
    assert nowhere.is_spooled
    with pytest.raises(DiskError, match="cannot keep 30000 bytes of stdout: No such file"):
        nowhere.opened("stdout")


def test_a_stream_that_found_no_room_is_not_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room may come while the program writes: the stream would be there from the middle on."""
    tail = SpooledTail(str(tmp_path))
    with monkeypatch.context() as full:
        full.setattr(tempfile, "TemporaryFile", no_room)
        tail.feed(b"x" * 30_000)
    tail.feed(b"y" * 30_000)
    with pytest.raises(DiskError) as caught:
        tail.opened("stderr")
    assert caught.value.code is ErrorCode.DISK_FULL
    assert tail.end() == b"y" * STREAM_BYTES_MAX


def no_room(**_options: object) -> IO[bytes]:
    raise OSError(errno.ENOSPC, "No space left on device")


# --- outputs of results that are not taken


class Shelf:
    """Counts pins."""

    def __init__(self) -> None:
        self.pins: dict[BlobRef, int] = {}
        self.given: list[tuple[BlobRef, ...]] = []
        self.failure: StateError | None = None

    def pin(self, blobs: Any) -> None:
        for blob in blobs:
            self.pins[blob] = self.pins.get(blob, 0) + 1

    def unpin(self, blobs: Any) -> None:
        for blob in blobs:
            self.pins[blob] -= 1

    async def give(self, blobs: Any) -> None:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.given.append(tuple(blobs))


def test_blobs_of_a_result_are_kept_until_it_is_taken() -> None:
    shelf, told = Shelf(), list[ResultStored | UploadFailed]()
    blob = BlobRef(DIGEST, len(TEXT))
    record = StoredResult(AttemptRef(b"j" * 16, 1, 7), 1, blobs=(blob,))
    newer = StoredResult(AttemptRef(b"j" * 16, 2, 8), 1, blobs=(blob,))

    async def story() -> None:
        heard = asyncio.Event()

        def feed(event: ResultStored | UploadFailed) -> None:
            told.append(event)
            heard.set()

        uploads = PendingUploads(shelf, feed)
        uploads.keep([StoredResult(AttemptRef(b"n" * 16, 1, 1), 1), record])
        for _ in range(2):
            uploads.upload(record)
        await heard.wait()
        heard.clear()
        assert (shelf.given, told) == ([(blob,)], [ResultStored((record.ref,))])
        uploads.keep([newer])
        uploads.release([record.ref])
        assert shelf.pins[blob] == 1
        shelf.failure = StateError(ErrorCode.BLOB_MISSING, "gone")
        uploads.upload(newer)
        await heard.wait()
        assert isinstance(told[1], UploadFailed)
        assert told[1].ref == newer.ref
        uploads.release([newer.ref])
        assert shelf.pins[blob] == 0
        await uploads.stop()

    run(story())
    assert PendingUploads(shelf, told.append).load([record]) == [blob]
