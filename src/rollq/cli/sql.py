"""`rollq sql`: queries the tables in SQL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import (
    DEFAULT_TABLES,
    Json,
    Limit,
    MasterToAsk,
    SparkConf,
    Tables,
    TablesFormat,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from rollq.spark.asking.queries import Load, QueryAnswer

FOLD_MIN: Final = 24  # columns of a table fold at this width or more: moments stay whole
EPILOG = """\b
Examples:
  rollq sql "SELECT state, count(*) AS jobs FROM jobs GROUP BY state"
  rollq sql "SELECT exec, run_ms_p95 FROM execs ORDER BY run_ms_p95 DESC" --limit 5
  rollq sql "SELECT * FROM dead" --csv > dead.csv
  rollq sql "DESCRIBE attempts"
  cat questions.sql | rollq sql
  rollq sql
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(sql)


def sql(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="SQL query; - or none: read from stdin, or from a prompt."
        ),
    ] = "",
    limit: Limit = 1000,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Write CSV with a header to stdout.")
    ] = False,
    tables: Tables = DEFAULT_TABLES,
    form: TablesFormat = "",
    master: MasterToAsk = "",
    conf: SparkConf = None,
    as_json: Json = False,
) -> None:
    """Query the tables of the pipeline in SQL.

    Tables: events, jobs, attempts, arrays, workers, audit, hourly, dead, depth, utilisation, execs,
    checks; see SHOW TABLES and DESCRIBE jobs. Times are UTC. The tables are as of the last `rollq
    pipeline run`. Without a query on a terminal: a shell, with history and completion. From a pipe:
    statements separated by semicolons. With --json: one JSON object per row and line.
    """
    from rollq.cli.spark import spark_to_ask
    from rollq.cli.stdin import is_terminal, read_text
    from rollq.spark.asking.queries import check_reads
    from rollq.spark.asking.typing_help import split_statements

    if as_csv and as_json:
        raise LocalError(ErrorCode.BAD_OPTIONS, "--csv and --json are given", "give one of them")
    is_shell = not query and is_terminal() and sys.stdout.isatty()
    statements: list[str] = []
    if not is_shell:
        done, rest = split_statements(read_text() if query in ("", "-") else query)
        statements = [*done, rest] if rest or not done else done
        for one in statements:
            check_reads(one)
    with spark_to_ask(master, tables, form, conf) as (spark, open_tables):
        asking = _Asking(spark, open_tables, limit, as_csv=as_csv, as_json=as_json)
        if is_shell:
            from rollq.cli.output import remark
            from rollq.cli.sql_shell import SqlShell

            remark("\\? for help, \\d for tables, Ctrl-D to leave")
            SqlShell(asking.answer, asking.cancel).run()
        for one in statements:
            asking.answer(one)


class _Asking:
    """Runs statements one after another in one session."""

    def __init__(
        self,
        spark: SparkSession,
        open_tables: Callable[[], Load],
        limit: int,
        *,
        as_csv: bool,
        as_json: bool,
    ) -> None:
        self._spark = spark
        self._open_tables = open_tables
        self._limit = limit
        self._form = {"as_csv": as_csv, "as_json": as_json}

    def answer(self, statement: str) -> None:
        """Run a statement and write its result. The tables are reopened, for new batches."""
        from rollq.cli.output import remark
        from rollq.cli.progress import spinner
        from rollq.spark.asking.queries import add_views, ask, check_reads

        check_reads(statement)
        with spinner("querying the tables"):
            add_views(self._spark, self._open_tables(), statement)
            answer = ask(self._spark, statement, self._limit)
        write_rows(answer, **self._form)
        if answer.has_more:
            remark(f"only the first {self._limit} rows are shown; use --limit for more")

    def cancel(self) -> None:
        """Cancel the running query. An embedded Spark does so by itself."""
        if hasattr(self._spark, "client"):
            self._spark.interruptAll()


def write_rows(answer: QueryAnswer, *, as_csv: bool, as_json: bool) -> None:
    """Write a result in one of the formats."""
    from rollq.cli.output import write_json, write_table

    if as_json:
        for row in answer.rows:
            write_json(dict(zip(answer.columns, map(_plain, row), strict=True)))
    elif as_csv:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_text(value) for value in row] for row in answer.rows)
    elif sys.stdout.isatty() and answer.rows:
        _write_for_terminal(answer)
    else:
        write_table(answer.columns, [[_cell(value) for value in row] for row in answer.rows])


def _write_for_terminal(answer: QueryAnswer) -> None:
    """Write a table whose wide columns fold, or if it has too many for that, each row as a list."""
    from rich.console import Console

    from rollq.cli.output import GAP, width_of

    console = Console()
    texts = [answer.columns, *([str(_cell(value)) for value in row] for row in answer.rows)]
    widths = [min(max(map(width_of, each)), FOLD_MIN) for each in zip(*texts, strict=True)]
    if sum(widths) + GAP * len(widths) <= console.width:
        _write_folding(answer, console)
    else:
        _write_lists(texts, console)


def _write_lists(texts: Sequence[Sequence[str]], console: Console) -> None:
    """Write a field a line, and a line between rows; the first of the texts are the names."""
    from rich.text import Text

    from rollq.cli.output import padded, width_of

    names, *rows = texts
    width = max(map(width_of, names))
    for number, row in enumerate(rows):
        if number:
            console.rule(style="none")
        for name, value in zip(names, row, strict=True):
            line = f"{padded(name, width)}  {' '.join(value.split())}".rstrip()
            console.print(Text(line), soft_wrap=True)


def _write_folding(answer: QueryAnswer, console: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(answer.columns):
        numbers = all(isinstance(row[place], int | float | None) for row in answer.rows)
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*(Text(str(_cell(value))) for value in row))
    console.print(table)


def _cell(value: Any) -> Any:
    """A value for a table: numbers stay numbers, for alignment."""
    if isinstance(value, float):
        return round(value, 3)
    return value if isinstance(value, int) and not isinstance(value, bool) else _text(value)


def _text(value: Any) -> str:
    import msgspec

    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _plain(value: Any) -> Any:
    """Convert to JSON types: timestamps to text in UTC, nested rows to objects."""
    import datetime
    import decimal

    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, datetime.date | datetime.timedelta | decimal.Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if hasattr(value, "asDict"):
        return _plain(value.asDict())
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
