from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.names import COMMAND_LINE
from rollq.grid.commands import Cause
from rollq.roles.client.results import result as results
from rollq.roles.client.results.result import JobError, Result
from rollq.store.archive import pack
from rollq.wire import messages as wire
from rollq.wire.models import JobResult, encode_model

ID = bytes(range(16))


def report(**fields: Any) -> bytes:
    return encode_model(JobResult("id", "me", "calc", "OK", **fields))


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("empty")
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def test_a_report_is_read() -> None:
    raw = report(stdout="out", stderr="err", output_archive=zipped(a=b"1", b=b""), note="n")
    result = Result(wire.Result(ID, "done", 0, raw, "calc", attempt=2, run_ms=7))
    assert result.ok
    assert result.status == "OK"
    assert (result.stdout, result.stderr, result.note) == ("out", "err", "n")
    assert result.files == {"a": b"1", "b": b""}
    assert (result.attempts, result.run_ms, result.exec_name, result.cause) == (2, 7, "calc", "")
    assert result.value == "out"
    assert result.raw == raw
    assert result.raise_for_status() is result
    assert " ok " in repr(result)


def test_what_is_no_report_is_raw() -> None:
    for raw in (b"\x00\xff", b"", b"{}", b'{"Status": 1}'):
        result = Result(wire.Result(ID, "done", 0, raw))
        assert (result.stdout, result.stderr, result.note, result.files) == ("", "", "", {})
        assert result.value == raw


def test_values_of_functions() -> None:
    assert Result(wire.Result(ID, "done", 0, report(data=b"\x00"))).value == b"\x00"
    assert Result(wire.Result(ID, "done", 0, report(stdout="[1,2]"))).json() == [1, 2]
    assert Result(wire.Result(ID, "done", 0, report())).json() is None
    with pytest.raises(RemoteError):
        Result(wire.Result(ID, "done", 0, report(stdout="words"))).json()


def test_a_failure_says_how_and_its_last_words() -> None:
    raw = report(stderr="Traceback\nValueError: no\n", note="outputs left out")
    failed = Result(wire.Result(ID, "done", 1, raw, "calc", exit_code=3))
    assert failed.status == "FAILED"
    with pytest.raises(JobError) as caught:
        failed.raise_for_status()
    assert caught.value.code is ErrorCode.JOB_FAILED
    assert "exit code 3" in caught.value.message
    assert caught.value.hint == "outputs left out / ValueError: no"
    assert caught.value.result is failed
    with pytest.raises(JobError, match=r"SIGKILL \(9\)"):
        Result(wire.Result(ID, "done", 1, signal=9)).raise_for_status()


@pytest.mark.parametrize(
    ("told", "state", "exit_code", "ending"),
    [
        (wire.Result(ID, "done"), "ok", 0, "ok"),
        (wire.Result(ID, "done", 1, exit_code=3), "failed", 3, "failed: exit code 3"),
        (wire.Result(ID, "done", 1, signal=11), "failed", 139, "failed: SIGSEGV (11)"),
        (
            wire.Result(ID, "done", 1, b"", "", 139, 11),
            "failed",
            139,
            "failed: SIGSEGV (11)",
        ),
        (wire.Result(ID, "cancelled", 2), "cancelled", None, "cancelled"),
        (
            wire.Result(ID, "cancelled", 2, b"", "", 137, 9),
            "cancelled",
            137,
            "cancelled",
        ),
        (
            wire.Result(ID, "dead", 1, cause=Cause.NACKED, attempt=1, detail="no room"),
            "dead",
            None,
            "dead after 1 attempt: no worker could run it / no room",
        ),
        (
            wire.Result(ID, "dead", 1, cause=Cause.EXIT_CODE, attempt=2, exit_code=75, run_ms=1),
            "dead",
            75,
            "dead after 2 attempts: its retry rule names the exit code, and attempts ran out",
        ),
        (
            wire.Result(ID, "dead", 1, cause=Cause.EXPIRED),
            "dead",
            None,
            "dead: it waited longer than it may",
        ),
    ],
)
def test_ends_in_the_words_of_people(
    told: wire.Result, state: str, exit_code: int | None, ending: str
) -> None:
    result = Result(told)
    assert (result.state, result.exit_code, result.ending) == (state, exit_code, ending)


