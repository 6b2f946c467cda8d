"""`rollq cluster`: shows and changes the members of the group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.base.amounts import size_text
from rollq.base.errors import DeadlineError, DialError, ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.roles.client.client import Client
    from rollq.roles.member.status import ClusterView, MemberView
    from rollq.roles.reader.observer import Observer

EPILOG = """\b
Examples:
  rollq cluster status
  rollq cluster add 127.0.0.1:5004
  rollq cluster remove 127.0.0.1:5003
  rollq cluster transfer 127.0.0.1:5002
"""
app = typer.Typer(
    name="cluster",
    help="Show and change the members of the group.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
POLL_S = 0.1
DISK_PARTS = {
    "log": "log_bytes",
    "snapshots": "snapshot_bytes",
    "history": "history_bytes",
    "blobs": "blob_bytes",
    "other": "other_bytes",
}
DISK_COLUMNS = ("disk of", "used", *DISK_PARTS, "free")
Who = Annotated[str, typer.Argument(metavar="MEMBER", help="Address or id of a member.")]
LongTimeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        envvar="ROLLQ_TIMEOUT",
        min=0.1,
        metavar="SECONDS",
        help="How long to wait for the change to take effect.",
    ),
]


@app.command(epilog="Example: rollq cluster status --json | jq -r .leader")
def status(
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show members: role, term, commit index, lag and disk."""
    _run(_look(servers, timeout), as_json=as_json)


@app.command(epilog="Example: rollq cluster add 127.0.0.1:5004")
def add(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The new member.")],
    servers: Servers = DEFAULT_SERVERS,
    timeout: LongTimeout = 60.0,
    as_json: Json = False,
) -> None:
    """Wait until a new member has caught up and is a voter.

    Start it first, on an empty state directory, with the members of the group as its --peers: it
    joins as a learner, receives the whole state, and is then made a voter.
    """
    from rollq.net.dialer import split_address

    split_address(address)
    _run(_add(servers, timeout, address), as_json=as_json)


@app.command(epilog="Example: rollq cluster remove 127.0.0.1:5003")
def remove(
    member: Who,
    servers: Servers = DEFAULT_SERVERS,
    timeout: LongTimeout = 30.0,
    as_json: Json = False,
) -> None:
    """Remove a member from the group. Stop its process afterwards."""
    _run(_remove(servers, timeout, member), as_json=as_json)


@app.command(epilog="Example: rollq cluster transfer 127.0.0.1:5002")
def transfer(
    member: Annotated[
        str,
        typer.Argument(
            metavar="MEMBER", help="The new leader (default: the follower with the longest log)."
        ),
    ] = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: LongTimeout = 30.0,
    as_json: Json = False,
) -> None:
    """Transfer leadership to another member, without an election timeout."""
    _run(_transfer(servers, timeout, member), as_json=as_json)


def show_cluster(document: dict[str, Any]) -> None:
    """Print the group as text."""
    import sys

    from rollq.cli.output import alarming, write_line, write_table

    write_line(
        f"leader {document['leader']}, term {document['term']}, "
        f"commit {document['commit']}, applied {document['applied']}"
    )
    columns = ("address", "role", "match", "lag", "active", "state", "id")
    members = document["members"]
    write_table(columns, [[_or_dash(one[name]) for name in columns] for one in members])
    write_line()
    write_table(DISK_COLUMNS, [[one["address"], *_disk_cells(one["disk"])] for one in members])
    for alarm in document["alarms"]:
        write_line(alarming(f"ALARM {alarm['text']}: {alarm['todo']}", sys.stdout))


def _or_dash(value: Any) -> Any:
    return "-" if value is None else value


def _disk_cells(disk: dict[str, int] | None) -> list[str]:
    """The disk of a member: what it takes, and what is free."""
    if disk is None:  # a member of an older version, or one that is away
        return ["unknown", *["-"] * len(DISK_PARTS), "unknown"]
    free = f"{size_text(disk['free_bytes'])} of {size_text(disk['total_bytes'])}"
    return [*(size_text(disk[name]) for name in ("used_bytes", *DISK_PARTS.values())), free]


def _run(main: Any, *, as_json: bool) -> None:
    from rollq.cli.output import write_json
    from rollq.cli.service import run
    from rollq.documents.grid import cluster_document

    document = cluster_document(run(main))
    if as_json:
        write_json(document)
    else:
        show_cluster(document)


