"""A run of the pipeline: the history is cut into batches, and each becomes a manifest.

A batch begins where the manifest ends. It holds offsets and tables together, so that there is no
moment at which they could disagree.
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
from rollq.spark.pipeline.failures import is_passing, told_by_spark
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.formats import storage_of
from rollq.spark.pipeline.manifest import Manifest
from rollq.spark.pipeline.settings import suited
from rollq.spark.pipeline.upkeep import stamp_of
from rollq.spark.source.holding import Holding
from rollq.spark.source.offsets import share
from rollq.spark.source.places import Extent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_INDEXES: Final = 5_000_000
TRIES_MAX: Final = 4
SWEEP_BATCHES: Final = 20  # how often a long run removes files that no manifest needs any more


@dataclass(frozen=True, slots=True)
class Step:
    """How a run gets on."""

    stage: str  # what is being made; "" when a batch is done
    manifest: Manifest  # the last that was committed
    ends: Mapping[str, int]  # by group where its history ended when the run began
    batch_s: float = 0.0  # how long the batch took
    checked: Sequence[CheckResult] = ()  # of a batch that is done


Told = Callable[[Step], None]


class Pipeline:
    """The tables of one out folder, and what feeds them."""

    def __init__(
        self,
        spark: SparkSession,
        feed: Feed,
        out: str | Path,
        *,
        form: str = "",
        most: int = BATCH_INDEXES,
        told: Told = lambda step: None,
        has_moved: bool = False,
    ) -> None:
        """Nothing happens yet.

        Args:
            spark: a session, embedded or on a cluster that sees the folder too.
            feed: where events come from.
            out: the folder of the tables, or their database; see `storage_of`.
            form: their format: `parquet`, `iceberg` or `delta`; that which they have, if none is
                named.
            most: log indexes a batch.
            told: called as the run gets on.
            has_moved: the source is the same as before, though it looks like another.
        """
        self._spark = spark
        self._feed = feed
        self._out = out
        self._storage = storage_of(spark, out, form)
        self._most = most
        self._told = told
        self._has_moved = has_moved
        self._ends: dict[str, int] = {}
        self._newest = _nothing(feed)
        self._starts: dict[str, int] = {}  # by group the index that is read next
        self._holding = Holding()
        self._stop = Event()
        self.failed: list[CheckResult] = []  # checks of the batches that this made

    def run(self, every_s: float = 0.0) -> Manifest:
        """Take in everything that there is now; with `every_s`, go on with what comes until
        `stop` or an interrupt.

        Raises:
            RollqError: no member answers, the folder cannot be written or belongs to another
                source, history is gone that was not read; the tables are as the last batch left
                them.
        """
        extents = self._feed.extents()
        with self._storage.writing(), suited(self._spark):
            self._newest = self._storage.newest() or self._newest
            self._check_source()
            self._storage.sweep()
            if self._newest.number and self._newest.schema_version < SCHEMA_VERSION:
                self._again(lambda: self._commit(lambda batch: batch.remake()))
            self._starts = {group: mark.index + 1 for group, mark in self._newest.marks.items()}
            first = self._newest.number
            while True:
                self._take_all(extents)
                if not every_s or self._stop.wait(every_s):
                    if self._newest.number > first:
                        self._hold()
                    return self._newest
                extents = self._feed.extents()

    def stop(self) -> None:
        """End a run that goes on; a batch that is being made is given up."""
        self._stop.set()

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

    def _take_all(self, extents: Sequence[Extent]) -> None:
        """Batch after batch, to the end of the history as it was found."""
        for each in extents:
            self._starts.setdefault(each.group, each.first)
        # A member that is behind may say less than another has said before, and a group that is
        # left out stays where it was.
        self._ends = self._starts | {
            each.group: max(each.end, self._starts[each.group]) for each in extents
        }
        self._hold_if_due()
        while self._starts != self._ends and not self._stop.is_set():
            ends = share(self._starts, self._ends, self._most)
            here = {each.group for each in extents}
            self._try({group: end for group, end in ends.items() if group in here})
            self._starts = ends
            self._hold_if_due()

    def _hold_if_due(self) -> None:
        if self._holding.is_due(self._starts, time.monotonic()):
            self._hold()

    def _hold(self) -> None:
        """Tell members what they need not keep for us any more."""
        self._holding.tried(self._starts, time.monotonic())
        self._feed.hold(self._starts)

    def _try(self, ends: dict[str, int]) -> None:
        """One batch."""
        starts = {group: self._starts[group] for group in ends}
        self._again(
            lambda: self._commit(lambda batch: batch.make(self._feed.reading(starts, ends)))
        )

    def _again(self, work: Callable[[], None]) -> None:
        """Do it; once more, if Spark trips over a machine that is busy."""
        from pyspark.errors import PySparkException

        for left in reversed(range(TRIES_MAX)):
            try:
                work()
                return
            except PySparkException as error:
                if not (left and is_passing(error)):
                    raise told_by_spark(error) from error

    def _commit(self, making: Callable[[PipelineBatch], Manifest | None]) -> None:
        started = time.monotonic()
        tables = self._storage.batch(self._newest, stamp_of(self._newest))
        try:
            batch = PipelineBatch(self._spark, tables, self._newest, self._tell)
            manifest = making(batch)
            if manifest is None:
                return
            manifest = self._newest = tables.commit(manifest)
        finally:
            tables.end()
        if manifest.number % SWEEP_BATCHES == 0:
            self._storage.sweep()
        self.failed += [one for one in batch.checked if one.outcome == FAILED]
        batch_s = time.monotonic() - started
        self._told(Step("", manifest, self._ends, batch_s, batch.checked))

    def _tell(self, stage: str) -> None:
        self._told(Step(stage, self._newest, self._ends))


def _nothing(feed: Feed) -> Manifest:
    return Manifest(0, SCHEMA_VERSION, feed.name, 0, 0, {}, {})
