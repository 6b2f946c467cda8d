"""`rollq pipeline`: converts the history to tables, by Spark."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import counted
from rollq.base.errors import ErrorCode, LocalError
from rollq.cli import pipeline_forget, pipeline_serve, pipeline_tables
from rollq.cli.options import (
    DEFAULT_MASTER,
    DEFAULT_SERVERS,
    DEFAULT_TABLES,
    DEFAULT_TIMEOUT_S,
    Json,
    Master,
    Servers,
    SparkConf,
    Tables,
    TablesFormat,
    Timeout,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rollq.base.hints import ExecHint
    from rollq.cli.progress import Advance
    from rollq.spark.pipeline.checks import CheckResult
    from rollq.spark.pipeline.feed import Feed
    from rollq.spark.pipeline.manifest import TableManifest
    from rollq.spark.pipeline.run import PipelineStep

EPILOG = """\b
Examples:
  rollq pipeline run --once
  rollq pipeline serve
  rollq pipeline status
  rollq pipeline files gold_hourly
"""
app = typer.Typer(
    name="pipeline",
    help="Convert the history to tables: events, jobs, attempts, hourly figures.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    epilog="""\b
Examples:
  rollq pipeline run --once
  rollq pipeline run --every 10s --servers 10.0.0.1:5000,10.0.0.2:5000
  rollq pipeline run --once --path ./state/5000 --tables ./tables
  rollq pipeline run --once --path s3://bucket/history --master spark://host:7077
  rollq pipeline run --once --format iceberg --tables ./lake
"""
)
def run(
    once: Annotated[
        bool, typer.Option("--once", help="Process what there is, then exit (the default).")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Run until Ctrl-C, one batch per interval: 10s.")
    ] = "",
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    servers: Servers = DEFAULT_SERVERS,
    path: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Read sealed history segments from this directory or URL, not from members.",
        ),
    ] = "",
    group: Annotated[
        str,
        typer.Option(metavar="NAME,…", help="Group names of the directories of --path, in order."),
    ] = "",
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Process at most N log indexes per batch.")
    ] = 5_000_000,
    moved: Annotated[
        bool, typer.Option("--moved", help="The source has a new address, but is the same grid.")
    ] = False,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Skip history that was deleted before it was read.")
    ] = False,
    hints: Annotated[
        bool,
        typer.Option("--hints/--no-hints", help="Afterwards send run time hints to the grid."),
    ] = False,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Update the tables.

    Reads only new history. It can be stopped or killed at any time: only complete batches become
    visible, and the next run resumes after the last one. Every batch is checked; if a check fails
    the batch is kept, and the exit code is 1. With --json: one object per batch.
    """
    from rollq.cli.progress import spinner
    from rollq.cli.service import interrupted_by_signals
    from rollq.cli.spark import suited_to
    from rollq.cli.tables import spark_with

    every_s = _pause_s(every, once=once, hints=hints)
    with spinner(f"reading the history of {path or servers}"):
        from rollq.spark.pipeline.formats import form_of
        from rollq.spark.pipeline.run import Pipeline

        found = form_of(tables, form)
        feed = _feed("" if path else servers, path, group, fail_on_data_loss=not skip_lost)
        ends = {each.group: each.end for each in feed.extents()}  # raises if no source responds
        newest = _newest(tables, found)
    quick = {} if every else suited_to(newest, ends)
    with (
        _shown(as_json=as_json, goes_on=bool(every), sealed=ends if path else ()) as shown,
        interrupted_by_signals(),
        spark_with(found, tables, master, conf, quick) as spark,
    ):
        made = Pipeline(
            spark, feed, tables, form=found, most=batch, told=shown.tell, has_moved=moved
        )
        shown.end(made.run(every_s), made.failed)
        if hints:
            _send(_hints(spark, tables, found), servers, DEFAULT_TIMEOUT_S)


def _newest(tables: str, form: str) -> TableManifest | None:
    """Read the last batch and check write access, before Spark is started."""
    from rollq.spark.pipeline.formats import PARQUET
    from rollq.spark.pipeline.manifest import Book

    if form != PARQUET:
        return None
    book = Book(Path(tables))
    with book.writing():
        return book.newest()


def _hints(
    spark: SparkSession, tables: str, form: str, group: str = "", runs: int = 20
) -> list[ExecHint]:
    from rollq.spark.asking.queries import loader
    from rollq.spark.pipeline.catalog import EXECS
    from rollq.spark.pipeline.hints import hints_of

    rows = loader(spark, tables, form)(EXECS.name).collect()
    return hints_of([row.asDict() for row in rows], group, runs)


