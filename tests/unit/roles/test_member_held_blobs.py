"""A command that refers to blobs is proposed only when a majority holds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, BulkItem, CacheEntry
from rollq.base.limits import BLOB_BYTES_MAX, BLOBS_PER_JOB_MAX
from rollq.grid.state import ASSIGNED, DONE
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job

CLIENT, WORKER, REQUEST = 1, 2, b"r" * 16
HELD, MISSING = BlobRef(b"h" * 32, 5), BlobRef(b"m" * 32, 6)


class OnlyHeld:
    """Knows of one blob, in one size, and remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """All but that one."""
        self.asked += 1
        return [ref.digest for ref in refs if ref != HELD]


@pytest.fixture
def group() -> Group:
    made = Group()
    made.elect()
    made.client(CLIENT)
    made.leader.leader_state.shell.blobs = OnlyHeld()
    return made


def requests(*blobs: BlobRef) -> list[Any]:
    """Everything by which a client can refer to blobs."""
    entries = [CacheEntry(f"f{n}", blob) for n, blob in enumerate(blobs)]
    cache = {"cache_id": "data", "entries": entries, "target_pattern": ">"}
    return [
        wire.SubmitJob(job(1), "ann", "calc", "calc", b"", None, blobs),
        wire.SubmitBulk(REQUEST, "ann", "calc", "calc", (BulkItem(job(2), b"", blobs),)),
        wire.SubmitArray(b"a" * 10 + bytes(6), "ann", "calc", "calc", b"", 3, blobs=blobs),
        wire.Admin(REQUEST, "put_cache", msgspec.msgpack.encode(cache)),
    ]


def test_what_is_held_may_be_referred_to(group: Group) -> None:
    for message in requests(HELD):
        (answer,) = group.say(CLIENT, message)
        assert isinstance(answer, wire.Accepted)
    assert group.leader.state.blobs[HELD.digest].count == 4


def test_what_is_missing_is_asked_for_and_nothing_is_proposed(group: Group) -> None:
    before = group.leader.state.applied_index
    for message in requests(HELD, MISSING):
        (error,) = group.say(CLIENT, message)
        assert isinstance(error, wire.Error)
        assert (error.code, error.retryable) == (ErrorCode.BLOB_MISSING, True)
        assert MISSING.digest.hex() in error.message
    assert group.leader.state.applied_index == before


@pytest.mark.parametrize(
    "blobs",
    [
        (BlobRef(b"short", 1),),
        (BlobRef(HELD.digest, -1),),
        (BlobRef(HELD.digest, BLOB_BYTES_MAX + 1),),
    ],
)
def test_what_refers_to_no_blob_is_refused(group: Group, blobs: tuple[BlobRef, ...]) -> None:
    for message in requests(*blobs):
        (error,) = group.say(CLIENT, message)
        assert isinstance(error, wire.Error)
        assert (error.code, error.retryable) == (ErrorCode.BAD_PAYLOAD, False)


def test_a_job_refers_to_so_many(group: Group) -> None:
    for message in requests(*[HELD] * (BLOBS_PER_JOB_MAX + 1))[:3]:
        (error,) = group.say(CLIENT, message)
        assert isinstance(error, wire.Error)
        assert error.code == ErrorCode.BAD_PAYLOAD


def test_an_ack_waits_for_its_outputs(group: Group) -> None:
    group.worker(WORKER, credit=1)
    group.say(CLIENT, requests(HELD)[0])
    (order,) = group.heard(WORKER, wire.AssignJob)
    assert order.blobs == (HELD,)
    ack = wire.AckJob(job(1), order.attempt, order.fence, blobs=(MISSING,))
    (error,) = [one for one in group.say(WORKER, ack) if isinstance(one, wire.Error)]
    assert (error.request_id, error.code) == (job(1), ErrorCode.BLOB_MISSING)
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    group.say(WORKER, wire.AckJob(job(1), order.attempt, order.fence, blobs=(HELD,)))
    assert group.leader.state.jobs[job(1)].state is DONE
    (told,) = group.heard(CLIENT, wire.Result)
    assert told.blobs == (HELD,)


def test_nobody_is_asked_about_a_job_without_blobs(group: Group) -> None:
    knowledge = OnlyHeld()
    group.leader.leader_state.shell.blobs = knowledge
    for message in requests()[:3]:
        group.say(CLIENT, message)
    assert knowledge.asked == 0


@pytest.mark.parametrize(
    ("name", "pattern", "code"),
    [
        ("../evil", ">", ErrorCode.BAD_PAYLOAD),
        ("/etc/passwd", ">", ErrorCode.BAD_PAYLOAD),
        ("NUL.txt", ">", ErrorCode.BAD_PAYLOAD),
        ("fine", "a b", ErrorCode.BAD_SUBJECT),
    ],
)
def test_a_cache_has_names_that_are_safe_and_a_pattern_that_is_one(
    group: Group, name: str, pattern: str, code: ErrorCode
) -> None:
    cache = {"cache_id": "c", "entries": [CacheEntry(name, HELD)], "target_pattern": pattern}
    message = wire.Admin(REQUEST, "put_cache", msgspec.msgpack.encode(cache))
    (error,) = group.say(CLIENT, message)
    assert isinstance(error, wire.Error)
    assert error.code == code
    assert not group.leader.state.caches


def test_a_cache_is_put_seen_needed_and_removed(group: Group) -> None:
    group.say(CLIENT, requests(HELD)[3])
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "cache", b"data"))
    assert isinstance(answer, wire.Answer)
    assert msgspec.msgpack.decode(answer.value)["file_count"] == 1
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "caches"))
    assert [one["cache_id"] for one in msgspec.msgpack.decode(answer.value)] == ["data"]
    removal = wire.Admin(REQUEST, "remove_cache", msgspec.msgpack.encode({"cache_id": "data"}))
    assert group.say(CLIENT, removal) == [wire.Accepted(REQUEST)]
    submit = wire.SubmitJob(job(1), "ann", "calc", "calc", b"", None, (), ("data",))
    (error,) = group.say(CLIENT, submit)
    assert error.code == ErrorCode.UNKNOWN_CACHE
