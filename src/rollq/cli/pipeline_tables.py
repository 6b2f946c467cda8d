"""Commands of `rollq pipeline` that inspect, compact, rebuild and export the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import counted
from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import (
    DEFAULT_MASTER,
    DEFAULT_TABLES,
    Json,
    Master,
    SparkConf,
    Tables,
    TablesFormat,
)

if TYPE_CHECKING:
    from rollq.spark.pipeline.manifest import File, TableManifest

_EPILOGS = {
    "status": """\b
Examples:
  rollq pipeline status
  rollq pipeline status --json | jq .tables
""",
    "files": """\b
Examples:
  rollq pipeline files gold_hourly
  duckdb -c "SELECT * FROM read_parquet([$(rollq pipeline files gold_hourly --quoted)])"
""",
    "compact": """\b
Example:
  rollq pipeline compact
""",
    "rebuild": """\b
Examples:
  rollq pipeline rebuild
  rollq pipeline rebuild --date 2026-11-18
""",
    "export": """\b
Examples:
  rollq pipeline export ./lake --format delta
  rollq pipeline export lake.rollq gold_hourly gold_dead --format iceberg --master spark://host:7077
  rollq pipeline export ./csv gold_hourly --format csv --tables lake.rollq --tables-format iceberg
""",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, files, compact, rebuild, export):
        app.command(epilog=_EPILOGS[command.__name__])(command)


def status(
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Show the last batch, and the size of each table.

    For Iceberg and Delta it starts Spark, and shows the version of each table.
    """
    from rollq.cli.output import write_json, write_line, write_table
    from rollq.documents.times import when
    from rollq.spark.pipeline.formats import PARQUET, form_of

    found = form_of(tables, form)
    if found == PARQUET:
        manifest, rows = _file_sizes(tables)
        names: tuple[str, ...] = ("files", "rows", "bytes")
    else:
        manifest, rows = _versions(tables, found, master, conf)
        names = ("version", "rows")
    if as_json:
        write_json(
            {
                "number": manifest.number,
                "format": found,
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
    write_table(("table", *names), rows)


def _file_sizes(tables: str) -> tuple[TableManifest, list[tuple[Any, ...]]]:
    from rollq.spark.pipeline.catalog import TABLES
    from rollq.spark.pipeline.manifest import Book

    manifest = Book(Path(tables)).expect()
    public = [table.name for table in TABLES.values() if not table.is_internal]
    return manifest, [(name, *_sums(manifest.files(name))) for name in public]


def _versions(
    tables: str, form: str, master: str, conf: list[str] | None
) -> tuple[TableManifest, list[tuple[Any, ...]]]:
    from rollq.cli.tables import spark_for
    from rollq.spark.pipeline.catalog import TABLES
    from rollq.spark.pipeline.formats import storage_of

    public = [table for table in TABLES.values() if not table.is_internal]
    with spark_for(tables, form, master, conf) as spark:
        storage = storage_of(spark, tables, form)
        manifest = storage.expect()
        return manifest, [
            (table.name, manifest.version(table.name), storage.read(manifest, table).count())
            for table in public
        ]


def files(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table, such as gold_hourly.")],
    tables: Tables = DEFAULT_TABLES,
    quoted: Annotated[
        bool, typer.Option("--quoted", help="One line, quoted and comma-separated, for SQL.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the Parquet files of a table's current version, for other programs.

    The directory also has files of older and failed batches, which must not be read. Replaced
    files are deleted after an hour.
    """
    from rollq.cli.output import write_json, write_line
    from rollq.spark.pipeline.catalog import table_of
    from rollq.spark.pipeline.formats import PARQUET, form_of
    from rollq.spark.pipeline.tables import paths

    form = form_of(tables)
    if form != PARQUET:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{tables} holds {form} tables; their own metadata lists the files",
            f"read {tables}/{table_of(table).name} with a reader of {form}",
        )
    found = [str(path.absolute()) for path in paths(tables, table)]
    if as_json:
        write_json(found)
    elif quoted:
        write_line(", ".join("'" + path.replace("'", "''") + "'" for path in found))
    else:
        for path in found:
            write_line(path)


def compact(
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Merge small files into large ones, day by day.

    A run does this by itself when there are many files. Rows do not change.
    """
    from rollq.cli.output import write_answer
    from rollq.cli.tables import spark_for
    from rollq.spark.pipeline.upkeep import compact as compact_tables

    with spark_for(tables, form, master, conf) as spark:
        before, after = compact_tables(spark, tables, form)
    if after.versions:
        write_answer({"batch": after.number}, f"compacted by batch {after.number}", as_json=as_json)
        return
    counts = [sum(map(len, each.tables.values())) for each in (before, after)]
    document = {"files_before": counts[0], "files_after": counts[1]}
    write_answer(document, f"{counted(counts[0], 'file')} before, {counts[1]} now", as_json=as_json)


def rebuild(
    date: Annotated[
        str,
        typer.Option(
            "--date", metavar="DAY", help="Only this day, in UTC: 2026-11-18, today, yesterday."
        ),
    ] = "",
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Rebuild the silver and gold tables from the events.

    Readers see the old tables until the new ones are complete. Events are not changed, and the
    next run resumes where the last one ended. With --date: only jobs and attempts that ended on
    that day, its figures, and what is added up over all days. If a check fails the new tables are
    kept, and the exit code is 1.
    """
    from rollq.cli.output import write_answer
    from rollq.cli.progress import spinner
    from rollq.cli.tables import spark_for
    from rollq.spark.pipeline.checks import failure
    from rollq.spark.pipeline.day import day_from
    from rollq.spark.pipeline.upkeep import rebuild as rebuild_tables

    day = day_from(date) if date else None
    with spark_for(tables, form, master, conf) as spark, spinner("rebuilding"):
        made, failed = rebuild_tables(spark, tables, form, day=day)
    document = {
        "batch": made.number,
        "events": made.events,
        "failed": [one.name for one in failed],
    }
    text = f"{day or counted(made.events, 'event')}, rebuilt by batch {made.number}"
    write_answer(document, text, as_json=as_json)
    if failed:
        raise failure(failed)


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
    tables_form: Annotated[
        str,
        typer.Option(
            "--tables-format",
            envvar="ROLLQ_TABLES_FORMAT",
            metavar="NAME",
            help="Format of the tables: parquet, iceberg, delta (default: what --tables holds).",
        ),
    ] = "",
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Export the tables in another format: ORC, Avro, CSV; Delta or Iceberg if Spark has them.

    All tables are of one batch and replace an earlier export. TO with a slash is a directory with
    one subdirectory per table; otherwise it is a database with one table per table.
    """
    from rollq.cli.output import write_answer
    from rollq.cli.tables import spark_for
    from rollq.spark.pipeline.catalog import table_of
    from rollq.spark.pipeline.export import export as export_tables

    for name in names or ():
        table_of(name)
    with spark_for(tables, tables_form, master, conf) as spark:
        manifest = export_tables(spark, tables, to, form, names or (), tables_form=tables_form)
    document = {"to": to, "format": form, "batch": manifest.number}
    write_answer(document, f"batch {manifest.number} exported to {to}", as_json=as_json)


def _sums(files: list[File]) -> tuple[int, int, int]:
    return len(files), sum(file.rows for file in files), sum(file.bytes for file in files)
