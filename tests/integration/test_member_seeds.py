"""Peers written only from the seeds' layout: their own bytes, none of our code.

[len:4 LE][type:1][msgId:16][corrId:16][subjectLen:2 LE][subject][payloadLen:4 LE][payload]
"""

from __future__ import annotations

import json
import socket
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members, until

SUBMIT_JOB, ASSIGN_JOB, ACK_JOB, CREDIT, RESULT = 1, 2, 3, 4, 5
CACHE_PUT, CACHE_ACK = 6, 7
HELLO_CLIENT, HELLO_WORKER, NOT_LEADER = 9, 10, 20
EMPTY = uuid.UUID(int=0)
OPEN: list[socket.socket] = []


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    """Nothing stays open after a test."""
    yield
    while OPEN:
        OPEN.pop().close()


class Peer:
    """A C# program of the seeds, as it would look from the wire."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        OPEN.append(self.socket)

    def write(
        self,
        kind: int,
        msg_id: uuid.UUID = EMPTY,
        corr_id: uuid.UUID = EMPTY,
        subject: str = "",
        payload: bytes = b"",
    ) -> None:
        name = subject.encode()
        rest = (
            struct.pack("<B", kind)
            + msg_id.bytes_le
            + corr_id.bytes_le
            + struct.pack("<H", len(name))
            + name
            + struct.pack("<I", len(payload))
            + payload
        )
        self.socket.sendall(struct.pack("<I", len(rest)) + rest)

    def read(self) -> tuple[int, uuid.UUID, uuid.UUID, str, bytes]:
        (length,) = struct.unpack("<I", self._exactly(4))
        rest = self._exactly(length)
        (named,) = struct.unpack_from("<H", rest, 33)
        (size,) = struct.unpack_from("<I", rest, 35 + named)
        payload = rest[39 + named :]
        assert len(payload) == size
        return (
            rest[0],
            uuid.UUID(bytes_le=rest[1:17]),
            uuid.UUID(bytes_le=rest[17:33]),
            rest[35 : 35 + named].decode(),
            payload,
        )

    def says_nothing(self) -> bool:
        """Whether there is no byte to read now that should have come before."""
        self.socket.setblocking(False)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(DEADLINE_S)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionResetError("the leader hung up")
            data += piece
        return data


def as_client(port: int, client_id: str = "c1", cap: int = 4) -> Peer:
    peer = Peer(port)
    config = json.dumps({"ClientId": client_id, "DesiredParallelism": cap}).encode()
    peer.write(HELLO_CLIENT, subject=client_id, payload=config)
    return peer


def as_worker(port: int, pattern: str, credit: int = 1) -> Peer:
    peer = Peer(port)
    peer.write(HELLO_WORKER, uuid.uuid4(), subject=pattern)
    peer.write(CREDIT, payload=struct.pack("<i", credit))
    return peer


def request(job_id: uuid.UUID, exec_name: str = "calcA") -> bytes:
    return json.dumps(
        {
            "JobId": str(job_id),
            "ClientId": "c1",
            "ExecName": exec_name,
            "Args": ["1", "日本"],
            "Files": [{"Name": "in.txt", "CacheId": None, "Content": "aGVsbG8="}],
        }
    ).encode()


def result(job_id: uuid.UUID, status: str = "OK") -> bytes:
    body: dict[str, Any] = {
        "JobId": str(job_id),
        "ClientId": "c1",
        "ExecName": "calcA",
        "Status": status,
        "Stdout": "42",
        "Stderr": "",
        "OutputArchive": None,
    }
    return json.dumps(body).encode()


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    one = MemberProcess(tmp_path_factory.mktemp("seeds") / "state").start()
    yield one
    assert one.stop() == 0


def test_a_job_goes_from_client_to_worker_and_its_result_back(member: MemberProcess) -> None:
    worker = as_worker(member.port, "job.assign.seedsA")
    client = as_client(member.port)
    job_id = uuid.uuid4()
    body = request(job_id)
    client.write(SUBMIT_JOB, uuid.uuid4(), subject="job.submit.seedsA", payload=body)
    kind, msg_id, corr_id, subject, payload = worker.read()
    assert (kind, subject.lower(), payload) == (ASSIGN_JOB, "job.assign.seedsa", body)
    assert job_id in (msg_id, corr_id)
    worker.write(ACK_JOB, uuid.uuid4(), job_id, payload=result(job_id))
    worker.write(CREDIT, payload=struct.pack("<i", 1))
    kind, _, corr_id, _, payload = client.read()
    assert (kind, corr_id) == (RESULT, job_id)
    assert payload == result(job_id)
    assert worker.says_nothing()


def test_an_opaque_job_is_named_by_its_frame(member: MemberProcess) -> None:
    worker = as_worker(member.port, "seedsB")  # the name of a group alone
    client = as_client(member.port, "c2")
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, job_id, subject="seedsB", payload=b"\x00\xffraw bytes")
    kind, msg_id, _, _, payload = worker.read()
    assert (kind, msg_id, payload) == (ASSIGN_JOB, job_id, b"\x00\xffraw bytes")
    worker.write(ACK_JOB, corr_id=job_id, payload=b"raw result")
    kind, _, corr_id, _, payload = client.read()
    answer = json.loads(payload)
    assert (kind, corr_id) == (RESULT, job_id)
    assert (answer["Status"], answer["Stdout"]) == ("OK", "raw result")


def test_work_that_a_lost_worker_held_is_given_to_another(member: MemberProcess) -> None:
    worker = as_worker(member.port, "seedsC")
    client = as_client(member.port, "c3")
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, subject="seedsC", payload=request(job_id))
    assert worker.read()[0] == ASSIGN_JOB
    worker.socket.close()
    other = as_worker(member.port, "seedsC")
    assert other.read()[4] == request(job_id)
    other.write(ACK_JOB, corr_id=job_id, payload=result(job_id, "FAILED"))
    assert json.loads(client.read()[4])["Status"] == "FAILED"


def test_credit_is_kept_to_and_a_client_keeps_to_its_cap(member: MemberProcess) -> None:
    client = as_client(member.port, "c4", cap=2)
    jobs = [uuid.uuid4() for _ in range(3)]
    for job_id in jobs:
        client.write(SUBMIT_JOB, subject="seedsD", payload=request(job_id))
    worker = as_worker(member.port, "seedsD", credit=3)
    got = [worker.read()[1] for _ in range(2)]
    assert got == jobs[:2]
    assert worker.says_nothing()
    worker.write(ACK_JOB, corr_id=jobs[0], payload=result(jobs[0]))
    assert client.read()[2] == jobs[0]
    assert worker.read()[1] == jobs[2]


def test_a_result_that_nobody_was_there_for_is_kept(member: MemberProcess) -> None:
    client = as_client(member.port, "c5")
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, subject="seedsE", payload=request(job_id))
    worker = as_worker(member.port, "seedsE")
    assert worker.read()[1] == job_id
    client.socket.close()
    worker.write(ACK_JOB, corr_id=job_id, payload=result(job_id))
    back = as_client(member.port, "c5")
    assert back.read()[2] == job_id


def test_a_follower_says_who_leads_in_the_seeds_words(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:

        def answers() -> list[Any]:
            """What each member says to a hello: who leads, or nothing if it leads itself."""
            found: list[Any] = []
            for member in members.all:
                peer = as_client(member.port, "c6")
                peer.write(SUBMIT_JOB, uuid.uuid4(), subject="x", payload=b"x")
                peer.socket.settimeout(2)  # a follower may be slow; the leader says nothing
                try:
                    kind, _, _, _, payload = peer.read()
                    assert kind == NOT_LEADER
                    found.append(json.loads(payload)["leader"])
                except TimeoutError:
                    found.append(None)
                except ConnectionError:
                    found.append("")
                peer.socket.close()
            return found if found.count(None) == 1 and "" not in found else []

        found = until(answers)
        leader = members.all[found.index(None)].address
        assert [one for one in found if one is not None] == [leader, leader]


def test_files_put_into_caches_reach_the_workers_that_are_meant(member: MemberProcess) -> None:
    meant = as_worker(member.port, "job.assign.seedsCache.*")
    other = as_worker(member.port, "job.assign.seedsOther.*")
    asker, bystander = as_client(member.port, "c7"), as_client(member.port, "c8")
    entries = [{"Name": "data/a.bin", "Content": "AQI="}, {"Name": "cfg/b.cfg", "Content": ""}]
    pattern = "job.assign.seedsCache.*"
    put = {"CacheId": "dataset-v1", "Entries": entries, "TargetPattern": pattern}
    body, request_id = json.dumps(put).encode(), uuid.uuid4()
    asker.write(CACHE_PUT, request_id, subject=f"cache.put.{pattern}", payload=body)
    kind, _, corr_id, subject, payload = meant.read()
    assert (kind, subject, payload) == (CACHE_PUT, "cache.put", body)
    told = {"CacheId": "dataset-v1", "Status": "OK", "Message": "added=2"}
    answer = json.dumps(told).encode()
    meant.write(CACHE_ACK, corr_id=corr_id, subject="cache.ack.dataset-v1", payload=answer)
    kind, _, corr_id, _, payload = asker.read()
    assert (kind, corr_id, payload) == (CACHE_ACK, request_id, answer)
    # Nobody else heard of it, and no credit was taken for it.
    job_id = uuid.uuid4()
    bystander.write(SUBMIT_JOB, job_id, subject="job.submit.seedsCache.x", payload=request(job_id))
    assert meant.read()[0] == ASSIGN_JOB
    meant.write(ACK_JOB, corr_id=job_id, payload=result(job_id))
    assert bystander.read()[0] == RESULT
    assert other.says_nothing()


def test_a_put_that_nobody_is_there_for_is_answered(member: MemberProcess) -> None:
    asker = as_client(member.port, "c9")
    put = {"CacheId": "d", "Entries": [], "TargetPattern": "job.assign.seedsNobody"}
    request_id = uuid.uuid4()
    asker.write(CACHE_PUT, request_id, subject="cache.put", payload=json.dumps(put).encode())
    kind, _, corr_id, _, payload = asker.read()
    assert (kind, corr_id, json.loads(payload)["Status"]) == (CACHE_ACK, request_id, "FAILED")
