"""`rollq clientx`: the legacy sample client of several groups."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.client import Count, Exec
from rollq.cli.options import DEFAULT_TIMEOUT_S, Json, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.several_groups.client import MultiClient

EPILOG = """\b
Example:
  rollq clientx clientA 127.0.0.1:5000 127.0.0.1:5001 127.0.0.1:5002 12
  rollq clientx clientA gpu=127.0.0.1:5000 cpu=127.0.0.1:5001 --route 'render.>=gpu:3,cpu:1'
"""


class PolicyName(enum.StrEnum):
    """How the group of a job is chosen."""

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
            metavar="[NAME=]HOST:PORT… [DESIRED_TOTAL]",
            help="A member of each group (several of one group with commas), with the group's "
            "name if it has one, then the number of jobs to run at once in total.",
        ),
    ],
    policy: Annotated[
        PolicyName, typer.Option(help="How to choose the group of a job.")
    ] = PolicyName.ROUND_ROBIN,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER", help="Share of a group, relative to the others; may be repeated."
        ),
    ] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=NAME:WEIGHT,…",
            help="Groups for jobs of matching queues; may be repeated. The most specific pattern "
            "applies.",
        ),
    ] = None,
    exec_name: Exec = "calcA",
    count: Count = 3,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Distribute a few jobs over several groups, and show their results.

    A job whose group is unreachable for ten seconds is sent to another group under the same id:
    across groups a job may run more than once. The last line has the number of results per group.
    Exit code 1 unless all jobs succeeded.
    """
    from rollq.cli.credentials import given_credentials
    from rollq.cli.service import run
    from rollq.roles.client.several_groups.client import MultiClient

    desired = 0
    if len(groups) > 1 and groups[-1].isdecimal():
        desired = int(groups.pop())
    if any(":" not in group for group in groups):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, "a group without HOST:PORT", "see `rollq clientx --help`"
        )
    grid = MultiClient(
        named_groups(groups),
        client_id=client_id,
        desired_parallelism=desired,
        policy=policy.value,
        weights=named_weights(weight or []),
        routes=route or [],
        timeout=timeout,
        credentials=given_credentials(),
    )
    if not run(_run(grid, exec_name, count, as_json)):
        raise typer.Exit(1)


def named_groups(groups: list[str]) -> dict[str, str]:
    """The addresses of the groups by name; the default name is the addresses."""
    named: dict[str, str] = {}
    for group in groups:
        name, equals, addresses = group.rpartition("=")
        name = name if equals else group
        if not name or name in named:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"{group[:128]!r}: a group without a name, or given twice",
                "write NAME=HOST:PORT, each group once",
            )
        named[name] = addresses
    return named


def named_weights(texts: list[str]) -> dict[str, int]:
    """Parse weights of groups from `NAME=NUMBER`."""
    from rollq.roles.client.several_groups.routes import parse_weight

    pairs = [text.rpartition("=") for text in texts]
    return {name: parse_weight(weight) for name, _, weight in pairs}


async def _run(grid: MultiClient, exec_name: str, count: int, as_json: bool) -> bool:
    from rollq.cli.output import write_answer
    from rollq.cli.results import write_result

    ok = True
    async with grid:
        async for result in grid.map(exec_name, [str(number) for number in range(1, count + 1)]):
            write_result(result, as_json=as_json)
            ok &= result.ok
        spread = grid.spread
    shown = ", ".join(f"{name} {results}" for name, results in spread.items())
    write_answer({"event": "spread", "groups": spread}, f"by group: {shown}", as_json=as_json)
    return ok
