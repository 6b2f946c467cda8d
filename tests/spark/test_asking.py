"""Questions to the tables: SQL that people write, and the figures of a report."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.spark.asking.figures import gather
from rollq.spark.asking.queries import add_views, ask
from rollq.spark.asking.tales import job_like
from rollq.spark.report.model import Percentiles, Report
from rollq.spark.report.page import page_of
from tests.spark.sample_tables import FIRST_MS, HOUR_MS, job_id, write_tables


def show(spark: SparkSession, folder: Path, text: str = "") -> None:
    add_views(spark, lambda name: spark.read.parquet(str(folder / name)), text)


@pytest.fixture(scope="module")
def minute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty jobs in half a minute."""
    folder = tmp_path_factory.mktemp("minute")
    write_tables(folder)
    return folder


def test_a_query_gives_rows_and_says_if_there_are_more(spark: SparkSession, minute: Path) -> None:
    text = "SELECT state, count(*) AS jobs FROM jobs GROUP BY state ORDER BY jobs;"
    show(spark, minute, text)
    answer = ask(spark, text, 10)
    assert answer.columns == ["state", "jobs"]
    assert answer.rows == [("dead", 1), ("failed", 3), ("ok", 56)]
    assert not answer.has_more
    first = ask(spark, "SELECT job_id FROM silver_jobs ORDER BY job_id", 2)
    assert first.rows == [(job_id(0),), (job_id(1),)]
    assert first.has_more


@pytest.mark.any_spark
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM nope", "there is no table nope"),
        ("SELECT exek FROM jobs", "`exek` cannot be resolved"),
        ("SELECT 1 FROM (", "Syntax error"),
        ("SELECT 1/0", "Division by zero"),
        ("SELECT state, count(*) FROM jobs", "GROUP BY"),
    ],
)
def test_a_bad_query_is_told_in_words(
    spark: SparkSession, minute: Path, query: str, words: str
) -> None:
    show(spark, minute, "jobs")
    with pytest.raises(LocalError) as caught:
        ask(spark, query, 1)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert "SQLSTATE" not in caught.value.message
    assert "jobs, attempts, " in caught.value.hint


@pytest.fixture(scope="module")
def told(spark: SparkSession, minute: Path) -> Report:
    """The report of the sixty jobs."""
    return report_of(spark, minute)


def report_of(spark: SparkSession, folder: Path, **fields: object) -> Report:
    show(spark, folder)
    return gather(spark, source="tables", made_ms=FIRST_MS, **fields)  # type: ignore[arg-type]


def test_half_a_minute_is_told_by_the_half_second(told: Report) -> None:
    assert (told.first_ms, told.last_ms) == (FIRST_MS, FIRST_MS + 29_900)
    (span,) = told.spans
    assert (span.group, span.first_index, span.last_index) == ("demo", 1, span.events)
    assert told.slot_ms == 500
    assert [slot.start_ms for slot in told.slots] == [FIRST_MS + 500 * n for n in range(60)]
    assert [slot.submitted for slot in told.slots] == [1] * 60
    totals = {
        name: told.total(name)
        for name in ("succeeded", "failed", "dead", "cancelled", "retried", "ended")
    }
    assert totals == {
        "succeeded": 56,
        "failed": 3,
        "dead": 1,
        "cancelled": 0,
        "retried": 2,
        "ended": 60,
    }
    assert told.wait == Percentiles(40, 40, 40)
    assert told.run == Percentiles(400, 400, 400)
    assert told.slots[3].wait == Percentiles(40, 40, 40)
    assert [(one.cause, one.count) for one in told.retries] == [
        ("worker_down", 2),
        ("nacked", 1),  # and the job died
    ]
    assert [(one.cause, one.count, one.execs) for one in told.dead] == [
        ("nacked", 1, (("calc", 1),))
    ]
    assert [(one.exec_name, one.jobs) for one in told.execs] == [("calc", 60)]
    for (share,) in (told.queues, told.clients):
        assert (share.submitted, share.succeeded, share.failed, share.dead) == (60, 56, 3, 1)
    assert [told.queues[0].name, told.clients[0].name] == ["default", "cx"]
    assert "Throughput" in page_of(told)


@pytest.mark.any_spark
def test_who_is_busy_and_who_waits_is_added_up(told: Report) -> None:
    assert [row.name for row in told.heat.rows] == ["ann", "bob"]
    # 30 or so attempts each of 400 ms, on two slots in 30 s.
    assert [round(row.utilisation, 1) for row in told.heat.rows] == [0.2, 0.2]
    assert all(cell is not None for row in told.heat.rows for cell in row.cells)
    assert len(told.depth) == 60
    assert all((one.waiting, one.running) in ((0, 0), (0, 1)) for one in told.depth)


