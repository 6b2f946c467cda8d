"""Members and workers that may write to an encrypted disk alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollq.cli.main import app
from rollq.store import at_rest


@pytest.mark.parametrize("command", [["leader", "0"], ["worker", "127.0.0.1", "1"]])
def test_nothing_is_written_to_a_plain_disk(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_rest, "encryption_of", lambda path: "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exec").mkdir()
    ran = CliRunner().invoke(app, [*command, "--require-encrypted-disk"])
    assert ran.exit_code == 2
    assert "is not on an encrypted file system" in ran.output
    assert [path.name for path in tmp_path.iterdir()] == ["exec"]
