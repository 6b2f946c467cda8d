"""What `rollq top` asks a group for, and what it says of lists that go on."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from rollq.base.ids import guid_from_text
from rollq.base.jobs import JobOptions
from rollq.cli.top_look import ROWS_MAX, SLOWEST_MAX, Looker
from rollq.grid.pages import JobPage
from rollq.grid.views import CountsView, RawJobView, RawQueueView, RawWorkerView
from rollq.roles.client.client import Client
from rollq.roles.member.status import ClusterView

ID = guid_from_text("6f9619ff-8b86-d011-b42d-00c04fc964ff")


class Group:
    """Answers with as many rows as it has, up to the limit."""

    def __init__(self, count: int, *, after: int = 0) -> None:
        numbers = [0] * 6
        self._lists: dict[str, list[Any]] = {
            "queues": [RawQueueView(f"q{n:04}", False, *numbers) for n in range(count)],
            "workers": [
                RawWorkerView(n.to_bytes(16, "big"), 1, f"w{n}", (), 1, ()) for n in range(count)
            ],
            "metrics": [],
        }
        job = RawJobView(ID, "c", "q", "e", "assigned", 1, JobOptions(), 0, 0)
        self._running = [job] * count
        self._after = after
        self._counts = CountsView("", False, *numbers)

    async def query(self, what: str, _key: bytes, limit: int) -> bytes:
        answers: dict[str, Any] = {
            "cluster": ClusterView(1, "a:1", 1, 1, 1, 1, b"", []),
            "counts": self._counts,
            "jobs": JobPage(self._running[:limit], self._after),
        }
        answer = answers[what] if what in answers else self._lists[what][:limit]
        return msgspec.msgpack.encode(answer)


def looked(group: Group) -> dict[str, Any]:
    return asyncio.run(Looker(cast(Client, group)).look())


def test_lists_that_go_on_are_cut_and_named() -> None:
    document = looked(Group(ROWS_MAX + 1))
    assert document["cut"] == ["queues", "workers", "slowest"]
    assert [len(document[name]) for name in ("queues", "workers")] == [ROWS_MAX, ROWS_MAX]
    assert len(document["slowest"]) == SLOWEST_MAX


def test_lists_that_are_whole_are_not_named() -> None:
    document = looked(Group(SLOWEST_MAX))
    assert document["cut"] == []
    assert len(looked(Group(ROWS_MAX))["workers"]) == ROWS_MAX
    assert looked(Group(ROWS_MAX))["cut"] == ["slowest"]


def test_jobs_of_a_queue_or_a_worker_may_be_cut() -> None:
    for after, is_cut in ((0, False), (7, True)):
        looker = Looker(cast(Client, Group(1, after=after)))
        jobs, has_more = asyncio.run(looker.jobs("q", ""))
        assert (len(jobs), has_more) == (1, is_cut)
        assert asyncio.run(looker.jobs("", "w")) == ([], is_cut)
