"""Files that rot, vanish, must stay or change under their owner's hands."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rollq import BlockingClient, CacheFile, Client, ErrorCode, JobError
from rollq.base.errors import RollqError
from rollq.base.jobs import Status
from rollq.roles.blobs.client import BlobClient
from rollq.wire import messages as wire
from tests.integration.blob_member import BlobMember, input_of, ref_of
from tests.integration.blob_members import holders, place, run
from tests.integration.fake_member import job_id
from tests.integration.faults import MIB, Tap, WorkerProcess, environment, start_alone
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import Members, until
from tests.integration.talk import hang_up_all
from tests.integration.workers import running, write_program

PRESSED = {"bytes_max": 1, "lease_ms": 1_000, "evict_every_ms": 50, "scrub_every_ms": 50}


def flip(path: Path) -> None:
    """Change one bit."""
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(1_000)
        byte = file.read(1)
        file.seek(1_000)
        file.write(bytes((byte[0] ^ 4,)))
    path.chmod(0o444)


def test_what_rots_on_a_worker_is_fetched_again_for_the_next_job(tmp_path: Path) -> None:
    write_program(tmp_path, "sum", "sha256sum < data | cut -d ' ' -f 1\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(os.urandom(2 * MIB))
        name = ref.digest.hex()
        path = tmp_path / "state" / "blobs" / name[:2] / name[2:]

        async def is_right(number: int) -> bool:
            member.assign_files(number, "sum", files=(input_of("data", ref),), blobs=(ref,))
            ack, result = await member.outcome(number)
            return ack.status == Status.OK and (result.stdout or "").strip() == name

        async with running(tmp_path, member):
            assert await is_right(1)
            assert await is_right(2)
            assert len(member.gets) == 1
            flip(path)
            assert await is_right(3)
            assert len(member.gets) == 2
        # What rots while the worker is down, without a trace in its times, is found too.
        status = path.stat()
        flip(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member):
            assert await is_right(4)
            assert len(member.gets) == 1
            path.unlink()
            assert await is_right(5)
            assert len(member.gets) == 2

    run(story())


def test_what_a_result_or_a_waiting_job_refers_to_stays_under_pressure(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    write_program(tmp_path / "w", "make", "head -c 1000000 /dev/urandom > out.bin")
    with Members(tmp_path, 3, blobs=PRESSED) as members:
        servers = ",".join(members.addresses)
        (tmp_path / "data").write_bytes(os.urandom(MIB))

        async def free() -> bytes:
            async with BlobClient(members.addresses) as client:
                return (await client.put(os.urandom(MIB))).digest

        with (
            BlockingClient(servers, timeout=DEADLINE_S) as client,
            WorkerProcess(members.addresses[0], tmp_path / "w"),
        ):
            kept = client.submit("make").result(DEADLINE_S).raise_for_status().outputs["out.bin"]
            client.pause("later")
            job = client.submit("read", files={"in": tmp_path / "data"}, queue="later")
            view = client.status(job.job_id)
            assert view is not None
            waiting = view.blobs[0].digest
            # One that nothing refers to, and that came later, is gone: so the others might be.
            gone = asyncio.run(free())
            until(lambda: not holders(members, gone))
            assert holders(members, waiting) == 3
            until(lambda: holders(members, bytes.fromhex(kept.digest)) == 3)
            assert len(kept.read()) == 1_000_000
            job.cancel()
            until(lambda: not holders(members, waiting))


def test_a_job_whose_input_vanished_everywhere_fails_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    write_program(tmp_path / "w", "read", "cat in")
    (tmp_path / "data").write_bytes(os.urandom(MIB))
    member = start_alone(tmp_path / "member")
    try:
        with BlockingClient(member.address, timeout=DEADLINE_S) as client:
            job = client.submit("read", files={"in": tmp_path / "data"}, max_attempts=2)
            view = client.status(job.job_id)
            assert view is not None
            place(member, view.blobs[0].digest).unlink()
            with WorkerProcess(member.address, tmp_path / "w"):
                with pytest.raises(JobError) as caught:
                    job.result(DEADLINE_S).raise_for_status()
                assert "blob_missing" in str(caught.value)
                assert view.blobs[0].digest.hex() in str(caught.value)
    finally:
        member.kill()


def test_an_ack_that_a_leader_refuses_for_want_of_a_blob_is_said_again_after_it(
    tmp_path: Path,
) -> None:
    write_program(tmp_path, "make", "head -c 1000000 /dev/urandom > out.bin\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        member.takes_acks = False
        async with running(tmp_path, member):
            member.assign(1, "make")
            ack, _ = await member.outcome(1)
            member.store.remove(ack.blobs[0].digest)
            puts = len(member.puts)
            member.acks.clear()
            member.takes_acks = True
            member.send(wire.Error(job_id(1), ErrorCode.BLOB_MISSING, "not here"))
            again, _ = await member.outcome(1)
            assert again == ack
            assert len(member.puts) == puts + 1
            assert ref_of(member.read(ack.blobs[0].digest)) == ack.blobs[0]

    run(story())


def shrink(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(MIB)


def scribble(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(11 * MIB)
        file.write(b"other")


@pytest.mark.parametrize("change", [shrink, scribble])
def test_a_file_that_changes_while_it_is_sent_is_told(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    data = os.urandom(12 * MIB)
    (folder / "large").write_bytes(data)
    (folder / "small").write_bytes(b"as it is")
    member = start_alone(tmp_path / "member")

    async def story() -> None:
        with Tap(member.address) as tap:
            async with Client(tap.address) as client:
                tap.hold("up", 6 * MIB)
                submit = asyncio.create_task(client.submit("read", files={"in": folder}))
                await asyncio.to_thread(tap.until_held)
                change(folder / "large")
                tap.release()
                with pytest.raises(RollqError) as caught:
                    await submit
                assert caught.value.code is ErrorCode.BLOB_CORRUPT
                assert "in/large" in caught.value.message
                # What came of it harms nobody who has the file as it was.
                await asyncio.to_thread((folder / "large").write_bytes, data)
                job = await client.submit("read", files={"in": folder})
                view = await client.status(job.job_id)
                assert view is not None
                assert [blob.size for blob in view.blobs] == [len(data)]

    try:
        run(story())
    finally:
        member.kill()


def test_files_that_may_not_be_read_are_named(tmp_path: Path) -> None:
    prefix: list[str] = []
    if os.geteuid() == 0:  # who may read everything, if nothing is taken from it
        if shutil.which("setpriv") is None:
            pytest.skip("root cannot give up what it may")
        prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * MIB)
    secret.chmod(0)
    (tmp_path / "tree").mkdir(mode=0)
    member = start_alone(tmp_path / "member")
    try:
        for option, path in (("--file", secret), ("--dir", tmp_path / "tree")):
            command = [sys.executable, "-m", "rollq", "submit", "read", option, f"in={path}"]
            ended = subprocess.run(
                [*prefix, *command],
                env=environment(ROLLQ_SERVERS=member.address),
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
            )
            assert ended.returncode == 2, ended.stderr
            assert f"{path}: Permission denied" in ended.stderr
            assert "Traceback" not in ended.stderr
    finally:
        member.kill()
        hang_up_all()


def test_a_cache_file_that_rots_on_its_way_is_not_read(tmp_path: Path) -> None:
    """One member of three has a bad copy: jobs of any worker read good bytes."""
    data = os.urandom(5 * MIB)
    (tmp_path / "data").write_bytes(data)
    with Members(tmp_path, 3, blobs={"scrub_every_ms": 3_600_000}) as members:
        servers = ",".join(members.addresses)
        with BlockingClient(servers, timeout=DEADLINE_S) as client:
            client.cache_put("d1", {"data": tmp_path / "data"}, need=0)
            view = client.cache("d1")
            assert view is not None
            digest = view.entries[0].blob.digest
            until(lambda: holders(members, digest) == 3)
            flip(place(members.at(client.leader), digest))
            (tmp_path / "w").mkdir()
            write_program(tmp_path / "w", "sum", "sha256sum < data | cut -d ' ' -f 1")
            with WorkerProcess(members.addresses[0], tmp_path / "w"):
                result = client.submit("sum", files={"data": CacheFile("d1")}).result(DEADLINE_S)
                assert result.raise_for_status().stdout.strip() == digest.hex()
            until(lambda: holders(members, digest) == 3)
