"""What each stage of Spark did in a run, from the log of events that Spark writes: which table it
was for, its tasks, their CPU time without that of Python, and the bytes of shuffles and spills."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rollq.spark.pipeline.manifest import DATA

# The folder that a query writes; that of a batch begins with its number.
_WRITES: Final = re.compile(rf"\) Execute InsertInto.*?\nArguments: \S+/{DATA}/(\w+)/\d", re.S)
_METRICS: Final = "internal.metrics."
_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class SparkStage:
    """One stage that ran to its end; a skipped one is not among them."""

    query: str  # the table that it writes, or the line of code that asks
    begun_ms: int
    took_ms: int
    tasks: int
    cpu_s: float
    input_mb: float
    shuffle_read_mb: float
    shuffle_written_mb: float
    spilled_mb: float

    def told(self, since_ms: int) -> str:
        """In one line."""
        return (
            f"  {(self.begun_ms - since_ms) / 1000:6.1f} s + {self.took_ms / 1000:5.1f} s  "
            f"{self.query:20} {self.tasks:4} tasks, CPU {self.cpu_s:6.1f} s, "
            f"MB: input {self.input_mb:.1f}, shuffle read {self.shuffle_read_mb:.1f}, "
            f"written {self.shuffle_written_mb:.1f}, spilled {self.spilled_mb:.1f}"
        )


def log_settings(folder: Path) -> list[str]:
    """Options of `rollq pipeline run` that have Spark write its log to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def stages_of(folder: Path) -> list[SparkStage]:
    """All stages of a run, by the log that it left in a folder, in order of their beginnings."""
    [log] = folder.iterdir()
    names: dict[str, str] = {}  # of queries
    queries: dict[int, str] = {}  # by stage
    found = []
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            kind = event["Event"].rpartition(".")[2]
            if kind == "SparkListenerSQLExecutionStart":
                writes = _WRITES.search(event["physicalPlanDescription"])
                asked = event["description"].rpartition("/")[2]
                names[str(event["executionId"])] = writes[1] if writes else asked
            elif kind == "SparkListenerStageSubmitted":
                properties = event.get("Properties") or {}
                number = event["Stage Info"]["Stage ID"]
                queries[number] = properties.get("spark.sql.execution.id", "")
            elif kind == "SparkListenerStageCompleted":
                stage = event["Stage Info"]
                found.append(_stage(stage, names.get(queries[stage["Stage ID"]], "")))
    return sorted(found, key=lambda stage: stage.begun_ms)


def _stage(stage: Mapping[str, Any], query: str) -> SparkStage:
    sums = {one["Name"]: one["Value"] for one in stage["Accumulables"] if "Name" in one}

    def metric(name: str) -> float:
        return float(sums.get(_METRICS + name, 0))

    read = metric("shuffle.read.localBytesRead") + metric("shuffle.read.remoteBytesRead")
    return SparkStage(
        query=query,
        begun_ms=stage["Submission Time"],
        took_ms=stage["Completion Time"] - stage["Submission Time"],
        tasks=stage["Number of Tasks"],
        cpu_s=metric("executorCpuTime") / 1e9,
        input_mb=metric("input.bytesRead") / _MB,
        shuffle_read_mb=read / _MB,
        shuffle_written_mb=metric("shuffle.write.bytesWritten") / _MB,
        spilled_mb=metric("diskBytesSpilled") / _MB,
    )
