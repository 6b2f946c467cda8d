"""How explanations are shown, and what the documentation says of them."""

from __future__ import annotations

import re
from pathlib import Path

from rollq.base.reasons import Reason
from rollq.cli.explain import lines_of
from rollq.documents.jobs import explain_document
from rollq.grid.explanations import AttemptTold, RawExplanation, TaskGroup
from rollq.roles.client.results.views import Explanation

PAGE = Path(__file__).parents[3] / "docs" / "cli" / "explain.md"
ID = bytes(15) + b"\1"
TEXT = "00000000-0000-0000-0000-000000000001"


def test_every_word_is_in_the_table_of_the_page() -> None:
    words = re.findall(r"^\| `(\w+)` \|", PAGE.read_text().partition("<!--")[0], re.MULTILINE)
    assert sorted(words) == sorted(Reason)


def test_a_job_is_shown_with_its_attempts_and_what_may_help() -> None:
    lost = AttemptTold(1, "w1", "its worker is gone", 1_000)
    told = RawExplanation(ID, "dead", "worker_lost", "gone\x1b", ("rollq doctor",), 0, (lost,))
    document = explain_document(Explanation.of(told))
    assert document["id"] == TEXT
    head, attempt, *rest = lines_of(document)
    assert head == "dead (worker_lost): gone·"
    assert attempt.startswith("attempt 1 on w1, ")
    assert attempt.endswith(": its worker is gone")
    assert rest == ["what may help:", "  rollq doctor"]


def test_an_array_is_shown_by_its_groups() -> None:
    groups = (
        TaskGroup(2, "failed", "exit_code", "exit code 3", ID),
        TaskGroup(1, "waiting", "paused", "queue q is paused"),
    )
    told = RawExplanation(ID, "waiting", "paused", "queue q is paused", groups=groups)
    assert lines_of(explain_document(Explanation.of(told)))[1:] == [
        f"2 failed (exit_code): exit code 3 (as {TEXT})",
        "1 waiting (paused): queue q is paused",
    ]


def test_an_explanation_reads_as_its_sentence() -> None:
    assert str(Explanation.of(RawExplanation(ID, "ok", "ok", "it went well"))) == "it went well"
