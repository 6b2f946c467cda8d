"""Legacy peers may send four megabytes in a frame: in both directions, through restarts."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import rollq
from rollq.wire import messages as wire
from tests.integration import talk
from tests.integration.legacy_peer import (
    ACK_JOB,
    ASSIGN_JOB,
    RESULT,
    SUBMIT_JOB,
    Peer,
    as_client,
    as_worker,
    hang_up,
)
from tests.integration.procs import MemberProcess, Members
from tests.integration.small_grid import SmallGrid

BYTES = 2_200_000  # three megabytes in base64


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    """Nothing stays open after a test."""
    yield
    hang_up()
    talk.hang_up_all()


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    one = MemberProcess(tmp_path_factory.mktemp("large") / "state").start()
    yield one
    assert one.stop() == 0


def noise(seed: str) -> bytes:
    return hashlib.shake_128(seed.encode()).digest(BYTES)


def large_request(job_id: uuid.UUID, exec_name: str) -> bytes:
    content = base64.b64encode(noise(f"in {job_id}")).decode()
    files = [{"Name": "in.bin", "CacheId": None, "Content": content}]
    told = {"JobId": str(job_id), "ClientId": "c1", "ExecName": exec_name, "Args": []}
    return json.dumps(told | {"Files": files}).encode()


def large_result(job_id: uuid.UUID) -> bytes:
    archive = base64.b64encode(noise(f"out {job_id}")).decode()
    told = {"JobId": str(job_id), "ClientId": "c1", "ExecName": "x", "Status": "OK"}
    return json.dumps(told | {"Stdout": "", "Stderr": "", "OutputArchive": archive}).encode()


def submit(client: Peer, job_id: uuid.UUID, queue: str) -> bytes:
    body = large_request(job_id, queue)
    client.write(SUBMIT_JOB, uuid.uuid4(), subject=f"job.submit.{queue}", payload=body)
    return body


def test_three_megabytes_go_to_a_worker_and_come_back(member: MemberProcess) -> None:
    worker, client = as_worker(member.port, "largeA"), as_client(member.port)
    job_id = uuid.uuid4()
    body = submit(client, job_id, "largeA")
    kind, _, _, _, payload = worker.read()
    assert (kind, payload == body) == (ASSIGN_JOB, True)
    worker.write(ACK_JOB, corr_id=job_id, payload=large_result(job_id))
    kind, _, corr_id, _, payload = client.read()
    assert (kind, corr_id, payload == large_result(job_id)) == (RESULT, job_id, True)


def test_what_cannot_be_passed_on_is_answered(member: MemberProcess) -> None:
    client = as_client(member.port)
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, job_id, subject="largeB", payload=bytes(4_194_304 - 100))
    kind, _, corr_id, _, payload = client.read()
    told = json.loads(payload)
    assert (kind, corr_id, told["Status"]) == (RESULT, job_id, "FAILED")
    assert "4194204 bytes" in told["Stderr"]


def test_a_restart_keeps_large_bodies_and_results(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "state").start()
    address = member.address
    first, second = end_one_of_two(address, talk.client(address))
    member.kill()
    member.start()
    go_on(address, talk.client(address), first, second)
    assert member.stop() == 0


def test_another_leader_has_large_bodies_and_results(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        address, client = talk.find_leader(members.addresses)
        first, second = end_one_of_two(address, client)
        members.at(address).kill()
        others = [one for one in members.addresses if one != address]
        go_on(*talk.find_leader(others), first, second)


def end_one_of_two(address: str, client: talk.Talker) -> tuple[uuid.UUID, uuid.UUID]:
    """Two large jobs are accepted, and one has ended with a large result that is not confirmed."""
    first, second = uuid.uuid4(), uuid.uuid4()
    for job_id in (first, second):
        body = large_request(job_id, "largeC")
        client.say(wire.SubmitJob(job_id.bytes_le, "ann", "largeC", "largeC", body))
        assert client.hear(wire.Accepted).request_id == job_id.bytes_le
    worker = as_worker(int(address.rpartition(":")[2]), "largeC", credit=1)
    assert worker.read()[4] == large_request(first, "largeC")
    worker.write(ACK_JOB, corr_id=first, payload=large_result(first))
    assert client.hear(wire.Result).result == large_result(first)
    return first, second


def go_on(address: str, client: talk.Talker, first: uuid.UUID, second: uuid.UUID) -> None:
    """The result is told again, and the other job has the body that it had."""
    result = client.hear(wire.Result)
    assert (result.job_id, result.result == large_result(first)) == (first.bytes_le, True)
    worker = as_worker(int(address.rpartition(":")[2]), "largeC", credit=1)
    _, job_id, _, _, payload = worker.read()
    assert (job_id, payload == large_request(second, "largeC")) == (second, True)
    worker.write(ACK_JOB, corr_id=second, payload=large_result(second))
    result = client.hear(wire.Result)
    assert (result.job_id, result.result == large_result(second)) == (second.bytes_le, True)


def test_outputs_of_a_worker_of_ours_reach_a_legacy_client(tmp_path: Path) -> None:
    with SmallGrid(tmp_path) as grid:
        program = tmp_path / "exec" / "make"
        program.write_text(
            "#!/bin/sh\nhead -c 2500000 /dev/urandom > large.bin\necho here > small.txt\n"
            "sha256sum large.bin | cut -c 1-64\nhead -c 100000 /dev/zero | tr '\\0' e >&2\n"
        )
        program.chmod(0o755)
        talk.find_leader((grid.address,))  # it was started a moment ago
        client = as_client(grid.port)
        job_id = uuid.uuid4()
        told = {"JobId": str(job_id), "ClientId": "c1", "ExecName": "make", "Args": [], "Files": []}
        client.write(SUBMIT_JOB, job_id, payload=json.dumps(told).encode())
        answer = json.loads(client.read()[4])
        assert answer["Status"] == "OK"
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["OutputArchive"]))) as archive:
            assert sorted(archive.namelist()) == ["large.bin", "small.txt"]
            content = archive.read("large.bin")
            assert archive.read("small.txt") == b"here\n"
        assert len(content) == 2_500_000
        assert hashlib.sha256(content).hexdigest() == answer["Stdout"].strip()
        assert answer["Stderr"] == "e" * 100_000


def test_large_payloads_and_arguments_of_our_clients_take_the_same_road(tmp_path: Path) -> None:
    with SmallGrid(tmp_path) as grid:
        program = tmp_path / "exec" / "count"
        program.write_text('#!/bin/sh\ncat | wc -c\necho "$#"\n')
        program.chmod(0o755)
        with rollq.BlockingClient(grid.address) as client:
            payload = bytes(3_000_000)
            assert client.submit("count", payload=payload).result().stdout.split()[0] == "3000000"
            args = ["x" * 100] * 1_000
            assert client.submit("count", args).result().stdout.split()[1] == "1000"
            specs = [payload[:100_000], payload[:200_000], b"x"]
            ends = [int(one.stdout.split()[0]) for one in client.map("count", specs)]
            assert sorted(ends) == [1, 100_000, 200_000]
