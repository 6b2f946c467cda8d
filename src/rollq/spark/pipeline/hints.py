"""Estimates of run times, from the tables back to the grid."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.hints import ExecHint
from rollq.spark.pipeline.catalog import EXECS
from rollq.spark.pipeline.tables import paths

RUNS_MIN: Final = 20  # fewer runs say little about the next


def hints_of(out: str | Path, group: str = "", runs_min: int = RUNS_MIN) -> list[ExecHint]:
    """What the tables say about execs that ran often enough. Needs no Spark: the table is small.

    Args:
        out: the folder of the pipeline.
        group: whose execs; may be left out if the tables are of one group.
        runs_min: how often an exec must have run.

    Raises:
        LocalError: BAD_OPTIONS if there are no tables, or several groups and none is named.
    """
    import pyarrow.parquet as pq

    rows = [row for path in paths(out, EXECS.name) for row in pq.read_table(path).to_pylist()]
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
