"""Spark integration: the data source `format("rollq")`, `grid_map`, and a session that needs only
pip packages.

Importing this package does not import Spark: functions that need it do so when they are called.

- `session`, `java`: a Spark session, and the Java that it runs on;
- `source`: the data source; `schemas`, `arrow`, `state_rows`: its columns and rows; `progress`: the
  lag of a streaming query;
- `grid`: `grid_map` and `start_workers`;
- `pipeline`: the history as tables; `asking`: queries over these tables; `serving`: a Spark Connect
  server over them; `report`: a report as an HTML page.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rollq.spark.progress import offsets_behind
from rollq.spark.session import session

if TYPE_CHECKING:
    from rollq.spark.asking.queries import views
    from rollq.spark.grid.mapping import grid_map
    from rollq.spark.grid.workers import WorkersHandle, start_workers

__all__ = ["WorkersHandle", "grid_map", "offsets_behind", "session", "start_workers", "views"]

_HOMES = {
    "WorkersHandle": "rollq.spark.grid.workers",
    "grid_map": "rollq.spark.grid.mapping",
    "start_workers": "rollq.spark.grid.workers",
    "views": "rollq.spark.asking.queries",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rollq.spark' has no attribute {name!r}")
    return getattr(import_module(home), name)