async def _look(servers: str, timeout_s: float) -> ClusterView:
    from rollq.cli.grid import connected

    async with connected(servers, timeout_s) as client:
        return await _view(client)


async def _add(servers: str, timeout_s: float, address: str) -> ClusterView:
    """Wait until the member at the address is a voter; returns the group. If a disk was replaced, a
    former voter with another id has the same address."""
    from rollq.cli.credentials import given_credentials
    from rollq.cli.grid import connected
    from rollq.roles.reader.observer import Observer

    def voter(view: ClusterView) -> MemberView | None:
        voters = [one for one in view.members if one.role != "learner" and one.active]
        return next((one for one in voters if one.address == address), None)

    async def serves(view: ClusterView) -> bool:
        found = voter(view)
        return found is not None and found.member_id == await _own_id(observer, address)

    observer = Observer([address], "", given_credentials(), answer_s=timeout_s)
    async with connected(servers, timeout_s) as client:
        view = await _view(client)
        names = ",".join(one.address for one in view.members if one.address != address)
        hint = f"start it on an empty state directory with --peers {names}, and check its log"
        try:
            return await _until(
                client,
                timeout_s,
                lambda view: voter(view) is not None,
                f"{address} does not serve as a voter",
                hint,
                confirmed=serves,
            )
        finally:
            await observer.stop()


async def _own_id(observer: Observer, address: str) -> int | None:
    """The id of the member that listens on an address; None if it is not a member yet. A member
    that does not lead knows only its own state."""
    from rollq.roles.client.answers import decode_as
    from rollq.roles.member.status import UNKNOWN, ClusterView

    await observer.start()
    _, value = await observer.query("cluster")
    members = [one for one in decode_as(value, ClusterView).members if one.address == address]
    return next((one.member_id for one in members if one.state != UNKNOWN), None)


async def _remove(servers: str, timeout_s: float, named: str) -> ClusterView:
    from rollq.cli.grid import connected

    async with connected(servers, timeout_s) as client:
        member = _find(await _view(client), named)
        await client.remove_member(member.member_id)
        return await _until(
            client,
            timeout_s,
            lambda view: all(one.member_id != member.member_id for one in view.members),
            f"{named} is still a member",
            "see `rollq cluster status`",
        )


async def _transfer(servers: str, timeout_s: float, named: str) -> ClusterView:
    from rollq.cli.grid import connected

    async with connected(servers, timeout_s) as client:
        view = await _view(client)
        if named:
            member = _find(view, named)
        else:
            followers = [one for one in view.members if one.role == "follower" and one.active]
            if not followers:
                raise LocalError(
                    ErrorCode.BAD_OPTIONS, "no other voter is active", "start another voter first"
                )
            member = max(followers, key=lambda one: one.match)
        await client.transfer(member.member_id)
        return await _until(
            client,
            timeout_s,
            lambda view: view.leader_id == member.member_id,
            f"{member.address} is not the leader",
            "see `rollq cluster status`; a member that lags cannot take over",
        )


async def _view(client: Client) -> ClusterView:
    from rollq.cli.grid import query_view
    from rollq.roles.member.status import ClusterView

    return await query_view(client, ClusterView, "cluster")


def _find(view: ClusterView, named: str) -> MemberView:
    for member in view.members:
        if named in (member.address, str(member.member_id)):
            return member
    known = ", ".join(member.address for member in view.members)
    raise LocalError(ErrorCode.BAD_OPTIONS, f"no member is {named[:128]!r}", f"members: {known}")


async def _until(
    client: Client,
    timeout_s: float,
    condition: Callable[[ClusterView], bool],
    otherwise: str,
    hint: str,
    *,
    confirmed: Callable[[ClusterView], Awaitable[bool]] | None = None,
) -> ClusterView:
    """Poll until the condition holds and is confirmed; returns the group."""
    import asyncio

    try:
        async with asyncio.timeout(timeout_s):
            while True:
                view = await _view(client)
                if condition(view) and (confirmed is None or await confirmed(view)):
                    return view
                await asyncio.sleep(POLL_S)
    except (TimeoutError, DeadlineError):
        raise DialError(ErrorCode.TIMED_OUT, f"after {timeout_s:g} s {otherwise}", hint) from None
