"""`rollq pipeline`: the history as tables, kept up to date by Spark."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import counted
from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import (
    DEFAULT_MASTER,
    DEFAULT_SERVERS,
    DEFAULT_TABLES,
    DEFAULT_TIMEOUT_S,
    Json,
    Master,
    Servers,
    Tables,
    Timeout,
)

if TYPE_CHECKING:
    from rollq.base.hints import ExecHint
    from rollq.cli.progress import Advance
    from rollq.spark.pipeline.feed import Feed
    from rollq.spark.pipeline.manifest import File, Manifest
    from rollq.spark.pipeline.run import Step

EPILOG = """\b
Examples:
  rollq pipeline run --once
  rollq pipeline status
  rollq pipeline files gold_hourly
"""
app = typer.Typer(
    name="pipeline",
    help="Turn the history into tables: events, jobs, attempts, hourly figures.",
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
    servers: Servers = DEFAULT_SERVERS,
    path: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Read history segments from this directory or URL instead of members.",
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
    as_json: Json = False,
) -> None:
    """Bring the tables up to date.

    Reads only new history. It may be stopped or killed at any time: only whole batches become
    visible, and the next run resumes after the last one. With --json: one object per batch.
    """
    from rollq.cli.progress import spinner
    from rollq.cli.service import interrupted_by_signals
    from rollq.cli.spark import quiet_spark, suited_to

    every_s = _pause_s(every, once=once, hints=hints)
    with spinner(f"reading the history of {path or servers}"):
        from rollq.spark.pipeline.manifest import Book
        from rollq.spark.pipeline.run import Pipeline

        feed = _feed("" if path else servers, path, group, fail_on_data_loss=not skip_lost)
        extents = feed.extents()  # before Spark is started: nobody may answer
        with Book(tables).writing():
            newest = Book(tables).newest()  # nor may we be able to write
        ends = {extent.group: extent.end for extent in extents}
    with (
        _shown(as_json=as_json, goes_on=bool(every)) as shown,
        interrupted_by_signals(),
        quiet_spark(master, **({} if every else suited_to(newest, ends))) as spark,
    ):
        made = Pipeline(spark, feed, tables, most=batch, told=shown.tell, has_moved=moved)
        shown.end(made.run(every_s))
    if hints:
        from rollq.spark.pipeline.hints import hints_of

        _send(hints_of(tables), servers, DEFAULT_TIMEOUT_S)


@app.command(
    epilog="""\b
Examples:
  rollq pipeline status
  rollq pipeline status --json | jq .tables
"""
)
def status(tables: Tables = DEFAULT_TABLES, as_json: Json = False) -> None:
    """Show the last batch, and the size of each table."""
    from rollq.cli.output import write_json, write_line, write_table
    from rollq.documents.times import when
    from rollq.spark.pipeline.catalog import TABLES
    from rollq.spark.pipeline.manifest import Book

    manifest = Book(tables).expect()
    rows = [
        (table.name, *_sums(manifest.files(table.name)))
        for table in TABLES.values()
        if not table.is_internal
    ]
    if as_json:
        names = ("files", "rows", "bytes")
        write_json(
            {
                "number": manifest.number,
                "source": manifest.source,
                "made": when(manifest.made_ms),
                "events": manifest.events,
                "groups": {
                    group: {"index": mark.index, "last": when(mark.last_ms)}
                    for group, mark in manifest.marks.items()
                },
                "tables": {name: dict(zip(names, sums, strict=True)) for name, *sums in rows},
            }
        )
        return
    write_line(f"batch {manifest.number} of {when(manifest.made_ms)}, from {manifest.source}")
    for group, mark in manifest.marks.items():
        write_line(f"group {group}: up to index {mark.index}, {when(mark.last_ms)}")
    write_table(("table", "files", "rows", "bytes"), rows)


@app.command(
    epilog="""\b
Examples:
  rollq pipeline files gold_hourly
  duckdb -c "SELECT * FROM read_parquet([$(rollq pipeline files gold_hourly --quoted)])"
"""
)
def files(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table, such as gold_hourly.")],
    tables: Tables = DEFAULT_TABLES,
    quoted: Annotated[
        bool, typer.Option("--quoted", help="One line, quoted and comma-separated, for SQL.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the Parquet files that hold a table now, for other programs.

    The directory also holds files of older and of failed batches, which must not be read. Replaced
    files are deleted after an hour.
    """
    from rollq.cli.output import write_json, write_line
    from rollq.spark.pipeline.tables import paths

    found = [str(path.absolute()) for path in paths(tables, table)]
    if as_json:
        write_json(found)
    elif quoted:
        write_line(", ".join("'" + path.replace("'", "''") + "'" for path in found))
    else:
        for path in found:
            write_line(path)


