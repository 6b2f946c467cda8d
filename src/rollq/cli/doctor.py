"""`rollq doctor`: finds problems of a group or a state directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.cli.failures import EXIT_FOUND, EXIT_UNREACHABLE
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, MemberDir, Timeout

if TYPE_CHECKING:
    from rollq.store.check import Finding

EPILOG = """\b
Examples:
  rollq doctor
  rollq doctor --state ./state/5000
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(doctor)


def doctor(
    state: MemberDir = None,
    servers: Annotated[
        str,
        typer.Option(
            "--servers",
            "-s",
            envvar="ROLLQ_SERVERS",
            metavar="HOST:PORT,…",
            help="Members of a running group.",
            show_default=f"{DEFAULT_SERVERS}, without --state",
        ),
    ] = "",
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Check a running group, or the state directory of a member, and report problems.

    Read-only. Exit code 1 if there is a problem, 3 if no leader responds; 0 if there are only
    notes.
    """
    from rollq.base.amounts import counted
    from rollq.cli.output import alarming, write_json, write_line
    from rollq.cli.service import run
    from rollq.store.check import PROBLEM

    findings: list[Finding] = []
    is_led = True
    if state is not None:
        findings += _state_findings(state)
    if servers or state is None:
        from rollq.cli.health import group_findings

        is_led, found = run(group_findings(servers or DEFAULT_SERVERS, timeout))
        findings += found
    problems = sum(finding.severity == PROBLEM for finding in findings)
    if as_json:
        rows = [{"severity": one.severity, "what": one.what, "todo": one.todo} for one in findings]
        write_json({"ok": not problems, "findings": rows})
    else:
        for one in findings:
            line = f"{one.severity}: {one.what}"
            write_line(alarming(line, sys.stdout) if one.severity == PROBLEM else line)
            if one.todo:
                write_line(f"  {one.todo}")
        write_line(counted(problems, "problem") if problems else "no problems")
    if problems:
        raise typer.Exit(EXIT_FOUND if is_led else EXIT_UNREACHABLE)


def _state_findings(state: Path) -> list[Finding]:
    from rollq.cli.health import history_findings, room_findings
    from rollq.store.check import NOTE, Finding, check
    from rollq.store.look import LookDisk

    disk = LookDisk(state)
    holder = disk.holder()
    findings = []
    if holder:
        findings.append(
            Finding(
                NOTE,
                f"{holder} is using the directory",
                "records it is writing now may look torn or corrupt here",
            )
        )
    return [*findings, *check(disk), *history_findings(disk), *room_findings(state)]
