"""Every figure of a report against a plain recomputation, for periods of minutes and hours."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.pipeline.lives import Lives, seal_lives
from rollq.spark.asking.figures import gather
from rollq.spark.asking.queries import views
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.report.model import Percentiles, Report
from rollq.spark.report.page import page_of
from rollq.spark.report.scales import HOUR, MINUTE
from tests.spark.bounds import impossible
from tests.spark.comparing import differences
from tests.spark.plain import read
from tests.spark.plain_gold import Plain
from tests.spark.plain_report import COUNTED, PlainReport

pytestmark = pytest.mark.any_spark
ENDED = ("succeeded", "failed", "dead", "cancelled")
TURN_MS = 100_000  # the events take some ten hours


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """What happened; its tables are known to SQL."""
    folder = tmp_path_factory.mktemp("figures")
    seal_lives(folder / "state", Lives(11, turn_ms=TURN_MS), 1200)
    Pipeline(spark, Feed(path=str(folder / "state")), folder / "tables").run()
    plain = Plain("default", read(folder / "state"))
    assert differences(folder / "tables", [plain]) == []
    assert impossible(folder / "tables") == []
    views(spark, folder / "tables")
    return plain


@pytest.mark.parametrize("last_ms", [10 * MINUTE, 3 * HOUR, 0])
def test_every_figure_is_what_events_add_up_to(
    spark: SparkSession, told: Plain, last_ms: int
) -> None:
    report = gather(spark, source="tables", made_ms=0, last_ms=last_ms)
    plain = PlainReport(told, report.first_ms, report.last_ms)
    assert report.last_ms - report.first_ms >= (last_ms or 7 * HOUR)
    check_slots(report, plain)
    check_depth(report, plain)
    check_busy(report, plain)
    lost, dead = plain.causes()
    assert {one.cause: one.count for one in report.retries} == lost
    assert last_ms or lost.total() > report.total("retried")  # some jobs died by it
    assert {one.cause: one.count for one in report.dead} == dead
    assert (report.bytes_moved, report.cache_hit_bytes, report.cache_miss_bytes) == (
        plain.bytes_moved()
    )
    assert (report.open_before, report.redriven) == plain.balance()
    assert report.total("dead") == sum(dead.values())
    check_shares(report, plain)
    check_execs(report, plain)
    assert sum(one.count for one in report.incidents if one.kind == "lost") <= plain.lost()
    if not report.incidents_left_out:
        assert sum(one.count for one in report.incidents if one.kind == "lost") == plain.lost()
    last = report.depth[-1]
    assert report.open_after >= last.waiting + last.running  # and those that are delayed
    assert ("open when this period began" in page_of(report)) == bool(last_ms)


def check_slots(report: Report, plain: PlainReport) -> None:
    slots = plain.slots(report.slot_ms)
    for slot in report.slots:
        expected = slots.pop(slot.start_ms, {})
        assert {name: getattr(slot, name) for name in COUNTED} == {
            name: expected.get(name, 0) for name in COUNTED
        }
        for name in ("wait", "run"):
            assert getattr(slot, name) == three(expected.get(name))
    assert slots == {}
    assert report.wait == three(plain.percentiles("wait_ms", "assigned_at"))
    assert report.run == three(plain.percentiles("run_ms", "ended_at"))


def check_shares(report: Report, plain: PlainReport) -> None:
    for name, rows, left_out in (
        ("queue", report.queues, report.queues_left_out),
        ("client", report.clients, report.clients_left_out),
    ):
        expected = plain.shares(name)
        assert len(rows) + left_out == len(expected)
        for row in rows:
            one = expected[row.name]
            assert {each: getattr(row, each) for each in COUNTED} == {
                each: one[each] for each in COUNTED
            }
            assert (row.wait, row.run) == (three(one.get("wait")), three(one.get("run")))


def check_execs(report: Report, plain: PlainReport) -> None:
    expected = {
        name: (ended, three(one.get("run")), three(one.get("wait")), one["failed"], one["dead"])
        for name, one in plain.shares("exec").items()
        if (ended := sum(one[each] for each in ENDED)) or "run" in one
    }
    assert {
        row.exec_name: (row.jobs, row.run, row.wait, row.failed, row.dead) for row in report.execs
    } == expected
    assert report.execs_left_out == 0


@pytest.mark.parametrize("last_ms", [10 * MINUTE, 4 * HOUR])
def test_the_time_before_is_told_as_it_was(spark: SparkSession, told: Plain, last_ms: int) -> None:
    report = gather(spark, source="tables", made_ms=0, last_ms=last_ms, compares=True)
    before = report.earlier
    assert before is not None
    assert (before.last_ms + 1, before.last_ms - before.first_ms) == (
        report.first_ms,
        report.last_ms - report.first_ms,
    )
    plain = PlainReport(told, before.first_ms, before.last_ms)
    sums = plain.slots(HOUR).values()
    assert {name: getattr(before, name) for name in COUNTED} == {
        name: sum(one[name] for one in sums) for name in COUNTED
    }
    assert before.wait == three(plain.percentiles("wait_ms", "assigned_at"))
    assert before.run == three(plain.percentiles("run_ms", "ended_at"))
    assert "Beside the time before" in page_of(report)


def check_depth(report: Report, plain: PlainReport) -> None:
    depth = plain.depth(report.depth_ms)
    assert {one.start_ms: (one.waiting, one.running) for one in report.depth} == depth
    assert min(one.waiting for one in report.depth) >= 0
    assert min(one.running for one in report.depth) >= 0


def check_busy(report: Report, plain: PlainReport) -> None:
    names = {one["worker"]: one["name"] for one in plain.tables.sessions}
    shares: dict[str, list[float]] = {}
    for (worker, _), share in sorted(plain.busy(report.heat.step_ms).items()):
        shares.setdefault(worker, []).append(share)
    # Not by name: two workers may have the same.
    expected = sorted((names[worker], cells) for worker, cells in shares.items())
    shown = sorted(
        (row.name, [cell for cell in row.cells if cell is not None]) for row in report.heat.rows
    )
    assert [name for name, _ in shown] == [name for name, _ in expected]
    for (_, cells), (_, others) in zip(shown, expected, strict=True):
        assert cells == pytest.approx(others)
    assert all(0 <= row.utilisation <= 1 for row in report.heat.rows)


def three(values: Any) -> Percentiles | None:
    return None if values is None or None in values else Percentiles(*values)
