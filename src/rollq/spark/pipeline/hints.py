"""Run time estimates, from the tables back to the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.hints import ExecHint
from rollq.spark.pipeline.catalog import EXECS
from rollq.spark.pipeline.tables import paths

RUNS_MIN: Final = 20  # fewer runs are not representative


def exec_rows(out: str | Path) -> list[dict[str, Any]]:
    """The rows of `gold_execs`, read from Parquet files without Spark: the table is small.

    Raises:
        LocalError: BAD_OPTIONS if there are no tables.
    """
    import pyarrow.parquet as pq

    return [row for path in paths(out, EXECS.name) for row in pq.read_table(path).to_pylist()]


def hints_of(
    rows: Sequence[Mapping[str, Any]], group: str = "", runs_min: int = RUNS_MIN
) -> list[ExecHint]:
    """Hints for execs that have run often enough.

    Args:
        rows: of `gold_execs`.
        group: the group; may be empty if the tables have only one.
        runs_min: the least number of runs.

    Raises:
        LocalError: BAD_OPTIONS if there are several groups and none is given.
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
