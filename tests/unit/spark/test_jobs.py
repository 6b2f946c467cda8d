"""Rows as jobs: what each column becomes, and how a bad one is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from rollq.base.errors import LocalError
from rollq.base.jobs import BlobRef
from rollq.roles.client.jobs.alike import AlikeJobs
from rollq.roles.client.jobs.specs import JobSpec
from rollq.spark.source.jobs import OPTIONS_CACHE_MAX, Rows, check_columns

ID = "00000000-0000-0000-0000-000000000007"
TYPES: dict[str, Any] = {
    "args": pa.list_(pa.string()),
    "outputs": pa.list_(pa.string()),
    "retry_exit_codes": pa.list_(pa.int32()),
    "files": pa.map_(pa.string(), pa.binary()),
    "not_before": pa.timestamp("us", tz="UTC"),
}
BLOB = pa.struct([("digest", pa.string()), ("size", pa.int64())])


def batches(rows: list[dict[str, Any]], **types: Any) -> Iterator[Any]:
    known = TYPES | types
    columns = {name: pa.array([row.get(name) for row in rows], known.get(name)) for name in rows[0]}
    yield pa.record_batch(columns)


def flat(pages: Iterable[AlikeJobs | list[JobSpec]]) -> Iterator[JobSpec]:
    """The jobs of pages, one by one."""
    for page in pages:
        if isinstance(page, AlikeJobs):
            yield from (page.spec(number) for number in range(len(page.args)))
        else:
            yield from page


def specs(*rows: dict[str, Any], defaults: dict[str, Any] | None = None) -> list[JobSpec]:
    return list(flat(Rows(defaults or {}, 3).pages(batches(list(rows)))))


def test_a_row_with_everything() -> None:
    [spec] = specs(
        {
            "exec": "resize",
            "args": ["-w", "100"],
            "files": {"in.png": b"png"},
            "outputs": ["*.png"],
            "job_key": "pic-1",
            "job_id": ID,
            "queue": "pictures",
            "priority": 7,
            "delay": 1.5,
            "max_attempts": 2,
            "run_limit": 60,
            "retry_exit_codes": [75, 76],
            "worker": "w1",
        }
    )
    assert spec == JobSpec(
        "resize",
        ["-w", "100"],
        {"in.png": b"png"},
        None,
        ID,
        {
            "queue": "pictures",
            "priority": 7,
            "delay": 1.5,
            "max_attempts": 2,
            "run_limit": 60,
            "retry_exit_codes": (75, 76),
            "worker": "w1",
        },
        ["*.png"],
        "pic-1",
    )


def test_null_is_the_default() -> None:
    found = specs(
        {"exec": None, "priority": None, "job_key": None},
        {"exec": "b", "priority": 2, "job_key": "k"},
        defaults={"exec": "a", "priority": 5, "queue": "q"},
    )
    assert [(one.exec_name, one.key) for one in found] == [("a", ""), ("b", "k")]
    assert [one.options for one in found] == [
        {"priority": 5, "queue": "q"},
        {"priority": 2, "queue": "q"},
    ]


def test_rows_that_ask_for_the_same_share_it() -> None:
    found = specs(*({"exec": "a", "priority": n % 2} for n in range(4)))
    assert found[0].options is found[2].options
    assert found[1].options is found[3].options


def test_a_subject_names_the_queue() -> None:
    assert specs({"exec": "a", "subject": "job.submit.Big"})[0].options == {"queue": "big"}


def test_not_before_is_a_delay() -> None:
    late = datetime.now(UTC) + timedelta(days=300)
    early = datetime(2000, 1, 1, tzinfo=UTC)
    waiting, ready = specs({"exec": "a", "not_before": late}, {"exec": "a", "not_before": early})
    assert timedelta(days=299) < timedelta(seconds=waiting.options["delay"]) <= timedelta(days=300)
    assert ready.options["delay"] == 0


def test_files_that_the_grid_has() -> None:
    digest = "ab" * 32
    rows = [{"exec": "a", "files": {"x": {"digest": digest, "size": 5}}}]
    [spec] = flat(Rows({}, 0).pages(batches(rows, files=pa.map_(pa.string(), BLOB))))
    assert spec.files == {"x": BlobRef(bytes.fromhex(digest), 5)}


def test_one_argument_and_payloads() -> None:
    rows = batches([{"exec": "a", "args": "one"}], args=pa.string())
    assert next(flat(Rows({}, 0).pages(rows))).args == ("one",)
    assert specs({"exec": "a", "payload": "text"})[0].payload == b"text"


def test_rows_that_are_all_different_do_not_pile_up() -> None:
    rows = Rows({}, 3)
    given = [{"exec": "a", "delay": float(n)} for n in range(2 * OPTIONS_CACHE_MAX + 1)]
    delays = [spec.options["delay"] for spec in flat(rows.pages(batches(given)))]
    assert delays == [float(n) for n in range(2 * OPTIONS_CACHE_MAX + 1)]
    assert len(rows._known) == 1


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"exec": ""}, "column exec is ''; name a program or function"),
        ({"exec": None}, "column exec is NULL; name a program or function"),
        ({"args": ["a", None]}, "column args is ['a', None]; an argument is NULL"),
        ({"args": ["x" * 70_000]}, "all arguments of a job take at most 65536 bytes"),
        ({"payload": b"x" * 70_000}, "at most 65536 bytes: use files"),
        ({"exec": "a b"}, "column exec is 'a b'; name a program or function; use up to 64 of a-z"),
        ({"files": {"a": None}}, "file 'a' is NULL"),
        ({"files": {"../a": b""}}, "column files is [('../a', b'')]; the file name '../a'"),
        ({"outputs": [None]}, "column outputs is [None]; an element is NULL"),
        ({"job_key": "k" * 257}, "use up to 256 bytes, none of them 0"),
        ({"job_id": "seven"}, "column job_id is 'seven'"),
        ({"queue": "a b"}, "column queue is 'a b'"),
        ({"priority": 12}, "column priority is 12; use 0 to 9, higher first"),
        ({"priority": -1}, "column priority is -1; use 0 to 9, higher first"),
        ({"max_attempts": 0}, "column max_attempts is 0; use 1 or more"),
        ({"delay": -0.5}, "column delay is -0.5; give seconds, from 0 to "),
        ({"run_limit": float("nan")}, "column run_limit is nan; give seconds, from 0 to "),
        ({"lease": 0.25}, "column lease is 0.25; use 1 s or more"),
        ({"max_attempts": 101}, "column max_attempts is 101; use 1 to 100"),
        ({"delay": 1e12}, "column delay is 1000000000000.0; give seconds"),
        (
            {"not_before": datetime(2999, 1, 1, tzinfo=UTC)},
            "column not_before is datetime.datetime(2999, 1, 1, 0, 0",
        ),
    ],
)
def test_a_bad_row_is_named(bad: dict[str, Any], told: str) -> None:
    good = {"exec": "a"} | dict.fromkeys(bad) | ({"exec": "a"} if "exec" in bad else {})
    rows = Rows({}, 3)
    assert len(list(flat(rows.pages(batches([good] * 5))))) == 5
    with pytest.raises(LocalError) as caught:
        list(rows.pages(batches([good, {"exec": "a"} | bad])))
    assert "row 7 of partition 3: " in caught.value.message
    assert told in str(caught.value)


TEXT = StringType()


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"exec": TEXT, "colour": TEXT}, "a job has no column 'colour'; there are exec, args"),
        ({"exec": IntegerType()}, "column exec is int; it must be string: use cast()"),
        (
            {"exec": TEXT, "args": ArrayType(IntegerType())},
            "column args is array<int>; it must be array<string> or string",
        ),
        ({"args": ArrayType(TEXT)}, "no column says what to run"),
        ({"exec": TEXT, "queue": TEXT, "subject": TEXT}, "queue and subject exclude each other"),
        (
            {"exec": TEXT, "payload": TEXT, "outputs": ArrayType(TEXT)},
            "payload and outputs exclude each other",
        ),
    ],
)
def test_columns_are_checked_first(columns: dict[str, DataType], told: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    with pytest.raises(LocalError) as caught:
        check_columns(schema, {})
    assert told in str(caught.value)


def test_rows_that_ask_for_the_same_go_together() -> None:
    rows = [{"exec": "a", "args": [str(n)], "job_key": f"k{n}", "priority": 3} for n in range(600)]
    pages = list(Rows({}, 0).pages(batches(rows)))
    assert [len(page.args) for page in pages if isinstance(page, AlikeJobs)] == [256, 256, 88]
    rows[300]["priority"] = 4
    rows[599]["exec"] = "b"
    mixed = list(Rows({}, 0).pages(batches(rows)))
    assert [isinstance(page, AlikeJobs) for page in mixed] == [True, False, False]
    assert list(flat(mixed))[300].options == {"priority": 4}
    keyless = list(Rows({"exec": "c"}, 0).pages(batches([{"args": ["x"]}, {"args": None}])))
    assert keyless == [AlikeJobs("c", {}, [["x"], ()], [])]


def test_an_exec_of_null_is_named_though_others_are_alike() -> None:
    rows = [{"exec": "a"}] * 400 + [{"exec": None}]
    with pytest.raises(LocalError, match="row 401 of partition 0: column exec is NULL"):
        list(Rows({}, 0).pages(batches(rows)))
