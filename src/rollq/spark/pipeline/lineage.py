"""What a run of the pipeline tells a lineage backend: which histories it read, and which tables it
wrote. `lineage_events` sends it as events of OpenLineage.

A run is told by START, and COMPLETE, FAIL or ABORT. One that goes on (`every_s`) is a run for each
batch that writes something.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.formats import PARQUET, form_of
from rollq.spark.pipeline.lake_formats import is_in_catalog
from rollq.spark.pipeline.lineage_events import (
    ABORT,
    COMPLETE,
    FAIL,
    START,
    Dataset,
    EventSender,
    OutputTable,
    RunEvent,
    is_configured,
)
from rollq.spark.pipeline.manifest import DATA, TableManifest
from rollq.spark.pipeline.storage import TableBatch, TableOutput
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Extent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"  # of jobs, as in other integrations
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
_ROOTED: Final = ("file", "hdfs")  # names begin with a slash; elsewhere they are keys of a bucket
_PASSWORD: Final = re.compile(r"^[^/@]*:[^/@]*@")


@dataclass(frozen=True, slots=True)
class TablesPlace:
    """Where the tables are: what the names of their datasets have in common."""

    namespace: str
    prefix: str

    def dataset(self, table: str) -> Dataset:
        """A table."""
        return Dataset(self.namespace, self.prefix + table)


@dataclass(slots=True)
class _Run:
    """A run that has begun."""

    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    is_told: bool = False
    written: dict[str, TableOutput] = field(default_factory=dict)
    manifest: TableManifest | None = None  # the last that it committed


class Lineage:
    """The lineage of a call of `Pipeline.run`, as a context: leaving it tells how a run ended."""

    def __init__(
        self,
        sender: EventSender | None,
        job: Dataset,
        place: TablesPlace,
        origins: Sequence[SourceOrigin],
        *,
        is_once: bool,
    ) -> None:
        """No IO.

        Args:
            sender: takes events; None: nothing is told.
            job: the name of the job.
            place: of the tables.
            origins: of the groups, in the order of extents.
            is_once: all batches are one run, of which is told also if it writes nothing.
        """
        self._sender = sender
        self._job = job
        self._place = place
        self._origins = origins
        self._is_once = is_once
        self._inputs: dict[str, Dataset] = {}  # by group
        self._run: _Run | None = None

    def begin(self) -> None:
        """A run begins."""
        if self._sender:
            self._run = _Run()

    def reads(self, extents: Sequence[Extent]) -> None:
        """These histories are there."""
        if self._sender:
            pairs = zip(self._origins, extents, strict=False)
            self._inputs = {each.group: history_of(origin, each.group) for origin, each in pairs}
            if self._is_once:
                self.start()

    def start(self) -> None:
        """It is sure that the run has something to tell."""
        if self._run and not self._run.is_told:
            self._run.is_told = True
            self._tell(self._run, START, self._run.began)

    def wrote(self, manifest: TableManifest, batch: TableBatch) -> None:
        """A batch was committed."""
        if self._run:
            self._run.manifest = manifest
            for name, output in batch.outputs().items():
                if not TABLES[name].is_internal:
                    before = self._run.written.get(name, TableOutput(0, 0))
                    self._run.written[name] = before.plus(output)
            if not self._is_once:
                self.complete()
                self.begin()

    def complete(self) -> None:
        """The run ended."""
        self._end(COMPLETE)

    def __enter__(self) -> Lineage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self.start()
            self._end(FAIL, str(error) or type(error).__name__)
        elif error:
            self._end(ABORT)
        if self._sender:
            self._sender.close()

    def _end(self, state: str, error: str = "") -> None:
        run, self._run = self._run, None
        if run and run.is_told:
            self._tell(run, state, datetime.now(UTC), error)

    def _tell(self, run: _Run, state: str, at: datetime, error: str = "") -> None:
        assert self._sender
        marks = run.manifest.marks if run.manifest else {}
        inputs = {
            dataset: str(marks[group].index) if group in marks else ""
            for group, dataset in self._inputs.items()
        }
        outputs = [
            OutputTable(self._place.dataset(name), name, _version(run.manifest, name), written)
            for name, written in run.written.items()
        ]
        self._sender.send(RunEvent(state, at, run.run_id, self._job, inputs, outputs, error))


def open_lineage(
    spark: SparkSession, feed: Feed, out: str | Path, form: str, *, is_once: bool
) -> Lineage:
    """The lineage of a run, which tells nothing if OpenLineage is not installed or not configured.

    Args:
        spark: the session.
        feed: the source of events.
        out: the folder of the tables, or their database; see `storage_of`. `form` too.
        is_once: see `Lineage`.
    """
    if not is_configured(os.environ):
        return Lineage(None, Dataset("", ""), TablesPlace("", ""), (), is_once=is_once)
    place = str(out)
    is_database = is_in_catalog(spark, place)
    if not (is_database or "://" in place):
        place = str(Path(place).absolute())
    job = Dataset(os.environ.get(NAMESPACE) or "rollq", f"pipeline:{place}")
    if is_database:
        uri = spark.conf.get(f"spark.sql.catalog.{place.partition('.')[0]}.uri", "")
        tables = database_place(place, uri or "")
    else:
        tables = folder_place(place, form_of(out, form))
    return Lineage(EventSender(), job, tables, feed.origins(), is_once=is_once)


def history_of(origin: SourceOrigin, group: str) -> Dataset:
    """The history of a group: at its members, by the first address in the order of the alphabet,
    so that the order in which they are given does not count; or in a folder."""
    from rollq.roles.reader.reader import addresses_in

    if origin.servers:
        return Dataset(f"rollq://{min(addresses_in(origin.servers))}", group)
    return folder_of(origin.path)


def folder_place(tables: str, form: str) -> TablesPlace:
    """Tables in a folder or at a URL."""
    folder = folder_of(tables)
    within = f"{DATA}/" if form == PARQUET else ""
    return TablesPlace(folder.namespace, f"{folder.name}/{within}")


def database_place(tables: str, uri: str) -> TablesPlace:
    """Tables in a database of a catalog, which is known by its address, if that is one that others
    use, too; else by its name in this session."""
    catalog, _, database = tables.partition(".")
    url = urlsplit(uri)
    if url.scheme not in ("http", "https", "thrift"):
        return TablesPlace(catalog, f"{database}.")
    scheme = "hive" if url.scheme == "thrift" else url.scheme
    path = url.path.rstrip("/")
    return TablesPlace(f"{scheme}://{_PASSWORD.sub('', url.netloc)}{path}", f"{database}.")


def folder_of(place: str) -> Dataset:
    """A folder or URL, by the naming rules of OpenLineage."""
    if "://" not in place:
        return Dataset("file", str(Path(place).absolute()))
    url = urlsplit(place)
    scheme = _SCHEMES.get(url.scheme, url.scheme)
    path = url.path.rstrip("/")
    if scheme == "file":
        return Dataset("file", path)
    name = path if scheme in _ROOTED else path.lstrip("/")
    return Dataset(f"{scheme}://{_PASSWORD.sub('', url.netloc)}", name)


def _version(manifest: TableManifest | None, table: str) -> str:
    if manifest is None:
        return ""
    return manifest.version(table) or str(manifest.number)
