"""`rollq demo3`: runs three members on this machine, for trials."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.cli.options import Json

if TYPE_CHECKING:
    from rollq.cli.fleet import Fleet

EPILOG = """\b
Examples:
  rollq demo3
  rollq demo3 --port 5000 --keep ./demo
"""
PROGRAM = 'sleep 0.1\necho "calcA($*) = $(($1 * 2))"'


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(demo3)


def demo3(
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65_533, metavar="PORT", help="First of three ports (0 = any free ports)."
        ),
    ] = 0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Working directory, which is kept.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of jobs to run.")] = 6,
    once: Annotated[bool, typer.Option("--once", help="Stop when the jobs have ended.")] = False,
    as_json: Json = False,
) -> None:
    """Run three members, two workers and a few jobs on this machine, until Ctrl-C.

    Everything is removed at the end, unless --keep names a directory.
    """
    from rollq.cli.fleet import Fleet
    from rollq.cli.service import interrupted_by_signals
    from rollq.net.ports import free_ports

    root = keep or Path(tempfile.mkdtemp(prefix="rollq-demo3-"))
    ports = [port, port + 1, port + 2] if port else free_ports(3)
    with interrupted_by_signals(), Fleet(root, keep=keep is not None) as fleet:
        ok = _play(fleet, ports, count, as_json=as_json)
        if not once:
            _linger(fleet, as_json=as_json)
    if not ok:
        raise typer.Exit(1)


def _play(fleet: Fleet, ports: list[int], count: int, *, as_json: bool) -> bool:
    from rollq.cli.fleet import write_program
    from rollq.cli.output import remark
    from rollq.cli.service import run

    execs = fleet.root / "exec"
    write_program(execs, "calcA", PROGRAM)
    fleet.start_members(ports)
    for name in ("w1", "w2"):
        fleet.start_worker(name, "--exec-dir", str(execs), "--cpu-cap", "1")
    if not as_json:
        remark(f"members at {fleet.servers}, workers w1 and w2; programs in {execs}")
    return run(_jobs(fleet.servers, count, as_json))


async def _jobs(servers: str, count: int, as_json: bool) -> bool:
    from rollq.cli.results import write_result
    from rollq.roles.client.client import Client

    ok = True
    async with Client(servers, client_id="demo3") as client:
        async for result in client.map("calcA", [str(n) for n in range(1, count + 1)]):
            write_result(result, as_json=as_json)
            ok &= result.ok
    return ok


def _linger(fleet: Fleet, *, as_json: bool) -> None:
    import threading

    from rollq.cli.output import remark

    if not as_json:
        first = fleet.addresses[0]
        remark(
            f"try: rollq submit calcA 21 --wait -s {first}\n"
            f"     rollq cluster status -s {first}\n"
            f"     kill -9 {fleet.pid_of(first)}    (member {first})\n"
            "Ctrl-C ends it."
        )
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        remark("stopping")
