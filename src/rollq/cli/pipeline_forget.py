"""`rollq pipeline forget`: deletes rows from the tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

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
from rollq.cli.stdin import is_terminal

if TYPE_CHECKING:
    from rollq.spark.pipeline.upkeep import ForgetPreview, ForgetResult

EPILOG = """\b
Examples:
  rollq pipeline forget --client alice --dry-run
  rollq pipeline forget --client alice
  rollq pipeline forget --before 90d --yes
  rollq pipeline forget --group osaka --yes
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(forget)


def forget(
    client: Annotated[str, typer.Option(metavar="ID", help="Ended jobs of this client.")] = "",
    group: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="This group; alone: everything of it, including jobs that have not ended.",
        ),
    ] = "",
    before: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Before this UTC date or time (2026-01-31), or age (90d): jobs that had ended by "
            "then, and other events before it.",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Remove a client, a group or old history from all tables; this cannot be undone.

    With several options, only what matches all of them is removed. Silver and gold tables are
    rebuilt from the remaining events, and readers see all changes at once. The old files are
    deleted before it returns, which breaks queries that still read them. Later runs do not read
    the removed events again. It asks for confirmation; without a terminal, or with --json, it
    requires --yes. If a check fails the new tables are kept, and the exit code is 1.
    """
    from rollq.cli.output import remark, write_json
    from rollq.cli.progress import spinner
    from rollq.cli.tables import spark_for
    from rollq.spark.pipeline import upkeep
    from rollq.spark.pipeline.checks import failure
    from rollq.spark.pipeline.forgetting import Selection

    _check(is_chosen=bool(client or group or before), asks=not (yes or dry_run), as_json=as_json)
    chosen = Selection(
        group, client, moment_ms(before, int(time.time() * 1000)) if before else None
    )
    with spark_for(tables, form, master, conf) as spark:
        with spinner("looking for what goes"):
            going = upkeep.preview(spark, tables, chosen, form)
        if dry_run:
            _show_planned(going, as_json=as_json)
            return
        if going.events and not yes:
            what = f"{counted(going.events, 'event')} of {counted(going.jobs, 'job')}"
            typer.confirm(f"Remove {what} from {tables} for good?", abort=True, err=True)
        with spinner("removing"):
            done = upkeep.forget(spark, tables, chosen, form)
    if as_json:
        write_json(_document(done, going))
    else:
        _show_done(done, going)
    if going.staying:
        remark(_staying(going))
    if done.failed:
        raise failure(done.failed)


def moment_ms(text: str, now_ms: int) -> int:
    """Parse a date, a time or an age to milliseconds since 1970.

    Raises:
        LocalError: BAD_OPTIONS if it is none of these, or in the future.
    """
    from rollq.base.amounts import AGES_S, amount
    from rollq.spark.source.conditions import millis

    if text.isdecimal():
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"--before {text} has no unit",
            f"use {text}d for days, or a date such as 2026-01-31",
        )
    is_age = text[:-1].isdecimal() and text[-1] in AGES_S
    ms = now_ms - 1000 * amount(text, AGES_S, "--before") if is_age else millis("--before", text)
    if ms > now_ms:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"--before {text} is in the future",
            "use a time in the past",
        )
    return ms


def _check(*, is_chosen: bool, asks: bool, as_json: bool) -> None:
    """Check the options before Spark is started."""
    if not is_chosen:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "nothing is chosen",
            "use --client, --group or --before, alone or together",
        )
    if asks and (as_json or not is_terminal()):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "forget requires confirmation, and stdin is not a terminal",
            "add --yes, or --dry-run to see what would go",
        )


def _show_planned(going: ForgetPreview, *, as_json: bool) -> None:
    from rollq.cli.output import remark, write_answer

    document = {"events": going.events, "jobs": going.jobs, "staying": going.staying}
    what = f"{counted(going.events, 'event')} of {counted(going.jobs, 'job')} would go"
    write_answer(document, what, as_json=as_json)
    if going.staying:
        remark(_staying(going))


def _document(done: ForgetResult, going: ForgetPreview) -> dict[str, object]:
    tables = {
        name: {"removed": rows - done.rows_after[name], "rows": done.rows_after[name]}
        for name, rows in done.rows_before.items()
    }
    return {
        "batch": done.manifest.number,
        "tables": tables,
        "staying": going.staying,
        "failed": [one.name for one in done.failed],
    }


def _show_done(done: ForgetResult, going: ForgetPreview) -> None:
    from rollq.cli.output import write_line, write_table

    if not going.events:
        write_line("nothing to remove: no row matches")
        return
    after = done.rows_after
    rows = [(name, count - after[name], after[name]) for name, count in done.rows_before.items()]
    write_line(f"removed by batch {done.manifest.number}")
    write_table(("table", "removed", "rows"), rows)


def _staying(going: ForgetPreview) -> str:
    stay = "stays" if going.staying == 1 else "stay"
    return f"{counted(going.staying, 'job')} that matched {stay}: not over, or not by then"
