"""`rollq router`: runs a router, one address for several groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.clientx import PolicyName
from rollq.cli.federation import FederationKeyFile, given_federation
from rollq.cli.logs import Level
from rollq.cli.options import Json, LogFormatOption, LogLevel, UnsafeNoAuth
from rollq.security.mode import Mode

if TYPE_CHECKING:
    from rollq.cli.notify import ServiceNotes
    from rollq.cli.web import ServedBy
    from rollq.roles.router.node import RouterNode, RouterSetup

EPILOG = """\b
Examples:
  rollq router --listen 127.0.0.1:5100 --group gpu=127.0.0.1:5000 --group cpu=127.0.0.1:5001
  rollq router --listen 127.0.0.1:5100 --group gpu=h1:5000,h2:5000 --group cpu=h3:5000 \\
    --route 'render.>=gpu:3,cpu:1'
  rollq router --listen 127.0.0.1:5100 --seeds 127.0.0.1:5000 --http 5180
  rollq submit --servers 127.0.0.1:5100 calcA 1 --wait
"""
Listen = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_ROUTER_LISTEN",
        metavar="HOST:PORT",
        help="Address to listen on (port 0 = any free port).",
    ),
]
GroupsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME=HOST:PORT,…",
        help="A group: its name and some of its members; may be repeated.",
        show_default=False,
    ),
]
Seeds = Annotated[
    str,
    typer.Option(
        "--seeds",
        envvar="ROLLQ_SEEDS",
        metavar="HOST:PORT,…",
        help="Members of a federation, to discover its groups.",
        show_default=False,
    ),
]
Http = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_HTTP",
        metavar="[HOST:]PORT",
        help="Also serve web pages and the HTTP API, in a separate process (0 = any free port).",
        show_default="no pages",
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        metavar="NAME=NUMBER",
        help="Share of a group of the jobs without a route; may be repeated.",
        show_default="1 each",
    ),
]
Routes = Annotated[
    list[str] | None,
    typer.Option(
        "--route",
        metavar="PATTERN=NAME:WEIGHT,…",
        help="Groups for jobs of matching queues; may be repeated. The most specific pattern "
        "applies.",
        show_default="every group",
    ),
]
RoutesFile = Annotated[
    Path | None,
    typer.Option(
        "--routes",
        metavar="FILE",
        help="File with one route per line, as for --route; lines that begin with # are comments.",
        show_default=False,
    ),
]
Tls = Annotated[
    Mode | None,
    typer.Option(
        envvar="ROLLQ_TLS",
        help="Whether connections use TLS.",
        show_default="require with a certificate in --credentials, else off",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(router)


def router(
    ctx: typer.Context,
    listen: Listen = "127.0.0.1:5100",
    group: GroupsOption = None,
    seeds: Seeds = "",
    federation_key: FederationKeyFile = None,
    weight: Weights = None,
    route: Routes = None,
    routes: RoutesFile = None,
    policy: Annotated[
        PolicyName, typer.Option(help="How to choose among the groups that a job may go to.")
    ] = PolicyName.ROUND_ROBIN,
    tls: Tls = None,
    unsafe_no_auth: UnsafeNoAuth = False,
    http: Http = "",
    log_level: LogLevel = Level.INFO,
    log_format: LogFormatOption = None,
    as_json: Json = False,
) -> None:
    """Run a router: one address for several groups.

    Clients connect to it like to a member. A job goes to one reachable group of its route, and is
    accepted when that group has accepted it; its result comes back through the router. It has no
    state on disk: start several routers, and give clients all their addresses. Tokens of clients
    are passed to the groups; certificates and keys cannot be. SIGTERM closes connections and
    stops; jobs go on.
    """
    from rollq.cli.logs import set_up_logs
    from rollq.cli.service import run

    host, port = _split(listen)
    lines = [*(route or ()), *_lines(routes)]
    setup = _setup(group or [], weight or [], lines, policy.value, tls, seeds)
    if federation_key is not None:
        _check_reachable(host)
        setup = replace(setup, federation=given_federation(federation_key, seeds))
    _check_protected(setup, host, unsafe_no_auth=unsafe_no_auth)
    set_up_logs(ctx, address=listen, group="router")
    run(_serve(ctx, setup, host, port, http=http, as_json=as_json))


def _split(listen: str) -> tuple[str, int]:
    """Split host and port; the port may be 0."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"--listen {listen[:128]!r}", "write HOST:PORT, or HOST:0"
        )
    return host.strip("[]"), int(port)


