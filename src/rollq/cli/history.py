"""`rollq history`: reads the event history."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.credentials import given_credentials
from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    Json,
    MemberDir,
    Servers,
    Timeout,
)

EPILOG = """\b
Examples:
  rollq history tail
  rollq history tail --follow --type dlq
  rollq history export --out events.jsonl
  rollq history readers
"""
app = typer.Typer(
    name="history",
    help="Read the event history, and manage its readers.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
LEFT_OUT = ("index", "ordinal", "ts", "type", "jobId", "request")


@app.callback()
def history() -> None:
    """Read the event history, and manage its readers."""


@app.command(
    epilog="""\b
Examples:
  rollq history tail -n 50
  rollq history tail --follow --json | jq -r 'select(.type == "ack") | .runMs'
  rollq history tail --from 1 --job 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq history tail --state ./state/5000 --from 1
"""
)
def tail(
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=0, metavar="N", help="Show the last N rows.")
    ] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow new rows until Ctrl-C.")
    ] = False,
    first: Annotated[
        int,
        typer.Option(
            "--from",
            min=0,
            metavar="INDEX",
            help="Show all rows from this log index on (0 = only the last).",
        ),
    ] = 0,
    kind: Annotated[
        str, typer.Option("--type", metavar="NAME", help="Only rows of this type.")
    ] = "",
    job: Annotated[
        str, typer.Option(metavar="ID", help="Only rows of this job, array or task (ARRAY/NUMBER).")
    ] = "",
    state: MemberDir = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the last rows of the history, of a running group or of a state directory.

    With --state only sealed segments are read: a member seals at snapshots and when it stops. With
    --json: the rows as stored, one JSON object per line.
    """
    from rollq.cli.ids import digits_in_tables, filter_id

    if state is not None:
        if follow:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, "--follow requires a running group", "remove --state"
            )
        if job:
            digits_in_tables(job)
        _tail_sealed(state, first, rows, _Shown(kind, job, as_json=as_json))
        return
    shown = _Shown(kind, filter_id(servers, timeout, job), as_json=as_json)
    _tail(servers, timeout, first, rows, shown, follow=follow)


