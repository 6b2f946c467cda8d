"""Legacy peers at a member of ours."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.legacy_peer import (
    ACK_JOB,
    ASSIGN_JOB,
    CACHE_ACK,
    CACHE_PUT,
    CREDIT,
    HELLO_CLIENT,
    HELLO_WORKER,
    NOT_LEADER,
    RESULT,
    SUBMIT_JOB,
    Peer,
    as_client,
    as_worker,
    hang_up,
    request,
    result,
)
from tests.integration.procs import MemberProcess, Members, until


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    """Nothing stays open after a test."""
    yield
    hang_up()


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    one = MemberProcess(tmp_path_factory.mktemp("legacy") / "state").start()
    yield one
    assert one.stop() == 0


def test_a_job_goes_from_client_to_worker_and_its_result_back(member: MemberProcess) -> None:
    worker = as_worker(member.port, "job.assign.legacyA")
    client = as_client(member.port)
    job_id = uuid.uuid4()
    body = request(job_id)
    client.write(SUBMIT_JOB, uuid.uuid4(), subject="job.submit.legacyA", payload=body)
    kind, msg_id, corr_id, subject, payload = worker.read()
    assert (kind, subject, payload) == (ASSIGN_JOB, "job.assign.legacyA", body)
    assert job_id in (msg_id, corr_id)
    worker.write(ACK_JOB, uuid.uuid4(), job_id, payload=result(job_id))
    worker.write(CREDIT, payload=struct.pack("<i", 1))
    kind, _, corr_id, _, payload = client.read()
    assert (kind, corr_id) == (RESULT, job_id)
    assert payload == result(job_id)
    assert worker.says_nothing()


def test_an_opaque_job_is_named_by_its_frame(member: MemberProcess) -> None:
    worker = as_worker(member.port, "legacyB")  # the name of a group alone
    client = as_client(member.port, "c2")
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, job_id, subject="legacyB", payload=b"\x00\xffraw bytes")
    kind, msg_id, _, _, payload = worker.read()
    assert (kind, msg_id, payload) == (ASSIGN_JOB, job_id, b"\x00\xffraw bytes")
    worker.write(ACK_JOB, corr_id=job_id, payload=b"raw result")
    kind, _, corr_id, _, payload = client.read()
    answer = json.loads(payload)
    assert (kind, corr_id) == (RESULT, job_id)
    assert (answer["Status"], answer["Stdout"]) == ("OK", "raw result")


def test_work_that_a_lost_worker_held_is_given_to_another(member: MemberProcess) -> None:
    worker = as_worker(member.port, "legacyC")
    client = as_client(member.port, "c3")
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, subject="legacyC", payload=request(job_id))
    assert worker.read()[0] == ASSIGN_JOB
    worker.socket.close()
    other = as_worker(member.port, "legacyC")
    assert other.read()[4] == request(job_id)
    other.write(ACK_JOB, corr_id=job_id, payload=result(job_id, "FAILED"))
    assert json.loads(client.read()[4])["Status"] == "FAILED"


def test_credit_is_kept_to_and_a_client_keeps_to_its_cap(member: MemberProcess) -> None:
    client = as_client(member.port, "c4", cap=2)
    jobs = [uuid.uuid4() for _ in range(3)]
    for job_id in jobs:
        client.write(SUBMIT_JOB, subject="legacyD", payload=request(job_id))
    worker = as_worker(member.port, "legacyD", credit=3)
    got = [worker.read()[1] for _ in range(2)]
    assert got == jobs[:2]
    assert worker.says_nothing()
    worker.write(ACK_JOB, corr_id=jobs[0], payload=result(jobs[0]))
    assert client.read()[2] == jobs[0]
    assert worker.read()[1] == jobs[2]


def test_a_result_that_nobody_was_there_for_is_kept(member: MemberProcess) -> None:
    client = as_client(member.port, "c5")
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, subject="legacyE", payload=request(job_id))
    worker = as_worker(member.port, "legacyE")
    assert worker.read()[1] == job_id
    client.socket.close()
    worker.write(ACK_JOB, corr_id=job_id, payload=result(job_id))
    back = as_client(member.port, "c5")
    assert back.read()[2] == job_id


def test_a_follower_says_who_leads_in_the_legacy_words(tmp_path: Path) -> None:
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
    meant = as_worker(member.port, "job.assign.legacyCache.*")
    other = as_worker(member.port, "job.assign.legacyOther.*")
    asker, bystander = as_client(member.port, "c7"), as_client(member.port, "c8")
    entries = [{"Name": "data/a.bin", "Content": "AQI="}, {"Name": "cfg/b.cfg", "Content": ""}]
    pattern = "job.assign.legacyCache.*"
    put = {"CacheId": "dataset-v1", "Entries": entries, "TargetPattern": pattern}
    body, request_id = json.dumps(put).encode(), uuid.uuid4()
    asker.write(CACHE_PUT, request_id, subject=f"cache.put.{pattern}", payload=body)
    kind, _, corr_id, subject, payload = meant.read()
    assert (kind, subject, payload) == (CACHE_PUT, "cache.put", body)
    told = {"CacheId": "dataset-v1", "Status": "OK", "Message": "added=2"}
    answer = json.dumps(told).encode()
    meant.write(CACHE_ACK, corr_id=corr_id, subject="cache.ack.dataset-v1", payload=answer)
    kind, _, corr_id, subject, payload = asker.read()
    assert (kind, corr_id, payload) == (CACHE_ACK, request_id, answer)
    assert subject == "cache.ack.dataset-v1"
    # Nobody else heard of it, and no credit was taken for it.
    job_id = uuid.uuid4()
    bystander.write(SUBMIT_JOB, job_id, subject="job.submit.legacyCache.x", payload=request(job_id))
    assert meant.read()[0] == ASSIGN_JOB
    meant.write(ACK_JOB, corr_id=job_id, payload=result(job_id))
    assert bystander.read()[0] == RESULT
    assert other.says_nothing()


def test_a_put_that_nobody_is_there_for_is_answered(member: MemberProcess) -> None:
    asker = as_client(member.port, "c9")
    put = {"CacheId": "d", "Entries": [], "TargetPattern": "job.assign.legacyNobody"}
    request_id = uuid.uuid4()
    asker.write(CACHE_PUT, request_id, subject="cache.put", payload=json.dumps(put).encode())
    kind, _, corr_id, _, payload = asker.read()
    assert (kind, corr_id, json.loads(payload)["Status"]) == (CACHE_ACK, request_id, "FAILED")


def test_peers_of_the_first_form_have_neither_names_nor_ids(member: MemberProcess) -> None:
    worker, client = Peer(member.port), Peer(member.port)
    worker.write(HELLO_WORKER, subject="legacyF")
    worker.write(CREDIT, payload=struct.pack("<i", 2**31 - 1))  # limited, not cut off
    client.write(HELLO_CLIENT)
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, job_id, subject="legacyF", payload=b"do it")
    assert worker.read()[:2] == (ASSIGN_JOB, job_id)
    worker.write(ACK_JOB, corr_id=job_id)
    kind, _, corr_id, _, payload = client.read()
    assert (kind, corr_id, json.loads(payload)["Status"]) == (RESULT, job_id, "OK")


def test_frames_of_unknown_types_are_ignored(member: MemberProcess) -> None:
    worker, client = as_worker(member.port, "legacyG"), as_client(member.port, "c10")
    for peer in (worker, client):
        peer.write(8, uuid.uuid4(), subject="of.a.later.draft", payload=b"?")
        peer.write(250)
    job_id = uuid.uuid4()
    client.write(SUBMIT_JOB, subject="legacyG", payload=request(job_id))
    assert worker.read()[1] == job_id
    worker.write(ACK_JOB, corr_id=job_id, payload=result(job_id))
    assert client.read()[2] == job_id


def test_a_dead_job_says_why_in_a_word(member: MemberProcess) -> None:
    client = as_client(member.port, "c11")
    job_id = uuid.uuid4()
    told = json.loads(request(job_id)) | {"MaxAttempts": 1}
    client.write(SUBMIT_JOB, subject="legacyH", payload=json.dumps(told).encode())
    worker = as_worker(member.port, "legacyH")
    assert worker.read()[1] == job_id
    worker.socket.close()
    answer = json.loads(client.read()[4])
    assert answer["Status"] == "FAILED"
    assert "dead (worker_down)" in answer["Stderr"]
