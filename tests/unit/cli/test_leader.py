"""What a member is told by `rollq leader`."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from rollq.cli import leader, logs
from rollq.cli.main import app
from rollq.history.retention import DAY_MS, Retention
from rollq.roles.member.setup import MemberSetup


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ((), Retention(10_000_000_000, 90 * DAY_MS)),
        (("--history-mb", "0", "--history-days", "0"), Retention()),
        (("--history-days", "7"), Retention(10_000_000_000, 7 * DAY_MS)),
    ],
)
def test_history_is_bounded_unless_it_is_told_otherwise(
    words: tuple[str, ...], kept: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[MemberSetup] = []

    async def serve(setup: MemberSetup, *_: Any, **_more: Any) -> None:
        seen.append(setup)

    monkeypatch.setattr(leader, "_serve", serve)
    monkeypatch.setattr(logs, "set_up_logs", lambda *_, **_more: None)  # it would stay
    CliRunner().invoke(app, ["leader", "5000", *words], catch_exceptions=False)
    assert [setup.retention for setup in seen] == [kept]
