"""Where events of OpenLineage go in tests, and what they look like."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

needs_package = pytest.mark.skipif(
    find_spec("openlineage") is None, reason="openlineage-python is not installed"
)
Event = dict[str, Any]


def unconfigured(patch: pytest.MonkeyPatch, home: Path) -> None:
    """As on a machine where nobody has configured it."""
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        patch.delenv(name)
    patch.setenv("HOME", str(home))


def configured(patch: pytest.MonkeyPatch, folder: Path, **transport: Any) -> None:
    """Send events so."""
    unconfigured(patch, folder)
    file = folder / "lineage.yml"
    file.write_text(json.dumps({"transport": transport}))
    patch.setenv("OPENLINEAGE_CONFIG", str(file))


def to_file(patch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Send events to a file."""
    told = folder / "events.jsonl"
    configured(patch, folder, type="file", log_file_path=str(told), append=True)
    return told


def events(told: Path) -> list[Event]:
    """The events of a file."""
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []


def states(told: list[Event]) -> list[str]:
    return [event["eventType"] for event in told]


def outputs(event: Event) -> dict[str, Event]:
    """The outputs of an event by the last part of their names."""
    return {each["name"].replace(".", "/").split("/")[-1]: each for each in event["outputs"]}


def rows(event: Event) -> dict[str, int]:
    """The rows that it wrote by table."""
    return {
        name: each["outputFacets"]["outputStatistics"]["rowCount"]
        for name, each in outputs(event).items()
    }
