"""The entry point, and the options of all commands. Every start imports this module, so it imports
only what is light."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from rollq.cli.config import load_config
from rollq.cli.failures import EXIT_USAGE, ClosedStdout
from rollq.cli.tree import Root
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
  141  the reader of stdout went away before the end, as in `rollq … | head -1`
\b
Options are taken from the command line, then from ROLLQ_… environment variables,
then from ~/.config/rollq/rollq.toml (or --config FILE).
"""

app = typer.Typer(
    cls=Root,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)


def main() -> None:
    """Run the command line."""
    hold_standard_descriptors()
    sys.stdout = sys.stdout or ClosedStdout()
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if not __debug__:
        sys.stderr.write(
            "rollq requires assertions and does not run under python -O.\n"
            "Start it without -O and without PYTHONOPTIMIZE.\n"
        )
        sys.exit(EXIT_USAGE)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What its encoding lacks is a ? instead of an error. Output of jobs is written as bytes.
        sys.stdout.reconfigure(errors="replace")
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
