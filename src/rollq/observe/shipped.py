"""Files for monitoring systems: a dashboard for Grafana, alert rules for Prometheus."""

from __future__ import annotations

from importlib.resources import files


def shipped_text(name: str) -> str:
    """The text of a file: `grafana.json` or `alerts.yml`."""
    return files("rollq.observe").joinpath(name).read_text(encoding="utf-8")
