"""Files that jobs refer to, on a real worker with a scripted member that has blobs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from rollq import BlockingClient
from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import STREAM_BYTES_MAX
from rollq.roles.worker import preparations
from rollq.store.archive import unpack
from rollq.store.blobs.failures import disk_full
from rollq.store.blobs.partial import Staging
from rollq.wire import messages as wire
from rollq.wire.models import InputFile, StreamBlob, encode_model, job_request
from tests.integration import sample_app
from tests.integration.blob_member import BlobMember, input_of, ref_of
from tests.integration.fake_member import job_id
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import eventually, running, write_program

MIB = 1024 * 1024


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


def is_swept(directory: Path) -> bool:
    """Whether no file of a job is left."""
    return not any(path.is_file() for path in (directory / "jobs").rglob("*"))


def test_an_input_by_digest_is_fetched_and_read(tmp_path: Path) -> None:
    write_program(tmp_path, "sum", "sha256sum < in/data; ls -l in/data tool small; ./tool\n")
    data = os.urandom(3 * MIB)
    tool = b"#!/bin/sh\necho the tool runs\n"

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        refs = member.put(data), member.put(tool)
        async with running(tmp_path, member):
            small = InputFile("small", None, b"inline")
            files = (input_of("in/data", refs[0]), input_of("tool", refs[1], 0o755), small)
            member.assign_files(1, "sum", files=files, blobs=refs)
            ack, result = await member.outcome(1)
            assert (ack.status, ack.blobs) == (Status.OK, ())
            assert (ack.fetched_bytes, ack.held_bytes) == (len(data) + len(tool), 0)
            lines = (result.stdout or "").splitlines()
            assert lines[0].split()[0] == refs[0].digest.hex()
            assert [line[:10] for line in lines[1:4]] == ["-r--r--r--", "-rw-r--r--", "-r-xr-xr-x"]
            assert lines[4] == "the tool runs"
            assert result.output_archive is None, "inputs are no outputs"
            await eventually(lambda: is_swept(tmp_path))

    run(story())


@pytest.mark.parametrize("links", [True, False])
def test_jobs_that_share_an_input_fetch_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(preparations, "LINKS_ARE_SAFE", links)
    write_program(tmp_path, "size", "wc -c < data; stat -c %h data; mv data moved\n")
    data = os.urandom(2 * MIB)
    count = 12  # three for each slot

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(data)
        async with running(tmp_path, member, slots=4):
            await member.until(lambda: member.granted >= 4)
            for number in range(1, count + 1):
                member.assign_files(
                    number,
                    "size",
                    "x",
                    files=(input_of("data", ref),),
                    blobs=(ref,),
                    outputs=("n",),
                )
            fetched_bytes = 0
            for number in range(1, count + 1):
                ack, result = await member.outcome(number)
                assert ack.status == Status.OK
                assert ack.fetched_bytes + ack.held_bytes == len(data)
                fetched_bytes += ack.fetched_bytes
                size, names = (result.stdout or "").split()
                assert int(size) == len(data)
                assert (int(names) > 1) == links
            assert fetched_bytes == len(data), "one brought it, the others had it"
        assert member.gets == [ref.digest]

    run(story())


@pytest.mark.parametrize("allowed", [True, False])
def test_a_program_may_come_with_its_job_if_the_worker_allows_it(
    tmp_path: Path, allowed: bool
) -> None:
    program = b"#!/bin/sh\necho shipped $1; cat data; echo more > out\n"

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        refs = member.put(program), member.put(b"input")
        async with running(tmp_path, member, exec_dir=None, allow_shipped_execs=allowed):
            files = (input_of("data", refs[1]),)
            digest = refs[0].digest.hex()
            member.assign_files(1, "tool", "1", files=files, blobs=refs, exec_digest=digest)
            if allowed:
                ack, result = await member.outcome(1)
                assert (ack.status, result.stdout) == (Status.OK, "shipped 1\ninput")
                assert list(unpack(result.output_archive or b"", MIB)) == ["out"]
            else:
                nack = await member.until(lambda: member.nacks.get(job_id(1)))
                assert "--allow-shipped-execs" in nack.detail
                assert not member.gets

    run(story())


def test_a_function_takes_no_files(tmp_path: Path) -> None:
    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(b"input")
        async with running(tmp_path, member, apps=(sample_app.__name__,)):
            member.assign_files(1, "noop", files=(input_of("data", ref),), blobs=(ref,))
            ack, result = await member.outcome(1)
            assert ack.status == Status.FAILED
            assert "takes no files" in (result.stderr or "")

    run(story())


def test_what_cannot_be_had_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path, "read", "cat data\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        here, missing = member.put(b"here"), ref_of(b"missing")
        async with running(tmp_path, member):
            files = (input_of("data", missing),)
            member.assign_files(1, "read", files=files, blobs=(missing,))
            nack = await member.until(lambda: member.nacks.get(job_id(1)))
            assert missing.digest.hex() in nack.detail

            def full(self: Staging, _bytes: int) -> None:
                raise disk_full("cannot store it: No space left on device")

            with monkeypatch.context() as patch:
                patch.setattr(Staging, "check_room", full)
                member.assign_files(2, "read", files=(input_of("data", here),), blobs=(here,))
                nack = await member.until(lambda: member.nacks.get(job_id(2)))
            assert "no room for its inputs on this worker" in nack.detail
            assert "No space left" in nack.detail
            member.assign_files(3, "read", files=(input_of("data", here),), blobs=(here,))
            _, result = await member.outcome(3)
            assert result.stdout == "here"

            member.assign_files(4, "read", files=(input_of("data", here),))
            ack, result = await member.outcome(4)
            assert (ack.status, ack.exit_code) == (Status.FAILED, 126)
            assert "is not one that the job refers to" in (result.stderr or "")
            await eventually(lambda: is_swept(tmp_path))

    run(story())


def test_a_cancel_while_inputs_come_ends_the_attempt(tmp_path: Path) -> None:
    write_program(tmp_path, "read", "cat data\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(os.urandom(MIB))
        async with running(tmp_path, member):
            member.deaf = True
            number = member.assign_files(1, "read", files=(input_of("data", ref),), blobs=(ref,))
            await member.until(lambda: member.gets)
            member.send(wire.StopJob(number, 1, 1))
            ack = await member.until(lambda: member.acks.get(number))
            assert ack.status == Status.CANCELLED
            member.deaf = False

    run(story())


def test_large_outputs_and_long_streams_are_handed_over_before_the_job_ends(tmp_path: Path) -> None:
    write_program(
        tmp_path,
        "make",
        "head -c 3000000 /dev/urandom > big; mkdir sub; cp big sub/copy; chmod +x big\n"
        "echo small > note; echo skipped > other.log\n"
        "head -c 100000 /dev/zero | tr '\\0' x; echo warn >&2\n",
    )

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member):
            member.assign_files(1, "make", outputs=("*", "sub/**", "!none"))
            ack, result = await member.outcome(1)
            assert ack.status == Status.OK
            assert isinstance(result.outputs, tuple)
            outputs = {one.name: one for one in result.outputs}
            assert list(outputs) == ["big", "sub/copy"]
            big = member.read(bytes.fromhex(outputs["big"].digest))
            assert len(big) == outputs["big"].size == 3_000_000
            assert (outputs["big"].mode, outputs["sub/copy"].mode) == (0o755, 0o644)
            small = unpack(result.output_archive or b"", MIB)
            assert small == {"note": b"small\n", "other.log": b"skipped\n"}
            assert isinstance(result.stdout_blob, StreamBlob)
            assert member.read(bytes.fromhex(result.stdout_blob.digest)) == b"x" * 100_000
            assert result.stderr_blob is UNSET
            assert (result.stdout, result.stdout_size) == ("x" * STREAM_BYTES_MAX, 100_000)
            assert result.note == "no output fits '!none'"
            digests = {outputs["big"].digest, result.stdout_blob.digest}
            assert {ref.digest.hex() for ref in ack.blobs} == digests
            assert len(ack.blobs) == 2
            await eventually(lambda: is_swept(tmp_path))

    run(story())


def test_outputs_that_just_do_not_fit_the_result_are_blobs(tmp_path: Path) -> None:
    write_program(tmp_path, "make", "head -c 60000 /dev/urandom > data; echo 1 > one\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member):
            member.assign(1, "make")
            ack, result = await member.outcome(1)
            assert result.note is UNSET
            assert isinstance(result.outputs, tuple)
            assert [one.name for one in result.outputs] == ["data"]
            assert unpack(result.output_archive or b"", MIB) == {"one": b"1\n"}
            assert [ref.size for ref in ack.blobs] == [60_000]

    run(story())


def test_a_cancel_while_outputs_leave_ends_the_attempt(tmp_path: Path) -> None:
    write_program(tmp_path, "make", "head -c 1000000 /dev/urandom > data\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        member.deaf = True
        async with running(tmp_path, member):
            number = member.assign(1, "make")
            await member.until(lambda: member.puts)
            member.send(wire.StopJob(number, 1, 1))
            ack = await member.until(lambda: member.acks.get(number))
            assert (ack.status, ack.blobs) == (Status.CANCELLED, ())
            await eventually(lambda: is_swept(tmp_path))

    run(story())


def test_a_call_that_is_cancelled_in_the_line_lets_its_inputs_go(tmp_path: Path) -> None:
    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(b"x" * 100_000)
        async with running(tmp_path, member, apps=(sample_app.__name__,)) as (node, _):
            executor = node._executor
            request = job_request(
                job_id(1), "tester", "greet_in_loop", call=b"c", files=(input_of("data", ref),)
            )
            job = wire.AssignJob(
                *(job_id(1), 1, 1, 1_000, "q", "greet_in_loop", encode_model(request)), blobs=(ref,)
            )
            attempt = AttemptRef(job_id(1), 1, 1)
            executor.prepare([(job, attempt)])
            await eventually(lambda: executor._preparing.has_ready)
            executor.call([(job, attempt)])
            executor.kill(attempt)
            assert not executor._preparing.has_ready

    run(story())


def test_outputs_that_nobody_takes_are_no_result(tmp_path: Path) -> None:
    write_program(tmp_path, "make", "head -c 1000000 /dev/urandom > data\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")

        async def full(digest: bytes) -> None:
            raise disk_full("the member has no room")

        member.server.stored = full
        async with running(tmp_path, member):
            member.assign(1, "make")
            nack = await member.until(lambda: member.nacks.get(job_id(1)))
            assert "cannot be uploaded" in nack.detail
            assert "the member has no room" in nack.detail

    run(story())


def test_a_leader_that_lacks_an_output_is_given_it_again(tmp_path: Path) -> None:
    write_program(tmp_path, "make", "head -c 1000000 /dev/urandom > data\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        member.takes_acks = False
        async with running(tmp_path, member):
            number = member.assign(1, "make")
            ack, _ = await member.outcome(1)
            (blob,) = ack.blobs
        # Another leader, which has not got it, and a worker that was started again.
        other = BlobMember(tmp_path / "other")
        other.takes_acks = False
        async with running(tmp_path, other):
            await other.until(lambda: number in other.acks)
            other.acks.clear()
            other.send(wire.Error(number, ErrorCode.BLOB_MISSING, "lacks"))
            again = await other.until(lambda: other.acks.get(number))
            assert again.blobs == (blob,)
            assert len(other.read(blob.digest)) == blob.size
            other.send(wire.AckTaken(number, 1))

    run(story())


def test_outputs_that_are_lost_are_made_anew(tmp_path: Path) -> None:
    write_program(tmp_path, "make", "head -c 1000000 /dev/urandom > data\n")

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        member.takes_acks = False
        async with running(tmp_path, member):
            number = member.assign(1, "make")
            ack, _ = await member.outcome(1)
            text = ack.blobs[0].digest.hex()
            (tmp_path / "state" / "blobs" / text[:2] / text[2:]).unlink()
            member.send(wire.Error(number, ErrorCode.BLOB_MISSING, "lacks"))
            nack = await member.until(lambda: member.nacks.get(number))
            assert text in nack.detail

    run(story())


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (b"#!/no/such/shell\n", "its first line asks for '/no/such/shell'"),
        (b"#!/bin/sh\r\n", r"its first line asks for '/bin/sh\r'"),
        (b"echo without a first line\n", "neither a program nor a script"),
    ],
)
def test_a_program_of_the_job_that_starts_nowhere_is_not_tried_again(
    tmp_path: Path, program: bytes, why: str
) -> None:
    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(program)
        async with running(tmp_path, member, exec_dir=None, allow_shipped_execs=True):
            digest = ref.digest.hex()
            member.assign_files(1, "tool", files=(), blobs=(ref,), exec_digest=digest)
            ack, result = await member.outcome(1)
            assert (ack.status, ack.exit_code) == (Status.FAILED, 126)
            assert why in str(result.stderr)

    run(story())


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("pad_bytes", [0, 200_000])  # inline, and as a blob
def test_a_file_of_the_programs_name_is_the_program_if_there_is_no_other(
    tmp_path: Path, allowed: bool, pad_bytes: int
) -> None:
    write_program(tmp_path, "known", "echo of the worker\n")
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho of the job\nexit 0\n" + "#" * pad_bytes)
    tool.chmod(0o755)

    with (
        SmallGrid(tmp_path, allow_shipped_execs=allowed) as grid,
        BlockingClient(grid.address) as client,
    ):
        files = {"known": tool, "tool": tool}
        assert client.submit("known", [], files=files).result(25).stdout == "of the worker\n"
        job = client.submit("tool", [], files=files, max_attempts=1)
        if allowed:
            assert job.result(25).stdout == "of the job\n"
        else:
            assert client.submit("known").result(25).ok  # which waited behind it
            assert "--allow-shipped-execs" in str(client.explain(job.job_id))