def test_a_run_limit_says_more_than_its_signal() -> None:
    raw = report(note="killed, run limit of 2 s exceeded")
    result = Result(wire.Result(ID, "done", 1, raw, exit_code=137, signal=9))
    assert result.ending == "failed: killed, run limit of 2 s exceeded"
    raw = report(note="3 outputs left out")
    assert Result(wire.Result(ID, "done", 1, raw, exit_code=3)).ending == (
        "failed: exit code 3; 3 outputs left out"
    )


def test_the_dead_and_the_cancelled() -> None:
    dead = Result(wire.Result(ID, "dead", cause=Cause.LEASE_LOST, attempt=5, detail="gone"))
    assert (dead.ok, dead.status, dead.cause, dead.detail) == (False, "DEAD", "lease_lost", "gone")
    with pytest.raises(JobError) as caught:
        dead.raise_for_status()
    assert caught.value.code is ErrorCode.JOB_DEAD
    assert "dead after 5 attempts: its worker fell silent" in caught.value.message
    assert Result(wire.Result(ID, "dead", cause=99)).cause == "cause 99"
    cancelled = Result(wire.Result(ID, "cancelled"))
    assert cancelled.status == "CANCELLED"
    with pytest.raises(JobError) as caught:
        cancelled.raise_for_status()
    assert caught.value.code is ErrorCode.CANCELLED


def test_a_broken_archive_is_an_error_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Result(wire.Result(ID, "done", 0, report(output_archive=b"no zip")))
    with pytest.raises(RemoteError) as caught:
        _ = broken.files
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
    monkeypatch.setattr(results, "OUTPUT_BYTES_MAX", 3)
    bomb = Result(wire.Result(ID, "done", 0, report(output_archive=zipped(a=b"1234"))))
    with pytest.raises(RemoteError) as caught:
        _ = bomb.files
    assert caught.value.code is ErrorCode.DECOMPRESSION_BOMB


def test_a_report_with_unknown_fields_is_read() -> None:
    raw = msgspec.json.encode(
        {"JobId": "x", "ClientId": None, "ExecName": "e", "Status": "OK", "New": 1, "Stdout": "s"}
    )
    assert Result(wire.Result(ID, "done", 0, raw)).stdout == "s"


def test_files_are_saved_below_a_folder_and_not_through_links(tmp_path: Path) -> None:
    folder, precious = tmp_path / "out" / "here", tmp_path / "precious"
    precious.write_bytes(b"precious")
    assert Result(wire.Result(ID, "done", 0, report())).save_files(folder) == []
    assert not folder.exists()
    folder.mkdir(parents=True)
    (folder / "a").symlink_to(precious)
    (folder / "b").write_bytes(b"old")
    archive = pack([("a", b"1", 0o644), ("b", b"2", 0o644), ("c/d", b"3", 0o644)])
    result = Result(wire.Result(ID, "done", 0, report(output_archive=archive)))
    assert result.save_files(folder) == ["a", "b", "c/d"]
    assert [(folder / name).read_bytes() for name in ("a", "b", "c/d")] == [b"1", b"2", b"3"]
    assert precious.read_bytes() == b"precious"
    (folder / "c" / "d").unlink()
    (folder / "c").rmdir()
    (folder / "c").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        result.save_files(folder)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "evil\\x", "nul"])
def test_an_archive_with_a_bad_name_writes_nothing(tmp_path: Path, name: str) -> None:
    archive = zipped(**{"good": b"1", name: b"2"})
    result = Result(wire.Result(ID, "done", 0, report(output_archive=archive)))
    with pytest.raises(RemoteError) as caught:
        result.save_files(tmp_path)
    assert ascii(name) in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_job_says_by_whom() -> None:
    waiting = Result(wire.Result(ID, "cancelled", exec_name="calc", detail=COMMAND_LINE))
    assert waiting.ending == "cancelled by `rollq cancel`"
    waiting = Result(wire.Result(ID, "cancelled", exec_name="calc", detail="ann"))
    assert waiting.ending == "cancelled by client ann"
    lost = wire.Result(ID, "cancelled", cause=int(Cause.WORKER_DOWN), detail="gone")
    assert Result(lost).ending == "cancelled: gone"
    assert Result(wire.Result(ID, "cancelled", run_ms=5)).ending == "cancelled"
