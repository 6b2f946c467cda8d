"""`rollq groups`: the groups of a federation, as one process knows them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final

import typer

from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Timeout

EPILOG = """\b
Examples:
  rollq groups --address 127.0.0.1:5000
  rollq groups --watch
  rollq groups --json | jq -r '.groups[] | [.name, .state, .leader] | @tsv'
"""
INTERVAL_S: Final = 1.0
CLEAR: Final = "\x1b[H\x1b[J"
CLUSTER_DIGITS: Final = 8  # of the cluster id, in text output
OFF: Final = (
    "{address} does not gossip: start members with --federation-key, and --seeds (see `rollq "
    "federation`)"
)
COLUMNS: Final = (
    *("group", "state", "leader", "members", "queued", "running", "workers", "heard", "cluster"),
)

Address = Annotated[
    str,
    typer.Option(
        "--address",
        "--servers",
        "-s",
        envvar="ROLLQ_SERVERS",
        metavar="HOST:PORT,…",
        help="Members or routers to ask; the first answer is used.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(groups)


def groups(
    address: Address = DEFAULT_SERVERS,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show again after every change, until interrupted.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the groups of a federation: leader, members, health, and time of the last message.

    Any member that has the federation key knows all groups, even while its own has no leader; a
    router asks one of its groups. Queued, running and workers are as each leader reported last. A
    group is up, degraded (some members are down), leaderless, forming (its members have not found
    each other yet), or down.
    """
    from rollq.cli.service import run

    run(_show(address, timeout, watches=watch, as_json=as_json))


async def _show(servers: str, timeout_s: float, *, watches: bool, as_json: bool) -> None:
    import asyncio

    async with _asking(servers, timeout_s) as ask:
        shown = _write(await ask(), servers, None, as_json=as_json, watches=watches)
        while watches:
            await asyncio.sleep(INTERVAL_S)
            shown = _write(await ask(), servers, shown, as_json=as_json, watches=True)


@contextlib.asynccontextmanager
async def _asking(servers: str, timeout_s: float) -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
    """Yield the query function: it asks any member, which needs no leader; else a router or the
    leader, like a client."""
    from rollq.cli.credentials import given_credentials
    from rollq.cli.grid import connected
    from rollq.roles.client.addresses import as_addresses
    from rollq.roles.reader.observer import Observer

    addresses = as_addresses(servers)
    observer = Observer(addresses, "", given_credentials(), prefer=addresses[0], answer_s=timeout_s)

    async def ask() -> bytes:
        return (await observer.query("groups"))[1]

    try:
        await observer.start()
        if observer.member:
            yield ask
            return
    finally:
        await observer.stop()
    async with connected(servers, timeout_s) as client:
        yield lambda: client.query("groups")


def _write(value: bytes, asked: str, shown: Any, *, as_json: bool, watches: bool) -> Any:
    """Print the document if it differs from the one shown before; returns what is shown now."""
    import sys

    from rollq.cli.output import write_json
    from rollq.documents.federation import federation_document
    from rollq.gossip.map import FederationView
    from rollq.roles.client.answers import decode_as

    document = federation_document(decode_as(value, FederationView))
    is_screen = watches and sys.stdout.isatty() and not as_json
    now = _without(document, ("heard_ms",) if as_json else ("heard_ms", "members"))
    if now == shown and not is_screen:
        return shown
    if as_json:
        write_json(document)
    else:
        if is_screen:
            sys.stdout.write(CLEAR)
        _write_table(document, asked)
    return now


def _write_table(document: dict[str, Any], asked: str) -> None:
    import sys

    from rollq.cli.output import alarming, write_line, write_table
    from rollq.documents.times import age

    if not document["gossip"]:
        write_line(OFF.format(address=asked))
        return
    rows = [
        (
            group["name"],
            group["state"],
            group["leader"] or "-",
            f"{group['members_up']}/{group['members_known']}",
            *(group["queued"], group["running"], group["workers"]),
            age(group["heard_ms"] // 1000),
            group["cluster_id"][:CLUSTER_DIGITS] or "-",
        )
        for group in document["groups"]
    ]
    write_table(COLUMNS, rows, fits=True)
    for router in document["routers"]:
        heard = age(router["heard_ms"] // 1000)
        write_line(f"router {router['address']}, {router['standing']}, heard {heard} ago")
    for name in dict.fromkeys(one["name"] for one in document["groups"] if one["conflict"]):
        text = f"CONFLICT two clusters use the group name {name}: rename one"
        write_line(alarming(text, sys.stdout))


def _without(value: Any, names: tuple[str, ...]) -> Any:
    """Remove fields that are not shown or always change, for comparison."""
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names}
    return [_without(one, names) for one in value] if isinstance(value, list) else value
