"""The page of a report: complete, harmless, and readable for whoever looks at it."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.spark.report.charts import ChartFrame, columns, fan
from rollq.spark.report.findings import findings
from rollq.spark.report.marks import Markup, join, short, tag, text
from rollq.spark.report.model import Attempt, Depth, ExecRow, Percentiles, Report, Slot, Story
from rollq.spark.report.page import page_of
from rollq.spark.report.scales import HOUR, SECOND
from rollq.spark.report.stories import story_of
from rollq.spark.report.style import STYLE
from tests.effort import examples
from tests.unit.spark import samples

PAGE_BYTES_MAX = 1_000_000
EMPTY = ("meta",)
ELEMENTS = (
    "article b body code dd details div dl dt em footer h1 h2 h3 head header html i li main meta p "
    "path rect section small span strong style summary svg table tbody td th thead title tr ul"
)
HARMLESS = frozenset(ELEMENTS.split())


class Reader(HTMLParser):
    """Reads a page strictly: every element is closed where it must be."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.mark.parametrize("name", ["week", "seconds", "nothing", "hostile"])
def test_a_page_is_whole_and_needs_nothing_from_elsewhere(name: str) -> None:
    page = page_of(getattr(samples, name)())
    read = Reader(page)
    assert read.seen <= HARMLESS
    assert not [one for one in read.attributes if one.startswith("on") or one in ("src", "href")]
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "nan" not in re.findall(r"[a-z]+", " ".join(re.findall(r' d="([^"]*)"', page)))
    assert len(page.encode()) < PAGE_BYTES_MAX
    assert "Content-Security-Policy" in page
    assert "width=device-width" in page
    assert "prefers-color-scheme:dark" in page


def test_the_words_of_strangers_stay_words() -> None:
    page = page_of(samples.hostile())
    assert "<script" not in page
    assert "<img" not in page
    assert "\x00" not in page
    assert "\u202e" not in page
    assert "</style><script>alert(1)</script>\"'&<img" in Reader(page).said


def test_the_page_says_which_data_it_shows() -> None:
    said = Reader(page_of(samples.week())).said
    assert "rollq report: demo" in said
    assert "log index 1 to 2400300, 4,912,004 rows" in said
    report = samples.week()
    assert f"{report.total('submitted'):,} jobs were submitted" in said
    for title in (
        *("Throughput", "Time in the queue", "Time of running", "Depth", "Utilisation of workers"),
        *("Attempts that came to nothing", "Dead letters", "Slowest programs", "The life of a job"),
    ):
        assert title in said
    for figure in ("worker down", "attempts used up", "waited too long", "5.17 min", samples.JOB):
        assert figure in said
    assert "85 % from caches" in said


def test_the_peak_is_that_of_the_columns_of_throughput() -> None:
    """Not a rate a second: of a few jobs an hour that would be none."""
    week = samples.week()
    first, *others = (Slot(one.start_ms) for one in week.slots)
    slots = (dataclasses.replace(first, succeeded=7), *others)
    page = page_of(dataclasses.replace(week, slots=slots))
    assert "<dt>peak</dt><dd>7<small>jobs ended in 1 h</small></dd>" in page


def test_a_page_without_data_says_so_everywhere() -> None:
    said = Reader(page_of(samples.nothing())).said
    for words in (
        "Nothing happened yet",
        "No job was submitted",
        "No attempt in this period",
        "Nothing waited or ran",
        "No worker was there",
        "Every attempt came to an end of its own",
        "No job died",
        "No program ran",
        "No job to show",
    ):
        assert words in said


def test_what_is_wrong_is_said_first() -> None:
    week = samples.week()
    assert findings(week)[0] == (
        f"{week.total('dead')} jobs died, most by attempts used up: "
        "rollq dlq list shows those still there."
    )
    assert "473 attempts ended with a lost worker or lease." in findings(week)
    assert findings(samples.seconds()) == []
    assert findings(samples.nothing()) == []


def test_programs_that_fail_and_queues_that_grow_are_named() -> None:
    base = samples.seconds()
    bad = ExecRow("bad", 100, Percentiles(1, 2, 3), None, failed=50)
    few = ExecRow("few", 3, Percentiles(1, 2, 3), None, failed=3)
    growing = [Depth(one.start_ms, 30 * n, 8) for n, one in enumerate(base.depth)]
    slower = [
        dataclasses.replace(slot, wait=Percentiles(1, 10 if n < 3 else 9_000, 9_000))
        for n, slot in enumerate(base.slots)
    ]
    found = findings(dataclasses.replace(base, execs=[bad, few], depth=growing, slots=slower))
    assert found[0] == "bad failed in 50 % of its 100 jobs."
    assert found[1].startswith("180 jobs wait at the end")
    assert found[2] == "Waiting became slower: p95 10 ms in the first half, 9 s in the second."
    idle = dataclasses.replace(
        base.heat, rows=tuple(dataclasses.replace(row, cells=(0.1,) * 7) for row in base.heat.rows)
    )
    (text_of_idle,) = findings(dataclasses.replace(base, depth=growing, heat=idle))
    assert "only 10 % busy" in text_of_idle


