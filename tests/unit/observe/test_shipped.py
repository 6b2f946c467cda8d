"""The dashboard and the alert rules use names and labels that processes really tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from typer.testing import CliRunner

from rollq.base.counters import HISTOGRAM
from rollq.cli.main import app
from rollq.observe.catalog import CATALOG
from rollq.observe.shipped import shipped_text

NAME: Final = re.compile(r"\b(?:rollq|process)_[a-z0-9_]+\b")
GROUPED: Final = re.compile(r"by \(([^)]*)\)")
SERIES: Final = ("_bucket", "_sum", "_count")
OF_THE_SCRAPE: Final = {"job", "instance", "le"}  # added by Prometheus and by histograms


def rules() -> list[dict[str, Any]]:
    (group,) = msgspec.yaml.decode(shipped_text("alerts.yml"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shipped_text("grafana.json"))["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Each with where it stands."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]


def metric_of(series: str) -> str:
    """The metric of a series."""
    for end in SERIES:
        name = series.removesuffix(end)
        if name != series and name in CATALOG and CATALOG[name].kind == HISTOGRAM:
            return name
    return series


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_name_and_label_exists(where: str, expression: str) -> None:
    names = {metric_of(name) for name in NAME.findall(expression)}
    assert names or "up{" in expression, where
    assert names <= CATALOG.keys(), where
    assert not any(CATALOG[name].kind == HISTOGRAM and name in _bare(expression) for name in names)
    labels = {label for name in names for label in CATALOG[name].labels} | OF_THE_SCRAPE
    asked = {part.strip() for group in GROUPED.findall(expression) for part in group.split(",")}
    asked |= set(re.findall(r"[{,]\s*([a-z_]+)=", expression))
    assert asked <= labels, where


def _bare(expression: str) -> set[str]:
    """Names that are used as they are, not as a series of a histogram."""
    return {name for name in NAME.findall(expression) if metric_of(name) == name}


def test_every_rule_says_what_it_means_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert {"summary", "todo"} == rule["annotations"].keys()
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("verb", "name"), [("dashboard", "grafana.json"), ("alerts", "alerts.yml")]
)
def test_the_command_prints_them(verb: str, name: str) -> None:
    result = CliRunner().invoke(app, ["metrics", verb])
    assert (result.exit_code, result.stdout) == (0, shipped_text(name))
