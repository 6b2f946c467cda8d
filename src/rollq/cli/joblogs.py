"""`rollq logs`: shows the output of a job, while it runs and afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobArgument,
    Json,
    Servers,
    Timeout,
)

if TYPE_CHECKING:
    from rollq.roles.client.client import Client
    from rollq.roles.client.results.streams import StreamPart

EPILOG = """\b
Examples:
  rollq logs 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq logs -f --tail 20 6f9619ff-8b86-d011-b42d-00c04fc964ff
  rollq logs --stderr --json 6f9619ff-8b86-d011-b42d-00c04fc964ff | jq -r .text
"""
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Follow the output until the job ends.")
]
Stdout = Annotated[bool, typer.Option("--stdout", help="Only stdout of the job.")]
Stderr = Annotated[bool, typer.Option("--stderr", help="Only stderr of the job.")]
TailLines = Annotated[
    int | None,
    typer.Option(
        "--tail",
        "-n",
        min=0,
        metavar="N",
        show_default=False,
        help="Only the last N lines of each stream so far.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(logs)


def logs(
    job_id: JobArgument,
    follow: Follow = False,
    stdout: Stdout = False,
    stderr: Stderr = False,
    tail: TailLines = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the output of a job: its stdout on stdout, its stderr on stderr.

    While it runs, output comes from its worker, which keeps the end of both streams; a line on
    stderr says how much was skipped, or that another attempt began. After its end, output comes
    from the result; bytes returned by a function follow on stdout. Exit code 4 if the job is
    unknown; the outcome of the job does not change the exit code.
    """
    from rollq.cli.ids import with_job_ids
    from rollq.cli.output import remark
    from rollq.cli.waiting import write_value

    stream = "" if stdout == stderr else "stdout" if stdout else "stderr"
    shown = Shown(as_json=as_json)

    async def show(client: Client, ids: list[bytes]) -> None:
        from rollq.cli.grid import check_is_job

        await check_is_job(client, ids[0])
        async for part in client.output(ids[0], follow=follow, stream=stream, tail=tail):
            shown.show(part)
        view = await client.jobs.view(ids[0])
        is_over = view is None or view.end is not None
        if is_over and view is not None and stream != "stderr" and tail is None and not as_json:
            result = await client.result_of(ids[0])
            await write_value(result)
            shown.is_any |= bool(result.data_size)
        if not shown.is_any and tail != 0 and not as_json:
            remark(nothing_text(stream, is_over=is_over))

    with_job_ids(servers, timeout, [job_id], show)


def nothing_text(stream: str, *, is_over: bool) -> str:
    """What is said of a job without output. `stream`: the only one that was asked for."""
    what = f"nothing to {stream}" if stream else "nothing"
    return f"the job wrote {what}" if is_over else f"the job has written {what} so far"


class Shown:
    """Writes output, and remarks about gaps and attempts."""

    def __init__(self, *, as_json: bool) -> None:
        from rollq.documents.output import OutputDocuments

        self.is_any = False  # whether there was any output
        self.is_line_open = False  # whether the last output to stdout did not end with a newline
        self._as_json = as_json
        self._attempt = 1
        self._documents = OutputDocuments()

    def show(self, part: StreamPart) -> None:
        """Write one part."""
        import sys

        from rollq.cli.output import remark, write_json

        self.is_any = True
        if self._as_json:
            write_json(self._documents.of(part))
            return
        self.turn_to(part.attempt)
        if part.skipped:
            remark(f"[{part.skipped} bytes of {part.stream} skipped]")
        target = sys.stdout if part.stream == "stdout" else sys.stderr
        if part.stream == "stdout":
            self.is_line_open = not part.data.endswith(b"\n")
        target.flush()
        target.buffer.write(part.data)
        target.buffer.flush()

    def turn_to(self, attempt: int) -> None:
        """Write that another attempt begins. Of one after the first it is always written, because
        output of those before it is seen only if it came while they ran."""
        from rollq.cli.output import remark

        if attempt > self._attempt:
            self._attempt = attempt
            remark(f"[attempt {attempt}]")
