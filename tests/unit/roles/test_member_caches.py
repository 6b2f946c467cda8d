"""Caches that the group keeps: who is told of them, when, and where to fetch them from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, CacheEntry
from rollq.base.limits import (
    CACHE_AGAIN_MS,
    CACHE_DIRECT_BYTES,
    CACHE_PUTS_AHEAD,
    CACHE_SILENT_MS_MAX,
    CACHE_SWEEP_MS,
)
from rollq.grid.views import RawHolderView
from rollq.wire import messages as wire
from rollq.wire.models import CachePutRequest, CachePutResult, decode_model, encode_model
from tests.unit.roles.members import OURS, Group, submit

ANN, REQUEST = 1, b"r" * 16
FEATURES = (*OURS, "cache")
LARGE = CACHE_DIRECT_BYTES + 1


@pytest.fixture
def group() -> Group:
    """A leader with a client."""
    made = Group()
    made.elect()
    made.client(ANN)
    return made


def admin(group: Group, action: str, **arguments: Any) -> Any:
    (answer,) = group.say(ANN, wire.Admin(REQUEST, action, msgspec.msgpack.encode(arguments)))
    return answer


def put(group: Group, cache_id: str = "d1", size: int = 5, target: str = "", mark: int = 7) -> Any:
    entries = [CacheEntry("a/b", BlobRef(bytes([mark]) * 32, size), 0o755)]
    return admin(group, "put_cache", cache_id=cache_id, entries=entries, target_pattern=target)


def arrive(group: Group, session: int, **fields: Any) -> None:
    address = {"blob_address": f"w{session}:1"}
    group.worker(session, **({"features": FEATURES} | address | fields))
    group.settle()


def told(group: Group, session: int) -> list[CachePutRequest]:
    puts = group.heard(session, wire.CachePut)
    return [decode_model(one.payload, CachePutRequest) for one in puts]


def answer(group: Group, session: int, status: str = "OK", cache_id: str = "d1") -> None:
    result = CachePutResult(cache_id, status, "so it is", done_bytes=3)
    group.tell(session, wire.CacheAck(bytes(16), encode_model(result)))
    group.settle()


def holders(group: Group, cache_id: str = "d1") -> dict[str, str]:
    group.tell(ANN, wire.Query(REQUEST, "holders", cache_id.encode()))
    group.settle()
    (found,) = group.heard(ANN, wire.Answer)
    rows = msgspec.msgpack.decode(found.value, type=list[RawHolderView])
    return {row.patterns[0]: row.status for row in rows}


def quiet_worker(group: Group, session: int, **fields: Any) -> None:
    """A worker whose welcome was heard."""
    arrive(group, session, **fields)
    group.hear(session)


def test_workers_that_are_meant_are_told_what_to_fetch(group: Group) -> None:
    quiet_worker(group, 10, patterns=("calc",))
    quiet_worker(group, 11, patterns=("other",))
    assert isinstance(put(group, target="calc"), wire.Accepted)
    (request,) = told(group, 10)
    (entry,) = request.entries or ()
    assert (request.cache_id, request.kept, request.sources) == ("d1", True, ())
    assert (entry.name, entry.digest, entry.size, entry.mode) == ("a/b", "07" * 32, 5, 0o755)
    assert told(group, 11) == []
    assert holders(group) == {"job.assign.calc": "WAITING"}
    answer(group, 10, "MOVING")
    assert holders(group) == {"job.assign.calc": "MOVING"}
    answer(group, 10)
    assert holders(group) == {"job.assign.calc": "OK"}


def test_another_target_reaches_more_workers(group: Group) -> None:
    quiet_worker(group, 10, patterns=("calc",))
    quiet_worker(group, 11, patterns=("other",))
    put(group, target="calc")
    answer(group, 10)
    put(group, target="other")
    assert len(told(group, 10)) == len(told(group, 11)) == 1


def test_other_files_under_the_name_are_refused(group: Group) -> None:
    put(group)
    refusal = put(group, mark=8)
    assert refusal.code == ErrorCode.CACHE_CONFLICT


def test_one_that_comes_later_is_told_when_it_comes(group: Group) -> None:
    put(group)
    arrive(group, 10)
    group.settle()
    assert holders(group) == {"job.assign.>": "WAITING"}
    answer(group, 10, "SKIPPED")
    assert holders(group) == {"job.assign.>": "SKIPPED"}
    group.hang_up(10)
    assert holders(group) == {}


def test_one_that_could_not_is_told_again_later_and_later(group: Group) -> None:
    quiet_worker(group, 10)
    put(group)
    for wait_ms in (CACHE_AGAIN_MS, 2 * CACHE_AGAIN_MS):
        assert len(told(group, 10)) == 1
        answer(group, 10, "FAILED")
        assert holders(group) == {"job.assign.>": "FAILED"}
        group.clock.ms += wait_ms - 1_000
        group.run()
        assert told(group, 10) == []
        group.clock.ms += 1_000 + CACHE_SWEEP_MS
        group.run()


def test_one_that_says_nothing_is_told_again(group: Group) -> None:
    quiet_worker(group, 10)
    put(group)
    told(group, 10)
    group.clock.ms += CACHE_SILENT_MS_MAX + CACHE_SWEEP_MS
    group.run()
    assert holders(group) == {"job.assign.>": "FAILED"}


def test_a_large_cache_is_read_once_from_a_member(group: Group) -> None:
    for session in (10, 11, 12, 13):
        quiet_worker(group, session)
    put(group, size=LARGE)
    (request,) = told(group, 10)
    assert request.sources == ()
    assert all(told(group, session) == [] for session in (11, 12, 13))
    answer(group, 10)
    assert [one.sources for one in told(group, 11)] == [("w10:1",)]
    assert [one.sources for one in told(group, 12)] == [("w10:1",)]
    assert told(group, 13) == []
    answer(group, 11)
    (request,) = told(group, 13)
    assert set(request.sources or ()) == {"w10:1", "w11:1"}


def test_if_the_first_is_gone_the_next_is_told(group: Group) -> None:
    quiet_worker(group, 10)
    quiet_worker(group, 11)
    put(group, size=LARGE)
    assert told(group, 11) == []
    group.hang_up(10)
    (request,) = told(group, 11)
    assert request.sources == ()


def test_a_worker_is_at_a_few_caches_at_once(group: Group) -> None:
    for number in range(CACHE_PUTS_AHEAD + 3):
        put(group, f"d{number:02}")
    arrive(group, 10)
    first = group.heard(10, wire.CachePut)  # the hello's own answers were heard by `worker`
    assert len(first) <= CACHE_PUTS_AHEAD
    for number in range(CACHE_PUTS_AHEAD):
        answer(group, 10, cache_id=f"d{number:02}")
    assert len(told(group, 10)) == 3


def test_workers_forget_what_was_removed(group: Group) -> None:
    quiet_worker(group, 10)
    put(group)
    answer(group, 10)
    told(group, 10)
    assert isinstance(admin(group, "remove_cache", cache_id="d1"), wire.Accepted)
    (request,) = told(group, 10)
    assert (request.cache_id, request.removed) == ("d1", True)
    answer(group, 10)  # said before it heard of that
    (request,) = told(group, 10)
    assert request.removed is True


def test_one_that_was_away_hears_what_is_gone(group: Group) -> None:
    put(group)
    quiet_worker(group, 10)
    answer(group, 10, "HELD", "d0")
    answer(group, 10, "HELD", "d1")
    (request,) = told(group, 10)
    assert (request.cache_id, request.removed) == ("d0", True)


def test_a_worker_that_was_not_meant_gets_what_its_job_needs(group: Group) -> None:
    put(group, target="nobody")
    quiet_worker(group, 10, patterns=("calc",))
    group.say(ANN, submit(1, caches=("d1",)))
    group.tell(10, wire.Credit(1))
    group.settle()
    kinds = [type(message) for message in group.hear(10)]
    assert kinds == [wire.CachePut, wire.AssignJob]


def takers(group: Group, *numbers: int, **fields: Any) -> list[int]:
    """Who gets the jobs of these numbers, one after the other."""
    found = []
    for number in numbers:
        group.say(ANN, submit(number, **fields))
        found += [one for one in (10, 11, 12) if group.heard(one, wire.AssignJob)]
    return found


def test_jobs_go_to_who_holds_their_files_as_long_as_that_one_has_room(group: Group) -> None:
    put(group, target="only")
    for session, patterns, credit in ((10, ("calc",), 9), (11, ("calc", "only"), 2)):
        quiet_worker(group, session, patterns=patterns)
        group.say(session, wire.Credit(credit))
    answer(group, 11)
    assert takers(group, 1) == [10], "the one with more room, if it is all the same"
    assert takers(group, 2, 3, 4, caches=("d1",)) == [11, 11, 10]


def test_those_who_hold_them_take_turns(group: Group) -> None:
    put(group)
    for session in (10, 11, 12):
        quiet_worker(group, session, patterns=("calc",))
        group.say(session, wire.Credit(9))
        answer(group, session)
    got = takers(group, *range(1, 7), caches=("d1",))
    assert sorted(got) == [10, 10, 11, 11, 12, 12]


def test_tasks_of_an_array_go_there_too(group: Group) -> None:
    put(group, target="only")
    for session, patterns, credit in ((10, ("calc",), 9), (11, ("calc", "only"), 2)):
        quiet_worker(group, session, patterns=patterns)
        group.say(session, wire.Credit(credit))
    answer(group, 11)
    array_id = b"a" * 12 + bytes(4)
    array = wire.SubmitArray(array_id, "ann", "calc", "calc", b"{}", 3, caches=("d1",))
    group.say(ANN, array)
    assert len(group.heard(11, wire.AssignJob)) == 2
    assert len(group.heard(10, wire.AssignJob)) == 1


def test_a_worker_that_cannot_fetch_is_not_told(group: Group) -> None:
    quiet_worker(group, 10, features=OURS)
    put(group)
    assert told(group, 10) == []
    assert holders(group) == {"job.assign.>": "FAILED"}


def test_nobody_holds_what_is_not_there(group: Group) -> None:
    assert holders(group, "none") == {}
    arrive(group, 10)
    answer(group, 10, "FAILED", "none")
    answer(group, 10, "WHAT", "none")
    assert told(group, 10) == []
