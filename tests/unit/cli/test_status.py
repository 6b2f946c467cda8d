"""What `rollq status --workers` says of workers."""

from __future__ import annotations

import pytest

from rollq.cli.status import _show_layers
from rollq.documents.grid import worker_document
from rollq.grid.views import RawWorkerView


def test_nothing_is_said_of_the_layers_of_a_worker_that_is_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It told them to the leader with its session."""
    views = [
        RawWorkerView(b"a" * 16, 1, "here", (), 1, (), layers=("output",), connected=True),
        RawWorkerView(b"b" * 16, 1, "old", (), 1, (), connected=True),
        RawWorkerView(b"c" * 16, 1, "away", (), 1, (), connected=False),
    ]
    _show_layers([worker_document(view) for view in views])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("layers")]
    assert lines == [
        "layers of here: output",
        "layers of old: unknown (worker of an older version)",
    ]
