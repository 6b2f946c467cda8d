import runpy
from pathlib import Path
from typing import get_args

from rollq.grid import commands, lifecycle
from rollq.grid.state import DEAD, DONE, ENDED_STATES, QUEUED, JobState

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_shows_the_table() -> None:
    made = runpy.run_path(str(DOCS / "make_lifecycle.py"))
    wanted = made["page_text"]()
    assert (DOCS / "lifecycle.md").read_text(encoding="utf-8") == wanted


def test_every_state_can_be_reached_and_left() -> None:
    entered = {new for targets in lifecycle.TABLE.values() for new in targets}
    left = {old for old, _ in lifecycle.TABLE}
    assert entered == left == {None, *JobState}


def test_only_a_redrive_leads_out_of_an_end() -> None:
    ways = {
        (old, command)
        for (old, command), targets in lifecycle.TABLE.items()
        if old in ENDED_STATES and targets != (None,)
    }
    assert ways == {(DEAD, commands.RedriveJobs), (DEAD, commands.UnpackBatch)}


def test_the_table_speaks_of_commands_only() -> None:
    assert {command for _, command in lifecycle.TABLE} <= set(get_args(commands.Command))


def test_what_is_not_in_the_table_is_not_allowed() -> None:
    assert lifecycle.is_allowed(None, commands.SubmitJob, QUEUED)
    assert lifecycle.is_allowed(DONE, commands.AckJob, DONE)
    assert not lifecycle.is_allowed(DONE, commands.AckJob, QUEUED)
    assert not lifecycle.is_allowed(QUEUED, commands.AckJob, DONE)
