"""`rollq cron`: jobs that the grid submits by itself, by cron expression or interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.schedules import CATCH_UPS, LAST, OVERLAPS, SKIP
from rollq.cli import needs, submit, submit_options
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Limit, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.calls.schedules import ScheduleView
    from rollq.roles.client.client import Client

EPILOG = """\b
Examples:
  rollq cron add nightly '0 2 * * *' backup /data --zone Asia/Tokyo
  rollq cron add beat --every 10s ping -- -c 1 host
  rollq cron list
  rollq cron show nightly
  rollq cron pause nightly
  rollq cron run nightly
"""
app = typer.Typer(
    name="cron",
    help="Submit jobs at given times: add, list, pause, resume, run and remove schedules.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
COLUMNS = ("name", "when", "exec", "next", "last", "fired", "missed", "skipped", "refused")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]
What = Annotated[
    list[str],
    typer.Argument(
        metavar="[CRON] EXEC [ARGS]",
        help="Cron line of five fields (or @daily, …) unless --every is given; then the program "
        "or @task function, and its arguments.",
    ),
]
Zone = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of the cron line, such as Asia/Tokyo.")
]
Every = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Fire at this interval (s, m, h, d) instead of a cron line.",
        show_default=False,
    ),
]
Jitter = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Spread firings: each is up to this much later (s, m, h).",
        show_default="none",
    ),
]
Overlap = Annotated[
    str,
    typer.Option(
        metavar="|".join(OVERLAPS),
        help="While the previous job has not ended: skip this firing, queue its job as well, or "
        "cancel the previous job.",
    ),
]
CatchUp = Annotated[
    str,
    typer.Option(
        metavar="|".join(CATCH_UPS),
        help="After an outage of more than 10 s: fire none, the last, or all of the missed times.",
    ),
]


@app.command(epilog="Example: rollq cron add nightly '0 2 * * 1-5' backup /data --zone Asia/Tokyo")
def add(
    ctx: typer.Context,
    name: Name,
    what: What,
    zone: Zone = "UTC",
    every: Every = "",
    jitter: Jitter = "",
    overlap: Overlap = SKIP,
    catch_up: CatchUp = LAST,
    file: submit_options.Files = None,
    cached: submit_options.Cached = None,
    output: submit_options.Outputs = None,
    queue: submit_options.Queue = "",
    priority: submit_options.Priority = 0,
    max_attempts: submit_options.MaxAttempts = 0,
    run_limit: submit_options.RunLimit = 0,
    soft_limit: submit_options.SoftLimit = 0,
    retry_exit_code: submit_options.RetryExitCodes = None,
    lease: submit_options.Lease = 0,
    result_ttl: submit_options.ResultTtl = 0,
    expire: submit_options.Expire = 0,
    worker: submit_options.Worker = "",
    cpu: needs.Cpu = "",
    memory: needs.Memory = "",
    gpu: needs.Gpu = "",
    resource: needs.Resource = None,
    label: needs.Label = None,
    limit: needs.Limit = None,
    sticky_key: needs.StickyKey = "",
    env: submit_options.Env = None,
    secret: submit_options.Secrets = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Add a schedule, or change an existing one.

    A local time that occurs twice (clocks go back) fires once, at the first; one that does not
    occur (clocks go forward) fires when the clocks are set. If the hour field is * or */N, the
    schedule follows the clock as it is instead. Files must fit into the request (16 KiB); larger
    ones belong into a cache.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer
    from rollq.documents.schedules import schedule_document

    cron, exec_name, args = _split(what, every)
    files = submit.named_once(submit.find_files(file, "--file"), submit.cached_files(cached))
    options = submit.options_of(ctx)

    async def put(client: Client) -> ScheduleView:
        return await client.schedules.put(
            name,
            exec_name,
            args,
            cron=cron,
            zone=zone,
            every=_seconds(every, "--every", least=1),
            jitter=_seconds(jitter, "--jitter"),
            overlap=_one_of(overlap, OVERLAPS, "--overlap"),
            catch_up=_one_of(catch_up, CATCH_UPS, "--catch-up"),
            files=files,
            outputs=output or [],
            **options,
        )

    view = with_client(servers, timeout, put)
    write_answer(
        schedule_document(view), f"schedule {name}: next {_next_there(view)}", as_json=as_json
    )


@app.command("list", epilog="Example: rollq cron list --json | jq -r .name")
def list_(
    limit: Limit = 100,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List schedules: when they fire next, and counts of their firings."""
    from rollq.cli.grid import first_rows, with_client
    from rollq.cli.output import remark_more, write_json, write_line, write_table
    from rollq.documents.schedules import schedule_document

    async def read(client: Client) -> tuple[list[ScheduleView], bool]:
        return await first_rows(client.schedules.list(), limit)

    found, has_more = with_client(servers, timeout, read)
    if as_json:
        for view in found:
            write_json(schedule_document(view))
    elif found:
        write_table(COLUMNS, [_row(view) for view in found])
    else:
        write_line("no schedules: `rollq cron add` adds one")
    if has_more:
        remark_more(len(found))