def _check_reachable(host: str) -> None:
    from rollq.net.addresses import is_any

    if is_any(host):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"other processes cannot connect to {host or 'all addresses'}: it is not one address",
            "with --federation-key, listen on one address of this machine",
        )


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"cannot read {path}: {error}", "check --routes"
        ) from None
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _setup(
    groups: list[str],
    weights: list[str],
    routes: list[str],
    policy: str,
    tls: Mode | None,
    seeds: str,
) -> RouterSetup:
    from rollq.cli.clientx import named_groups, named_weights
    from rollq.cli.credentials import given_credentials
    from rollq.roles.client.addresses import as_addresses
    from rollq.roles.client.several_groups.routes import (
        GroupTable,
        Policy,
        check_group_names,
        parse_route,
    )
    from rollq.roles.router.node import RouterSetup

    if not groups and not seeds:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, "no groups", "write --group NAME=HOST:PORT, or --seeds HOST:PORT"
        )
    if any("=" not in group for group in groups):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, "a group without a name", "write --group NAME=HOST:PORT"
        )
    named = named_groups(groups)
    for addresses in named.values():
        as_addresses(addresses)
    weighed = named_weights(weights)
    parsed = [parse_route(line) for line in routes]
    if seeds:
        as_addresses(seeds)
    else:
        check_group_names(named, weighed, parsed)
    return RouterSetup(
        named,
        GroupTable(parsed, Policy(policy)),
        weights=weighed,
        credentials=given_credentials(),
        tls=tls,
        seeds=seeds,
    )


def _check_protected(setup: RouterSetup, host: str, *, unsafe_no_auth: bool) -> None:
    from rollq.net.addresses import is_loopback
    from rollq.security.mode import tls_of_listener

    tls = tls_of_listener(setup.credentials) if setup.tls is None else setup.tls
    if is_loopback(host) or tls is Mode.REQUIRE or unsafe_no_auth:
        return
    raise LocalError(
        ErrorCode.UNPROTECTED,
        f"other machines would reach this router on {host or 'all addresses'} without "
        "--tls require",
        "give --credentials made by `rollq init`, listen on 127.0.0.1, or use --unsafe-no-auth",
    )


async def _serve(
    ctx: typer.Context, setup: RouterSetup, host: str, port: int, *, http: str, as_json: bool
) -> None:
    from rollq.cli.notify import ServiceNotes
    from rollq.cli.output import write_answer
    from rollq.cli.web import child_words
    from rollq.roles.router.node import RouterNode

    node = RouterNode(setup, host, port)
    with ServiceNotes().running() as notes:
        await node.start()
        address = f"[{host}]:{node.port}" if ":" in host else f"{host}:{node.port}"
        names = list(node.groups.table.names.values())
        write_answer(
            {"event": "serving", "address": address, "groups": names},
            f"rollq router of groups {', '.join(names)} serves on {address}",
            as_json=as_json,
        )
        web = child_words(ctx, _web_of(setup, address), http) if http else []
        await _until_asked(node, web, notes)


def _web_of(setup: RouterSetup, address: str) -> ServedBy:
    from rollq.cli.web import ServedBy
    from rollq.security.mode import tls_of_listener

    tls = tls_of_listener(setup.credentials) if setup.tls is None else setup.tls
    return ServedBy("router", address, (), setup.credentials, is_protected=tls is Mode.REQUIRE)


async def _until_asked(node: RouterNode, web: list[str], notes: ServiceNotes) -> None:
    """Serve until a signal arrives."""
    import asyncio

    from rollq.cli.service import on_signals
    from rollq.web.child import WebChild

    asked = asyncio.Event()
    pages = WebChild(web) if web else None
    with on_signals(asked.set):
        notes.serving(lambda: _doing(node))  # last: its receiver may send a signal at once
        if pages is not None:
            pages.start()
        await asked.wait()
        notes.ending()
        if pages is not None:
            await pages.stop()
        await node.stop()


def _doing(node: RouterNode) -> str:
    """The status for a service manager."""
    up = sum(1 for group in node.groups.found.values() if group.is_up)
    spread = ", ".join(f"{name} {count}" for name, count in node.groups.spread.items())
    return f"{up} of {len(node.groups.found)} groups up, {node.client_count} clients; {spread}"