@app.command(
    "hints",
    epilog="""\b
Examples:
  rollq pipeline hints
  rollq pipeline hints --dry-run
""",
)
def tell_hints(
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    group: Annotated[
        str, typer.Option(metavar="NAME", help="Group, when tables cover several.")
    ] = "",
    runs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Only execs with at least N runs.")
    ] = 20,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print only; send nothing.")] = False,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Send run time hints to the grid, from the table gold_execs.

    The grid uses them for lease lengths and prefetching; `rollq hints` shows them and switches
    their use on or off.
    """
    from rollq.cli.output import remark, write_json, write_table
    from rollq.cli.tables import spark_for
    from rollq.documents.grid import HINT_COLUMNS, hint_document
    from rollq.spark.pipeline.formats import PARQUET, form_of
    from rollq.spark.pipeline.hints import exec_rows, hints_of

    if form_of(tables, form) == PARQUET:
        found = hints_of(exec_rows(tables), group, runs)
    else:
        with spark_for(tables, form, master, conf) as spark:
            found = _hints(spark, tables, form, group, runs)
    if as_json:
        write_json([hint_document(hint) for hint in found])
    else:
        rows = [list(hint_document(hint).values()) for hint in found]
        write_table(HINT_COLUMNS, rows)
    if not dry_run:
        _send(found, servers, timeout)
        remark(f"sent hints for {counted(len(found), 'exec')}")


pipeline_tables.register(app)
pipeline_forget.register(app)
pipeline_serve.register(app)


def _feed(servers: str, path: str, group: str, *, fail_on_data_loss: bool) -> Feed:
    from rollq.cli.credentials import given_directory
    from rollq.spark.pipeline.feed import Feed

    return Feed(
        servers=servers,
        path=path,
        group=group,
        fail_on_data_loss=fail_on_data_loss,
        credentials=given_directory(),
    )


def _pause_s(every: str, *, once: bool, hints: bool) -> float:
    """The interval between runs; 0: run once."""
    from rollq.base.amounts import AGES_S, amount

    if not every:
        return 0.0
    if once:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, "--once and --every are mutually exclusive", "use one of them"
        )
    if hints:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "--hints sends at the end of a run and excludes --every",
            "use `rollq pipeline hints` as often as needed",
        )
    return float(amount(every, AGES_S, "--every"))


class _Shown:
    """Shows the progress of a run: a bar on a terminal; lines or JSON elsewhere."""

    def __init__(
        self, advance: Advance, *, as_json: bool, goes_on: bool, sealed: Collection[str]
    ) -> None:
        self._advance = advance
        self._sealed = sealed  # the groups whose history is read from folders
        self._as_json = as_json
        self._goes_on = goes_on
        self._tells_stages = not (as_json or goes_on or sys.stderr.isatty())
        self._before: int | None = None

    def tell(self, step: PipelineStep) -> None:
        """Callback for every step of the run."""
        from rollq.cli.output import remark, write_json, write_line

        manifest = step.manifest
        before = manifest.events if self._before is None else self._before
        if step.stage:
            self._before = before
            done = sum(mark.index for mark in manifest.marks.values())
            total = max(sum(end - 1 for end in step.ends.values()), done)
            self._advance(done, total)
            if self._tells_stages:
                sys.stderr.write(f"batch {manifest.number + 1}: {step.stage}\n")
                sys.stderr.flush()
            return
        new, self._before = manifest.events - before, manifest.events
        failed = [one for one in step.checked if one.outcome == "failed"]
        if self._as_json:
            document = {"new": new, "seconds": round(step.batch_s, 3)}
            write_json(_document(manifest) | document | {"failed": [one.name for one in failed]})
        elif self._goes_on:
            write_line(f"batch {manifest.number}: {new} events in {step.batch_s:.1f} s")
            for one in failed:  # with --every the final error may come late or never
                remark(f"batch {manifest.number}: check failed: {one.as_text()}")

    def end(self, manifest: TableManifest, failed: Sequence[CheckResult]) -> None:
        """Show the summary.

        Raises:
            LocalError: CHECK_FAILED, if checks failed.
        """
        from rollq.cli.output import write_line
        from rollq.spark.pipeline.checks import failure

        if self._sealed:
            _tell_reach(manifest, self._sealed)
        if not self._as_json:
            write_line(f"{manifest.events} events up to batch {manifest.number}")
        if failed:
            raise failure(failed)


@contextlib.contextmanager
def _shown(*, as_json: bool, goes_on: bool, sealed: Collection[str]) -> Iterator[_Shown]:
    from rollq.cli.progress import progress_bar

    with progress_bar("log indexes", is_quiet=as_json or goes_on, vanishes=True) as advance:
        yield _Shown(advance, as_json=as_json, goes_on=goes_on, sealed=sealed)


def _tell_reach(manifest: TableManifest, groups: Collection[str]) -> None:
    """How far the history of folders goes: a member that runs or was killed has more rows."""
    from rollq.cli.output import remark
    from rollq.documents.times import when

    marks = [(group, manifest.marks[group]) for group in groups if group in manifest.marks]
    reach = "; ".join(
        f"group {group} up to index {mark.index}, {when(mark.last_ms)}" for group, mark in marks
    )
    missing = "later rows of a member that runs or was killed are not read"
    remark(f"sealed history: {reach or 'none'}; {missing}")


def _send(found: list[ExecHint], servers: str, timeout_s: float) -> None:
    from rollq.cli.grid import with_client

    with_client(servers, timeout_s, lambda client: client.set_hints(found))


def _document(manifest: TableManifest) -> dict[str, Any]:
    marks = {group: mark.index for group, mark in manifest.marks.items()}
    return {"batch": manifest.number, "events": manifest.events, "groups": marks}
