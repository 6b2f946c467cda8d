"""Files whose way is lost: whoever is killed, what arrived is not sent again, and it ends well."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from rollq import BlockingClient
from rollq.base.limits import BLOB_WINDOW_BYTES
from rollq.roles.blobs.client import BlobClient
from tests.integration.blob_members import holds, run
from tests.integration.faults import MIB, SLACK_BYTES, Tap, WorkerProcess, environment, start_alone
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import Members, until
from tests.integration.workers import write_program

SIZE = 24 * MIB
MIDDLE = 16 * MIB
WRITTEN = MIDDLE - BLOB_WINDOW_BYTES  # at least: what came and was not written yet is sent again
MOVED_MAX = SIZE + BLOB_WINDOW_BYTES + SLACK_BYTES  # by one that is cut once


def part_bytes(state: Path) -> int:
    """What is there of uploads that were cut."""
    folder = state / "blobs" / "partial"
    return sum(one.stat().st_size for one in folder.iterdir()) if folder.is_dir() else 0


def inode(path: Path) -> int:
    """Which file it is, once there is something in it."""
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        return status.st_ino if status.st_size else 0
    return 0


def large(path: Path, size: int = SIZE) -> bytes:
    """A new file; its digest."""
    data = os.urandom(size)
    path.write_bytes(data)
    return hashlib.sha256(data).digest()


def test_a_put_whose_client_is_killed_goes_on(tmp_path: Path) -> None:
    digest = large(tmp_path / "data")
    member = start_alone(tmp_path / "member")
    command = [sys.executable, "-m", "rollq", "cache", "put", "d1", str(tmp_path / "data")]
    try:
        with Tap(member.address) as tap:
            env = environment(ROLLQ_SERVERS=tap.address)
            tap.hold("up", MIDDLE)
            with subprocess.Popen([*command, "--need", "0"], env=env) as client:
                tap.until_held()
                client.send_signal(signal.SIGKILL)
            until(lambda: part_bytes(member.state) >= WRITTEN)
            tap.release()
            subprocess.run([*command, "--need", "0"], env=env, check=True, timeout=DEADLINE_S)
            assert holds(member, digest)
            assert tap.up <= MOVED_MAX
    finally:
        member.kill()


def test_an_upload_goes_on_with_a_leader_that_was_killed(tmp_path: Path) -> None:
    digest = large(tmp_path / "data")
    member = start_alone(tmp_path / "member")

    async def story() -> None:
        with Tap(member.address) as tap:
            tap.hold("up", MIDDLE)
            async with BlobClient([tap.address]) as client:
                told: list[int] = []
                upload = asyncio.create_task(
                    client.put(tmp_path / "data", lambda done, _: told.append(done))
                )
                await asyncio.to_thread(tap.until_held)
                until(lambda: part_bytes(member.state) >= WRITTEN)
                await asyncio.to_thread(member.kill)
                before = len(told)
                tap.release()
                await asyncio.to_thread(member.start)
                assert (await upload).digest == digest
                assert min(told[before:]) >= WRITTEN  # also if it found a way past the tap
            assert holds(member, digest)
            assert tap.up <= MOVED_MAX

    try:
        run(story())
    finally:
        member.kill()


def test_a_cache_goes_on_to_a_worker_that_was_killed(tmp_path: Path) -> None:
    digest = large(tmp_path / "data")
    member = start_alone(tmp_path / "member")
    try:
        with (
            Tap(member.address) as tap,
            BlockingClient(member.address, timeout=DEADLINE_S) as client,
        ):
            tap.hold("down", MIDDLE)
            with WorkerProcess(tap.address, tmp_path / "w") as worker:
                client.cache_put("d1", {"data": tmp_path / "data"}, need=0)
                tap.until_held()
                until(lambda: part_bytes(worker.state) >= WRITTEN)
                worker.kill()
                tap.release()
                worker.start()
                name = digest.hex()
                until((worker.state / "blobs" / name[:2] / name[2:]).is_file)
                assert tap.down <= MOVED_MAX
                until(lambda: [one.status for one in client.cache_holders("d1")] == ["OK"])
    finally:
        member.kill()


def test_a_job_goes_on_with_a_worker_that_was_killed_twice(tmp_path: Path) -> None:
    """In the middle of its input, and in the middle of its output."""
    large(tmp_path / "data")
    (tmp_path / "w").mkdir()
    write_program(tmp_path / "w", "other", "{ printf x; cat in.bin; } > out.bin")
    member = start_alone(tmp_path / "member")
    try:
        with (
            Tap(member.address) as tap,
            BlockingClient(member.address, timeout=DEADLINE_S) as client,
        ):
            tap.hold("down", MIDDLE)
            with WorkerProcess(tap.address, tmp_path / "w") as worker:
                job = client.submit("other", files={"in.bin": tmp_path / "data"})
                tap.until_held()
                until(lambda: part_bytes(worker.state) >= WRITTEN)
                worker.kill()
                tap.release()
                tap.hold("up", MIDDLE)
                worker.start()
                tap.until_held()
                until(lambda: part_bytes(member.state) >= WRITTEN)
                worker.kill()
                tap.release()
                worker.start()
                output = job.result(DEADLINE_S).raise_for_status().outputs["out.bin"]
                assert output.read() == b"x" + (tmp_path / "data").read_bytes()
                assert tap.down <= MOVED_MAX
                assert tap.up <= MOVED_MAX
    finally:
        member.kill()


def test_a_worker_goes_on_with_the_next_leader(tmp_path: Path) -> None:
    digest = large(tmp_path / "data", 48 * MIB)
    name = digest.hex()
    with Members(tmp_path, 3) as members:
        servers = ",".join(members.addresses)
        with BlockingClient(servers, timeout=DEADLINE_S) as client:
            client.cache_put("d1", {"data": tmp_path / "data"}, need=0)
            leader = members.at(client.leader)
            near = next(member for member in members.all if member is not leader)
            with WorkerProcess(near.address, tmp_path / "w") as worker:
                store = worker.state / "blobs"
                part, blob = store / "partial" / name, store / name[:2] / name[2:]
                until(lambda: inode(part) or inode(blob))
                leader.send(signal.SIGSTOP)
                began = inode(part) or inode(blob)
                leader.kill()
                until(lambda: inode(blob))
                assert inode(blob) == began, "it was begun anew"
                assert hashlib.sha256(blob.read_bytes()).digest() == digest
                until(lambda: [one.status for one in client.cache_holders("d1")] == ["OK"])
