"""Columns of a real member: made beside it, served as Arrow, and of no harm when they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from bench.histories import make
from rollq.history.arrow import from_lines, from_stream
from rollq.history.columns import EVENTS as COLUMNS
from rollq.net.ports import free_ports
from rollq.roles.reader.models import ARROW, EVENTS, LINES
from rollq.roles.reader.reader import Reader
from tests.integration.procs import MemberProcess, until

ROWS = 40_000  # of several batches
FEW = 4_000


def with_history(folder: Path, rows: int) -> MemberProcess:
    """A member that is not started yet, and has a history already."""
    [port] = free_ports(1)
    make(folder / "m", rows, f"127.0.0.1:{port}")
    return MemberProcess(folder / "m", port, copies_niceness=0)


@pytest.fixture
def member(tmp_path: Path) -> Iterator[MemberProcess]:
    """One that is not started yet, with as much history as is worth columns."""
    process = with_history(tmp_path, FEW)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    """One with much history."""
    process = with_history(tmp_path_factory.mktemp("serving"), ROWS).start()
    yield process
    process.kill()


def _table(reader: Reader, first: int, last: int, *forms: str) -> tuple[pa.Table, set[str]]:
    tables, seen, at = [], set(), first
    for piece in reader.pieces(first, last, forms=forms):
        assert piece.first == at
        at = piece.last + 1
        seen.add(piece.form)
        if piece.form == ARROW:
            tables.append(from_stream(piece.data, COLUMNS))
        else:
            tables.append(from_lines(piece.lines(), COLUMNS, "default"))
    assert at == last + 1
    return pa.concat_tables(tables), seen


def _until_columns(reader: Reader, last: int) -> None:
    def all_have() -> bool:
        cuts = [cut for cut in reader.cuts(1, last) if cut.size_bytes > 1 << 16]
        return bool(cuts) and all(cut.has_columns for cut in cuts)

    until(all_have)


def test_segments_that_are_there_at_the_start_are_served_as_columns(
    serving: MemberProcess,
) -> None:
    with Reader(serving.address) as reader:
        last = reader.span().applied
        as_lines, forms = _table(reader, 1, last, LINES)
        assert ARROW not in forms
        _until_columns(reader, last)
        as_columns, forms = _table(reader, 1, last, ARROW)
        assert ARROW in forms
        assert as_columns.equals(as_lines)
        assert len(as_lines) >= ROWS
        # Not along the batches: what is left of them comes as events.
        for first, end in ((2, last - 1), (100, 100), (last // 3, 2 * last // 3)):
            part, _ = _table(reader, first, end, ARROW)
            index = as_lines.column("_index")
            wanted = pa.compute.and_(
                pa.compute.greater_equal(index, first), pa.compute.less_equal(index, end)
            )
            assert part.equals(as_lines.filter(wanted))


def test_lines_of_what_is_sealed_are_made_beside_the_member(serving: MemberProcess) -> None:
    def lines_of_all() -> bool:
        files = list((serving.state / "history").iterdir())
        packed = {file.stem for file in files if file.suffix == ".runs"}
        return bool(packed) and packed == {file.stem for file in files if file.suffix == ".jsonl"}

    until(lines_of_all)
    with Reader(serving.address) as reader:
        last = reader.span().applied
        lines = b"".join(piece.lines() for piece in reader.pieces(1, last, forms=(LINES,)))
    files = sorted((serving.state / "history").glob("*.jsonl"))
    copied = [line for file in files for line in file.read_bytes().splitlines()[:-1]]
    assert lines.splitlines()[: len(copied)] == copied
    assert len(copied) >= ROWS


def test_rotten_columns_are_served_as_events_and_made_anew(serving: MemberProcess) -> None:
    with Reader(serving.address) as reader:
        last = reader.span().applied
        _until_columns(reader, last)
        as_columns, _ = _table(reader, 1, last, ARROW)
        path = sorted((serving.state / "columns").iterdir())[0]
        with path.open("rb+") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0xFF]))
        again, forms = _table(reader, 1, last, ARROW)
        assert forms == {ARROW, EVENTS}
        assert again.equals(as_columns)
        _until_columns(reader, last)


def test_whoever_makes_columns_dies_with_the_member(member: MemberProcess) -> None:
    member.start()
    process = psutil.Process(member.pid)
    maker = until(
        lambda: next((one for one in process.children() if "copies_maker" in _words(one)), None)
    )
    member.kill()
    until(lambda: not maker.is_running() or maker.status() == psutil.STATUS_ZOMBIE)


def test_a_member_whose_columns_cannot_be_written_serves_events(member: MemberProcess) -> None:
    (member.state / "columns").write_bytes(b"not a folder")
    member.start()
    member.until_line("copies of history cannot be written")
    with Reader(member.address) as reader:
        last = reader.span().applied
        table, forms = _table(reader, 1, last, ARROW)
    assert ARROW not in forms
    assert len(table) >= FEW
    assert member.stop() == 0


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
