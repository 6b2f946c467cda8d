"""Lists of jobs are walked in pages while jobs are accepted, end and are forgotten: what fits all
the while comes exactly once, and nothing comes that does not fit. Readers leave notes on what they
have looked at, and the notes never hide a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.ids import JobId, guid_to_text
from rollq.base.jobs import Status
from rollq.base.outcomes import STATES, state_word
from rollq.grid import job_index, pages
from rollq.grid.commands import (
    CancelJobs,
    CloseWorker,
    ForgetJobs,
    OpenClient,
    RedriveItem,
    RedriveJobs,
    SubmitArray,
    SubmitJob,
)
from rollq.grid.key_index import KeyIndex
from rollq.grid.matching import JobFilter
from rollq.grid.pages import array_page, client_page, job_page, worker_page
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import JobRecord
from tests.unit.grid.kit import Grid, job_id, worker_id

WORDS = ("", *STATES, "done", "assigned", "queued")
NAMES = ("", "a", "b")
QUEUES = ("", "q1", "q2")

filters = st.builds(
    JobFilter,
    state=st.sampled_from(WORDS),
    queue=st.sampled_from(QUEUES),
    client_id=st.sampled_from(NAMES),
    exec_name=st.sampled_from(("", "exe", "other")),
    newest=st.booleans(),
    key=st.sampled_from(("", "key 3")),
    text=st.sampled_from(("", "KEY 1", "exe", "0000", "nothing")),
    since_ms=st.sampled_from((0, 1_100, 1_300)),
    until_ms=st.sampled_from((0, 1_150, 1_400)),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(("submit", "start", "ok", "fail", "cancel", "forget", "kill", "page")),
        st.integers(0, 30),
    ),
    max_size=40,
)


class Walk:
    """A grid in which things happen, and a list that is walked meanwhile."""

    def __init__(self, wanted: JobFilter, account: str) -> None:
        self.grid = Grid()
        self.wanted = wanted
        self.account = account
        self.count = 0
        self.found: list[JobId] = []
        self.fitted: set[JobId] = set()  # all the while
        self.is_over = False

    def step(self, word: str, number: int) -> None:
        grid = self.grid
        records = list(grid.state.jobs.values())
        one = records[number % len(records)] if records else None
        name = None if one is None else one.job_id[:12].strip(b"\0").decode()
        if word == "submit":
            for _ in range(1 + number % 4):
                self.submit(number)
        elif word == "page":
            self.page()
        elif one is None or name is None:
            return
        elif word == "start" and one.state.name == "QUEUED":
            grid.assign(name)
        elif word in ("ok", "fail") and one.state.name == "ASSIGNED":
            grid.ack(name, Status.FAILED if word == "fail" else Status.OK, detail="exe broke")
        elif word == "kill" and one.state.name == "QUEUED":
            grid.kill(name)
        elif word == "cancel" and one.end is None:
            grid.apply(CancelJobs((one.job_id,)))
        elif word == "forget" and one.end is not None:
            grid.apply(ForgetJobs((one.job_id,)))
        self.fitted &= {each for each, record in grid.state.jobs.items() if self.fits(record)}

    def submit(self, number: int) -> None:
        self.count += 1
        queue, client = QUEUES[1 + number % 2], NAMES[1 + number % 3 // 2]
        program = ("exe", "other")[number % 5 == 0]
        key = f"key {self.count}" if number % 2 else ""
        job = SubmitJob(job_id(f"j{self.count}"), client, queue, program, b"{}", key=key)
        self.grid.apply(job)

    def begin(self) -> None:
        jobs = self.grid.state.jobs
        self.fitted = {each for each, record in jobs.items() if self.fits(record)}

    def page(self, limit: int = 2) -> None:
        if self.is_over:
            return
        page = job_page(self.grid.state, self.wanted, limit, self.account)
        for job in page.jobs:
            assert self.fits(self.grid.state.jobs[job.job_id])
        self.found += [job.job_id for job in page.jobs]
        self.is_over = not page.after
        self.wanted = msgspec.structs.replace(self.wanted, after=page.after)

    def fits(self, record: JobRecord) -> bool:
        """As the filter is meant, without any shortcut."""
        wanted, end = self.wanted, record.end
        name = record.state.name.lower()
        words = (name, state_word(name, 0 if end is None else end.status))
        client = record.client.client_id
        texts = (record.key, record.exec_name, record.queue, client, end.detail if end else "")
        text = wanted.text.lower()
        return (
            (not wanted.state or wanted.state in words)
            and wanted.queue in ("", record.queue)
            and wanted.client_id in ("", client)
            and wanted.exec_name in ("", record.exec_name)
            and wanted.key in ("", record.key)
            and record.stamp_ms >= wanted.since_ms
            and (not wanted.until_ms or record.stamp_ms < wanted.until_ms)
            and self.account in ("", client)
            and any(text in one.lower() for one in (*texts, guid_to_text(record.job_id)))
        )


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few jobs are many chunks and many steps."""
    monkeypatch.setattr(job_index, "CHUNK_JOBS", 3)
    monkeypatch.setattr(pages, "LOOKED_AT_MAX", 7)
    monkeypatch.setattr(pages, "PASSED_OVER_MAX", 2)
    monkeypatch.setattr(pages, "FEW", 2)


