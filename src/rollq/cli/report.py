"""`rollq report`: what happened, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_MASTER, DEFAULT_TABLES, Json, Master, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rollq.spark.report.model import Report

EPILOG = """\b
Examples:
  rollq report
  rollq report --last 24h --out yesterday.html
  rollq report --job 6f9619ff-8b86-d011-b42d-00c04fc964ff
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(report)


def report(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="HTML file to write.")
    ] = Path("report.html"),
    job: Annotated[
        str,
        typer.Option(metavar="ID", help="Show the timeline of this job instead of selected ones."),
    ] = "",
    last: Annotated[
        str, typer.Option(metavar="AGE", help="Only the last 24h, 7d, … (0 = all).")
    ] = "0",
    tables: Tables = DEFAULT_TABLES,
    master: Master = DEFAULT_MASTER,
    as_json: Json = False,
) -> None:
    """Write an HTML report: throughput, wait and run times, workers, dead jobs.

    The page is one file that needs nothing else and runs no script. It is made from the tables as
    the last `rollq pipeline run` left them.
    """
    from rollq.base.amounts import AGES_S, amount
    from rollq.base.ids import guid_to_text
    from rollq.cli.grid import job_ids
    from rollq.cli.output import write_answer
    from rollq.cli.spark import quiet_spark, suited_to
    from rollq.spark.pipeline.manifest import Book

    last_ms = 1000 * amount(last, AGES_S, "--last")
    job_id = guid_to_text(job_ids([job])[0]) if job else ""
    manifest = Book(tables).expect()
    with quiet_spark(master, **suited_to(manifest)) as spark:
        made = write_report(spark, tables, out, last_ms=last_ms, job_id=job_id)
    document = {
        "report": str(out),
        "bytes": out.stat().st_size,
        "first_ms": made.first_ms,
        "last_ms": made.last_ms,
        "groups": {span.group: [span.first_index, span.last_index] for span in made.spans},
        "submitted": made.total("submitted"),
        "ended": made.total("ended"),
    }
    write_answer(document, str(out), as_json=as_json)


def write_report(
    spark: SparkSession, tables: Path, out: Path, *, last_ms: int = 0, job_id: str = ""
) -> Report:
    """Ask the tables and write the page.

    Raises:
        LocalError: BAD_OPTIONS, if it cannot be written.
    """
    import time

    from rollq.cli.progress import spinner
    from rollq.spark.asking.figures import gather
    from rollq.spark.asking.queries import views
    from rollq.spark.report.page import page_of

    with spinner("asking the tables"):
        views(spark, tables)
        made = gather(
            spark,
            source=str(tables),
            made_ms=time.time_ns() // 1_000_000,
            last_ms=last_ms,
            job_id=job_id,
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page_of(made), encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{out}: {why}", "name another file") from None
    return made