@app.command(epilog="Example: rollq cron show nightly")
def show(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show a schedule: what it runs, when it fires next, and its last job."""
    from shlex import join

    from rollq.base.amounts import time_text
    from rollq.base.errors import StateError
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_fields, write_json
    from rollq.documents.schedules import schedule_document
    from rollq.documents.times import when

    view = with_client(servers, timeout, lambda client: client.schedules.get(name))
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_SCHEDULE, f"no schedule {name[:64]!r}", "`rollq cron list` lists them"
        )
    if as_json:
        write_json(schedule_document(view))
        return
    counts = f"{view.fired} fired, {view.missed} missed, {view.skipped} skipped"
    last = f"{when(view.last_ms)}, job {view.last_job_id}" if view.last_ms else "never"
    write_fields(
        {
            "schedule": view.name,
            "when": _when(view),
            "jitter": time_text(view.jitter_ms) if view.jitter_ms else "none",
            "runs": join([view.exec_name, *view.request.args]),
            "queue": view.queue,
            "client": view.client_id,
            "overlap": view.overlap,
            "catch-up": view.catch_up,
            "next": _next_there(view),
            "last": last,
            "counts": f"{counts}, {view.refused} refused",
            "changed": f"{when(view.stamp_ms)} by {view.by or 'unknown'}",
        }
        | ({"problem": view.last_error} if view.last_error else {})
    )


@app.command(epilog="Example: rollq cron remove nightly")
def remove(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Remove a schedule. Jobs that it submitted stay."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    with_client(servers, timeout, lambda client: client.schedules.remove(name))
    write_answer({"name": name, "removed": True}, f"schedule {name}: removed", as_json=as_json)


@app.command(epilog="Example: rollq cron pause nightly")
def pause(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Pause a schedule: it does not fire until it is resumed."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    with_client(servers, timeout, lambda client: client.schedules.pause(name))
    write_answer({"name": name, "paused": True}, f"schedule {name}: paused", as_json=as_json)


@app.command(epilog="Example: rollq cron resume nightly")
def resume(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Resume a paused schedule. Times that passed meanwhile do not fire."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer
    from rollq.documents.schedules import schedule_document

    view = with_client(servers, timeout, lambda client: client.schedules.resume(name))
    write_answer(
        schedule_document(view), f"schedule {name}: next {_next_there(view)}", as_json=as_json
    )


@app.command(epilog="Example: rollq cron run nightly")
def run(
    name: Name,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Submit a job of a schedule now, also while it is paused. Prints the id of the job."""
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer

    job_id = with_client(servers, timeout, lambda client: client.schedules.run(name))
    write_answer({"name": name, "id": job_id}, job_id, as_json=as_json)


def _split(what: list[str], every: str) -> tuple[str, str, list[str]]:
    """Split into the cron expression (empty with --every), the program and its arguments."""
    if every and (" " in what[0] or what[0].startswith("@")):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"both a cron line, {what[0][:64]!r}, and --every",
            "give one of them",
        )
    cron, rest = ("", what) if every else (what[0], what[1:])
    if not rest:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "no program given",
            "name one: rollq cron add NAME CRON EXEC, or rollq cron add NAME --every 10s EXEC",
        )
    return cron, rest[0], rest[1:]


def _seconds(text: str, option: str, least: int = 0) -> int:
    from rollq.base.amounts import AGES_S, amount
    from rollq.base.limits import DURATION_MS_MAX

    seconds = amount(text, AGES_S, option) if text else 0
    most = DURATION_MS_MAX // 1_000
    if text and not least <= seconds <= most:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{option} {text[:64]!r} is out of bounds",
            f"use {least} to {most} seconds, which are {most // AGES_S['d']} days",
        )
    return seconds


def _one_of(text: str, words: tuple[str, ...], option: str) -> str:
    if text not in words:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{option} {text[:64]!r}", f"use one of: {', '.join(words)}"
        )
    return text


def _when(view: ScheduleView) -> str:
    from rollq.base.amounts import time_text

    return f"every {time_text(view.every_ms)}" if view.every_ms else f"{view.cron} {view.zone}"


def _next(view: ScheduleView) -> str:
    from rollq.documents.times import when

    return "paused" if view.paused else when(view.fires_ms)


def _next_there(view: ScheduleView) -> str:
    """The next firing in local time, and in the schedule's zone if that differs."""
    from rollq.documents.times import when_in

    here = _next(view)
    there = "" if view.paused or not view.zone else when_in(view.zone, view.fires_ms)
    return here if there in ("", here) else f"{here} ({there} {view.zone})"


def _row(view: ScheduleView) -> tuple[Any, ...]:
    from rollq.documents.times import when

    last = when(view.last_ms) or "-"
    counts = view.fired, view.missed, view.skipped, view.refused
    return (view.name, _when(view), view.exec_name, _next(view), last, *counts)
