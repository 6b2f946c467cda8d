"""Manifests: the newest counts, one writer, nothing goes that somebody may still read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.hints import ExecHint
from rollq.spark.pipeline.catalog import SCHEMA_VERSION, TABLES, table_of
from rollq.spark.pipeline.compact import small_files
from rollq.spark.pipeline.failures import as_rollq_error, is_transient
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.hints import exec_rows, hints_of
from rollq.spark.pipeline.manifest import Book, File, Mark, TableManifest
from rollq.spark.pipeline.tables import paths

pytestmark = pytest.mark.any_spark


def manifest(number: int, *names: str, version: int = SCHEMA_VERSION) -> TableManifest:
    files = [File(f"tables/gold_dead/{name}/part.parquet", 1, 4) for name in names]
    return TableManifest(
        number, version, "path x", 0, 7, {"g": Mark(3, 1, 2)}, {"gold_dead": files}
    )


def write(out: Path, *names: str) -> None:
    for name in names:
        folder = out / "tables/gold_dead" / name
        folder.mkdir(parents=True)
        (folder / "part.parquet").write_bytes(b"rows")


def test_the_newest_counts(tmp_path: Path) -> None:
    book = Book(tmp_path)
    assert book.newest() is None
    with pytest.raises(LocalError) as caught:
        book.expect()
    assert "rollq pipeline run" in caught.value.hint
    write(tmp_path, "a", "b")
    with book.writing():
        book.commit(manifest(1, "a"))
        book.commit(manifest(2, "a", "b"))
    assert book.expect() == manifest(2, "a", "b")
    assert [path.parent.name for path in paths(tmp_path, "gold_dead")] == ["a", "b"]
    assert paths(tmp_path, "gold_execs") == []


def test_what_was_begun_is_not_seen(tmp_path: Path) -> None:
    book = Book(tmp_path)
    write(tmp_path, "a")
    with book.writing():
        book.commit(manifest(1, "a"))
        (book.folder / "manifest-0000000002.tmp").write_bytes(b"{")
    assert book.expect().number == 1


def test_old_files_go_when_their_time_is_over(tmp_path: Path) -> None:
    book = Book(tmp_path)
    write(tmp_path, "a", "b", "broken-off")
    with book.writing():
        book.commit(manifest(1, "a"))
        book.commit(manifest(2, "b"))
        assert book.sweep() == 1  # what broke off; the rest may be in use
        assert (tmp_path / "tables/gold_dead/a").exists()
        assert book.sweep(keep_s=0.0) == 1
    assert not (tmp_path / "tables/gold_dead/a").exists()
    assert (tmp_path / "tables/gold_dead/b").exists()
    assert book.expect().number == 2


def test_one_writer(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rollq.spark.pipeline.manifest import Book\n"
        "with Book(Path(sys.argv[1])).writing():\n    print('in', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"in\n"
        with pytest.raises(DiskError) as caught, Book(tmp_path).writing():
            pass
        assert caught.value.code is ErrorCode.DISK_BUSY
        other.kill()
        other.communicate()
    with Book(tmp_path).writing():
        pass  # the lock died with its process


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DiskError) as caught, Book(tmp_path / "file").writing():
        pass
    assert caught.value.code is ErrorCode.DISK_FAILED
    assert "--tables" in caught.value.hint


def test_damage_and_other_versions_are_told(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.folder.mkdir()
    path = book.folder / "manifest-0000000001.json"
    path.write_bytes(b"{")
    with pytest.raises(DiskError) as caught:
        book.newest()
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    path.write_bytes(msgspec.json.encode(manifest(1, version=SCHEMA_VERSION + 1)))
    with pytest.raises(DiskError) as caught:
        book.newest()
    assert caught.value.code is ErrorCode.DISK_VERSION


def test_tables_have_names() -> None:
    assert all(table_of(name).name == name for name in TABLES)
    with pytest.raises(LocalError) as caught:
        table_of("gold")
    assert "gold_hourly" in caught.value.hint
    assert "state_" not in caught.value.hint


def test_days_with_many_small_files_are_compacted() -> None:
    files = [File(str(n), 10, 1, day="2026-01-01") for n in range(3)]
    other = File("x", 10, 1, day="2026-01-02")
    full = File("y", 10**9, 1, day="2026-01-01")
    still = File("z", 10, 1, kind="open")
    assert small_files([*files, other, full, still], 3) == files
    assert small_files([*files, other, full, still], 4) == []


def test_hints_come_from_execs_that_ran_often(tmp_path: Path) -> None:
    names = ("exec", "run_ms_p50", "run_ms_p95", "run_ms_p99", "runs")
    rows = [("b", 1, 2, 3, 20), ("a", 4, 5, 6, 900), ("seldom", 7, 8, 9, 19)]
    table = pa.Table.from_pylist(
        [{"group": "g"} | dict(zip(names, row, strict=True)) for row in rows]
    )
    write(tmp_path, "execs")
    pq.write_table(table, tmp_path / "tables/gold_dead/execs/part.parquet")
    files = manifest(1, "execs").files("gold_dead")
    book = Book(tmp_path)
    with book.writing():
        book.commit(msgspec.structs.replace(manifest(1), tables={"gold_execs": files}))
    assert hints_of(exec_rows(tmp_path)) == [
        ExecHint("a", 4, 5, 6, 900),
        ExecHint("b", 1, 2, 3, 20),
    ]
    assert hints_of(exec_rows(tmp_path), "other") == []
    pq.write_table(
        pa.concat_tables([table, table.set_column(0, "group", [["h"] * 3])]),
        tmp_path / "tables/gold_dead/execs/part.parquet",
    )
    with pytest.raises(LocalError) as caught:
        hints_of(exec_rows(tmp_path))
    assert "g, h" in caught.value.hint
    assert len(hints_of(exec_rows(tmp_path), "h")) == 2


def test_a_source_is_known_by_its_place(tmp_path: Path) -> None:
    registered = Feed(path=str(tmp_path))
    assert registered.is_same(registered.name)
    assert not registered.is_same(Feed(path=str(tmp_path / "other")).name)
    assert not registered.is_same(Feed(servers="a:1").name)
    assert Feed(servers="a:1,b:2").is_same(Feed(servers="b:2,c:3").name)
    assert not Feed(servers="a:1").is_same(Feed(servers="b:2").name)
    with pytest.raises(LocalError):
        Feed().extents()
    with pytest.raises(LocalError):
        Feed(path=str(tmp_path / "missing")).extents()


def test_errors_of_ours_are_found_in_those_of_spark() -> None:
    inner = DiskError(ErrorCode.DISK_CORRUPT, "segment is damaged", "copy it again")
    text = f"[STREAM_FAILED] …\n  File x\nrollq.base.errors.DiskError: {inner}\n\tat java"
    found = as_rollq_error(RuntimeError(text))
    assert (type(found), found.code) == (DiskError, ErrorCode.DISK_CORRUPT)
    assert (found.message, found.hint) == ("segment is damaged", "copy it again")
    assert as_rollq_error(RuntimeError("[OTHER] one\ntwo")).code is ErrorCode.BUG
    assert is_transient(RuntimeError("[STREAM_FAILED] …: Python worker failed to connect back."))
    assert not is_transient(RuntimeError(text))
