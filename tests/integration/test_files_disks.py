"""Files and disks that are full: whose disk it is, who is told, and what goes on."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest
from msgspec import UNSET

from rollq import BlockingClient, Client, ErrorCode
from rollq.base.errors import RollqError
from rollq.base.limits import BLOB_ROOM_BYTES
from rollq.roles.blobs.client import BlobClient
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.client.results.outputs import Output
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from rollq.wire import messages as wire
from tests.integration.blob_member import BlobMember, input_of
from tests.integration.blob_members import holds, refer, run
from tests.integration.fake_member import job_id
from tests.integration.faults import MIB, Tap, fill, small_disk, start_alone
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until
from tests.integration.talk import find_leader, hang_up_all
from tests.integration.workers import eventually, running, write_program

SIZE = 12 * MIB
HALF = 6 * MIB
ROOM_MIB = BLOB_ROOM_BYTES // MIB


def test_a_member_without_room_says_so_and_serves_jobs(tmp_path: Path) -> None:
    data = os.urandom(40 * MIB)
    with small_disk(tmp_path / "disk", ROOM_MIB + 150) as disk:
        member = start_alone(disk / "member")

        async def story() -> None:
            _, talker = await asyncio.to_thread(find_leader, [member.address])
            with Tap(member.address) as tap:
                async with BlobClient([tap.address]) as client:
                    # It gets full while the blob comes.
                    tap.hold("up", HALF)
                    upload = asyncio.create_task(client.put(data))
                    await asyncio.to_thread(tap.until_held)
                    filler = await asyncio.to_thread(fill, disk, BLOB_ROOM_BYTES // 2)
                    tap.release()
                    with pytest.raises(RollqError) as caught:
                        await upload
                    assert caught.value.code is ErrorCode.DISK_FULL
                    assert "rollq blobs gc" in str(caught.value)
                    assert f" {tap.address}: " in str(caught.value)
                    assert not list((member.state / "blobs" / "partial").iterdir())
                    # And it is full before the next one: not a byte is sent.
                    with Tap(member.address) as second:
                        async with BlobClient([second.address]) as other:
                            with pytest.raises(RollqError) as caught:
                                await other.put(data[:MIB])
                        assert caught.value.code is ErrorCode.DISK_FULL
                        assert second.up < 1_000
                    for number in range(1, 50):
                        assert isinstance(refer(talker, number), wire.Accepted)
                    await asyncio.to_thread(filler.unlink)
                    ref = await client.put(data)
                    assert holds(member, ref.digest)
                    assert isinstance(refer(talker, 50, ref), wire.Accepted)

        try:
            run(story())
        finally:
            hang_up_all()
            member.kill()


def test_a_worker_without_room_gives_the_job_to_another(tmp_path: Path) -> None:
    data = os.urandom(SIZE)
    (tmp_path / "data").write_bytes(data)
    write_program(tmp_path, "digest", "sha256sum in.bin | cut -d ' ' -f 1")
    member = start_alone(tmp_path / "member")
    thread = LoopThread("workers")
    thread.start()
    with small_disk(tmp_path / "disk", ROOM_MIB + 40) as disk, Tap(member.address) as tap:
        fill(disk, BLOB_ROOM_BYTES // 2)
        # The one without room has more to offer, so that it is asked first.
        setups = [
            NodeSetup(
                (address,),
                exec_dir=tmp_path / "exec",
                jobs_dir=folder / "jobs",
                state_dir=folder / "state",
                slots=slots,
                cpu_cap=1.0,
            )
            for address, folder, slots in (
                (tap.address, disk, 8),
                (member.address, tmp_path / "roomy", 1),
            )
        ]
        workers = [WorkerNode(setup) for setup in setups]
        try:
            with BlockingClient(member.address, timeout=DEADLINE_S) as client:
                thread.run(workers[0].start())
                first = client.submit("digest", files={"in.bin": tmp_path / "data"})
                until(lambda: "no room for its inputs" in str(client.status(first.job_id)))
                thread.run(workers[1].start())
                jobs = [
                    client.submit("digest", files={"in.bin": tmp_path / "data"}) for _ in range(4)
                ]
                for job in (first, *jobs):
                    result = job.result(DEADLINE_S).raise_for_status()
                    assert result.stdout.strip() == hashlib.sha256(data).hexdigest()
        finally:
            for worker in workers:
                thread.run(worker.stop())
            thread.stop()
            member.kill()


def test_a_job_whose_directory_cannot_be_filled_says_so(tmp_path: Path) -> None:
    """Nor is anything of it left."""
    write_program(tmp_path, "read", "cat data")

    async def story(disk: Path) -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(os.urandom(SIZE))
        async with running(tmp_path, member, jobs_dir=disk / "jobs"):
            # A program is copied, not linked, whoever runs the worker.
            file = input_of("data", ref, 0o755)
            member.assign_files(1, "read", files=(file,), blobs=(ref,))
            nack = await member.until(lambda: member.nacks.get(job_id(1)))
            assert "disk_full" in nack.detail
            assert "cannot be put into a directory on this worker" in nack.detail
            await eventually(lambda: not [one for one in disk.rglob("*") if one.is_file()])
            small = member.put(b"small")
            member.assign_files(2, "read", files=(input_of("data", small),), blobs=(small,))
            _, result = await member.outcome(2)
            assert result.stdout == "small"

    with small_disk(tmp_path / "disk", 8) as disk:
        run(story(disk))


def test_a_job_whose_stdout_finds_no_room_is_given_back(tmp_path: Path) -> None:
    """It ran, so the attempt counts. With room it ends ok, and all of its stdout is kept."""
    write_program(tmp_path, "write", "head -c $1 /dev/zero")

    async def story(disk: Path) -> None:
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member, jobs_dir=disk / "jobs"):
            member.assign(1, "write", str(SIZE))
            nack = await member.until(lambda: member.nacks.get(job_id(1)))
            assert "its outputs cannot be uploaded: disk_full" in nack.detail
            assert f"cannot keep {SIZE} bytes of stdout: No space left" in nack.detail
            assert not nack.not_started
            member.assign(2, "write", str(MIB))
            _, result = await member.outcome(2)
            assert result.stdout_blob is not UNSET
            assert result.stdout_blob.size == MIB
            assert not result.note

    with small_disk(tmp_path / "disk", 8) as disk:
        run(story(disk))


def test_a_client_without_room_keeps_nothing(tmp_path: Path) -> None:
    data = os.urandom(SIZE)
    member = start_alone(tmp_path / "member")

    async def story(disk: Path) -> None:
        with Tap(member.address) as tap:
            async with BlobClient([tap.address]) as blobs:
                ref = await blobs.put(data)
            async with Client(tap.address) as client:
                output = Output("out.bin", ref, fetcher=client._engine)
                tap.hold("down", HALF)
                saving = asyncio.create_task(output.asave(disk))
                await asyncio.to_thread(tap.until_held)
                filler = await asyncio.to_thread(fill, disk, 100_000)
                tap.release()
                for again in (saving, output.asave(disk)):
                    with pytest.raises(RollqError) as caught:
                        await again
                    assert caught.value.code is ErrorCode.DISK_FULL
                    assert f"out.bin needs {SIZE} bytes" in caught.value.message
                    assert os.listdir(disk) == ["filler"]
                await asyncio.to_thread(filler.unlink)
                assert await asyncio.to_thread((await output.asave(disk)).read_bytes) == data

    with small_disk(tmp_path / "disk", 16) as disk:
        try:
            run(story(disk))
        finally:
            member.kill()
