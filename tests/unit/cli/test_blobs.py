"""`rollq blobs` on directories and URLs that tests made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest
from typer.testing import CliRunner, Result

from rollq.cli.main import app
from rollq.store.blobs.local import LocalBlobs
from rollq.store.blobs.remote import FsspecBlobs
from rollq.store.blobs.staged import Staged, place_of
from rollq.store.real_disk import RealDisk
from tests.contracts.blob_places import digest_of

OLD, NEW = digest_of(b"old"), digest_of(b"newer")


def run(*words: str, code: int = 0, text: str | None = None) -> Result:
    result = CliRunner().invoke(app, ["blobs", *words], input=text)
    assert result.exit_code == code, result.output + result.stderr
    return result


def answer(*words: str, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code).stdout)


def put(store: Staged, data: bytes) -> None:
    with store.begin(digest_of(data), len(data)) as incoming:
        incoming.write(data)
        incoming.commit()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two blobs, one of them of 2001, and a cut upload of that time."""
    store = LocalBlobs(tmp_path / "blobs", room_bytes=0)
    put(store, b"old")
    put(store, b"newer")
    with store.begin(digest_of(b"never"), 5) as incoming:
        incoming.write(b"nev")
    store.close()
    for name in (place_of(OLD), f"partial/{digest_of(b'never').hex()}"):
        os.utime(tmp_path / "blobs" / name, (1_000_000_000, 1_000_000_000))
    return tmp_path


def rot(state: Path, digest: bytes) -> None:
    path = state / "blobs" / place_of(digest)
    path.chmod(0o644)
    path.write_bytes(b"rot")


def names(state: Path) -> list[str]:
    files = (path for path in state.rglob("*") if path.is_file() and path.name != "LOCK")
    return sorted(str(path.relative_to(state / "blobs")) for path in files)


def test_ls(state: Path) -> None:
    lines = run("ls", "--state", str(state)).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == sorted([[OLD.hex(), "3"], [NEW.hex(), "5"]])
    result = run("ls", "--state", str(state), "--limit", "1", "--json")
    assert json.loads(result.stdout)["digest"] == min(OLD, NEW).hex()
    assert "--limit" in result.stderr


def test_stat(state: Path) -> None:
    sums = answer("stat", "--state", str(state))
    assert (sums["blobs"], sums["bytes"]) == (2, 8)
    assert (sums["partial"], sums["partial_bytes"], sums["rotten"]) == (1, 3, 0)
    assert sums["oldest"].startswith("2001")
    for text in (OLD.hex(), OLD.hex()[:6]):
        one = answer("stat", "--state", str(state), text)
        assert (one["bytes"], one["changed_ms"]) == (3, 1_000_000_000_000)
        assert Path(one["path"]).read_bytes() == b"old"
    assert "blob_missing" in run("stat", "--state", str(state), "0" * 64, code=4).stderr
    for text in ("abc", "../../etc", OLD.hex().upper()):
        assert "bad_id" in run("stat", "--state", str(state), text, code=4).stderr


def test_a_beginning_must_be_of_one(state: Path) -> None:
    folder = (state / "blobs" / place_of(OLD)).parent
    (folder / (OLD.hex()[2:-1] + ("0" if OLD.hex()[-1] != "0" else "1"))).write_bytes(b"x")
    assert "2 digests" in run("stat", "--state", str(state), OLD.hex()[:8], code=2).stderr


def test_verify_finds_rot_and_sets_it_aside(state: Path) -> None:
    assert answer("verify", "--state", str(state))["checked"] == 2
    rot(state, OLD)
    found = {"checked": 2, "rotten": [OLD.hex()], "set_aside": False}
    assert answer("verify", "--state", str(state), "--dry-run", code=1) == found
    assert place_of(OLD) in names(state)
    assert "0 corrupt" in run("verify", "--state", str(state), NEW.hex()).stdout
    assert f"corrupt  {OLD.hex()}" in run("verify", "--state", str(state), code=1).stdout
    assert f"rotten/{OLD.hex()}" in names(state)
    assert answer("verify", "--state", str(state))["rotten"] == []
    run("verify", "--state", str(state), OLD.hex(), code=4)


