"""Logs of every released version give for ever what they gave when they were written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs

from rollq.grid import commands
from rollq.grid.command_codec import decode_batch
from rollq.grid.invariants import check
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState
from rollq.grid.views import RawJobView, job_view
from tests.replay.commands_log import LOGS, make_golden, read_log, replay

ROOT = Path(__file__).parents[2]


def test_there_is_a_log_of_the_first_version() -> None:
    assert LOGS[0].stem == "commands-v1"


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_golden_log_gives_what_it_gave(path: Path) -> None:
    state, found = replay(read_log(path))
    wanted = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
    assert (found["log_hash"], found["facts"]) == (wanted["log_hash"], wanted["facts"])
    assert check(state) == []


def test_the_newest_snapshot_is_the_state_that_the_log_gives() -> None:
    state, _ = replay(read_log(LOGS[-1]))
    assert LOGS[-1].with_suffix(".snapshot").read_bytes() == encode_snapshot(state)


def seen(state: GridState, job_id: bytes) -> RawJobView:
    """A job, but for what it was asked to run if it has ended: older snapshots do not have that."""
    view = job_view(state, job_id)
    assert view is not None
    return view if view.end is None else structs.replace(view, request=None, body_bytes=0)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_golden_snapshot_is_read(path: Path) -> None:
    """Older ones do not know all that is owed by now: the same jobs, in the same states."""
    state, _ = replay(read_log(path))
    copy = decode_snapshot(path.with_suffix(".snapshot").read_bytes())
    assert check(copy) == []
    assert [seen(copy, one) for one in copy.jobs] == [seen(state, one) for one in copy.jobs]
    assert sorted(copy.jobs) == sorted(state.jobs)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_two_processes_with_other_hashes_agree(path: Path) -> None:
    answers = [
        subprocess.run(
            [sys.executable, "-m", "tests.replay.commands_log", str(path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert answers[0] == answers[1]
    assert json.loads(answers[0]) == replay(read_log(path))[1]


def test_the_newest_log_holds_every_command() -> None:
    seen = {
        type(command)
        for data in read_log(LOGS[-1])
        if data
        for command in decode_batch(data).commands
    }
    assert seen == set(get_args(commands.Command))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_batch_is_known_by_the_fingerprint_that_it_had(path: Path) -> None:
    """Or else a bulk that is sent again across an upgrade would be another one."""
    state, _ = replay(read_log(path))
    copy = decode_snapshot(path.with_suffix(".snapshot").read_bytes())
    assert copy.batches
    assert copy.batches == state.batches


def test_golden_files_are_never_written_again() -> None:
    with pytest.raises(FileExistsError):
        make_golden("commands-v1")
