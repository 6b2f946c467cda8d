"""Checks of `rollq submit`: options that conflict, or that would have no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli import following, needs

OPTIONS: Final = (
    *("priority", "delay", "max_attempts", "run_limit", "lease", "result_ttl", "expire", "worker"),
)
# Options that --like copies from the other job.
NOT_LIKE: Final = (
    *OPTIONS,
    *needs.NEEDS,
    *following.FOLLOWING,
    *("soft_limit", "retry_exit_code", "secret", "file", "folder", "cached", "output", "payload"),
    *("array", "from_file", "job_id", "key"),
)
NEEDS: Final = {
    "save": "wait",
    "exit_code": "wait",
    "wait_timeout": "wait",
    "header": "from_file",
    "batch": "from_file",
    "running_max": "array",
    "notify_key": "notify",
    "key": "client_id",  # keys are per client: with a random client id every key would be new
}


def check_together(
    exec_name: str, source: Path | None, *, is_fed: bool, array: int | None, own: str
) -> None:
    """Refuse conflicting options."""
    if not exec_name and source is None:
        raise LocalError(ErrorCode.BAD_OPTIONS, "no program given", "name one: rollq submit EXEC")
    if sum((source is not None, array is not None, bool(own))) > 1:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "--from-file, --array and --id or --key are mutually exclusive",
            "use one of them",
        )
    if source is not None and is_fed:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "--from-file takes arguments and files from the file",
            "remove the others",
        )


def check_like(ctx: typer.Context) -> None:
    """Refuse options that --like copies."""
    for name in NOT_LIKE:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"--like takes {name.replace('_', ' ')} from the other job",
                "give arguments, --env or --queue, or submit without --like",
            )


def check_needs(ctx: typer.Context) -> None:
    """Refuse an option of the command line that would have no effect. In a configuration file it
    may be meant for other calls."""
    for name, needed in NEEDS.items():
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and not ctx.params[needed]:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"--{name.replace('_', '-')} requires --{needed.replace('_', '-')}",
                "add it, or remove this option",
            )


def check_save(folder: Path | None) -> None:
    """Create the directory before the job is accepted: a later error would cost its output."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{folder}: {error.strerror or error}", "check --save"
        ) from None
