from collections.abc import Iterator

import pytest

from rollq.base.ids import guid_to_text
from rollq.base.jobs import Status
from rollq.grid import job_index, pages
from rollq.grid.commands import ForgetJobs, OpenClient, SubmitArray, SubmitJob
from rollq.grid.matching import JobFilter
from rollq.grid.pages import (
    IdFilter,
    array_page,
    client_page,
    id_page,
    job_page,
    worker_page,
)
from tests.unit.grid.kit import Grid, job_id, worker_id


def ids(grid: Grid, wanted: JobFilter, limit: int = 100) -> list[bytes]:
    return [job.job_id for job in job_page(grid.state, wanted, limit).jobs]


def test_jobs_are_listed_by_what_they_are() -> None:
    grid = Grid()
    grid.start("a", "b")
    grid.ack("a")
    grid.submit("c", queue="r")
    assert ids(grid, JobFilter()) == [job_id("a"), job_id("b"), job_id("c")]
    assert ids(grid, JobFilter(state="done")) == [job_id("a")]
    assert ids(grid, JobFilter(state="assigned")) == [job_id("b")]
    assert ids(grid, JobFilter(queue="r")) == [job_id("c")]
    assert ids(grid, JobFilter(client_id="nobody")) == []
    assert ids(grid, JobFilter(exec_name="nothing")) == []


def test_jobs_are_listed_by_the_words_of_people() -> None:
    grid = Grid()
    grid.start("fine", "bad", "runs")
    grid.ack("fine")
    grid.ack("bad", status=Status.FAILED)
    grid.submit("waits")
    expected = {"ok": "fine", "failed": "bad", "running": "runs", "waiting": "waits"}
    for word, name in expected.items():
        assert ids(grid, JobFilter(state=word)) == [job_id(name)]


def test_a_list_carries_no_results() -> None:
    grid = Grid()
    grid.start("a")
    grid.ack("a", result=b"much")
    (job,) = job_page(grid.state, JobFilter(), 10).jobs
    assert job.end is not None
    assert job.end.result == b""


def test_pages_go_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOKED_AT_MAX", 4)
    monkeypatch.setattr(job_index, "CHUNK_JOBS", 2)
    grid = Grid()
    names = [f"j{number}" for number in range(10)]
    for number, name in enumerate(names):
        grid.submit(name, queue="even" if number % 2 == 0 else "odd")

    def walk(limit: int) -> Iterator[list[bytes]]:
        after = 0
        while True:
            page = job_page(grid.state, JobFilter(queue="odd", after=after), limit)
            yield [job.job_id for job in page.jobs]
            after = page.after
            if not after:
                return

    wanted = [job_id(name) for name in names[1::2]]
    for limit in (1, 2, 100):
        found = list(walk(limit))
        assert [each for page in found for each in page] == wanted
        assert max(map(len, found)) <= min(limit, 4)


def listed(grid: Grid, limit: int, *, newest: bool) -> Iterator[list[bytes]]:
    after = 0
    while True:
        page = job_page(grid.state, JobFilter(after=after, newest=newest), limit)
        yield [job.job_id for job in page.jobs]
        after = page.after
        if not after:
            return


def test_no_job_is_missed_when_older_ones_are_forgotten_between_two_pages() -> None:
    for newest in (False, True):
        grid = Grid()
        names = [f"j{number}" for number in range(9)]
        grid.start(*names)
        for name in names[:3]:
            grid.ack(name)
        pages_read = listed(grid, 3, newest=newest)
        found = next(pages_read)
        grid.apply(ForgetJobs(tuple(job_id(name) for name in names[:2])))
        grid.submit("late")
        for page in pages_read:
            found += page
        kept = [job_id(name) for name in names[2:]]
        assert len(set(found)) == len(found)
        assert set(kept) <= set(found)
        order = [one for one in found if one in kept]
        assert order == (kept[::-1] if newest else kept)


def test_running_jobs_come_in_the_same_order() -> None:
    grid = Grid()
    grid.start("a", "b", "c")
    running = [job_id(name) for name in "abc"]
    assert ids(grid, JobFilter(state="running")) == running
    assert ids(grid, JobFilter(state="running", newest=True)) == running[::-1]
    last = job_page(grid.state, JobFilter(state="running", newest=True), 2)
    rest = JobFilter(state="running", newest=True, after=last.after)
    assert ids(grid, rest) == running[:1]


def test_ids_are_found_by_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "IDS_LOOKED_AT_MAX", 4)
    grid = Grid()
    names = [f"j{number}" for number in range(10)]
    grid.submit(*names)
    for name in names:
        digits = guid_to_text(job_id(name)).replace("-", "")
        found: list[bytes] = []
        before = 0
        while True:
            page = id_page(grid.state, IdFilter(digits[:9], digits[-3:], before), 10)
            found += page.ids
            before = page.before
            if not before:
                break
        same = [
            job_id(one)
            for one in names
            if guid_to_text(job_id(one)).replace("-", "").startswith(digits[:9])
            and guid_to_text(job_id(one)).endswith(digits[-3:])
        ]
        assert sorted(found) == sorted(same)
    assert id_page(grid.state, IdFilter("ffffffffffff"), 10).ids == []


def test_workers_and_clients_are_listed_by_id() -> None:
    grid = Grid()
    grid.start("a")
    grid.apply(OpenClient("zoe", 3), OpenClient("bob", 2))
    (worker,) = worker_page(grid.state, b"", 10)
    assert (worker.worker_id, worker.held) == (worker_id("w1"), (job_id("a"),))
    assert worker_page(grid.state, worker_id("w1"), 10) == []
    names = [client.client_id for client in client_page(grid.state, "", 100)]
    assert names == sorted(names)
    assert {"bob", "zoe"} <= set(names)
    assert [client.client_id for client in client_page(grid.state, "bob", 1)] == [
        names[names.index("bob") + 1]
    ]


def test_arrays_are_listed_by_id_also_before_a_task_has_started() -> None:
    grid = Grid()
    for name in ("one", "two", "three"):
        grid.apply(SubmitArray(job_id(name), "ann", "q", "exe", b"body", 5))
    known = sorted(map(job_id, ("one", "two", "three")))
    first = array_page(grid.state, b"", 2)
    assert [(one.array_id, one.waiting) for one in first] == [(each, 5) for each in known[:2]]
    assert [one.array_id for one in array_page(grid.state, known[1], 2)] == known[2:]
    assert array_page(grid.state, known[2], 2) == []


def test_a_list_is_that_of_the_clients_of_an_account() -> None:
    grid = Grid()
    for name, client in (("a", "ann"), ("b", "ann/1"), ("c", "anna"), ("d", "bob/ann/1")):
        grid.apply(SubmitJob(job_id(name), client, "q", "exe", b""))
        grid.apply(SubmitArray(job_id(f"array {name}"), client, "q", "exe", b"", 5))
    own = {job_id("a"), job_id("b")}
    assert {job.job_id for job in job_page(grid.state, JobFilter(), 10, "ann").jobs} == own
    arrays = {job_id("array a"), job_id("array b")}
    assert {one.array_id for one in array_page(grid.state, b"", 10, "ann")} == arrays
    assert set(id_page(grid.state, IdFilter(""), 10, "ann").ids) == own | arrays
    assert len(id_page(grid.state, IdFilter(""), 10).ids) == 8
