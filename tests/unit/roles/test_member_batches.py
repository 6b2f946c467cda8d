"""Staged batches at a leader: what it takes, and what it does on its own until all is unpacked."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.limits import STAGED_MS_MAX, UNPACKS_AHEAD
from rollq.base.staged import StagedGroup, StagedPart, chunk_crc, part_crc
from rollq.grid.commands import DropBatches, UnpackBatch
from rollq.roles.member.leader.batches import BatchUnpacker, expired_batches
from rollq.wire import messages as wire
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs
from tests.unit.roles.members import Group, job, submit

CLIENT, REQUEST = 1, b"r" * 16


@pytest.fixture
def group() -> Group:
    """One member that leads, with a client."""
    made = Group()
    made.elect()
    made.client(CLIENT)
    return made


def jobs(*numbers: int, queue: str = "Calc", **fields: Any) -> StagedGroup:
    ids = b"".join(map(job, numbers))
    bodies = b"{}" * len(numbers)
    return StagedGroup(queue, "calc", ids, (2,) * len(numbers), bodies, **fields)


def stage(*groups: StagedGroup, key: str = "b", number: int = 0, **fields: Any) -> StageJobs:
    return StageJobs(REQUEST, key, "p", number, groups, **fields)


def commit(*messages: tuple[StagedGroup, ...], **fields: Any) -> CommitBatch:
    count = sum(len(one.sizes) for groups in messages for one in groups)
    crc = part_crc(chunk_crc(groups) for groups in messages)
    return CommitBatch(REQUEST, "b", (StagedPart("p", count, crc),), **fields)


def test_a_batch_is_accepted_by_its_commit_and_comes_into_its_queue(group: Group) -> None:
    assert group.say(CLIENT, stage(jobs(1, 2))) == [wire.Accepted(REQUEST, 2)]
    assert not group.leader.state.jobs
    assert group.say(CLIENT, commit((jobs(1, 2),))) == [wire.Accepted(REQUEST, 2)]
    group.run(2)
    assert sorted(group.leader.state.jobs) == [job(1), job(2)]
    assert group.leader.state.jobs[job(1)].queue == "calc"
    assert group.leader.state.jobs[job(1)].client.client_id == "ann"
    assert group.say(CLIENT, commit()) == [wire.Accepted(REQUEST, 2, known=True)]


def test_jobs_may_be_staged_for_another_client(group: Group) -> None:
    group.say(CLIENT, stage(jobs(1), client_id="bob"))
    group.say(CLIENT, commit((jobs(1),), client_id="bob"))
    group.run(2)
    assert group.leader.state.jobs[job(1)].client.client_id == "bob"


def test_what_is_staged_can_be_dropped(group: Group) -> None:
    group.say(CLIENT, stage(jobs(1)))
    drop = DropBatch(REQUEST, "b")
    assert group.say(CLIENT, drop) == [wire.Accepted(REQUEST, 1)]
    assert group.say(CLIENT, drop) == [wire.Accepted(REQUEST, 0)]
    assert not group.leader.state.staged


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (stage(jobs(1), client_id="x" * 257), ErrorCode.BAD_PAYLOAD),
        (stage(jobs(1, queue="a.>")), ErrorCode.BAD_SUBJECT),
        (stage(jobs(1, options=JobOptions(priority=99))), ErrorCode.BAD_OPTIONS),
        (stage(), ErrorCode.BAD_OPTIONS),
        (commit((jobs(1),)), ErrorCode.BATCH_INCOMPLETE),
        (stage(*[jobs(1, keys="k" * 256)] * 4_000), ErrorCode.BAD_PAYLOAD),
        (
            CommitBatch(REQUEST, "b", tuple(StagedPart("p" * 256, 1, 1) for _ in range(4_100))),
            ErrorCode.BAD_PAYLOAD,
        ),
    ],
)
def test_what_cannot_be_granted_is_refused_by_its_id(
    group: Group, message: Any, code: ErrorCode
) -> None:
    (error,) = group.say(CLIENT, message)
    assert isinstance(error, wire.Error)
    assert (error.request_id, error.code, error.retryable) == (REQUEST, code, False)
    assert group.say(CLIENT, submit(9)) == [wire.Accepted(job(9))]


class Nothing:
    """Knowledge of a group that holds no blob."""

    def lacking(self, refs: Any) -> list[Digest]:
        return [ref.digest for ref in refs]


def test_blobs_must_be_there_before_a_job_that_needs_them_is_staged(group: Group) -> None:
    group.leader.leader_state.shell.blobs = Nothing()
    needy = jobs(1, blobs=((BlobRef(b"b" * 32, 5),),))
    (error,) = group.say(CLIENT, stage(needy))
    assert isinstance(error, wire.Error)
    assert error.code == ErrorCode.BLOB_MISSING


def test_a_new_leader_goes_on_unpacking() -> None:
    group = Group("m1:1", "m2:1", "m3:1")
    group.elect()
    group.client(CLIENT)
    messages = [(jobs(number),) for number in range(1, 9)]
    for number, groups in enumerate(messages):
        group.say(CLIENT, stage(*groups, number=number))
    old = group.leader
    old.leader_state.unpacker = Deaf()
    group.say(CLIENT, commit(*messages))
    assert not old.state.jobs
    group.kill(group.address_of(old))
    group.elect()
    group.until(lambda: not group.leader.state.committed)
    assert sorted(group.leader.state.jobs) == [job(number) for number in range(1, 9)]


# --- the desk


def test_only_a_few_steps_are_proposed_ahead(group: Group) -> None:
    messages = [(jobs(number),) for number in range(1, 5)]
    for number, groups in enumerate(messages):
        group.say(CLIENT, stage(*groups, number=number))
    state = group.leader.state
    group.leader.leader_state.unpacker = Deaf()
    group.say(CLIENT, commit(*messages))
    desk = BatchUnpacker()
    ahead = [UnpackBatch("ann", "b", number) for number in range(UNPACKS_AHEAD)]
    assert desk.due(state) == ahead
    assert desk.due(state) == []
    (batch,) = state.committed.values()
    batch.position += 1
    batch.chunks.popleft()
    assert desk.due(state) == [UnpackBatch("ann", "b", UNPACKS_AHEAD)]


class Deaf(BatchUnpacker):
    """Does nothing on its own."""

    def due(self, state: Any) -> list[Any]:
        return []


def test_batches_that_nobody_commits_are_dropped_after_their_time(group: Group) -> None:
    state = group.leader.state
    for key in ("a", "b", "c"):
        group.clock.ms += 1_000
        group.say(CLIENT, stage(jobs(1), key=key))
    over_ms = state.staged["ann", "b"].stamp_ms + STAGED_MS_MAX
    assert expired_batches(state, over_ms - 1_001) == []
    (drop,) = expired_batches(state, over_ms)
    assert isinstance(drop, DropBatches)
    assert [name.batch_key for name in drop.batches] == ["a", "b"]
