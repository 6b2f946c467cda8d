"""`rollq clientx`: the legacy sample client of several groups."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.client import Count, Exec
from rollq.cli.options import DEFAULT_TIMEOUT_S, Json, Timeout

EPILOG = """\b
Example:
  rollq clientx clientA 127.0.0.1:5000 127.0.0.1:5001 127.0.0.1:5002 12
"""


class PolicyName(enum.StrEnum):
    """How a group is chosen for a job."""

    ROUND_ROBIN = "round-robin"
    LEAST_INFLIGHT = "least-inflight"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(clientx)


def clientx(
    client_id: Annotated[str, typer.Argument(metavar="CLIENTID", help="Name of this client.")],
    groups: Annotated[
        list[str],
        typer.Argument(
            metavar="HOST:PORT… [DESIRED_TOTAL]",
            help="A member of each group (several of one group with commas), then the number of "
            "jobs to run at once in total.",
        ),
    ],
    policy: Annotated[
        PolicyName, typer.Option(help="How to choose the group of a job.")
    ] = PolicyName.ROUND_ROBIN,
    exec_name: Exec = "calcA",
    count: Count = 3,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Spread a few jobs over several groups, and show their results.

    A job whose group is unreachable for ten seconds is sent to another group under the same id:
    across groups a job may run more than once. Exit code 1 unless all jobs succeeded.
    """
    from rollq.cli.service import run

    desired = 0
    if len(groups) > 1 and groups[-1].isdecimal():
        desired = int(groups.pop())
    if any(":" not in group for group in groups):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, "a group without HOST:PORT", "see `rollq clientx --help`"
        )
    if not run(_run(client_id, groups, desired, policy.value, exec_name, count, timeout, as_json)):
        raise typer.Exit(1)


async def _run(
    client_id: str,
    groups: list[str],
    desired: int,
    policy: str,
    exec_name: str,
    count: int,
    timeout_s: float,
    as_json: bool,
) -> bool:
    from rollq.cli.credentials import given_credentials
    from rollq.cli.results import write_result
    from rollq.roles.client.multi import MultiClient

    ok = True
    async with MultiClient(
        groups,
        client_id=client_id,
        desired_parallelism=desired,
        policy=policy,
        timeout=timeout_s,
        credentials=given_credentials(),
    ) as grid:
        async for result in grid.map(exec_name, [str(number) for number in range(1, count + 1)]):
            write_result(result, as_json=as_json)
            ok &= result.ok
    return ok
