"""A run of the pipeline: divides the history into batches, each of which commits a manifest.

A batch starts where the manifest ends. The manifest holds offsets and tables, so that they always
agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.batch import PipelineBatch
from rollq.spark.pipeline.catalog import SCHEMA_VERSION
from rollq.spark.pipeline.checks import FAILED, CheckResult
from rollq.spark.pipeline.failures import as_rollq_error, is_transient
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.formats import storage_of
from rollq.spark.pipeline.lineage import Lineage, open_lineage
from rollq.spark.pipeline.manifest import TableManifest
from rollq.spark.pipeline.settings import pipeline_settings
from rollq.spark.pipeline.upkeep import stamp_of
from rollq.spark.source.holding import Holding
from rollq.spark.source.offsets import share
from rollq.spark.source.places import Extent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_INDEXES: Final = 5_000_000
BATCH_BYTES: Final = 64 << 20  # as it is stored: some 4 million events, if it is packed
TRIES_MAX: Final = 4
READING: Final = "bronze"  # the stage in which it is found whether there is anything new
SWEEP_BATCHES: Final = 20  # interval of sweeps in a long run


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """Progress of a run."""

    stage: str  # the current stage of a batch; "" after its commit
    manifest: TableManifest  # the last committed one
    ends: Mapping[str, int]  # by group the end of the history when it was last listed
    batch_s: float = 0.0  # duration of the batch
    checked: Sequence[CheckResult] = ()  # of a committed batch


OnProgress = Callable[[PipelineStep], None]


class Pipeline:
    """Updates the tables of one folder from one feed."""

    def __init__(
        self,
        spark: SparkSession,
        feed: Feed,
        out: str | Path,
        *,
        form: str = "",
        most: int = BATCH_INDEXES,
        told: OnProgress = lambda step: None,
        has_moved: bool = False,
    ) -> None:
        """No IO yet.

        Args:
            spark: a session, local or on a cluster that shares the folder.
            feed: the source of events.
            out: the folder of the tables, or their database; see `storage_of`.
            form: their format, `parquet`, `iceberg` or `delta`; empty: that of existing tables.
            most: the most log indexes per batch.
            told: called with progress.
            has_moved: accept a source with another name than recorded.
        """
        self._spark = spark
        self._feed = feed
        self._out = out
        self._form = form
        self._storage = storage_of(spark, out, form)
        self._most = most
        self._on_progress = told
        self._has_moved = has_moved
        self._ends: dict[str, int] = {}
        self._newest = _empty_manifest(feed)
        self._starts: dict[str, int] = {}  # by group the next index to read
        self._holding = Holding()
        self._stop = Event()
        self._lineage: Lineage  # of this call of `run`
        self.failed: list[CheckResult] = []  # failed checks of this run's batches

    def run(self, every_s: float = 0.0) -> TableManifest:
        """Process everything that is available; with `every_s`, continue with new events until
        `stop` or an interrupt.

        Raises:
            RollqError: no member answers, the folder is not writable or belongs to another source,
                or unread history was deleted. The tables are as the last batch left them.
        """
        names = (self._spark, self._feed, self._out, self._form)
        with open_lineage(*names, is_once=not every_s) as self._lineage:
            return self._run(every_s)

    def stop(self) -> None:
        """End a continuous run; the current batch is not committed."""
        self._stop.set()

    def _run(self, every_s: float) -> TableManifest:
        extents = self._extents()
        with self._storage.writing(), pipeline_settings(self._spark):
            self._newest = self._storage.newest() or self._newest
            self._check_source()
            self._storage.sweep()
            if self._newest.number and self._newest.schema_version < SCHEMA_VERSION:
                self._with_retries(lambda: self._commit(lambda batch: batch.remake()))
            self._starts = {group: mark.index + 1 for group, mark in self._newest.marks.items()}
            first = self._newest.number
            while True:
                self._process_available(extents)
                self._lineage.complete()
                if not every_s or self._stop.wait(every_s):
                    if self._newest.number > first:
                        self._hold()
                    return self._newest
                extents = self._extents()

    def _extents(self) -> list[Extent]:
        """The available history, with which what lineage calls a run begins."""
        self._lineage.begin()
        extents = self._feed.extents()
        self._lineage.reads(extents)
        return extents

    def _check_source(self) -> None:
        source = self._newest.source
        if not (self._has_moved or self._feed.is_same(source)):
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"the tables in {self._out} were made from {source}, not {self._feed.name}",
                "choose another folder with --tables; if it is the same grid at another place, "
                "say --moved",
            )
        self._newest = msgspec.structs.replace(self._newest, source=self._feed.name)

    def _process_available(self, extents: Sequence[Extent]) -> None:
        """Process batches up to the end of the history as listed."""
        for each in extents:
            self._starts.setdefault(each.group, each.first)
        # Offsets never decrease: a lagging member may report less than another has before, and an
        # unavailable group keeps its offset.
        self._ends = self._starts | {
            each.group: max(each.end, self._starts[each.group]) for each in extents
        }
        self._hold_if_due()
        while self._starts != self._ends and not self._stop.is_set():
            ends = share(self._starts, self._ends, self._most)
            ends = self._feed.bounded(self._starts, ends, BATCH_BYTES)
            here = {each.group for each in extents}
            self._run_batch({group: end for group, end in ends.items() if group in here})
            self._starts = ends
            self._hold_if_due()

    def _hold_if_due(self) -> None:
        if self._holding.is_due(self._starts, time.monotonic()):
            self._hold()

    def _hold(self) -> None:
        """Report the offsets to members, which may then delete older history."""
        self._holding.tried(self._starts, time.monotonic())
        self._feed.hold(self._starts)

    def _run_batch(self, ends: dict[str, int]) -> None:
        """Run one batch."""
        starts = {group: self._starts[group] for group in ends}
        self._with_retries(
            lambda: self._commit(lambda batch: batch.make(self._feed.reading(starts, ends)))
        )

    def _with_retries(self, work: Callable[[], None]) -> None:
        """Run work, with retries for transient errors of Spark on a busy machine."""
        from pyspark.errors import PySparkException

        for left in reversed(range(TRIES_MAX)):
            try:
                work()
                return
            except PySparkException as error:
                if not (left and is_transient(error)):
                    raise as_rollq_error(error) from error

    def _commit(self, making: Callable[[PipelineBatch], TableManifest | None]) -> None:
        started = time.monotonic()
        tables = self._storage.batch(self._newest, stamp_of(self._newest))
        try:
            batch = PipelineBatch(self._spark, tables, self._newest, self._report_stage)
            manifest = making(batch)
            if manifest is None:
                return
            manifest = self._newest = tables.commit(manifest)
            self._lineage.wrote(manifest, tables)
        finally:
            tables.end()
        if manifest.number % SWEEP_BATCHES == 0:
            self._storage.sweep()
        self.failed += [one for one in batch.checked if one.outcome == FAILED]
        batch_s = time.monotonic() - started
        self._on_progress(PipelineStep("", manifest, self._ends, batch_s, batch.checked))

    def _report_stage(self, stage: str) -> None:
        if stage != READING:
            self._lineage.start()
        self._on_progress(PipelineStep(stage, self._newest, self._ends))


def _empty_manifest(feed: Feed) -> TableManifest:
    return TableManifest(0, SCHEMA_VERSION, feed.name, 0, 0, {}, {})
