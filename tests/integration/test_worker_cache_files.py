"""Caches as files in a directory, as legacy workers have them."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from rollq.roles.worker import cache_files
from rollq.wire import messages as wire
from rollq.wire.models import CachePutRequest, encode_model
from tests.integration.blob_member import BlobMember
from tests.integration.fake_member import job_id
from tests.integration.test_worker_caches import (
    CAT,
    acks,
    answer,
    assign,
    carrying,
    kept,
    read,
    run,
)
from tests.integration.workers import eventually, running, write_program

REMOVED = CachePutRequest("d1", (), "", kept=True, removed=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The cache directory of a machine."""
    write_program(tmp_path, "cat", CAT)
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def put_by_hand(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """All files below the cache directory."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_files_that_were_put_there_by_hand_are_a_cache(folder: Path, tmp_path: Path) -> None:
    async def story() -> None:
        put_by_hand(folder, "d1/data/a.bin", b"by hand")
        async with running(tmp_path, BlobMember(tmp_path / "m1"), cache_dir=folder) as (_, member):
            assert isinstance(member, BlobMember)
            assert await read(member, 1) == "by hand"
            assert await answer(member, carrying(a=b"by hand")) == ("SKIPPED", "already-present=1")
        # The next start takes what is new. What is known is as it was.
        put_by_hand(folder, "d1/data/a.bin", b"changed")
        put_by_hand(folder, "d1/data/b.bin", b"new")
        async with running(tmp_path, BlobMember(tmp_path / "m2"), cache_dir=folder) as (_, member):
            assert isinstance(member, BlobMember)
            assert await read(member, 1) == "by hand"
            assert await answer(member, carrying(b=b"new")) == ("SKIPPED", "already-present=1")
            ref = member.put(b"of the group")
            assert (await answer(member, kept(ref)))[0] == "FAILED"
        assert tree(folder) == {"d1/data/a.bin": b"changed", "d1/data/b.bin": b"new"}
        # Whoever removes the folder removes the cache.
        shutil.rmtree(folder / "d1")
        async with running(tmp_path, BlobMember(tmp_path / "m3"), cache_dir=folder) as (_, member):
            assert isinstance(member, BlobMember)
            assign(member, 1)
            await member.until(lambda: job_id(1) in member.nacks)
            assert "not on this worker" in member.nacks[job_id(1)].detail

    run(story())


def test_links_and_odd_names_are_refused_with_a_line(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        secret = put_by_hand(tmp_path, "secret", b"secret")
        put_by_hand(folder, "d1/data/a.bin", b"plain")
        put_by_hand(folder, "d1/a:b", b"odd")
        (folder / "d1/link").symlink_to(secret)
        (folder / "linked").symlink_to(folder / "d1")
        put_by_hand(folder, "odd:id/a", b"odd")
        put_by_hand(folder, "no folder", b"")
        (folder / "empty").mkdir()
        async with running(tmp_path, BlobMember(tmp_path / "m1"), cache_dir=folder) as (_, member):
            assert isinstance(member, BlobMember)
            assert await read(member, 1) == "plain"
            assign(member, 2, name="link")
            assign(member, 3, name="a:b")
            await member.until(lambda: {job_id(2), job_id(3)} <= member.nacks.keys())
            assert {"no file" in nack.detail for nack in member.nacks.values()} == {True}
        refusals = [text for text in warnings(caplog) if "refused" in text or "not taken" in text]
        assert len(refusals) == 3
        assert "2 names refused" in refusals[0]

    run(story())


@pytest.mark.parametrize("links", [False, True])  # the second as for others than root
def test_a_cache_of_the_group_is_written_and_removed_and_nothing_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(cache_files, "LINKS_ARE_SAFE", links)

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(b"kept")
        async with running(tmp_path, member, cache_dir=folder):
            assert await answer(member, kept(ref)) == ("OK", "added=1")
            assert tree(folder) == {"d1/data/a.bin": b"kept"}
            assert (folder / "d1/data/a.bin").stat().st_nlink == (2 if links else 1)
            newer = member.put(b"newer")
            assert await answer(member, kept(newer, mode=0o755)) == ("OK", "added=1")
            assert tree(folder) == {"d1/data/a.bin": b"newer"}
            assert os.access(folder / "d1/data/a.bin", os.X_OK)
        put_by_hand(folder, "d1/notes", b"not ours")
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member, cache_dir=folder):  # it knows what it wrote
            await member.until(lambda: acks(member))
            member.send(wire.CachePut(bytes(16), encode_model(REMOVED)))
            await eventually(lambda: tree(folder) == {"d1/notes": b"not ours"})
            assert not (folder / "d1/data").exists()
            # With the put that comes next the name is taken: it stays, and jobs get what was put.
            put_by_hand(folder, "d1/data/a.bin", b"not ours either")
            ref = member.put(b"again")
            assert await answer(member, kept(ref)) == ("OK", "added=1")
            assert await read(member, 1) == "again"
            member.send(wire.CachePut(bytes(16), encode_model(REMOVED)))
            await eventually(lambda: not list((tmp_path / "state" / "caches").iterdir()))
        assert tree(folder) == {"d1/notes": b"not ours", "d1/data/a.bin": b"not ours either"}

    run(story())


def test_what_was_replaced_by_hand_stays(folder: Path, tmp_path: Path) -> None:
    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(b"kept")
        async with running(tmp_path, member, cache_dir=folder):
            assert (await answer(member, kept(ref)))[0] == "OK"
            put_by_hand(tmp_path, "mine", b"mine").replace(folder / "d1/data/a.bin")
            member.send(wire.CachePut(bytes(16), encode_model(REMOVED)))
            await eventually(lambda: not list((tmp_path / "state" / "caches").iterdir()))
        assert tree(folder) == {"d1/data/a.bin": b"mine"}

    run(story())


def test_a_cache_works_without_its_files(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        put_by_hand(folder, "d1", b"a file is in the way")
        async with running(tmp_path, member, cache_dir=folder):
            assert await answer(member, carrying(a=b"one", b=b"two")) == ("OK", "added=2")
            assert await read(member, 1) == "one"
        assert len([text for text in warnings(caplog) if "cannot write the files" in text]) == 1

    run(story())
