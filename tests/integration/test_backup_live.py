"""Backups of a group under load, also while members die: nothing that was accepted before one began
is lost in the group that is restored from it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rollq import BlockingClient, BlockingJob, DeadlineError
from rollq.backup.contents import verify
from rollq.backup.live import LiveSource, take_live
from rollq.backup.restore import restore
from rollq.base.errors import DiskError, ErrorCode, RollqError
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from rollq.store.backup_file import BackupFile, BackupWriter, Progress
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import find_leader
from tests.integration.workers import write_program

APP = "tests.integration.sample_app"
UPPER = "tr a-z A-Z < in.txt > out.txt; echo done"


class Traffic:
    """Submits jobs of several kinds until it is left, and notes what was accepted and what came."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.accepted: list[bytes] = []
        self.results: dict[bytes, tuple[str, bytes, bytes]] = {}
        self._jobs: list[BlockingJob] = []
        self._client = BlockingClient(",".join(addresses), client_id="load")
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._submit, self._collect)]

    def __enter__(self) -> Traffic:
        self._client.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._client.stop()

    def _submit(self) -> None:
        number = 0
        while not self._ending.is_set():
            number += 1
            job = self._next(number)
            self.accepted.append(job.job_id)
            self._jobs.append(job)

    def _next(self, number: int) -> BlockingJob:
        if number % 10 == 0:
            text = random.Random(number).randbytes(50_000).hex().encode()
            return self._client.submit("upper", files={"in.txt": text}, outputs=["out.txt"])
        if number % 3 == 0:
            return self._client.submit("nobody", queue="never.run", payload=b"x" * 6_000)
        return self._client.submit("raw", payload=b"%d" % number)

    def _collect(self) -> None:
        at = 0
        while not self._ending.is_set():
            if at == len(self._jobs):
                self._ending.wait(0.005)
                continue
            job = self._jobs[at]
            try:
                result = job.result(0.2)
            except DeadlineError:
                self._jobs.append(job)  # it never runs, or not yet
            else:
                self.results[job.job_id] = content_of(result)
            at += 1


def content_of(result: Any) -> tuple[str, bytes, bytes]:
    outputs = result.outputs
    file = outputs["out.txt"].read() if "out.txt" in outputs else b""
    return result.status, result.raw, file


@contextmanager
def grid(directory: Path) -> Iterator[Members]:
    """Three members and a worker."""
    write_program(directory, "upper", UPPER)
    thread = LoopThread("worker")
    with Members(directory, 3, snapshot_entries=50) as running:
        thread.start()
        setup = NodeSetup(
            running.addresses,
            exec_dir=directory / "exec",
            jobs_dir=directory / "jobs",
            state_dir=directory / "worker",
            apps=(APP,),
            slots=2,
            cpu_cap=1.0,
        )
        worker = WorkerNode(setup)
        thread.run(worker.start())
        try:
            yield running
        finally:
            thread.run(worker.stop())
            thread.stop()


@contextmanager
def nothing(_name: str, _in_bytes: bool) -> Iterator[Progress]:
    yield lambda done, total: None


def killing(kill: Callable[[], None], when: str) -> Any:
    """A stage that kills somebody when it begins."""

    @contextmanager
    def stage(name: str, in_bytes: bool) -> Iterator[Progress]:
        if name == when:
            kill()
        yield lambda done, total: None

    return stage


def kept_in(file: Path, directory: Path, traffic: Traffic, ids: list[bytes]) -> dict[bytes, Any]:
    """Restore a backup, start the member, and look for jobs: their results, if they have ended."""
    member = MemberProcess(directory / "restored")
    with BackupFile(file) as backup:
        assert verify(backup).blobs_missing == []
        restore(backup, member.state, member.address)
    member.start()
    try:
        with BlockingClient(member.address, client_id="other") as client:
            found: dict[bytes, Any] = {}
            for job_id in ids:
                view = client.jobs.status(job_id)
                assert view is not None, f"{job_id.hex()} is lost"
                if view.end is not None:
                    found[job_id] = content_of(client.result_of(job_id))
            return found
    finally:
        member.kill()


@pytest.mark.parametrize("when", ["", "state", "history", "files"])
def test_nothing_accepted_before_it_began_is_lost(tmp_path: Path, when: str) -> None:
    file = tmp_path / "b.rqb"
    with grid(tmp_path) as members:
        leader = find_leader(members.addresses)[0]
        with Traffic(members.addresses) as traffic:
            until(lambda: len(traffic.results) > 40 and len(traffic.accepted) > 80)
            ids, results = list(traffic.accepted), dict(traffic.results)
            stage = killing(members.at(leader).kill, when) if when else nothing
            with BackupWriter(file) as writer:
                take_live(LiveSource(members.addresses), writer, stage)
                writer.publish()
            until(lambda: len(traffic.accepted) > len(ids) + 10)  # the group goes on
    found = kept_in(file, tmp_path, traffic, ids)
    assert {job_id: found.get(job_id) for job_id in results} == results


def test_another_member_goes_on_for_one_that_dies(tmp_path: Path) -> None:
    file = tmp_path / "b.rqb"
    with grid(tmp_path) as members, Traffic(members.addresses) as traffic:
        until(lambda: len(traffic.results) > 20)
        ids, results = list(traffic.accepted), dict(traffic.results)
        leader = find_leader(members.addresses)[0]
        asked = next(one for one in members.addresses if one != leader)
        stage = killing(members.at(asked).kill, "history")
        with BackupWriter(file) as writer:
            take_live(LiveSource(members.addresses, asked), writer, stage)
            writer.publish()
    with BackupFile(file) as backup:
        assert backup.manifest.source == asked
    found = kept_in(file, tmp_path, traffic, ids)
    assert {job_id: found.get(job_id) for job_id in results} == results


def test_a_member_whose_snapshot_fails_leaves_it_to_another(tmp_path: Path) -> None:
    """It says so at once, and is not asked for ever."""
    file = tmp_path / "b.rqb"
    with Members(tmp_path, 3) as members:
        leader = find_leader(members.addresses)[0]
        broken = next(one for one in members.addresses if one != leader)
        folder = members.at(broken).state / "snapshots"
        folder.mkdir(exist_ok=True)
        (folder / "saving.tmp").mkdir()  # nothing can be written there
        with BackupWriter(file) as writer, pytest.raises(RollqError) as caught:
            take_live(LiveSource([broken], timeout_s=0.5), writer, nothing)
        assert caught.value.code in (ErrorCode.TIMED_OUT, ErrorCode.UNREACHABLE)
        assert list(tmp_path.glob("b.rqb*")) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with Members(tmp_path, 1) as members:
        file = tmp_path / "b.rqb"
        writer = BackupWriter(file)
        monkeypatch.setattr("rollq.store.backup_file.write_all", full)
        with writer, pytest.raises(DiskError) as caught:
            take_live(LiveSource(members.addresses), writer, nothing)
    assert caught.value.code is ErrorCode.DISK_FULL
    assert list(tmp_path.glob("b.rqb*")) == []
