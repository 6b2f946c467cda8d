"""Options of `rollq submit` for followers of a job."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rollq.base.errors import ErrorCode, LocalError

if TYPE_CHECKING:
    from rollq.roles.client.jobs.specs import JobSpec

FOLLOWING: Final = ("then", "notify", "notify_key")

Then = Annotated[
    list[str] | None,
    typer.Option(
        "--then",
        metavar="'EXEC [ARGS]…'",
        help="Run this program or function when the job, array or file of jobs has ended, in any "
        "way; may be repeated.",
    ),
]
Notify = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        metavar="URL",
        help="Post to this URL how it ended, by a worker with --app rollq.webhook; may be "
        "repeated.",
    ),
]
NotifyKey = Annotated[
    str,
    typer.Option(
        metavar="SECRET", help="With --notify: sign it with this secret of the worker's vault."
    ),
]


def asked_followers(params: dict[str, Any]) -> list[JobSpec]:
    """The followers, as specs."""
    from rollq.roles.client.calls.followers import Webhook

    programs = [program_spec(one) for one in params["then"] or ()]
    key = params["notify_key"]
    return programs + [Webhook(url, key).spec() for url in params["notify"] or ()]


def program_spec(command: str) -> JobSpec:
    """Split a command like a shell into program and arguments.

    Raises:
        LocalError: BAD_OPTIONS, if there is no program.
    """
    from rollq.roles.client.jobs.specs import JobSpec

    try:
        name, *args = shlex.split(command)
    except ValueError as error:
        why = str(error) if command.strip() else "no program"
        hint = "write a program and its arguments, as in 'mail ops@example.com'"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"then {command[:64]!r}: {why}", hint) from None
    return JobSpec(name, args)
