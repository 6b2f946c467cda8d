"""The tables of `rollq pipeline run`, for charts; or how to create them."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import math
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from rollq.base.errors import RollqError
from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.tables import paths
from rollq.web.call import ApiCall, ApiReply, Page
from rollq.web.errors import not_found
from rollq.web.facts import check_reads_history

log = logging.getLogger("rollq.web")

HOW_TO: Final = (
    "pip install 'rollq[spark]'",
    "rollq pipeline run --tables DIR",
    "rollq web --tables DIR",
)
NAMES: Final = tuple(name for name in TABLES if name.startswith("gold_"))


async def tables(call: ApiCall) -> ApiReply:
    """The existing tables, and commands to create them."""
    await check_reads_history(call.links)
    found = await asyncio.to_thread(_tables, call.web.setup.tables)
    can_read = importlib.util.find_spec("pyarrow") is not None
    is_there = can_read and bool(found)
    document = {"tables": [{"name": name} for name in found], "readable": is_there}
    return ApiReply(document | {"todo": [] if is_there else list(HOW_TO)})


async def table(call: ApiCall) -> ApiReply:
    """The last rows of a table."""
    await check_reads_history(call.links)
    page: Page = call.query
    name, root = call.path["name"], call.web.setup.tables
    if root is None or name not in await asyncio.to_thread(_tables, root):
        raise not_found(f"no table {name[:64]!r}", "GET /history says how to make them")
    if importlib.util.find_spec("pyarrow") is None:
        raise not_found("pyarrow is not installed", "pip install 'rollq[spark]'")
    columns, rows = await asyncio.to_thread(_rows, root, name, page.limit)
    return ApiReply({"table": name, "columns": columns, "rows": rows, "after": None})


def _tables(root: Path | None) -> list[str]:
    """The names of the tables that have data."""
    if root is None or not root.is_dir():
        return []
    try:
        return [name for name in NAMES if paths(root, name)]
    except RollqError as error:
        log.info("the tables of %s cannot be read: %s", root, error)
        return []


def _rows(root: Path, name: str, limit: int) -> tuple[list[str], list[list[Any]]]:
    """The columns, and the last rows by the first column. Files of older versions may lack
    columns."""
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    files = [pq.read_table(path) for path in paths(root, name)]
    whole = pa.concat_tables(files, promote_options="default")
    first = whole.column_names[0]
    whole = whole.sort_by(first)
    last = whole.slice(max(0, whole.num_rows - limit))
    rows = [[_plain(value) for value in row.values()] for row in last.to_pylist()]
    return whole.column_names, rows


def _plain(value: Any) -> Any:
    """Convert a value to a JSON type."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