@settings(deadline=None)
@given(filters, st.sampled_from(("", "a")), steps, steps)
def test_what_fits_all_the_while_comes_once(
    wanted: JobFilter, account: str, before: list[tuple[str, int]], during: list[tuple[str, int]]
) -> None:
    walk = Walk(wanted, account)
    for step in before:
        if step[0] != "page":
            walk.step(*step)
    # Others look at the same jobs before: their notes must not matter.
    for other in (JobFilter(state="ok"), JobFilter(queue="q1", newest=True)):
        for _ in pages_of(walk.grid, other):
            pass
    walk.begin()
    for step in during:
        walk.step(*step)
    for _ in range(1_000):
        if walk.is_over:
            break
        walk.page()
    assert walk.is_over
    assert len(walk.found) == len(set(walk.found))
    assert walk.fitted <= set(walk.found)
    seqs = [walk.grid.state.jobs[one].seq for one in walk.found if one in walk.grid.state.jobs]
    assert seqs == sorted(seqs, reverse=wanted.newest)
    restored = decode_snapshot(encode_snapshot(walk.grid.state))
    again = [job.job_id for page in pages_of(walk.grid, wanted) for job in page]
    assert again == [job.job_id for page in pages_of(restored, wanted) for job in page]


def pages_of(grid: Any, wanted: JobFilter) -> Iterator[Any]:
    state = grid.state if isinstance(grid, Grid) else grid
    while True:
        page = job_page(state, wanted, 2)
        yield page.jobs
        if not page.after:
            return
        wanted = msgspec.structs.replace(wanted, after=page.after)


def test_a_job_that_is_redriven_leaves_the_chunk_that_has_a_note() -> None:
    grid = Grid()
    names = [f"j{number}" for number in range(6)]
    for name in names:
        grid.submit(name)
        grid.kill(name)
    grid.submit("more", "others", "waiting", "here")
    dead = [job for page in pages_of(grid, JobFilter(state="dead")) for job in page]
    assert [job.job_id for job in dead] == [job_id(name) for name in names]
    grid.apply(RedriveJobs((RedriveItem(job_id("j1")),)))
    waiting = [job for page in pages_of(grid, JobFilter(state="waiting")) for job in page]
    assert [job.job_id for job in waiting][-1] == job_id("j1")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 99)), max_size=200))
def test_an_index_of_keys_is_a_sorted_set(changes: list[tuple[bool, int]]) -> None:
    index, model = KeyIndex[bytes](), set[bytes]()
    for adds, number in changes:
        key = bytes([number])
        if adds and key not in model:
            index.add(key)
            model.add(key)
        elif not adds and key in model:
            index.remove(key)
            model.remove(key)
        elif not adds:
            with pytest.raises(KeyError):
                index.remove(key)
        expected = sorted(one for one in model if one > key)
        assert index.after(key, 3) == expected[:3]
        assert index.after(b"", 1_000) == list(index) == sorted(model)
        assert len(index) == len(model)


def test_pages_by_id_go_on_from_an_id_that_is_gone() -> None:
    grid = Grid(workers=tuple(f"w{number}" for number in range(9)))
    for number in range(9):
        grid.apply(OpenClient(f"c{number}", 1))
        grid.apply(SubmitArray(job_id(f"a{number}"), "c1", "q", "exe", b"", 2))
    first = worker_page(grid.state, b"", 4)
    grid.apply(CloseWorker(worker_id("w3"), 1))
    rest = worker_page(grid.state, first[-1].worker_id, 100)
    assert [one.worker_id for one in rest] == [worker_id(f"w{number}") for number in range(4, 9)]
    arrays = array_page(grid.state, b"", 4)
    grid.apply(CancelJobs((arrays[-1].array_id,)))
    assert [one.array_id for one in array_page(grid.state, arrays[-1].array_id, 100)] == [
        job_id(f"a{number}") for number in range(4, 9)
    ]
    assert [one.client_id for one in client_page(grid.state, "c3", 2)] == ["c4", "c5"]
