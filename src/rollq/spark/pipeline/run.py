"""A run of the pipeline: Spark's streaming cuts the history into batches, each becomes a manifest.

Spark's own checkpoint lives only as long as the run: the manifest holds offsets and tables
together, so that there is no moment at which they could disagree.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.spark.pipeline.batch import Batch
from rollq.spark.pipeline.catalog import SCHEMA_VERSION
from rollq.spark.pipeline.compact import compacted
from rollq.spark.pipeline.failures import told_by_spark
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.manifest import Book, Manifest
from rollq.spark.pipeline.settings import suited
from rollq.spark.pipeline.tables import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH_INDEXES: Final = 5_000_000
POLL_S: Final = 1
SWEEP_BATCHES: Final = 20  # how often a long run takes away what nobody needs any more
_CHECKPOINT: Final = "checkpoint-"


@dataclass(frozen=True, slots=True)
class Step:
    """How a run gets on."""

    stage: str  # what is being made; "" when a batch is done
    manifest: Manifest  # the last that was committed
    ends: Mapping[str, int]  # by group where its history ended when the run began
    batch_s: float = 0.0  # how long the batch took


Told = Callable[[Step], None]


class Pipeline:
    """The tables of one out folder, and what feeds them."""

    def __init__(
        self,
        spark: SparkSession,
        feed: Feed,
        out: str | Path,
        *,
        most: int = BATCH_INDEXES,
        told: Told = lambda step: None,
        has_moved: bool = False,
    ) -> None:
        """Nothing happens yet.

        Args:
            spark: a session, embedded or on a cluster that sees the folder too.
            feed: where events come from.
            out: the folder of the tables.
            most: log indexes a batch.
            told: called as the run gets on.
            has_moved: the source is the same as before, though it looks like another.
        """
        self._spark = spark
        self._feed = feed
        self._book = Book(Path(out))
        self._most = most
        self._told = told
        self._has_moved = has_moved
        self._ends: dict[str, int] = {}
        self._newest = _nothing(feed)
        self._failure: BaseException | None = None
        self._stop = Event()

    def run(self, every_s: float = 0.0) -> Manifest:
        """Take in everything that there is now; with `every_s`, go on with what comes until
        `stop` or an interrupt.

        Raises:
            RollqError: no member answers, the folder cannot be written or belongs to another
                source, history is gone that was not read; the tables are as the last batch left
                them.
        """
        self._ends = self._feed.ends()
        with self._book.writing(), suited(self._spark):
            self._newest = self._book.newest() or self._newest
            self._check_source()
            self._book.sweep()
            if _is_remote(self._spark):
                self._drive_by_hand(every_s)
            else:
                self._drive(every_s)
        return self._newest

    def stop(self) -> None:
        """End a run that goes on; a batch that is being made is given up."""
        self._stop.set()

    def _check_source(self) -> None:
        source = self._newest.source
        if not (self._has_moved or self._feed.is_same(source)):
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"the tables in {self._book.out} were made from {source}, not {self._feed.name}",
                "choose another folder with --tables; if it is the same grid at another place, "
                "say --moved",
            )
        self._newest = msgspec.structs.replace(self._newest, source=self._feed.name)

    def _drive(self, every_s: float) -> None:
        """Let Spark's streaming find what there is and cut it into batches."""
        from pyspark.errors import PySparkException

        checkpoint = self._checkpoint()
        query = self._start(checkpoint, every_s)
        try:
            while not (query.awaitTermination(POLL_S) or self._stop.is_set()):
                pass
        except PySparkException as error:
            raise self._failure or told_by_spark(error) from error
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)
        if isinstance(self._failure, RollqError):
            raise self._failure

    def _checkpoint(self) -> Path:
        for left in self._book.folder.glob(f"{_CHECKPOINT}*"):
            shutil.rmtree(left, ignore_errors=True)
        return self._book.folder / f"{_CHECKPOINT}{secrets.token_hex(4)}"

    def _start(self, checkpoint: Path, every_s: float) -> StreamingQuery:
        events = self._feed.stream(self._spark, self._newest.marks, self._ends, self._most)
        writer = events.writeStream.foreachBatch(self._take).option(
            "checkpointLocation", str(checkpoint.absolute())
        )
        if every_s:
            return writer.trigger(processingTime=f"{every_s} seconds").start()
        return writer.trigger(availableNow=True).start()

    def _drive_by_hand(self, every_s: float) -> None:
        """By Connect, what is called for every batch would run in another process, away from this
        object: here batches are cut by ourselves, and read as such."""
        from pyspark.errors import PySparkException

        try:
            while True:
                for ends in self._cuts():
                    self._take(self._feed.read(self._spark, self._newest.marks, ends), 0)
                if not every_s or self._stop.wait(every_s):
                    return
                self._ends = self._feed.ends()
        except PySparkException as error:
            raise told_by_spark(error) from error

    def _cuts(self) -> Iterator[dict[str, int]]:
        """Where batches end, until the end of the history as it was found."""
        marks = self._newest.marks
        starts = {group: marks[group].index + 1 if group in marks else 1 for group in self._ends}
        while starts != self._ends and not self._stop.is_set():
            starts = {
                group: min(starts[group] + self._most, end) if self._most else end
                for group, end in self._ends.items()
            }
            yield starts

    def _take(self, events: DataFrame, _number: int) -> None:
        """One batch, called by Spark's streaming."""
        started = time.monotonic()
        stamp = f"{self._newest.number + 1:010d}-{secrets.token_hex(4)}"
        store = Store(self._spark, self._book.out)
        try:
            batch = Batch(self._spark, store, self._newest, stamp, self._tell)
            manifest = batch.make(events)
            if manifest is None:
                return
            manifest = compacted(store, manifest, f"{stamp}-c")
            self._book.commit(manifest)
        except BaseException as error:
            self._failure = error
            raise
        store.unstage()
        self._newest = manifest
        if manifest.number % SWEEP_BATCHES == 0:
            self._book.sweep()
        self._told(Step("", manifest, self._ends, time.monotonic() - started))

    def _tell(self, stage: str) -> None:
        self._told(Step(stage, self._newest, self._ends))


def _nothing(feed: Feed) -> Manifest:
    return Manifest(0, SCHEMA_VERSION, feed.name, 0, 0, {}, {})


def _is_remote(spark: SparkSession) -> bool:
    """Whether Spark is reached by Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
