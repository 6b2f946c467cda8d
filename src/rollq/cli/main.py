"""The tree of commands, and the entry point. Only light modules are imported here, because `--help`
must be fast; a command imports the rest when it runs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from rollq.cli import (
    access,
    access_roles,
    backup,
    batch,
    blobs,
    cache,
    cancel,
    client,
    clientx,
    cluster,
    cron,
    demo,
    demo3,
    dlq,
    doctor,
    drain,
    execs,
    explain,
    federation,
    fetch,
    flow,
    groups,
    hints,
    history,
    init,
    job,
    joblogs,
    jobs,
    leader,
    limit,
    metrics,
    pipeline,
    publish,
    queue,
    report,
    request,
    restore,
    router,
    settings,
    sql,
    status,
    submit,
    subscribe,
    tls,
    top,
    topic,
    wait,
    wal,
    watch,
    web,
    weight,
    worker,
)
from rollq.cli.config import load_config
from rollq.cli.credentials import with_credentials
from rollq.cli.failures import EXIT_USAGE, Commands
from rollq.cli.pages import Command
from rollq.leash import watch_leash
from rollq.net.packing import PACKING, Compress
from rollq.net.standard import hold_standard_descriptors

EPILOG = """\b
Exit codes:
  0    success
  1    a job failed, a check found a problem, or a member or worker had to stop
  2    wrong usage: arguments, environment or configuration file
  3    no leader reached, or no answer in time
  4    refused by the grid
  124  --wait-timeout expired; the jobs are still in the grid
  130  interrupted
\b
Options are taken from the command line, then from ROLLQ_… environment variables,
then from ~/.config/rollq/rollq.toml (or --config FILE).
"""

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)


def main() -> None:
    """Run the command line."""
    hold_standard_descriptors()
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if not __debug__:
        sys.stderr.write(
            "rollq requires assertions and does not run under python -O.\n"
            "Start it without -O and without PYTHONOPTIMIZE.\n"
        )
        sys.exit(EXIT_USAGE)
    watch_leash()
    command = typer.main.get_command(app)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as `rollq.__main__` left it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="rollq")


def show_version(value: bool) -> None:
    """Callback of `--version`."""
    if value:
        from rollq.release import release

        sys.stdout.write(f"rollq {release()}\n")
        raise typer.Exit


@app.callback()
def rollq(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            envvar="ROLLQ_CONFIG",
            help="TOML file with default options.",
            show_default=False,
            metavar="FILE",
        ),
    ] = None,
    compress: Annotated[
        Compress,
        typer.Option(
            envvar="ROLLQ_COMPRESS",
            help="What to compress before sending; auto: only what waits for a slow network.",
        ),
    ] = Compress.AUTO,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and the commit that it was built from, and exit.",
            is_eager=True,
            callback=show_version,
        ),
    ] = False,
) -> None:
    """A durable, replicated job grid."""
    load_config(ctx, config)
    PACKING.mode = compress


for module in (
    *(leader, worker, submit, wait, fetch, status, job, jobs, joblogs, cancel, explain),
    *(client, clientx, demo3, demo, doctor, drain, sql, report, init, web),
    *(restore, top, watch, groups, publish, subscribe, request),
    *(router,),
):
    module.register(app)
GROUPS = [
    group.app
    for group in (
        *(dlq, flow, queue, limit, weight, cluster, settings, hints, history, wal, blobs, cache),
        *(pipeline, tls, access, execs, backup, metrics, federation, topic, cron, batch),
    )
]
for group in GROUPS:
    app.add_typer(group)
for branch in (app, *GROUPS, access_roles.app):
    for leaf in branch.registered_commands:
        leaf.cls = Command
        assert leaf.callback is not None, "every command is a function"
        leaf.callback = with_credentials(leaf.callback)
