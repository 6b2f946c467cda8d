"""The interface of table formats for runs and batches.

`Storage` is the tables of one pipeline, whose newest manifest says which batch is current;
`TableBatch` writes one batch, which is invisible until it commits. `parquet` implements both with
files listed in a manifest, `lake` with Iceberg and Delta. Queries do not depend on the format.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rollq.spark.pipeline.bronze import Hour, Reading
from rollq.spark.pipeline.catalog import TableSpec
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.manifest import TableManifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Only:
    """A predicate on the rows of a table: all given conditions must hold."""

    is_open: bool | None = None  # whether later batches may change them
    days: Collection[str] | None = None  # partitions; open rows have none
    first_day: str = ""
    first_ms: int | None = None  # rows at or after this time, lasting until then, or open
    end_ms: int | None = None

    def moments(self, table: TableSpec) -> str:
        """The time conditions, as SQL."""
        found = []
        if self.first_ms is not None:
            first = SPARK.moment(str(self.first_ms))
            either = [f"{name} >= {first}" for name in (table.by, table.since) if name]
            if table.since:
                either.append(f"{table.by} IS NULL")
            found.append(f"({' OR '.join(either)})")
        if self.end_ms is not None:
            found.append(f"{table.by} < {SPARK.moment(str(self.end_ms))}")
        return " AND ".join(found) or "true"


ALL = Only()
OPEN_ONLY = Only(is_open=True)


@dataclass(frozen=True, slots=True)
class NewEvents:
    """The events written to the bronze table."""

    rows: int
    hours: list[Hour]


class TableOutput(NamedTuple):
    """What a batch wrote to a table; None: the format does not tell."""

    rows: int | None
    bytes: int | None

    def plus(self, other: TableOutput) -> TableOutput:
        """Both together."""
        return TableOutput(_sum(self.rows, other.rows), _sum(self.bytes, other.bytes))


class TableBatch(Protocol):
    """The tables as a batch found them, and its changes."""

    def write_events(
        self, reading: Reading, known: Mapping[str, int], *, is_small: bool
    ) -> NewEvents:
        """Append events to the bronze table, except those up to the known index of their group.
        With `is_small`, few are expected."""

    def begin_rebuild(self) -> NewEvents:
        """Start a rebuild: all events count as new, and all other tables as empty."""

    def found(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        """Rows from before the batch."""

    def now(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        """Rows including the changes of the batch so far."""

    def new(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        """Rows written by the batch."""

    def has(self, table: TableSpec, only: Only = ALL) -> bool:
        """Whether `found` may have rows; False only if there are none."""

    def take_open_jobs(self) -> DataFrame | None:
        """Open jobs from before the batch, at least those with new events in the view `news`; None
        if there are none. `replace_open_jobs` must write them again."""

    def replace_open_jobs(self, rows: DataFrame) -> None:
        """Write jobs, open ones by the column `is_open`, in place of those taken."""

    def append(self, table: TableSpec, rows: DataFrame) -> None:
        """Append rows."""

    def replace_open(self, table: TableSpec, rows: DataFrame, open_if: str) -> None:
        """Write rows, open ones by this SQL condition, in place of all open rows."""

    def replace_days(self, table: TableSpec, rows: DataFrame, days: Collection[str]) -> None:
        """Replace the partitions of these days."""

    def replace_depth(self, rows: DataFrame, first_day: str) -> None:
        """Replace the depth from that day on; rows without a minute replace the levels of all
        queues."""

    def replace(self, table: TableSpec, rows: DataFrame) -> None:
        """Replace all rows."""

    def new_spans(self, table: TableSpec, only: Only = ALL) -> Sequence[tuple[int, int]]:
        """Time spans that cover all rows written by the batch; empty if there are none."""

    def rows_about(self, table: TableSpec, first_ms: int, end_ms: int) -> float:
        """The estimated number of rows in a time span."""

    def stage(self, rows: DataFrame, name: str, *, is_small: bool) -> DataFrame:
        """Materialise an intermediate result that several queries use."""

    def compact(self) -> bool:
        """Merge small files; returns whether there was something to do."""

    def commit(self, manifest: TableManifest) -> TableManifest:
        """Make all changes visible at once. The given manifest is without tables; returns the
        complete one."""

    def outputs(self) -> Mapping[str, TableOutput]:
        """By table what the batch wrote, if anything; known after the commit."""

    def end(self) -> None:
        """Release resources after the commit, or after a failure."""


class Storage(Protocol):
    """The tables of one pipeline."""

    def newest(self) -> TableManifest | None:
        """The current manifest; None if there is none."""

    def expect(self) -> TableManifest:
        """As `newest`, for readers.

        Raises:
            LocalError: BAD_OPTIONS if nothing was ever committed here.
        """

    def writing(self) -> AbstractContextManager[None]:
        """Hold the writer lock inside the block.

        Raises:
            DiskError: another process writes here, or the place is not writable.
        """

    def read(self, manifest: TableManifest, table: TableSpec) -> DataFrame:
        """A table as of a manifest."""

    def batch(self, found: TableManifest, stamp: str) -> TableBatch:
        """Begin the next batch. Only for the writer.

        Args:
            found: the current manifest.
            stamp: a unique name for the batch.
        """

    def sweep(self) -> None:
        """Remove superseded data and the remains of failed batches. Only for the writer."""

    def prune(self) -> None:
        """Remove everything that the current manifest does not need, even if readers still use it.
        Only for the writer."""


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