@app.command(
    epilog="""\b
Example:
  rollq pipeline compact
"""
)
def compact(
    tables: Tables = DEFAULT_TABLES, master: Master = DEFAULT_MASTER, as_json: Json = False
) -> None:
    """Merge small files into large ones, day by day.

    A run does this by itself when a day has many files. Rows do not change.
    """
    from rollq.cli.output import write_answer
    from rollq.cli.spark import quiet_spark
    from rollq.spark.pipeline.compact import compact as compact_tables
    from rollq.spark.pipeline.manifest import Book

    Book(tables).expect()
    with quiet_spark(master) as spark:
        before, after = compact_tables(spark, tables)
    counts = [sum(map(len, each.tables.values())) for each in (before, after)]
    document = {"files_before": counts[0], "files_after": counts[1]}
    write_answer(document, f"{counted(counts[0], 'file')} before, {counts[1]} now", as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  rollq pipeline export ./lake --format delta
  rollq pipeline export lake.rollq gold_hourly gold_dead --format iceberg --master spark://host:7077
"""
)
def export(
    to: Annotated[
        str,
        typer.Argument(metavar="TO", help="Directory, URL, or database of the catalog."),
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE…", help="Tables, such as gold_hourly (default: all)."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="NAME", help="Any format that this Spark supports.")
    ] = "parquet",
    tables: Tables = DEFAULT_TABLES,
    master: Master = DEFAULT_MASTER,
    as_json: Json = False,
) -> None:
    """Export the tables in another format: ORC, Avro, CSV; Delta or Iceberg if Spark has them.

    All tables are of one batch and replace an earlier export. TO with a slash is a directory with
    one subdirectory per table; otherwise it is a database with one table per table.
    """
    from rollq.cli.output import write_answer
    from rollq.cli.spark import quiet_spark
    from rollq.spark.pipeline.catalog import table_of
    from rollq.spark.pipeline.export import export as export_tables
    from rollq.spark.pipeline.manifest import Book

    Book(tables).expect()  # before Spark is started
    for name in names or ():
        table_of(name)
    with quiet_spark(master) as spark:
        manifest = export_tables(spark, tables, to, form, names or ())
    document = {"to": to, "format": form, "batch": manifest.number}
    write_answer(document, f"batch {manifest.number} exported to {to}", as_json=as_json)


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
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    group: Annotated[
        str, typer.Option(metavar="NAME", help="Group, when tables cover several.")
    ] = "",
    runs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Only execs with at least N runs.")
    ] = 20,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print only; send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Send run time hints to the grid, from the table gold_execs.

    The grid uses them for lease lengths and prefetching; `rollq hints` shows them and switches
    their use on or off.
    """
    from rollq.cli.output import remark, write_json, write_table
    from rollq.documents.grid import HINT_COLUMNS, hint_document
    from rollq.spark.pipeline.hints import hints_of

    found = hints_of(tables, group, runs)
    if as_json:
        write_json([hint_document(hint) for hint in found])
    else:
        rows = [list(hint_document(hint).values()) for hint in found]
        write_table(HINT_COLUMNS, rows)
    if not dry_run:
        _send(found, servers, timeout)
        remark(f"sent hints for {counted(len(found), 'exec')}")


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
    """How long to wait between two looks; 0: there is one."""
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
    """What a run tells on the terminal: a bar of log indexes; lines or JSON elsewhere."""

    def __init__(self, advance: Advance, *, as_json: bool, goes_on: bool) -> None:
        self._advance = advance
        self._as_json = as_json
        self._goes_on = goes_on
        self._tells_stages = not (as_json or goes_on or sys.stderr.isatty())
        self._before: int | None = None

    def tell(self, step: Step) -> None:
        """Called as the run gets on."""
        from rollq.cli.output import write_json, write_line

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
        if self._as_json:
            write_json(_document(manifest) | {"new": new, "seconds": round(step.batch_s, 3)})
        elif self._goes_on:
            write_line(f"batch {manifest.number}: {new} events in {step.batch_s:.1f} s")

    def end(self, manifest: Manifest) -> None:
        """The run is over."""
        from rollq.cli.output import write_line

        if not self._as_json:
            write_line(f"{manifest.events} events up to batch {manifest.number}")


@contextlib.contextmanager
def _shown(*, as_json: bool, goes_on: bool) -> Iterator[_Shown]:
    from rollq.cli.progress import progress_bar

    with progress_bar("log indexes", is_quiet=as_json or goes_on, vanishes=True) as advance:
        yield _Shown(advance, as_json=as_json, goes_on=goes_on)


def _send(found: list[ExecHint], servers: str, timeout_s: float) -> None:
    from rollq.cli.grid import asked

    asked(servers, timeout_s, lambda client: client.set_hints(found))


def _document(manifest: Manifest) -> dict[str, Any]:
    marks = {group: mark.index for group, mark in manifest.marks.items()}
    return {"batch": manifest.number, "events": manifest.events, "groups": marks}


def _sums(files: list[File]) -> tuple[int, int, int]:
    return len(files), sum(file.rows for file in files), sum(file.bytes for file in files)
