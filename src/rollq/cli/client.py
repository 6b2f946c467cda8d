"""`rollq client`: the legacy sample client of one group."""

from __future__ import annotations

from typing import Annotated

import typer

from rollq.cli.options import DEFAULT_TIMEOUT_S, Json, Timeout

EPILOG = """\b
Examples:
  rollq client 127.0.0.1 5000 clientA 8
  rollq client 127.0.0.1 5000 clientA --exec resize --count 10
"""
Exec = Annotated[
    str, typer.Option("--exec", metavar="NAME", help="Program or @task function to run.")
]
Count = Annotated[
    int, typer.Option(min=1, metavar="N", help="Number of jobs; job n gets the argument n.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(client)


def client(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host of a member.")],
    port: Annotated[
        int, typer.Argument(metavar="PORT", min=1, max=65_535, help="Port of that member.")
    ],
    client_id: Annotated[str, typer.Argument(metavar="CLIENTID", help="Name of this client.")],
    desired: Annotated[
        int,
        typer.Argument(
            envvar="CLIENT_DESIRED_PAR",
            metavar="DESIRED",
            min=0,
            help="Jobs of this client to run at once.",
        ),
    ] = 4,
    exec_name: Exec = "calcA",
    count: Count = 3,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Submit a few jobs under a client id, and show their results.

    A sample client; `rollq submit` does more. Exit code 1 unless all jobs succeeded.
    """
    from rollq.cli.service import run
    from rollq.net.dialer import join_address

    address = join_address(host, port)
    if not run(_run(address, client_id, desired, exec_name, count, timeout, as_json)):
        raise typer.Exit(1)


async def _run(
    address: str,
    client_id: str,
    desired: int,
    exec_name: str,
    count: int,
    timeout_s: float,
    as_json: bool,
) -> bool:
    from rollq.cli.credentials import given_credentials
    from rollq.cli.results import write_result
    from rollq.roles.client.client import Client

    ok = True
    async with Client(
        address,
        client_id=client_id,
        desired_parallelism=desired,
        timeout=timeout_s,
        credentials=given_credentials(),
    ) as grid:
        async for result in grid.map(exec_name, [str(number) for number in range(1, count + 1)]):
            write_result(result, as_json=as_json)
            ok &= result.ok
    return ok
