"""Which batches there are, and how far each has come: by name, in pages, at a flat cost."""

from __future__ import annotations

import pytest

from rollq.base.jobs import BulkItem
from rollq.grid import commands as c
from rollq.grid.batches import BatchFilter, BatchView, batch_page, batch_view
from rollq.grid.bounds import Bounds
from rollq.grid.key_index import KeyIndex
from tests.unit.grid.kit import job_id
from tests.unit.grid.staged import Staged, group, part


def shown(grid: Staged, key: str = "b", client: str = "ann") -> BatchView | None:
    return batch_view(grid.state, c.BatchName(client, key))


def keys(page: list[BatchView]) -> list[tuple[str, str]]:
    return [(one.client_id, one.batch_key) for one in page]


def test_a_batch_is_staged_then_unpacked_then_accepted() -> None:
    grid = Staged()
    assert shown(grid) is None
    grid.stage("p", group("a", "b"))
    grid.stage("p", group("c"), number=1)
    grid.stage("other", group("z"))
    stamp_ms = grid.state.staged["ann", "b"].stamp_ms
    assert shown(grid) == BatchView("ann", "b", "staged", 4, parts=2, stamp_ms=stamp_ms)
    grid.commit(part("p", (group("a", "b"),), (group("c"),)))
    for position, entered in ((0, 0), (1, 2)):
        batch = grid.state.committed["ann", "b"]
        assert batch.position == position
        expected = BatchView("ann", "b", "unpacking", 3, entered, stamp_ms=batch.stamp_ms)
        assert shown(grid) == expected
        grid.reload()
        assert shown(grid) == expected
        grid.apply(c.UnpackBatch("ann", "b", position))
    assert shown(grid) == BatchView("ann", "b", "accepted", 3, 3)
    grid.reload()
    assert keys(batch_page(grid.state, BatchFilter(), 10)) == [("ann", "b")]


def test_what_is_dropped_or_forgotten_is_not_listed() -> None:
    grid = Staged()
    grid.state.bounds = Bounds(batches_kept=1)
    grid.stage("p", group("a"), key="dropped")
    grid.apply(c.DropBatches((c.BatchName("ann", "dropped"),)))
    assert batch_page(grid.state, BatchFilter(), 10) == []
    grid.stage("p", group("a"), key="first")
    grid.commit(part("p", (group("a"),)), key="first")
    item = BulkItem(job_id("bulk"), b"")
    grid.apply(c.SubmitBulk("ann", "q", "exe", (item,), batch_key="second"))
    # Its key is forgotten, and not all of its jobs are in their queues.
    assert keys(batch_page(grid.state, BatchFilter(), 10)) == [("ann", "first"), ("ann", "second")]
    grid.unpack("first")
    assert keys(batch_page(grid.state, BatchFilter(), 10)) == [("ann", "second")]


def test_batches_are_read_page_by_page_by_client_and_key() -> None:
    grid = Staged()
    names = [
        ("ann", "b"),
        ("ann", "c"),
        ("ann-2", "a"),
        ("ann/1", "a"),
        ("ann0", "a"),
        ("bob", "a"),
    ]
    for client, key in reversed(names):
        grid.stage("p", group(f"{client} {key}"), client=client, key=key)
    found: list[tuple[str, str]] = []
    place = ("", "")
    while page := batch_page(grid.state, BatchFilter("", *place), 2):
        found += keys(page)
        place = found[-1]
    assert found == names
    assert keys(batch_page(grid.state, BatchFilter("ann"), 10)) == names[:2]
    assert keys(batch_page(grid.state, BatchFilter("ann", "ann", "b"), 10)) == [("ann", "c")]


def test_an_account_is_shown_its_own() -> None:
    grid = Staged()
    for client in ("an", "ann", "ann-2", "ann/1", "ann/2", "ann0", "bob/ann/1"):
        grid.stage("p", group(client), client=client)
    own = [("ann", "b"), ("ann/1", "b"), ("ann/2", "b")]
    assert keys(batch_page(grid.state, BatchFilter(), 10, "ann")) == own
    assert keys(batch_page(grid.state, BatchFilter(), 2, "ann")) == own[:2]
    assert keys(batch_page(grid.state, BatchFilter("", "ann/1", "b"), 2, "ann")) == own[2:]
    assert batch_page(grid.state, BatchFilter("bob/ann/1"), 10, "ann") == []


def test_a_page_looks_at_no_names_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Staged()
    for number in range(50):
        grid.stage("p", group(f"{number}"), client="ann", key=f"{number}")
    grid.stage("p", group("one"), client="zoe")
    looked_at: list[int] = []

    def counted(self: KeyIndex[tuple[str, str]], key: tuple[str, str], limit: int) -> object:
        names = after(self, key, limit)
        looked_at.append(len(names))
        return names

    after = KeyIndex.after
    monkeypatch.setattr(KeyIndex, "after", counted)
    assert keys(batch_page(grid.state, BatchFilter(), 5, "zoe")) == [("zoe", "b")]
    assert sum(looked_at) <= 5
