"""How commands start Spark: what is told meanwhile, and what Java is told."""

from __future__ import annotations

import pytest

from rollq.cli.progress import spinner
from rollq.cli.spark import QUICK_ROWS, suited_to
from rollq.spark.pipeline.manifest import File, Mark, TableManifest
from rollq.spark.session import QUICK


def manifest(rows: int, *, events: int = 0, index: int = 0) -> TableManifest:
    files = {"bronze_events": [File("a", rows, 1)]}
    return TableManifest(1, 1, "path here", 0, events, {"one": Mark(index, 0, 0)}, files)


def test_few_rows_get_a_quick_start() -> None:
    assert suited_to(manifest(QUICK_ROWS)) == QUICK
    assert suited_to(manifest(QUICK_ROWS + 1)) == {}
    assert suited_to(None) == QUICK


def test_a_run_is_judged_by_what_it_has_to_read() -> None:
    large = manifest(10 * QUICK_ROWS, events=1_000_000, index=100_000)
    assert suited_to(large, {"one": 100_001}) == QUICK
    assert suited_to(large, {"one": 100_000 + QUICK_ROWS}) == {}
    assert suited_to(None, {"one": 140}) == QUICK
    assert suited_to(None, {"one": QUICK_ROWS}) == {}


def test_what_starts_is_told_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with spinner("starting Spark"):
        told = capsys.readouterr()
    assert (told.out, told.err) == ("", "starting Spark\n")
