"""What `rollq web` is set up with, without a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq.cli import web
from rollq.cli.main import app
from rollq.web.setup import WebSetup

runner = CliRunner()


def test_it_takes_the_group_of_the_members_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    groups: list[str] = []

    async def serve(setup: WebSetup, **_: Any) -> None:
        groups.append(setup.group)

    monkeypatch.setattr(web, "_serve", serve)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    base = ["web", "--servers", "127.0.0.1:1"]
    assert runner.invoke(app, base).exit_code == 0
    assert runner.invoke(app, [*base, "--group", "trio"]).exit_code == 0
    assert groups == ["", "trio"]
