"""Estimates of run times, from the tables back to the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.hints import ExecHint
from rollq.spark.pipeline.catalog import EXECS
from rollq.spark.pipeline.tables import paths

RUNS_MIN: Final = 20  # fewer runs say little about the next


def exec_rows(out: str | Path) -> list[dict[str, Any]]:
    """The rows of the table that hints are made of, from Parquet files without Spark: it is small.

    Raises:
        LocalError: BAD_OPTIONS if there are no tables.
    """
    import pyarrow.parquet as pq

    return [row for path in paths(out, EXECS.name) for row in pq.read_table(path).to_pylist()]


def hints_of(
    rows: Sequence[Mapping[str, Any]], group: str = "", runs_min: int = RUNS_MIN
) -> list[ExecHint]:
    """What the table of execs says about those that ran often enough.

    Args:
        rows: the table.
        group: whose execs; may be left out if the tables are of one group.
        runs_min: how often an exec must have run.

    Raises:
        LocalError: BAD_OPTIONS if there are several groups and none is named.
    """
    groups = sorted({row["group"] for row in rows})
    if len(groups) > 1 and not group:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "the tables are of several groups",
            f"name one with --group: {', '.join(groups)}",
        )
    return [
        ExecHint(row["exec"], row["run_ms_p50"], row["run_ms_p95"], row["run_ms_p99"], row["runs"])
        for row in sorted(rows, key=lambda row: str(row["exec"]))
        if row["group"] == (group or row["group"]) and row["runs"] >= runs_min
    ]
