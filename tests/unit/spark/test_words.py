"""A page in another language is in that language as a whole."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from string import Formatter

import pytest

from rollq.spark.report import words
from rollq.spark.report.findings import findings
from rollq.spark.report.japanese import JAPANESE
from rollq.spark.report.model import (
    Depth,
    EarlierFigures,
    ExecRow,
    Incident,
    Percentiles,
    Report,
    ShareRow,
    Slot,
)
from rollq.spark.report.page import page_of
from rollq.spark.report.scales import HOUR, MINUTE
from tests.unit.spark.samples import nothing, seconds, week

FOLDER = Path(words.__file__).parent
# The first argument of `say`, as far as it stands there as one text.
SAID = re.compile(r'\bsay\(\s*"((?:[^"\\]|\\.)*)"(?!\s*")')
OF_TABLES = {  # what comes from the tables, or is the name of a command
    *("rollq", "report", "pipeline", "dlq", "list", "job", "queue", "resume", "explain"),
    *("render", "demo", "tables", "node", "UTC", "GiB", "min", "ID", "ms"),
}


def everything() -> Report:
    """A week in which all went wrong that a page can tell."""
    known = {name: getattr(week(), name) for name in Report.__dataclass_fields__}
    at = known["first_ms"] + HOUR
    slow = Percentiles(9_000, 90_000, 90_000)
    slots = [
        Slot(at + n * HOUR, 50, 5, 30, 1, 1, 40, *(2 * (slow if n > 8 else Percentiles(1, 2, 3),)))
        for n in range(20)
    ]
    slots += [Slot(at + 20 * HOUR, 1, wait=Percentiles(1, 1, 999_999), run=slow)]
    return Report(
        **known
        | {
            "slots": slots,
            "incidents": [
                Incident(at, "leader", count=3),
                Incident(at, "leader", count=3),
                Incident(at, "lost", "node", 2, 7),
                Incident(at, "lost", "node", 0, 1),
                Incident(at, "again", "node"),
                Incident(at, "paused", "node"),
                Incident(at, "paused", "node", until_ms=at + MINUTE),
            ],
            "incidents_left_out": 1,
            "execs": [ExecRow("render", 100, slow, slow, 50, 1, 1)],
            "queues": [ShareRow("render", 1, 1, 1, 1, 1, 1, slow, None)],
            "clients": [ShareRow("", 1, 1, 1, 1, 1, 1)],
            "queues_left_out": 2,
            "stories": [],
            "retries": [],
            "dead": [],
            "earlier": EarlierFigures(0, 1, 0, 50, 1, 1, 1, 1, slow, None),
            "open_before": 4,
            "redriven": 1,
        }
    )


@pytest.mark.parametrize("report", [everything(), nothing()], ids=["everything", "nothing"])
def test_a_japanese_page_has_no_english_words(report: Report) -> None:
    page = page_of(report, "ja")
    assert '<html lang="ja">' in page
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    text = re.sub(r"--job ID", " ", text).replace("&#x27;", "'")
    left = set(re.findall(r"[A-Za-z]{2,}", text)) - OF_TABLES
    assert left == set()


def test_every_page_can_be_told_in_every_language() -> None:
    for language in words.LANGUAGES:
        assert "</html>" in page_of(week(), language)
    assert page_of(week()) == page_of(week(), "en")


def test_sentences_keep_their_values() -> None:
    for english, japanese in JAPANESE.items():
        if english != "{month} {day}":  # months have numbers there
            assert _values(japanese) == _values(english), english


def test_a_backlog_is_a_sentence_of_its_own_in_japanese() -> None:
    base = seconds()
    growing = [Depth(one.start_ms, 30 * n, 8) for n, one in enumerate(base.depth)]
    with words.speaking("ja"):
        said = findings(dataclasses.replace(base, depth=growing))
    assert said == ["終わりに 180 件が待っており、前半の最大値の 2 倍を超えています。"]


def test_what_is_said_has_a_translation() -> None:
    said = {
        text
        for file in FOLDER.glob("*.py")
        for text in SAID.findall(file.read_text(encoding="utf-8"))
    }
    assert len(said) > 50
    assert said - set(JAPANESE) == set()


def test_the_language_ends_with_the_page() -> None:
    with words.speaking("ja"):
        assert words.say("dead") == "デッド"
        assert words.known("no-such-cause") == "no-such-cause"
        with pytest.raises(KeyError):
            words.say("a sentence that nobody translated")
    assert words.say("dead") == "dead"


def _values(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}
