"""Caches: one content a name, kept while a job needs it."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, BulkItem, CacheEntry
from rollq.base.limits import CACHE_ENTRIES_MAX, CACHE_ID_BYTES_MAX, CACHE_TARGETS_MAX
from rollq.grid import commands as c
from rollq.grid.bounds import Bounds
from rollq.grid.effects import Done, Duplicate, Refused
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.views import cache_page, cache_view, grid_counts
from tests.unit.grid.kit import Grid, job_id, kinds, refusal

ONE = CacheEntry("in/one", BlobRef(b"1" * 32, 10), 0o755)
TWO = CacheEntry("two", BlobRef(b"2" * 32, 20))


def put(name: str = "data", *entries: CacheEntry, target: str = ">") -> c.PutCache:
    return c.PutCache(name, entries or (ONE, TWO), target, "ann")


def job(name: str, *caches: str) -> c.SubmitJob:
    return c.SubmitJob(job_id(name), "ann", "q", "exe", name.encode(), None, (), caches)


def test_the_same_content_is_known_and_other_content_is_refused() -> None:
    grid = Grid()
    applied = grid.apply(put())
    assert kinds(applied) == ["cache_put"]
    (event,) = applied.events
    assert (event.cache_id, event.count, event.blob_bytes) == ("data", 2, 30)
    assert grid.ask(put("data", TWO, ONE)) == Duplicate()
    outcome = grid.ask(put("data", ONE))
    assert isinstance(outcome, Refused)
    assert outcome.code is ErrorCode.CACHE_CONFLICT
    assert "'data' holds other files" in outcome.message
    assert len(grid.state.blobs) == 2


def test_the_same_content_may_be_wanted_elsewhere_too() -> None:
    grid = Grid()
    grid.apply(put(target="a"))
    assert grid.ask(put(target="b")) == Done()
    assert grid.ask(put(target="a")) == Duplicate()
    assert grid.state.caches["data"].targets == ("a", "b")
    for number in range(CACHE_TARGETS_MAX - 2):
        grid.apply(put(target=f"t{number}"))
    assert refusal(grid.ask(put(target="more"))) is ErrorCode.BAD_OPTIONS


def test_a_job_needs_a_cache_that_is_there() -> None:
    grid = Grid()
    bulk = c.SubmitBulk("ann", "q", "exe", (BulkItem(job_id("y"), b""),), caches=("data",))
    array = c.SubmitArray(job_id("many"), "ann", "q", "exe", b"", 1, caches=("data",))
    for command in (job("x", "data"), bulk, array):
        assert refusal(grid.ask(command)) is ErrorCode.UNKNOWN_CACHE
    grid.apply(put())
    for command in (job("x", "data"), bulk, array):
        assert isinstance(grid.ask(command), Done)
    assert grid.state.caches["data"].user_count == 3
    assert refusal(grid.ask(job("z", *["data"] * 17))) is ErrorCode.BAD_OPTIONS


def test_a_removed_cache_stays_until_the_last_job_that_needs_it_ends() -> None:
    grid = Grid()
    grid.apply(put())
    grid.apply(job("x", "data"))
    assert kinds(grid.apply(c.RemoveCache("data", "ann"))) == ["cache_remove"]
    assert refusal(grid.ask(job("y", "data"))) is ErrorCode.UNKNOWN_CACHE
    assert refusal(grid.ask(c.RemoveCache("data"))) is ErrorCode.UNKNOWN_CACHE
    outcome = grid.ask(put("data", ONE))
    assert isinstance(outcome, Refused)
    assert "1 jobs or arrays still need it" in outcome.message
    assert grid.ask(job("x", "data")) == Duplicate()
    assert len(grid.state.blobs) == 2
    grid.assign("x")
    grid.ack("x")
    assert not grid.state.caches
    assert not grid.state.blobs
    assert grid.ask(job("x", "data")) == Duplicate(ended=True)
    assert grid.ask(put("data", ONE)) == Done()


def test_a_removed_cache_comes_back_with_the_same_content() -> None:
    grid = Grid()
    grid.apply(put(target="a"))
    grid.apply(job("x", "data"))
    grid.apply(c.RemoveCache("data"))
    assert grid.ask(put(target="b")) == Done()
    assert grid.state.caches["data"].targets == ("b",)
    grid.apply(c.CancelJobs((job_id("x"),)))
    assert grid.state.caches["data"].user_count == 0


def test_a_cache_that_nobody_needs_goes_at_once() -> None:
    grid = Grid()
    grid.apply(put())
    grid.apply(c.RemoveCache("data"))
    assert not grid.state.caches
    assert not grid.state.blobs
    assert refusal(grid.ask(c.RemoveCache("data"))) is ErrorCode.UNKNOWN_CACHE


@pytest.mark.parametrize(
    "command",
    [
        put(""),
        put("x" * (CACHE_ID_BYTES_MAX + 1)),
        put(target=""),
        put(target="x" * 2_000),
        c.PutCache("data", (), ">"),
        put("data", *[ONE] * (CACHE_ENTRIES_MAX + 1)),
        put("data", ONE, ONE),
        put("data", CacheEntry("", ONE.blob)),
        put("data", CacheEntry("x" * 2_000, ONE.blob)),
        put("data", CacheEntry("x", ONE.blob, 0o1777)),
        put("data", CacheEntry("x", BlobRef(b"1", 1))),
        put("data", ONE, CacheEntry("x", BlobRef(b"1" * 32, 11))),
    ],
)
def test_a_cache_out_of_bounds_is_refused(command: c.PutCache) -> None:
    grid = Grid()
    assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS
    assert not grid.state.blobs


def test_there_is_room_for_so_many_caches() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(caches=1)
    grid.apply(put())
    assert refusal(grid.ask(put("more"))) is ErrorCode.GRID_FULL


def test_caches_are_seen_and_survive_a_snapshot() -> None:
    grid = Grid()
    grid.apply(put("b"), put("a", ONE), job("x", "b"), c.RemoveCache("b"))
    copy = decode_snapshot(encode_snapshot(grid.state))
    for state in (grid.state, copy):
        assert grid_counts(state).caches == 2
        assert [(one.cache_id, one.entries) for one in cache_page(state, "", 9)] == [
            ("a", ()),
            ("b", ()),
        ]
        assert [one.cache_id for one in cache_page(state, "a", 9)] == ["b"]
        view = cache_view(state, "b")
        assert view is not None
        assert (view.file_count, view.size_bytes, view.removed, view.users) == (2, 30, True, 1)
        assert view.entries == (ONE, TWO)
        assert cache_view(state, "c") is None
