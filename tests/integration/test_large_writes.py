"""Writes beyond what one batch holds, against a real member: cut, resumed, each job once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq import BlockingClient
from rollq.base.errors import ErrorCode, StateError
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.reader.reader import Reader
from rollq.spark.source import jobs, segments
from rollq.spark.source.commits import Commits
from rollq.spark.source.segments import SegmentSender, SentSegment
from tests.integration.procs import MemberProcess, until

CLIENT = "etl"
ROWS = 400


@pytest.fixture
def member(tmp_path: Path) -> Iterator[MemberProcess]:
    started = MemberProcess(tmp_path / "member").start()
    yield started
    started.kill()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a page of rows each."""
    monkeypatch.setattr(segments, "SEGMENT_JOBS", 100)
    monkeypatch.setattr(jobs, "PAGE_ROWS", 100)


class Full(BlockingClient):
    """A client whose grid has room for so many messages of a write."""

    room = 0

    @property
    def batches(self) -> Any:
        return FullBatches(self, super().batches)


class FullBatches:
    """What it stages."""

    def __init__(self, client: Full, batches: Any) -> None:
        self._client = client
        self.settle = batches.settle
        self._stage_messages = batches.stage_messages

    def stage_messages(self, messages: Any, **options: Any) -> None:
        messages = list(messages)
        if not options.get("waits", True):
            if self._client.room < len(messages):
                raise StateError(ErrorCode.GRID_FULL, "256 MiB are staged")
            self._client.room -= len(messages)
        self._stage_messages(messages, **options)


class CrashedError(Exception):
    """The driver dies."""


class Crashing(BlockingClient):
    """A driver that dies after so many commits."""

    left = 0

    def commit(self, *args: Any, **options: Any) -> Any:
        if self.left <= 0:
            raise CrashedError
        self.left -= 1
        return super().commit(*args, **options)


def specs(prefix: str, numbers: range) -> Iterator[JobSpec]:
    return (JobSpec("calc", [str(n)], key=f"{prefix}-{n}") for n in numbers)


def sent(member: MemberProcess, key: str, rows: Iterator[JobSpec], room: int) -> list[SentSegment]:
    """What a task has sent while there was room for so many messages."""
    with Full(member.address) as client:
        client.room = room
        return SegmentSender(client, CLIENT, key, 0, has_ids=True).send(jobs.paged(rows))


def accepted(member: MemberProcess, count: int) -> list[str]:
    """The keys of all jobs that were accepted, once there are so many."""

    def found() -> list[str]:
        with Reader(member.address) as reader:
            pieces = list(reader.pieces(1, reader.span(fresh=True).applied))
        rows = [json.loads(line) for piece in pieces for line in piece.lines().splitlines()]
        return sorted(row.get("jobKey", "") for row in rows if row["type"] == "enqueue")

    until(lambda: len(found()) >= count)
    return found()


def keys(prefix: str) -> list[str]:
    return sorted(f"{prefix}-{n}" for n in range(ROWS))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("room", [0, 2])
def test_what_finds_no_room_is_accepted_by_further_batches(
    member: MemberProcess, room: int
) -> None:
    parts = sent(member, "load", specs("cut", range(ROWS)), room)
    assert [each.kept is None for each in parts] == [n < room for n in range(4)]
    with BlockingClient(member.address) as client:
        for _ in range(2):  # a driver that says it again
            Commits(client, CLIENT, "load").accept(parts)
        assert accepted(member, ROWS) == keys("cut")
        assert list(client.caches()) == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("commits", range(5))
def test_a_driver_that_dies_between_two_batches_goes_on_with_what_it_had(
    member: MemberProcess, commits: int
) -> None:
    """The rows come again in another order and other parts, as Spark may well give them."""
    first = sent(member, "load", specs("crash", range(ROWS)), room=1)
    with Crashing(member.address) as driver:
        driver.left = commits
        if commits == 4:  # all was accepted, and nobody heard of it
            Commits(driver, CLIENT, "load").accept(first)
        else:
            with pytest.raises(CrashedError):
                Commits(driver, CLIENT, "load").accept(first)
    again = sent(member, "load", specs("crash", range(ROWS - 1, -1, -1)), room=2)
    with BlockingClient(member.address) as client:
        Commits(client, CLIENT, "load").accept(again)
        assert accepted(member, ROWS) == keys("crash")
        assert list(client.caches()) == []


@pytest.mark.usefixtures("small")
def test_rows_without_keys_come_once_though_the_driver_dies(member: MemberProcess) -> None:
    def rows() -> Iterator[JobSpec]:
        return (JobSpec("calc", [str(n)]) for n in range(ROWS))

    first = sent(member, "load", rows(), room=1)
    with Crashing(member.address) as driver:
        driver.left = 2
        with pytest.raises(CrashedError):
            Commits(driver, CLIENT, "load").accept(first)
    again = sent(member, "load", rows(), room=4)
    with BlockingClient(member.address) as client:
        Commits(client, CLIENT, "load").accept(again)
        assert len(accepted(member, ROWS)) == ROWS
        assert sum(queue.waiting for queue in client.queues()) == ROWS


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("room", [0, 4])
def test_a_key_that_comes_twice_is_named_with_its_rows_and_nothing_is_submitted(
    member: MemberProcess, room: int
) -> None:
    def rows() -> Iterator[JobSpec]:
        yield from specs("twice", range(ROWS))
        yield JobSpec("calc", ["other"], key="twice-7")

    parts = sent(member, "load", rows(), room=room * 2)
    with BlockingClient(member.address) as client:
        with pytest.raises(StateError) as caught:
            Commits(client, CLIENT, "load").accept(parts)
        assert caught.value.code is ErrorCode.JOB_CONFLICT
        for words in ("'twice-7'", "job 8 of", "'partition 0, rows from 1 (", "rows from 401 ("):
            assert words in caught.value.message
        assert list(client.caches()) == []
        assert sum(queue.waiting for queue in client.queues()) == 0


def test_where_there_is_no_room_the_bound_is_named(member: MemberProcess) -> None:
    """Not that a majority might be missing."""
    jobs = (JobSpec("calc", payload=b"x" * 60_000) for _ in range(5_000))  # 300 MB
    with BlockingClient(member.address, timeout=2.0) as client, pytest.raises(StateError) as caught:
        client.stage("large", "0", jobs, client_id=CLIENT)
    assert caught.value.code is ErrorCode.GRID_FULL
    assert "256 MiB" in caught.value.message
    assert "STAGED_BYTES_MAX" in caught.value.message
