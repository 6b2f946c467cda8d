"""What befell a grid, from the sessions of its workers: a new leader, or a lost connection."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from rollq.spark.asking.busy import WorkerUptime
from rollq.spark.asking.incidents import BURST_MS, reconnections
from rollq.spark.report.charts import ChartFrame, ChartMark, columns, mark_shapes
from rollq.spark.report.findings import findings
from rollq.spark.report.happened import change, incident_words
from rollq.spark.report.model import EarlierFigures, Incident, Percentiles, Report, Slot
from rollq.spark.report.page import page_of
from rollq.spark.report.scales import MINUTE, SECOND
from tests.unit.spark.samples import HOSTILE, NOON_MS, week

END = 10 * MINUTE


def lives(name: str, *moments: int, group: str = "demo") -> list[WorkerUptime]:
    """A worker that connects at these moments and goes at the last."""
    return [WorkerUptime(f"id-{name}", name, 2, up, down, group) for up, down in pairwise(moments)]


def told(*sessions: list[WorkerUptime]) -> list[tuple[int, str, str, int]]:
    found = reconnections([one for each in sessions for one in each])
    return [(one.at_ms, one.kind, one.what, one.count) for one in found]


def test_all_workers_at_once_tell_of_a_new_leader() -> None:
    ann, bob = lives("ann", 0, MINUTE, END), lives("bob", 5, MINUTE + 900, END)
    assert told(ann, bob) == [(MINUTE, "leader", "", 2)]
    cat = lives("cat", 3 * MINUTE, END)  # was not there then
    assert told(ann, bob, cat) == [(MINUTE, "leader", "", 2)]


def test_a_worker_that_stays_tells_that_the_leader_stayed() -> None:
    ann, bob = lives("ann", 0, MINUTE, END), lives("bob", 0, MINUTE, END)
    assert told(ann, bob, lives("cat", 0, END)) == [(MINUTE, "again", "ann, bob", 0)]


def test_a_worker_that_died_with_the_leader_does_not_hide_it() -> None:
    ann, bob = lives("ann", 0, MINUTE, END), lives("bob", 0, MINUTE, END)
    dead = lives("cat", 0, MINUTE + 10 * SECOND)
    assert told(ann, bob, dead) == [(MINUTE, "leader", "", 2)]


def test_one_worker_alone_tells_of_itself() -> None:
    assert told(lives("ann", 0, MINUTE, END)) == [(MINUTE, "again", "ann", 0)]


def test_two_changes_are_two_and_groups_have_their_own() -> None:
    later = MINUTE + BURST_MS + 1
    ann, bob = lives("ann", 0, MINUTE, later, END), lives("bob", 0, MINUTE, later, END)
    other = lives("eve", 0, END, group="other")
    assert told(ann, bob, other) == [(MINUTE, "leader", "", 2), (later, "leader", "", 2)]


@pytest.mark.parametrize(
    ("incident", "words"),
    [
        (
            Incident(0, "leader", count=3),
            "a new leader, or the same restarted: all 3 workers connected again",
        ),
        (Incident(0, "lost", "ann", count=1), "ann lost, with 1 job"),
        (Incident(0, "again", "ann, bob"), "ann, bob connected again"),
        (Incident(0, "paused", "mail", until_ms=90_000), "queue mail paused for 1.5 min"),
        (Incident(0, "paused", "mail"), "queue mail paused, and still is"),
    ],
)
def test_an_incident_has_words(incident: Incident, words: str) -> None:
    assert incident_words(incident) == words


def test_marks_stand_where_it_happened_and_numbers_do_not_overlap() -> None:
    marks = tuple(ChartMark(str(n), "leader", at) for n, at in enumerate((500, 510, 900), 1))
    frame = ChartFrame(0, 1000, (*marks, ChartMark("4", "paused", 950, 2000)))
    lines = "".join(mark_shapes(frame, 20))
    assert "M500.0 0V20" in lines
    assert "M950.0 0.00h50.0v20.00" in lines  # the band ends with the chart
    chart = columns(frame, 1000, [0], [])
    assert re.findall(r'<span class="(?:leader|paused)" style="left:([\d.]+)%">([^<]*)', chart) == [
        ("50.00", "1–2"),
        ("90.00", "3"),
        ("95.00", "4"),
    ]
    assert mark_shapes(ChartFrame(5000, 6000, marks), 20) == []


def test_a_page_marks_every_chart() -> None:
    made = NOON_MS - 90 * MINUTE
    known = {name: getattr(week(), name) for name in Report.__dataclass_fields__}
    at = [Incident(made, "leader", count=2), Incident(made, "paused", HOSTILE, until_ms=NOON_MS)]
    page = page_of(Report(**known | {"incidents": at, "incidents_left_out": 2}))
    charts = page.count('class="chart"') + len(week().heat.rows)
    assert page.count('class="line mark leader"') == charts
    assert "a new leader, or the same restarted: all 2 workers connected again" in page
    assert "2 more are left out" in page
    assert "<script" not in page


def test_what_stands_out_is_said() -> None:
    slots = [
        Slot(n * MINUTE, 9, 5, 30, wait=Percentiles(1, 90_000 if n == 5 else 20, 90_000))
        for n in range(10)
    ]
    report = Report(
        0,
        "tables",
        slot_ms=MINUTE,
        slots=slots,
        incidents=[Incident(1, "leader", count=2), Incident(2, "paused", "mail")],
        earlier=EarlierFigures(-10, -1, 90, 80, 10, 0, 0, 0),
    )
    said = findings(report)
    assert (
        "All workers connected again at once: the leader changed or was restarted; "
        "see the marks on the charts."
    ) in said
    assert "Queue mail is paused: rollq queue resume ends it." in said
    assert "300 jobs failed, after 10 in the time before." in said
    assert any(one.startswith("Waiting peaked at Jan 1, 00:05–00:06: p95 1.5 min") for one in said)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        *((10, 10, "same"), (0, 5, "new"), (10, 5, "-50 %"), (10, 12, "+20 %"), (10, 30, "× 3")),
        *((None, 5, ""), (5, None, "")),
    ],
)
def test_a_change_in_a_word(old: float | None, new: float | None, words: str) -> None:
    assert change(old, new) == words
