"""What `rollq pipeline forget` takes, before Spark is started."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rollq.base.errors import LocalError
from rollq.cli.main import app
from rollq.cli.pipeline_forget import moment_ms

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90d", NOW_MS - 90 * DAY_MS),
        ("36h", NOW_MS - 36 * 3_600_000),
        ("2026-01-31", 1_769_817_600_000),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T21:00+09:00", 1_769_860_800_000),
    ],
)
def test_a_moment_is_a_date_a_time_or_an_age(text: str, ms: int) -> None:
    assert moment_ms(text, NOW_MS) == ms


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("90", "has no unit"),
        ("20260131", "has no unit"),
        ("2062-01-31", "in the future"),
        ("yesterday", "makes no sense"),
        ("90y", "makes no sense"),
    ],
)
def test_what_is_none_of_them_is_refused(text: str, told: str) -> None:
    with pytest.raises(LocalError, match=told):
        moment_ms(text, NOW_MS)


def test_nothing_chosen_and_nobody_to_confirm_are_told_at_once() -> None:
    words = ["pipeline", "forget", "--tables", "nowhere"]
    told = CliRunner().invoke(app, [*words, "--yes"])
    assert (told.exit_code, "nothing is chosen" in told.stderr) == (2, True)
    for more in ([], ["--json"]):
        told = CliRunner().invoke(app, [*words, "--client", "a", *more])
        assert (told.exit_code, "add --yes" in told.stderr) == (2, True)
