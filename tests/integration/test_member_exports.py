"""Tables of a state that goes on changing, written by real children to a real disk."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.limits import EXPORT_IDLE_MS_MAX, EXPORT_USED_MS
from rollq.roles.member.tables import exports as module
from rollq.roles.member.tables import writer
from rollq.roles.member.tables.exports import FOLDER, Export, Exports, remove_exports
from rollq.roles.member.tables.writer import part_path
from rollq.store.real_disk import RealDisk
from tests.integration.workers import eventually
from tests.unit.grid.kit import Grid

Story = Callable[[Exports, Grid], Awaitable[None]]


def play(tmp_path: Path, story: Story) -> None:
    """Exports of a small grid, from beginning to end."""

    async def run() -> None:
        grid = Grid()
        async with made(tmp_path, grid) as exports, asyncio.timeout(30):
            await story(exports, grid)
        assert not (tmp_path / FOLDER).exists()

    asyncio.run(run())


@asynccontextmanager
async def made(tmp_path: Path, grid: Grid) -> AsyncIterator[Exports]:
    disk = RealDisk(tmp_path)
    exports = Exports(tmp_path, disk, lambda: grid.state)
    try:
        yield exports
    finally:
        await exports.stop()
        await exports.stop()
        disk.close()


async def given(asked: Future[Export]) -> Export:
    return await asyncio.wrap_future(asked)


def rows_of(export: Export) -> list[dict[str, Any]]:
    """All rows, checked against what is said of the parts."""
    rows: list[dict[str, Any]] = []
    for number, part in enumerate(export.parts):
        data = part_path(export.folder, number).read_bytes()
        lines = [msgspec.json.decode(line) for line in data.splitlines()]
        assert (len(lines), len(data)) == (part.row_count, part.size_bytes)
        rows += [{**line, "table": part.table} for line in lines]
    return rows


def test_all_tables_are_of_one_index_whatever_happens_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROWS_AT_ONCE", 5)
    monkeypatch.setattr(writer, "EXPORT_PART_ROWS", 10)

    async def story(exports: Exports, grid: Grid) -> None:
        names = [f"j{number}" for number in range(25)]
        grid.submit(*names)
        grid.start("runs")
        grid.kill("runs")
        index = grid.state.applied_index
        asked = exports.ask(("jobs", "attempts", "dlq", "queues"))
        grid.submit("new")
        grid.kill("j0")
        export = await given(asked)
        assert export.index == index
        sizes = [(part.table, part.row_count) for part in export.parts]
        assert sizes[:3] == [("jobs", 10), ("jobs", 10), ("jobs", 6)]
        rows = rows_of(export)
        jobs = [row for row in rows if row["table"] == "jobs"]
        assert sorted(row["state"] for row in jobs) == ["dead"] + ["waiting"] * 25
        (queue,) = [row for row in rows if row["table"] == "queues"]
        assert (queue["queued"], queue["dead"]) == (25, 1)
        assert len([row for row in rows if row["table"] == "dlq"]) == 1
        attempts = [row for row in rows if row["table"] == "attempts"]
        assert [row["attempt"] for row in attempts] == list(range(1, len(attempts) + 1))
        assert exports.find(export.export_id) is export

    play(tmp_path, story)


def test_those_who_ask_for_the_same_share_it(tmp_path: Path) -> None:
    async def story(exports: Exports, grid: Grid) -> None:
        grid.submit("a")
        first = exports.ask(("jobs", "queues"))  # at work
        second, third = exports.ask(("jobs",)), exports.ask(("jobs",))  # next
        assert second is third
        assert await given(second) is not await given(first)
        assert await given(exports.ask(("queues",))) is await given(first)
        grid.submit("b")
        later = await given(exports.ask(("queues",)))
        assert later.index == grid.state.applied_index

    play(tmp_path, story)


def test_a_table_without_rows_has_no_parts(tmp_path: Path) -> None:
    async def story(exports: Exports, grid: Grid) -> None:
        export = await given(exports.ask(("dlq",)))
        assert (export.parts, list(export.folder.iterdir())) == ((), [])

    play(tmp_path, story)


@pytest.mark.parametrize("tables", [(), ("nope",), ("jobs", "jobs")])
def test_what_is_no_table_is_refused(tmp_path: Path, tables: tuple[str, ...]) -> None:
    async def story(exports: Exports, grid: Grid) -> None:
        with pytest.raises(RemoteError, match="table"):
            exports.ask(tables)
        with pytest.raises(StateError) as caught:
            exports.find("nope")
        assert caught.value.code is ErrorCode.EXPORT_GONE
        assert "again" in caught.value.hint

    play(tmp_path, story)


def test_what_nobody_reads_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_S", 0.01)

    async def story(exports: Exports, grid: Grid) -> None:
        used = await given(exports.ask(("jobs",)))
        export = await given(exports.ask(("workers",)))
        export.used_s -= EXPORT_IDLE_MS_MAX / 1000
        await eventually(lambda: not export.folder.exists())
        with pytest.raises(StateError):
            exports.find(export.export_id)
        assert exports.find(used.export_id) is used

    play(tmp_path, story)


@pytest.mark.parametrize("by_size", [False, True])
def test_only_so_many_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_size: bool
) -> None:
    monkeypatch.setattr(module, "EXPORT_BYTES_MAX", 1)

    async def story(exports: Exports, grid: Grid) -> None:
        grid.submit("a")
        jobs, workers = [await given(exports.ask((name,))) for name in ("jobs", "workers")]
        if by_size:
            both_bytes = jobs.size_bytes + workers.size_bytes
            monkeypatch.setattr(module, "EXPORTS_BYTES_MAX", both_bytes)
        else:
            monkeypatch.setattr(module, "EXPORTS_MAX", 2)
        with pytest.raises(StateError) as caught:
            await given(exports.ask(("queues",)))
        assert caught.value.code is ErrorCode.OVERLOADED
        jobs.used_s -= EXPORT_USED_MS / 1000
        queues = await given(exports.ask(("queues",)))
        assert exports.find(workers.export_id) is workers
        assert exports.find(queues.export_id) is queues
        with pytest.raises(StateError):
            exports.find(jobs.export_id)

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("limit", "value", "code"),
    [
        ("EXPORT_BYTES_MAX", 100, ErrorCode.ANSWER_TOO_LARGE),
        ("EXPORT_SPARED_BYTES", 1 << 60, ErrorCode.DISK_FULL),
    ],
)
def test_bounds_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, code: ErrorCode
) -> None:
    async def story(exports: Exports, grid: Grid) -> None:
        grid.submit("a", "b")
        with monkeypatch.context() as patch:
            patch.setattr(writer, limit, value)
            with pytest.raises(StateError) as caught:
                await given(exports.ask(("jobs",)))
        assert caught.value.code is code
        assert rows_of(await given(exports.ask(("jobs",))))

    play(tmp_path, story)


def test_a_child_that_is_killed_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(exports: Exports, grid: Grid) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_tables", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            with pytest.raises(RollqError, match="killed"):
                await given(exports.ask(("jobs",)))
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_tables", lambda *_: 1 // 0)
            with pytest.raises(RollqError, match="ZeroDivisionError"):
                await given(exports.ask(("jobs",)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fork", _no_room)
            with pytest.raises(RollqError, match="no room"):
                await given(exports.ask(("jobs",)))
        await eventually(lambda: not list((tmp_path / FOLDER).iterdir()))
        assert (await given(exports.ask(("workers",)))).parts[0].row_count == 1

    play(tmp_path, story)


def _no_room() -> int:
    raise OSError(11, "no room")


def test_a_stop_ends_what_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "write_tables", lambda *_: signal.pause())

    async def story(exports: Exports, grid: Grid) -> None:
        asked = exports.ask(("jobs",)), exports.ask(("dlq",))
        await exports.stop()
        for future in asked:
            with pytest.raises(StateError, match="stops"):
                await given(future)
        with pytest.raises(StateError, match="stops"):
            exports.ask(("jobs",))

    play(tmp_path, story)


def test_what_an_earlier_life_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / FOLDER / "abc"
    left.mkdir(parents=True)
    (left / "part-0000.jsonl").write_bytes(b"{}\n")
    remove_exports(tmp_path)
    remove_exports(tmp_path)
    assert list(tmp_path.iterdir()) == []
