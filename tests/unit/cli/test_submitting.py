"""What a submit says of what it did not finish: output that is not saved, and interrupts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.cli.failures import EXIT_PIPE
from rollq.cli.submitting import JobLabels, _array, _await_all, _file, _one, own_name
from rollq.cli.waiting import EXIT_CANCELLED, EXIT_DEAD, EXIT_FAILED, EXIT_WAITED
from rollq.policy.endings import CANNOT_RUN
from rollq.roles.client.results.handles import Counts

PAGE = Path(__file__).parents[3] / "docs/cli/submit.md"


class Ended:
    """Two jobs that succeeded; the output of the first has a name that is taken."""

    def __init__(self) -> None:
        self.counts = Counts(total=2, ok=2)

    def __len__(self) -> int:
        return 2

    async def results(self) -> AsyncIterator[Any]:
        taken = RemoteError(ErrorCode.BAD_PAYLOAD, "the file 'a' cannot be put in place")
        for error in (taken, None):
            yield MagicMock(id="some", ok=True, asave_files=AsyncMock(side_effect=error))


@pytest.mark.parametrize(("save", "is_ok"), [(None, True), (Path("out"), False)])
def test_output_that_is_not_saved_is_no_success(
    save: Path | None, is_ok: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    order = MagicMock(save=save, as_json=False, wait_s=None)
    labels = JobLabels("task", lambda _: 0)
    assert asyncio.run(_await_all(Ended(), order, labels, "left")) is is_ok
    assert ("output of job some was not saved" in capsys.readouterr().err) is (save is not None)


@pytest.mark.parametrize("has_submitted", [True, False])
def test_an_interrupt_before_the_answer_names_what_may_be_accepted(
    capsys: pytest.CaptureFixture[str], *, has_submitted: bool
) -> None:
    """Also if the leader is gone by then: Ctrl-C is what one does to a command that hangs. But not
    while files are uploaded, which are sent before their job."""
    submit = AsyncMock(side_effect=asyncio.CancelledError)
    client: Any = MagicMock(client_id="c1", submit=submit)
    client.configure_mock(is_connected=False, has_submitted=has_submitted)
    order = MagicMock(like="", as_json=True)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_one(client, order))
    told = capsys.readouterr().err
    assert ("may have been accepted: rollq jobs --client c1" in told) is has_submitted


@pytest.mark.parametrize("has_submitted", [True, False])
def test_an_interrupted_array_is_shown_by_its_events(
    capsys: pytest.CaptureFixture[str], *, has_submitted: bool
) -> None:
    """`rollq jobs` lists none of its tasks before they start."""
    submit = AsyncMock(side_effect=asyncio.CancelledError)
    client = MagicMock(has_submitted=has_submitted, client_id="c1", submit_array=submit)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_array(client, MagicMock(as_json=True)))
    told = "it may have been accepted: rollq watch --since 10m --client c1\n"
    assert capsys.readouterr().err == (told if has_submitted else "")


@pytest.mark.parametrize("has_submitted", [True, False])
def test_a_file_may_be_accepted_once_its_commit_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, has_submitted: bool
) -> None:
    rows = tmp_path / "jobs.csv"
    rows.write_text("1\n")
    client = MagicMock(has_submitted=has_submitted, client_id="c1", stage=AsyncMock())
    client.drop_batch = AsyncMock()
    client.commit = AsyncMock(side_effect=asyncio.CancelledError)
    order = MagicMock(source=rows, exec_name="calc", options={}, header=False, followers=[])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_file(client, order))
    assert ("may have been accepted" in capsys.readouterr().err) is has_submitted


def test_the_same_id_is_of_the_same_client() -> None:
    """The grid takes a job again only from its client."""
    own = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    assert own_name(own) == own_name(own.upper()) == f"cli-{own}"
    assert own_name("") != own_name("")


def test_every_exit_code_is_on_the_page() -> None:
    rows = dict(
        re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    codes = (EXIT_FAILED, EXIT_WAITED, EXIT_DEAD, CANNOT_RUN, EXIT_PIPE, EXIT_CANCELLED)
    assert sorted(rows) == sorted(map(str, codes))
    assert "SIGTERM" in rows[str(EXIT_CANCELLED)]
