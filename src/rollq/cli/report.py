"""`rollq report`: writes an HTML report."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import (
    DEFAULT_TABLES,
    Json,
    MasterToAsk,
    SparkConf,
    Tables,
    TablesFormat,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rollq.spark.report.model import Report

EPILOG = """\b
Examples:
  rollq report
  rollq report --last 24h --out yesterday.html
  rollq report --last 7d --compare
  rollq report --lang ja
  rollq report --job 6f9619ff
"""


class PageLanguage(enum.StrEnum):
    """Languages of the report; as in `rollq.spark.report.words`."""

    EN = "en"
    JA = "ja"


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
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Compare with the period of the same length before --last."),
    ] = False,
    lang: Annotated[
        PageLanguage, typer.Option("--lang", help="Language of the page.")
    ] = PageLanguage.EN,
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    master: MasterToAsk = "",
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Write an HTML report: throughput, wait and run times, workers, dead jobs.

    The page is a single self-contained file without scripts. It shows the tables as of the last
    `rollq pipeline run`.
    """
    from rollq.base.amounts import AGES_S, amount
    from rollq.cli.ids import digits_in_tables
    from rollq.cli.output import write_answer
    from rollq.cli.spark import spark_to_ask
    from rollq.spark.asking.queries import add_views
    from rollq.spark.asking.tales import job_like

    last_ms = 1000 * amount(last, AGES_S, "--last")
    if compare and not last_ms:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "--compare needs a period to compare with the one before it",
            "give it with --last, as in --last 24h",
        )
    digits = digits_in_tables(job) if job else None
    with spark_to_ask(master, tables, form, conf) as (spark, open_tables):
        add_views(spark, open_tables())
        made = write_report(
            spark,
            tables,
            out,
            last_ms=last_ms,
            job_id=job_like(spark, job, *digits) if digits else "",
            compares=compare,
            language=lang.value,
        )
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
    spark: SparkSession,
    tables: str | Path,
    out: Path,
    *,
    last_ms: int = 0,
    job_id: str = "",
    compares: bool = False,
    language: str = "en",
) -> Report:
    """Query the tables, whose views must exist, and write the page.

    Raises:
        LocalError: BAD_OPTIONS, if it cannot be written; DISK_FULL.
    """
    import errno
    import time

    from rollq.cli.progress import spinner
    from rollq.spark.asking.figures import gather
    from rollq.spark.report.page import page_of

    with spinner("querying the tables"):
        made = gather(
            spark,
            source=str(tables),
            made_ms=time.time_ns() // 1_000_000,
            last_ms=last_ms,
            job_id=job_id,
            compares=compares,
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page_of(made, language), encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        if error.errno == errno.ENOSPC:
            if out.is_file():  # part of a page, which nobody wants
                out.unlink()
            raise LocalError(
                ErrorCode.DISK_FULL, f"cannot write {out}: {why}", "make room, or write elsewhere"
            ) from None
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{out}: {why}", "name another file") from None
    return made
