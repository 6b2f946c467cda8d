"""The benchmark of Spark: what it asks for, and what counts as wrong."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.spark import write
from bench.spark.__main__ import TARGETS, WORKS, parse
from bench.targets import show_targets


def test_quick_is_small_and_once() -> None:
    options = parse(["--quick", "--events", "5000000"])
    assert (options.events, options.jobs, options.rounds) == (50_000, 4_000, 1)
    assert options.only == list(WORKS)
    assert parse(["--jobs", "7", "--only", "write"]).jobs == 7


def test_an_unknown_work_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "reed"])
    assert "no work 'reed'" in capsys.readouterr().err


def test_targets_that_were_measured_come_first() -> None:
    told = StringIO()
    show_targets(TARGETS, {"read_vs_parquet": 3.0, "read_rows": 7.0}, Console(file=told, width=120))
    lines = told.getvalue().splitlines()
    assert ["NO" in line for line in lines if "Parquet" in line] == [True]
    assert lines[-1].split() == ["read_rows", "7"]


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (["a-0", "a-1", "a-2"], 0),
        (["a-0", "a-1", "a-1"], 2),  # one is missing, one is there twice
        (["a-0", "a-1", "a-2", "a-2"], 1),
        (["a-0", "a-1", "a-7"], 2),  # one is missing, one nobody wrote
        (["a-0", "a-1", "a-2", "b-0"], 0),  # of another write
    ],
)
def test_what_counts_as_wrong(monkeypatch: pytest.MonkeyPatch, keys: list[str], wrong: int) -> None:
    rows = [{"type": "enqueue", "jobKey": key} for key in keys] + [{"type": "client_open"}]
    monkeypatch.setattr(write, "history", lambda _: iter(rows))
    assert write.wrong_jobs("nobody", "a", 3) == wrong


def test_every_entry_that_accepts_jobs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few: a write that took several is what the target is about."""
    rows = [{"type": "batch_commit", "count": n} for n in (4_000, 70, 30)] + [{"type": "enqueue"}]
    monkeypatch.setattr(write, "history", lambda _: iter(rows))
    assert write.commits("nobody") == 3


def test_only_the_first_of_all_processes_does_it(tmp_path: Path) -> None:
    done: list[int] = []
    for _ in range(2):
        write.once(str(tmp_path / "marker"), lambda: done.append(1))()
    assert done == [1]