@app.command(
    epilog="""\b
Examples:
  rollq history readers
  rollq history readers --free nightly-report
"""
)
def readers(
    free: Annotated[
        str, typer.Option(metavar="NAME", help="Release this reader: keep no history for it.")
    ] = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show named readers, and the log index that each has read up to.

    History that a named reader has not read is kept despite --history-mb and --history-days. A
    reader not seen for seven days is released.
    """
    from rollq.cli.output import write_answer, write_json, write_table
    from rollq.documents.times import when
    from rollq.roles.reader.reader import Reader

    with Reader(servers, timeout_s=timeout, credentials=given_credentials()) as reader:
        if free:
            reader.free(free)
            document = {"name": free, "freed": True}
            write_answer(document, f"reader {free} released", as_json=as_json)
            return
        found = reader.holders()
    if as_json:
        for one in found:
            write_json({"name": one.name, "index": one.index, "ts": one.stamp_ms})
    else:
        rows = [(one.name, one.index, when(one.stamp_ms)) for one in found]
        write_table(("name", "from index", "last seen"), rows)


@app.command(
    epilog="""\b
Examples:
  rollq history export --out events.jsonl
  rollq history export --from 5000 | jq -r 'select(.type == "dlq") | .jobId'
  rollq history export --state ./state/5000 --out events.jsonl
"""
)
def export(
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Write to this file.", show_default="stdout")
    ] = "",
    first: Annotated[
        int, typer.Option("--from", min=1, metavar="INDEX", help="Begin at this log index.")
    ] = 1,
    state: MemberDir = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Write the whole history as JSON lines, of a running group or of a state directory.

    Of a running group: everything that was committed when this was called. With --state only
    sealed segments are read. A message on stderr reports history that retention removed. Rows are
    always JSON; with --out, --json applies to the summary.
    """
    import contextlib

    from rollq.cli.output import write_answer

    pieces = _sealed_lines(state, first) if state else _group_lines(servers, timeout, first)
    count = 0
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(Path(out).open("wb")) if out else sys.stdout.buffer
        for lines in pieces:
            file.write(lines)
            count += lines.count(b"\n")
        file.flush()
    if out:
        write_answer({"out": out, "rows": count}, f"{out}: {count} rows", as_json=as_json)


def _sealed_lines(state: Path, first: int) -> Iterator[bytes]:
    from rollq.history.segments import Segments
    from rollq.store.look import LookDisk

    segments = Segments(LookDisk(state))
    _tell_floor(segments.floor(), first)
    for _, lines in segments.chunks(first, 2**63):
        if lines:
            yield b"\n".join((*lines, b""))


def _group_lines(servers: str, timeout_s: float, first: int) -> Iterator[bytes]:
    from rollq.roles.reader.models import EVENTS, LINES, RUNS
    from rollq.roles.reader.reader import Reader

    with Reader(servers, timeout_s=timeout_s, credentials=given_credentials()) as reader:
        span = reader.span()
        _tell_floor(span.floor, first)
        first = max(first, span.floor + 1)
        for piece in reader.pieces(first, span.applied, forms=(LINES, EVENTS, RUNS)):
            yield piece.lines()


def _tell_floor(floor: int, first: int) -> None:
    from rollq.cli.output import remark

    if first <= floor:
        remark(f"history up to log index {floor} was removed by retention")


class _Shown:
    """Filters and writes rows."""

    def __init__(self, kind: str, job: str, *, as_json: bool) -> None:
        from rollq.cli.rows import Wanted

        self._wanted = Wanted(kind=kind, job=job)
        self._as_json = as_json
        self._is_narrow = sys.stdout.isatty()  # one line per row on a terminal
        self._width = shutil.get_terminal_size().columns

    def wants(self, line: bytes) -> bool:
        """Whether a row matches."""
        from rollq.cli.rows import row_of

        return self._wanted.fits(row_of(line))

    def write(self, line: bytes) -> None:
        """Write a row."""
        from rollq.cli.ids import SHORT_DIGITS
        from rollq.cli.output import cut, write_line
        from rollq.documents.jobs import request_line
        from rollq.documents.times import when

        if self._as_json:
            write_line(line.decode())
            return
        import msgspec

        row = msgspec.json.decode(line)
        rest = " ".join(f"{name}={row[name]}" for name in row if name not in LEFT_OUT)
        if "request" in row:
            asked = request_line(row.get("execName", ""), msgspec.json.decode(row["request"]))
            rest += f" runs: {asked}"
        place = f"{row['index']}.{row['ordinal']}"
        clock = when(row["ts"]).partition(" ")[2] if self._is_narrow else when(row["ts"])
        job = row.get("jobId", "")
        job = job[:SHORT_DIGITS] if self._is_narrow else job
        told = f"{place:>10}  {clock}  {row['type']:<15} {job} {rest}".rstrip()
        write_line(cut(told, self._width) if self._is_narrow else told)


def _tail_sealed(state: Path, first: int, rows: int, shown: _Shown) -> None:
    from rollq.cli.output import remark
    from rollq.history.segments import Segments
    from rollq.store.look import LookDisk

    segments = Segments(LookDisk(state))
    if not segments.names():
        remark("no sealed segments here: ask the running member, or stop it first")
    lines = filter(shown.wants, segments.read(first or 1, 2**63))
    for line in lines if first else deque(lines, maxlen=rows):
        shown.write(line)


def _tail(
    servers: str, timeout_s: float, first: int, rows: int, shown: _Shown, *, follow: bool
) -> None:
    from rollq.cli.rows import HistoryFollower
    from rollq.roles.reader.reader import Reader

    with Reader(servers, timeout_s=timeout_s, credentials=given_credentials()) as reader:
        follower = HistoryFollower(reader, shown.wants)
        place, lines = follower.last(first, rows)
        for line in lines:
            shown.write(line)
        if follow:
            for fresh in follower.follow(place):
                for line in fresh:
                    shown.write(line)
