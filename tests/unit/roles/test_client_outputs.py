"""Files that a job left: in its result, or kept by the grid."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from msgspec import UNSET

from rollq.base.digests import digest_to_text
from rollq.base.errors import DiskError, ErrorCode, LocalError, RemoteError, StateError
from rollq.roles.client.engine import supplier as supplier_module
from rollq.roles.client.results.outputs import Output, asave_outputs
from rollq.roles.client.results.result import Result
from rollq.store.archive import pack
from rollq.wire import messages as wire
from rollq.wire.models import (
    JobResult,
    OutputFile,
    StreamBlob,
    encode_model,
)
from tests.unit.roles.client_files import JOB, LARGE, FakeFetcher, digest_of, run


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supplier_module, "CLIENT_AGAIN_MS", 0)


def result_with(fetcher: FakeFetcher | None = None) -> Result:
    """A result with a small and a large file, and a long stdout."""
    report = JobResult(
        "j",
        "c",
        "calc",
        "OK",
        "tail",
        "err",
        pack([("small.txt", b"small", 0)]),
        outputs=(OutputFile("sub/large", digest_to_text(digest_of(LARGE)), len(LARGE), 0o755),),
        stdout_blob=StreamBlob(digest_to_text(digest_of(LARGE)), len(LARGE)),
    )
    return Result(wire.Result(JOB, "done", 0, encode_model(report)), fetcher)


def test_small_and_large_outputs_look_the_same(tmp_path: Path) -> None:
    async def story() -> None:
        result = result_with(FakeFetcher(LARGE))
        assert {name: one.size for name, one in result.outputs.items()} == {
            "small.txt": 5,
            "sub/large": len(LARGE),
        }
        contents = {"small.txt": b"small", "sub/large": LARGE}
        for name, content in contents.items():
            one = result.outputs[name]
            assert one.digest == hashlib.sha256(content).hexdigest()
            assert await one.aread() == content
            with await one.aopen() as file:
                assert file.read() == content
            assert await one.asave(tmp_path / "as") == tmp_path / "as"
            assert (tmp_path / "as").read_bytes() == content
            assert await one.asave(tmp_path) == tmp_path / name.rpartition("/")[2]
        assert (tmp_path / "large").stat().st_mode & 0o777 == 0o755
        assert await result.whole_stdout.aread() == LARGE
        assert await result.whole_stderr.aread() == b"err"
        told: list[tuple[int, int]] = []
        total = 5 + len(LARGE)
        saved = await result.asave_files(tmp_path / "all", None, lambda *one: told.append(one))
        assert saved == ["small.txt", "sub/large"]
        assert (tmp_path / "all" / "sub" / "large").read_bytes() == LARGE
        assert sorted(os.listdir(tmp_path / "all")) == ["small.txt", "sub"]
        assert told[-1] == (total, total)
        with pytest.raises(StateError, match="no file 'x'"):
            await result.asave_files(tmp_path, ["x"])

    run(story())


def test_waiting_for_what_the_loop_must_do_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        outputs = result_with(FakeFetcher(LARGE)).outputs
        assert outputs["small.txt"].read() == b"small"
        assert outputs["small.txt"].save(tmp_path / "s").read_bytes() == b"small"
        for call in (outputs["sub/large"].read, outputs["sub/large"].open):
            with pytest.raises(LocalError, match="block the event loop"):
                call()

    run(story())


def test_without_a_client_large_files_cannot_be_had() -> None:
    with pytest.raises(LocalError, match="no client"):
        result_with().outputs["sub/large"].read()


def test_a_blob_that_a_new_leader_lacks_is_asked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        fetcher = FakeFetcher(LARGE)
        fetcher.world.blobs.error = StateError(ErrorCode.BLOB_MISSING, "not yet")
        assert await result_with(fetcher).outputs["sub/large"].aread() == LARGE
        assert fetcher.world.roles == ["reader", "client"]  # any member, then the leader

    run(story())


def test_a_full_disk_leaves_no_part_and_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        fetcher = FakeFetcher(LARGE)
        output = result_with(fetcher).outputs["sub/large"]
        part = tmp_path / f".x.{output.digest[:16]}.part"
        part.write_bytes(b"half")
        fetcher.world.blobs.error = DiskError(ErrorCode.DISK_FULL, "no space left")
        with pytest.raises(DiskError, match=f"sub/large needs {len(LARGE)} bytes"):
            await output.asave(tmp_path / "x")
        assert not os.listdir(tmp_path)
        # What cannot fit is not begun.
        monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage())
        fetcher.world.blobs.error = AssertionError("asked for")  # type: ignore[assignment]
        with pytest.raises(DiskError, match=r"needs 65536 bytes in .*, 7 are free"):
            await output.asave(tmp_path / "x")

    run(story())


class _Usage:
    free = 7


def test_names_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(RemoteError):
            await asave_outputs([Output("../x", b"")], tmp_path / "in")
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / "sub").symlink_to(tmp_path)
        with pytest.raises(OSError):
            await result_with(FakeFetcher(LARGE)).asave_files(tmp_path / "in")
        assert not (tmp_path / "large").exists()
        assert sorted(os.listdir(tmp_path / "in")) == ["small.txt", "sub"]

    run(story())


def test_a_result_that_stands_for_a_larger_one_is_opened() -> None:
    whole = encode_model(JobResult("j", "c", "calc", "OK", "all of it", "err"))
    named = StreamBlob(digest_to_text(digest_of(whole)), len(whole))
    stand_in = encode_model(JobResult("j", "c", "calc", "OK", "of it", "", whole_blob=named))

    async def story() -> None:
        result = Result(wire.Result(JOB, "done", 0, stand_in), FakeFetcher(whole))
        assert result.is_large
        assert result.stdout_tail == "of it"
        with pytest.raises(LocalError, match="block the event loop"):
            result.stdout  # noqa: B018 - raises
        await result.aload()
        assert (result.value, result.stderr, result.is_large) == ("all of it", "err", False)

    run(story())


def test_a_stream_that_was_not_kept_is_an_error_and_no_half() -> None:
    named = StreamBlob(digest_to_text(digest_of(LARGE)), len(LARGE))
    for blob, lost in ((named, 10), (UNSET, len(LARGE) + 7)):
        report = JobResult(
            "j", "c", "calc", "OK", "end", stdout_blob=blob, stdout_size=len(LARGE) + 10
        )
        result = Result(wire.Result(JOB, "done", 0, encode_model(report)), FakeFetcher(LARGE))
        assert (result.stdout_tail, result.stdout_lost) == ("end", lost)
        for read in (lambda r=result: r.stdout, lambda r=result: r.value, result.json):
            with pytest.raises(StateError) as caught:
                read()
            assert caught.value.code is ErrorCode.BLOB_MISSING


def test_the_end_of_a_stream_of_an_older_worker_has_a_remark() -> None:
    named = StreamBlob(digest_to_text(digest_of(LARGE)), 12)
    text = "[9 bytes left out]\nend"
    report = JobResult("j", "c", "calc", "OK", text, stdout_blob=named)
    result = Result(wire.Result(JOB, "done", 0, encode_model(report)))
    assert result.end_of("stdout") == (9, b"end", 12)
    printed = JobResult("j", "c", "calc", "OK", text)
    assert Result(wire.Result(JOB, "done", 0, encode_model(printed))).stdout == text