def test_gc_clears_leftovers(state: Path) -> None:
    before = names(state)
    would = answer("gc", "--state", str(state), "--dry-run")
    assert (len(would["leftovers"]), would["blobs"], would["bytes"]) == (1, [], 3)
    assert names(state) == before
    assert "removed  partial/" in run("gc", "--state", str(state)).stdout
    assert names(state) == sorted([place_of(OLD), place_of(NEW)])


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--older-than", "30d"], [OLD]),
        (["--max-bytes", "5"], [OLD]),
        (["--max-bytes", "1K"], []),
        (["--max-bytes", "0"], [OLD, NEW]),
    ],
)
def test_gc_evicts(state: Path, options: list[str], gone: list[bytes]) -> None:
    words = ["gc", "--state", str(state), *options]
    assert "--keep" in run(*words, code=2).stderr
    words += ["--keep", os.devnull]
    texts = [digest.hex() for digest in gone]
    before = names(state)
    assert answer(*words, "--dry-run")["blobs"] == texts
    assert names(state) == before
    assert answer(*words)["blobs"] == texts
    assert names(state) == sorted(place_of(one) for one in (OLD, NEW) if one not in gone)


def test_gc_keeps_what_is_named(state: Path, tmp_path: Path) -> None:
    listed = f"{OLD.hex()}  3  2001\n\n"
    words = ["gc", "--state", str(state), "--max-bytes", "0"]
    assert NEW.hex() in run(*words, "--keep", "-", text=listed).stdout
    assert names(state) == [place_of(OLD)]
    (tmp_path / "keep").write_text("not a digest\n")
    run(*words, "--keep", str(tmp_path / "keep"), code=4)
    run(*words, "--keep", str(tmp_path / "none"), code=2)


def test_a_directory_in_use_is_only_looked_at(state: Path) -> None:
    rot(state, OLD)
    before = names(state)
    store = LocalBlobs(state / "blobs")
    assert "disk_busy" in run("gc", "--state", str(state), code=1).stderr
    result = run("verify", "--state", str(state), code=1)
    assert "corrupt blobs are not moved" in result.stderr
    store.close()
    disk = RealDisk(state)  # as a member holds it
    assert str(os.getpid()) in run("gc", "--state", str(state), code=1).stderr
    disk.close()
    assert names(state) == before
    run("gc", "--state", str(state))


def test_a_shared_store(tmp_path: Path) -> None:
    url = "memory://shared-store-of-the-command"
    store = FsspecBlobs(url, tmp_path, room_bytes=0)
    put(store, b"old")
    put(store, b"newer")
    assert len(run("ls", "--store", url).stdout.splitlines()) == 2
    assert answer("stat", "--store", url, OLD.hex())["bytes"] == 3
    fsspec.filesystem("memory").pipe_file(f"/shared-store-of-the-command/{place_of(OLD)}", b"rot")
    assert answer("verify", "--store", url, "--dry-run", code=1)["rotten"] == [OLD.hex()]
    assert answer("verify", "--store", url, code=1)["rotten"] == [OLD.hex()]
    assert answer("stat", "--store", url)["rotten"] == 1
    words = ["gc", "--store", url, "--max-bytes", "0", "--keep", os.devnull]
    assert answer(*words)["blobs"] == [NEW.hex()]
    assert list(store.digests()) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ls"], 2),
        (["ls", "--state", "x", "--store", "memory://x"], 2),
        (["ls", "--store", "nonsense://x"], 2),
        (["ls", "--state", "no-such-directory"], 1),
        (["gc", "--state", "no-such-directory"], 1),
        (["gc", "--state", "x", "--max-bytes", "10X", "--keep", "y"], 2),
        (["gc", "--state", "x", "--older-than", "d", "--keep", "y"], 2),
        (["gc", "--state", "x", "--older-than", "-1d", "--keep", "y"], 2),
    ],
)
def test_wrong_usage(words: list[str], code: int) -> None:
    assert "\n  " in run(*words, code=code).stderr  # a hint
    assert not Path("no-such-directory").exists()
