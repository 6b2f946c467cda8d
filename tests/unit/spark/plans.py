"""A plan of `grid_map` for tests, with nothing in it that they do not ask for."""

from __future__ import annotations

from rollq.spark.grid.flow import Layout, MapPlan

PLAN = MapPlan(
    servers="127.0.0.1:1",
    exec_name="calc",
    call_id="call",
    client_id="work",
    layout=Layout(1),
    files={},
    outputs=(),
    options={},
    rerun=frozenset({"CANCELLED"}),
    prefix="",
    window=10,
    timeout_s=1.0,
)
