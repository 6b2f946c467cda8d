from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from rollq.base import limits
from rollq.grid.events import Event
from rollq.history import arrow_cache, packed_file
from rollq.history.arrow import from_lines, from_stream
from rollq.history.columns import EVENTS, Column
from rollq.history.packed import PackedIndex, pack
from rollq.history.segments import Segments, columns_name
from rollq.roles.member.readers import columns
from rollq.roles.member.readers.columns import make_all, missing, stale
from rollq.roles.member.readers.copies_keeper import CopiesKeeper
from rollq.roles.member.setup import MemberSetup
from rollq.store.look import LookDisk
from rollq.store.real_disk import RealDisk

FIRST, LAST = 5, 1_004


def _packed(index: int) -> PackedIndex:
    """Some indexes have no rows, some have several."""
    events = [
        Event("enqueue", index.to_bytes(16, "big"), "ann", "q", body_bytes=ordinal)
        for ordinal in range(index % 4)
    ]
    return pack(index, 1_700_000_000_000 + index, events)


def _lines() -> list[bytes]:
    return [line for index in range(FIRST, LAST + 1) for line in _packed(index).lines()]


@pytest.fixture(params=["lines", "packed"])
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A directory with one segment of some batches."""
    monkeypatch.setattr(columns, "COLUMNS_PACKED_BYTES_MIN", 1_000)
    monkeypatch.setattr(packed_file, "BLOCK_BYTES", 5_000)
    monkeypatch.setattr(columns, "COLUMNS_BYTES_MIN", 1_000)
    monkeypatch.setattr(columns, "COLUMNS_PIECE_BYTES", 20_000)
    disk = RealDisk(tmp_path / "state")
    segments = Segments(disk)
    if request.param == "lines":
        segments.seal(FIRST, LAST, _lines())
    else:
        segments.seal_packed(FIRST, LAST, map(_packed, range(FIRST, LAST + 1)))
    segments.seal(LAST + 1, LAST + 10, [])
    disk.close()
    return tmp_path / "state"


def _rot(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])


def _copy(state: Path) -> arrow_cache.ArrowCopy:
    copy = arrow_cache.read_copy(LookDisk(state), FIRST, LAST, "g")
    assert copy is not None
    return copy


def test_an_arrow_copy_has_the_rows_of_its_segment_in_batches_of_whole_indexes(state: Path) -> None:
    disk = LookDisk(state)
    assert missing(disk, "g") == [(FIRST, LAST)]  # what is small is not worth it
    assert make_all(state, "g") == 1
    assert missing(disk, "g") == []
    copy = _copy(state)
    assert len(copy.batches) > 3
    at = FIRST
    tables = []
    for batch in copy.batches:
        assert batch.first == at
        data = arrow_cache.read_stream(disk, copy, batch)
        assert data is not None
        table = from_stream(data, EVENTS)
        found = table.column("_index").to_pylist()
        assert len(found) == batch.rows
        assert all(batch.first <= index <= batch.last for index in found)
        tables.append(table)
        at = batch.last + 1
    assert at == LAST + 1
    text = b"".join(line + b"\n" for line in _lines())
    assert pa.concat_tables(tables).equals(from_lines(text, EVENTS, "g"))


def test_only_what_is_wanted_is_read_and_unknown_columns_are_empty(state: Path) -> None:
    make_all(state, "g")
    copy = _copy(state)
    data = arrow_cache.read_stream(LookDisk(state), copy, copy.batches[0])
    wanted = (
        Column("of_tomorrow", "bigint", "x"),
        EVENTS[0],
        Column("name_of_tomorrow", "string", "y"),
    )
    table = from_stream(data, wanted)
    assert table.column_names == ["of_tomorrow", "type", "name_of_tomorrow"]
    assert set(table.column("of_tomorrow").to_pylist()) == {0}
    assert set(table.column("type").to_pylist()) == {"enqueue"}
    assert table.column("name_of_tomorrow").null_count == len(table)


def test_rot_is_seen_and_what_cannot_be_read_is_made_anew(state: Path) -> None:
    make_all(state, "g")
    path = state / columns_name(FIRST, LAST)
    whole = path.read_bytes()
    copy = _copy(state)
    batch = copy.batches[1]
    middle = batch.offset + batch.size // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    disk = LookDisk(state)
    assert arrow_cache.read_stream(disk, copy, batch) is None
    assert arrow_cache.read_stream(disk, copy, copy.batches[0]) is not None
    path.write_bytes(bytes([whole[9] ^ 1]) + whole[1:])
    assert arrow_cache.read_stream(disk, copy, copy.batches[0]) is None
    for bad in (b"", b"short", whole[:-1], whole[:-9] + b"x" + whole[-8:], bytes(100)):
        path.write_bytes(bad)
        assert arrow_cache.read_copy(disk, FIRST, LAST, "g") is None
        assert missing(disk, "g") == [(FIRST, LAST)]
    assert make_all(state, "g") == 1
    assert path.read_bytes() == whole
    assert arrow_cache.read_copy(disk, FIRST, LAST, "another") is None


def test_what_has_no_segment_any_more_goes(state: Path) -> None:
    make_all(state, "g")
    (state / "columns" / f"{1:020d}-{2:020d}.arrow.tmp").write_bytes(b"begun")
    assert stale(LookDisk(state)) == [f"{1:020d}-{2:020d}.arrow.tmp"]
    disk = RealDisk(state)
    Segments(disk).forget(LAST)
    disk.close()
    make_all(state, "g")
    assert list((state / "columns").iterdir()) == []


def test_a_damaged_segment_gets_no_copy(state: Path) -> None:
    [path] = (one for one in (state / "history").iterdir() if f"{FIRST:020d}" in one.name)
    _rot(path)
    make_all(state, "g")
    assert list((state / "columns").iterdir()) == []


def test_no_process_is_started_again_and_again_for_a_damaged_segment(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = 0

    class Maker:
        """Does its work here: the bounds of this test are not those of another process."""

        returncode = 0
        stderr = io.BytesIO()

        def __init__(self, *_: object, **_more: object) -> None:
            nonlocal begun
            begun += 1
            make_all(state, "g")

        def __enter__(self) -> None:
            """As Popen."""

        def __exit__(self, *_: object) -> None:
            """As Popen."""

    monkeypatch.setattr(subprocess, "Popen", Maker)
    [path] = (one for one in (state / "history").iterdir() if f"{FIRST:020d}" in one.name)
    whole = path.read_bytes()
    _rot(path)
    keeper = CopiesKeeper(state, MemberSetup("a:1", group="g"), lambda: 0)
    keeper._maybe_make()  # is it idle? It is
    assert [keeper._maybe_make() for _ in range(3)] == [""] * 3
    assert begun == 1
    path.write_bytes(whole)  # as when another member sent it: under a new name, later
    later_ns = path.parent.stat().st_mtime_ns + 1
    os.utime(path.parent, ns=(later_ns, later_ns))
    assert [keeper._maybe_make() for _ in range(3)] == [""] * 3
    assert begun == 2
    assert _copy(state).batches


def test_a_batch_of_lines_fits_the_rows_that_spark_likes() -> None:
    assert limits.COLUMNS_PIECE_BYTES // 16_384 in range(150, 400)  # bytes of a row