def test_a_program_that_never_ran_has_no_run_time() -> None:
    base = samples.seconds()
    never = ExecRow("nosuchprog", 3, None, None, dead=3)
    page = page_of(dataclasses.replace(base, execs=[never]))
    (row,) = (one for one in page.split("<tr>") if "nosuchprog" in one)
    assert row.count('<td class="n">–</td>') == 4
    assert "path" not in row.partition("</tr>")[0]


def test_columns_are_as_high_as_their_counts() -> None:
    report = Report(
        *(0, "t", ()),
        first_ms=0,
        last_ms=2_000,
        slot_ms=1_000,
        slots=[Slot(0, 8, 6, 2), Slot(1_000)],
    )
    page = page_of(report)
    good, bad = (
        re.search(rf'class="fill {name}" d="([^"]*)"', page) for name in ("succeeded", "failed")
    )
    assert good is not None
    assert bad is not None
    assert good[1] == "M1.0 25.00h498.0v75.00h-498.0z"
    assert bad[1] == "M1.0 0.00h498.0v25.00h-498.0z"


def test_a_gap_is_a_gap_and_one_point_is_a_dot() -> None:
    one = Percentiles(10, 20, 50)
    frame = ChartFrame(0, 4 * SECOND)
    points = [(0, one), (SECOND, None), (2 * SECOND, one), (3 * SECOND, one)]
    lines = re.findall(r'class="line p50" d="([^"]*)"', fan(frame, SECOND, points))
    assert lines == ["M125.0 100.00h0", "M625.0 100.00L875.0 100.00"]
    assert "line" not in columns(frame, SECOND, [], [])


def test_a_job_that_only_waits_and_one_that_runs_have_a_timeline() -> None:
    waiting = Story("id", "asked for", "queued", "calc", submitted_ms=1_000)
    said = Reader(story_of(waiting, 61_000)).said
    assert "only waited" in said
    assert "1 min" in said
    running = dataclasses.replace(
        waiting, attempts=[Attempt(1, "w1", 1_000, 2_000, None, "running")]
    )
    page = story_of(running, 61_000)
    assert "waited 1 s, then 59 s… on w1: running" in page
    assert 'class="fill run"' in page


def test_a_job_of_a_thousand_attempts_stays_short() -> None:
    attempts = [Attempt(n, "w", n, n, n, "lease_lost") for n in range(1_000)]
    page = story_of(Story("id", "", "dead", "x", submitted_ms=0, attempts=attempts), 1)
    assert "976 earlier attempts are left out" in page
    assert len(page) < 40_000


def test_what_a_phone_has_no_room_for_goes_with_its_heading() -> None:
    causes = page_of(samples.week()).split("Dead letters")[1].split("<table")[1]
    head, body = causes.split("</table>")[0].split("</thead>")
    hidden = [html.count('class="soft"') for html in (head, body)]
    assert hidden == [1, body.count("<tr>")]
    assert ".drawn td.soft,.drawn th.soft{display:none}" in STYLE


def test_markup_escapes_all_but_itself() -> None:
    assert (
        tag("p", "<b>", tag("b", "&"), class_='"x"')
        == '<p class="&quot;x&quot;">&lt;b&gt;<b>&amp;</b></p>'
    )
    assert join("<", Markup("<i>")) == "&lt;<i>"
    assert tag("rect", x=1.0, width=2.456, height=None) == '<rect x="1" width="2.46"></rect>'
    assert short("a  b\nc", 9) == "a b c"
    assert short("abcdef", 4) == "abc…"


@settings(max_examples=examples(60))
@given(st.text())
def test_no_text_gets_out_of_its_element(value: str) -> None:
    assert not set(text(value)) & set("<>\"'\x00\x1b")
    assert Reader(tag("p", value, title=value)).seen == {"p"}


@settings(max_examples=examples(60))
@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    st.lists(st.floats(0, 1e11), min_size=3, max_size=3),
    st.integers(1, 1_000 * HOUR),
)
def test_any_figures_make_a_page(counts: list[int], times: list[float], step_ms: int) -> None:
    one = Percentiles(*sorted(times))
    slots = [Slot(n * step_ms, count, count, wait=one, run=one) for n, count in enumerate(counts)]
    report = Report(
        *(0, "t", ()),
        first_ms=0,
        last_ms=len(counts) * step_ms,
        slot_ms=step_ms,
        slots=slots,
        depth_ms=step_ms,
        depth=[Depth(slot.start_ms, slot.submitted, 0) for slot in slots],
        execs=[ExecRow("x", 1, one, one)],
    )
    assert Reader(page_of(report)).seen <= HARMLESS
