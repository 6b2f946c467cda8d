"""The options of `rollq submit`; `rollq cron add` has some of them."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from rollq.base.traces import VARIABLE


class ExitRule(enum.StrEnum):
    """How the exit code depends on the job."""

    PROGRAM = "program"
    SIMPLE = "simple"


Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file", "-f", metavar="[NAME=]PATH", help="Input file of any size; may be repeated."
    ),
]
Dirs = Annotated[
    list[str] | None,
    typer.Option(
        "--dir",
        metavar="[NAME=]PATH",
        help="Input directory, stored under its name or NAME; .=PATH puts its files at the top.",
    ),
]
Cached = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CACHE:NAME", help="Input file from a cache (rollq cache put); may be repeated."
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=ID:FILE",
        help="Input file from the output of job ID, which is waited for; - = stdout. Repeatable.",
    ),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="GLOB",
        help="Output files to keep; may be repeated. Default: all new files.",
    ),
]
Payload = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Send this file as payload instead of arguments; - is stdin."
    ),
]
Array = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Submit an array of N tasks.", show_default=False),
]
RunningMax = Annotated[
    int, typer.Option(min=0, metavar="N", help="Run at most N tasks at once (0 = no limit).")
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Submit one job per line of a .jsonl or .csv file. Without EXEC each line names its "
        "program: field exec, or the first column of CSV.",
    ),
]
Header = Annotated[bool, typer.Option("--header", help="Skip the first row of a CSV file.")]
BatchKey = Annotated[
    str,
    typer.Option(
        metavar="KEY", help="Batch key: resubmitting it with the same --client-id is idempotent."
    ),
]
Queue = Annotated[str, typer.Option(metavar="NAME", help="Queue of the job.", show_default="EXEC")]
Priority = Annotated[
    int, typer.Option(min=0, max=9, metavar="N", help="Priority, 0 to 9; higher runs first.")
]
Delay = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="Do not start before this delay is over.")
]
MaxAttempts = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Attempts that may be lost before the job is dead (0 = grid setting).",
    ),
]
RunLimit = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Kill the job after this run time (0 = never)."),
]
SoftLimit = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Send SIGTERM after this run time (0 = never)."),
]
RetryExitCodes = Annotated[
    list[int] | None,
    typer.Option(metavar="N", help="Retry on this exit code; may be repeated."),
]
Lease = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Lease, at least 1 s (0 = grid setting)."),
]
ResultTtl = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Keep the result this long (0 = grid setting)."),
]
Expire = Annotated[
    float,
    typer.Option(min=0, metavar="SECONDS", help="Fail if not started within SECONDS (0 = never)."),
]
Worker = Annotated[str, typer.Option(metavar="NAME", help="Run only on the worker with this name.")]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="Environment variable of the job; NAME alone copies it from here. May be repeated.",
    ),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME=[file:]SECRET",
        help="Set NAME to a secret of the worker's vault, or to the path of a file with it.",
    ),
]
Traceparent = Annotated[
    str,
    typer.Option(
        envvar=VARIABLE,
        metavar="TRACEPARENT",
        help="Span that the job belongs to, as in W3C Trace Context.",
        show_default=False,
    ),
]
OwnId = Annotated[
    str,
    typer.Option(
        "--id",
        metavar="ID",
        help="Job id; resubmitting it is idempotent. The client id is cli-ID then.",
    ),
]
Key = Annotated[
    str,
    typer.Option(metavar="KEY", help="Idempotency key, unique per --client-id."),
]
ClientId = Annotated[
    str,
    typer.Option(envvar="ROLLQ_CLIENT_ID", metavar="NAME", help="Client id that receives results."),
]
WaitTimeout = Annotated[
    float,
    typer.Option(
        min=0, metavar="SECONDS", help="With --wait: stop waiting after this time (0 = never)."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        "--save",
        "--out",
        metavar="DIR",
        help="With --wait: save output files here; of many jobs in DIR/task-0, DIR/line-1, ….",
    ),
]
Like = Annotated[
    str,
    typer.Option(
        metavar="ID",
        help="Copy this job; arguments given here replace all of its arguments.",
    ),
]
ExitCode = Annotated[
    ExitRule,
    typer.Option("--exit-code", help="With --wait: exit with the program's code, or with 0 or 1."),
]
