"""Backups of a state directory that nobody uses, and what is restored from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq import BlockingClient
from rollq.backup import restore as restoring
from rollq.backup.restore import FENCE_LEAP
from rollq.backup.stopped import replayed
from rollq.base.errors import DiskError, ErrorCode
from rollq.cli.main import app
from rollq.grid.snapshot import encode_snapshot
from rollq.grid.state import GridState, JobRecord
from rollq.history.segments import Segments
from rollq.net.ports import free_ports
from rollq.store.look import LookDisk
from rollq.store.real_disk import RealDisk
from rollq.store.restoring import MARK
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

SAY = 'cat "$1" 2>/dev/null; echo "said $2"'
MEMBER = {"snapshot_entries": 40, "large_bytes_min": 4096, "group": "g"}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A member that has stopped: jobs in every state, files, large bodies, a pause, a cache."""
    directory = tmp_path_factory.mktemp("stopped")
    write_program(directory, "say", SAY)
    write_program(directory, "fail", "exit 3")
    with (
        SmallGrid(directory, member=MEMBER) as grid,
        BlockingClient(grid.address, client_id="me") as client,
    ):
        for queue in ("later.on", "large", "files"):
            client.admin.pause(queue)
        for number in range(60):  # a snapshot comes somewhere among these
            client.submit("say", queue="later.on", payload=b"%d" % number)
        for number in range(10):
            client.submit("say", queue="large", payload=bytes([65 + number]) * 20_000)
        for number in range(5):
            assert client.submit("say", ["x", str(number)]).result(DEADLINE_S).ok
        assert not client.submit("fail", max_attempts=1).result(DEADLINE_S).ok
        file = b"0123456789abcdef" * 12_800
        client.submit("say", ["input.bin"], queue="files", files={"input.bin": file})
    return directory / "member"


def run(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result.output


def document_of(*words: str | Path) -> Any:
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def take(stopped: Path, file: Path, *words: str) -> Any:
    return document_of("backup", "take", file, "--state", stopped, *words)


def state_in(directory: Path) -> GridState:
    return replayed(LookDisk(directory))[2].state


def jobs_in(directory: Path) -> list[JobRecord]:
    return list(state_in(directory).jobs.values())


def history_in(directory: Path, last: int) -> list[bytes]:
    return list(Segments(LookDisk(directory)).read(1, last))


def test_all_of_it_comes_back(stopped: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.rqb"
    taken = take(stopped, file)
    before = state_in(stopped)
    assert taken["jobs"]["waiting"] >= 71
    assert {"running", "ended"} <= taken["jobs"].keys()
    assert taken["blobs"] == len(before.blobs) == 1
    told = run("backup", "verify", file)
    assert "complete and unchanged" in told
    assert "group g" not in told  # the name stands alone
    state_dir = tmp_path / "new"
    restored = document_of("restore", file, "--state", state_dir)
    assert (restored["group"], restored["index"]) == ("g", before.applied_index)

    after = state_in(state_dir)
    assert after.last_fence == before.last_fence + FENCE_LEAP
    after.last_fence = before.last_fence
    assert encode_snapshot(after) == encode_snapshot(before)
    last = before.applied_index
    sealed, restored_rows = history_in(stopped, last), history_in(state_dir, last)
    assert restored_rows[: len(sealed)] == sealed != []
    # The member may stop between the write of its last entry and the seal of the rows of it, which
    # a backup makes from the log.
    sealed_to = Segments(LookDisk(stopped)).covered_to()
    assert all(json.loads(row)["index"] > sealed_to for row in restored_rows[len(sealed) :])
    (digest,) = before.blobs
    place = Path("blobs") / digest.hex()[:2] / digest.hex()[2:]
    assert (state_dir / place).read_bytes() == (stopped / place).read_bytes()


def test_a_restored_group_runs_on(stopped: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.rqb"
    take(stopped, file)
    port = free_ports(1)[0]
    address = f"127.0.0.1:{port}"
    run("restore", file, "--state", tmp_path / "member", "--address", address)
    write_program(tmp_path, "say", SAY)
    with (
        SmallGrid(tmp_path, port=port, member=MEMBER) as grid,
        BlockingClient(grid.address, client_id="me") as client,
    ):
        assert client.submit("say", ["x", "again"]).result(DEADLINE_S).ok
        waiting = [one for one in jobs_in(stopped) if one.queue == "files"]
        client.admin.resume("files")
        result = client.attach(waiting[0].job_id).result(DEADLINE_S)
        assert result.stdout.startswith("0123456789abcdef")
    assert {one.job_id for one in jobs_in(stopped)} < {
        one.job_id for one in jobs_in(tmp_path / "member")
    }


def test_parts_may_be_left_out(stopped: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.rqb"
    taken = take(stopped, file, "--no-history", "--no-blobs")
    assert (taken["history_bytes"], taken["has_blobs"], taken["blobs"]) == (0, False, 0)
    assert "left out" in run("backup", "verify", file)
    run("restore", file, "--state", tmp_path / "new")
    assert Segments(LookDisk(tmp_path / "new")).floor() == taken["index"]


def test_a_file_that_jobs_need_and_that_is_gone_is_told(stopped: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stopped, copy)
    (digest,) = state_in(copy).blobs
    (copy / "blobs" / digest.hex()[:2] / digest.hex()[2:]).unlink()
    told = run("backup", "take", tmp_path / "b", "--state", copy, code=1)
    assert digest.hex() in told
    assert digest.hex() in run("backup", "verify", tmp_path / "b", code=1)


def test_a_directory_in_use_is_left_alone(stopped: Path, tmp_path: Path) -> None:
    disk = RealDisk(stopped)
    try:
        assert "uses the state" in run("backup", "take", tmp_path / "b", "--state", stopped, code=1)
    finally:
        disk.close()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_by_a_restore(stopped: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.rqb"
    take(stopped, file)
    assert "not empty" in run("restore", file, "--state", stopped, code=2)
    assert "exists" in run("backup", "take", file, "--state", stopped, code=2)


def test_half_of_a_restore_is_refused(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "b.rqb"
    take(stopped, file)

    def fail(*_: object) -> Iterator[None]:
        raise DiskError(ErrorCode.DISK_FULL, "no room")

    monkeypatch.setattr(restoring, "_put_blobs", fail)
    state_dir = tmp_path / "new"
    assert "no room" in run("restore", file, "--state", state_dir, code=1)
    assert (state_dir / MARK).exists()
    with pytest.raises(DiskError, match="did not come to its end"):
        RealDisk(state_dir)
    assert "remove the directory" in run("restore", file, "--state", state_dir, code=2)
    assert "restore again" in run("backup", "take", tmp_path / "c", "--state", state_dir, code=1)


def test_a_damaged_backup_makes_no_directory(stopped: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.rqb"
    take(stopped, file)
    whole = file.read_bytes()
    size = len(whole)
    for number, at in enumerate((0, 9, 20, size // 4, size // 2, size * 3 // 4, size - 100, -1)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at:][1:])
        told = run("restore", file, "--state", tmp_path / f"new{number}", code=1)
        assert "rollq:" in told
    for number, end in enumerate((0, 7, 16, size // 2, size - 1)):
        file.write_bytes(whole[:end])
        run("restore", file, "--state", tmp_path / f"cut{number}", code=1)
    assert [path.name for path in tmp_path.iterdir()] == ["b.rqb"]