@pytest.mark.any_spark
def test_workers_that_began_anew_without_their_jobs_are_told(told: Report) -> None:
    (lost,) = told.incidents
    assert (lost.at_ms, lost.kind, lost.count) == (FIRST_MS + 19 * 500 + 200, "lost", 2)


@pytest.mark.any_spark
def test_jobs_that_stand_out_are_told(told: Report) -> None:
    most, died = told.stories
    assert (most.job_id, most.why) == (job_id(39), "most attempts")
    assert [(one.number, one.outcome) for one in most.attempts] == [(1, "worker_down"), (2, "ok")]
    assert {one.worker for one in most.attempts} == {"ann", "bob"}
    assert [fact.kind for fact in most.facts] == [
        *("enqueue", "assign", "worker_down_requeue", "assign", "ack")
    ]
    assert (died.job_id, died.detail) == (job_id(59), "no such exec")


@pytest.mark.any_spark
def test_the_job_that_was_asked_for_is_told(spark: SparkSession, minute: Path) -> None:
    (story,) = report_of(spark, minute, job_id=job_id(4)).stories
    assert (story.job_id, story.state, story.why) == (job_id(4), "ok", "asked for")
    assert story.attempts[0].ready_ms == story.submitted_ms == FIRST_MS + 2_000
    with pytest.raises(StateError) as caught:
        report_of(spark, minute, job_id=job_id(777))
    assert caught.value.code is ErrorCode.UNKNOWN_JOB


@pytest.mark.any_spark
def test_a_short_id_is_one_job_of_the_tables(spark: SparkSession, minute: Path) -> None:
    show(spark, minute, "jobs")
    whole = job_id(4).replace("-", "")
    for first, last in ((whole, ""), (whole[:8], whole[-8:])):
        assert job_like(spark, "it", first, last) == job_id(4)
    with pytest.raises(StateError, match="0000 is short for several ids") as caught:
        job_like(spark, "0000", "0000", "")
    assert caught.value.code is ErrorCode.AMBIGUOUS_ID
    assert caught.value.hint.startswith(f"give more digits: {job_id(0)}, {job_id(1)}, ")
    with pytest.raises(StateError, match=r"do not know job 6F96\.\.01;") as caught:
        job_like(spark, "6F96..01", "6f96", "01")
    assert caught.value.code is ErrorCode.UNKNOWN_JOB


@pytest.mark.any_spark
def test_the_last_part_can_be_asked_for_alone(spark: SparkSession, minute: Path) -> None:
    report = report_of(spark, minute, last_ms=10_000)
    assert (report.first_ms, report.last_ms) == (FIRST_MS + 19_900, FIRST_MS + 29_900)
    assert report.total("submitted") == 20


@pytest.mark.any_spark
def test_a_day_is_told_by_the_hour(spark: SparkSession, tmp_path: Path) -> None:
    write_tables(tmp_path, count=145, gap_ms=600_000)
    report = report_of(spark, tmp_path)
    assert report.slot_ms == HOUR_MS
    assert len(report.slots) == 25
    assert report.total("submitted") == 25 * 7
    assert report.slots[0].run == Percentiles(450, 495, 499)
    assert (report.bytes_moved, report.cache_hit_bytes, report.cache_miss_bytes) == (2500, 750, 250)
    assert report.depth_ms == 7 * 60_000
    depths = [(one.waiting, one.running) for one in report.depth]
    # Until something changes, it stays; what was there when a slot began is the most of it.
    assert depths == [(6, 2)] * 18 + [(4, 2)] * (len(depths) - 18)
    assert [round(row.utilisation, 2) for row in report.heat.rows] == [0.48, 0.48]
    # Nobody had a job in the fourth hour: idle, not away.
    assert report.heat.rows[0].cells == (0.5, 0.5, 0.5, 0.0, *[0.5] * 21)


@pytest.mark.any_spark
def test_tables_without_a_row_make_a_report(spark: SparkSession, minute: Path) -> None:
    add_views(spark, lambda name: spark.read.parquet(str(minute / name)).limit(0))
    report = gather(spark, source="tables", made_ms=FIRST_MS)
    assert not report.slots
    assert "Nothing happened yet" in page_of(report)
