"""`rollq web`: serves the web pages and the HTTP API of a group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.logs import Level
from rollq.cli.options import (
    DEFAULT_SERVERS,
    Json,
    LogFormatOption,
    LogLevel,
    Servers,
    UnsafeNoAuth,
)
from rollq.security.credentials import Credentials

if TYPE_CHECKING:
    from rollq.web.setup import WebSetup

DEFAULT_PORT = 5080
EPILOG = """\b
Examples:
  rollq web --servers 127.0.0.1:5000
  rollq web --host 0.0.0.0 --credentials ./web
"""
Port = Annotated[
    int,
    typer.Option(
        envvar="ROLLQ_WEB_PORT",
        min=0,
        max=65_535,
        metavar="PORT",
        help="Port to listen on (0 = any free port).",
    ),
]
Host = Annotated[
    str, typer.Option(envvar="ROLLQ_WEB_HOST", metavar="HOST", help="Address to listen on.")
]
Group = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_GROUP",
        metavar="NAME",
        help="Name of the group; members of another one are refused.",
        show_default="that of the members",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="HOST",
        help="Host name under which browsers reach it; may be repeated.",
        show_default="addresses and localhost",
    ),
]
Prefer = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", help="Member to read from while it answers.", hidden=True),
]
Tables = Annotated[
    Path | None,
    typer.Option(
        "--tables",
        envvar="ROLLQ_TABLES",
        metavar="DIR",
        help="Table directory of `rollq pipeline run`, shown as charts.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(web)


def web(
    ctx: typer.Context,
    servers: Servers = DEFAULT_SERVERS,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    group: Group = "",
    name: Names = None,
    prefer: Prefer = "",
    tables: Tables = None,
    unsafe_no_auth: UnsafeNoAuth = False,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormatOption = None,
    as_json: Json = False,
) -> None:
    """Serve the web pages and the HTTP API of a group.

    Requests carry the token of an account, and have its rights; if members require no login,
    everybody has all rights. Certificate and authority of --credentials are used for TLS only.
    SIGTERM finishes running requests and stops.
    """
    from rollq.cli.credentials import given_credentials
    from rollq.cli.logs import set_up_logs
    from rollq.cli.service import run
    from rollq.web.server import check_protected
    from rollq.web.setup import WebSetup

    setup = WebSetup(
        servers=servers,
        host=host,
        port=port,
        credentials=given_credentials(),
        group=group,
        prefer=prefer,
        names=tuple(name or ()),
        is_unprotected=unsafe_no_auth,
        tables=tables,
    )
    check_protected(setup)
    set_up_logs(ctx, group=group)
    run(_serve(setup, as_json=as_json))


class ServedBy(NamedTuple):
    """The member or router that the pages belong to.

    Attributes:
        group: Its name.
        address: Its address.
        others: The addresses of the other members.
        credentials: Its credentials.
        is_protected: Whether it requires TLS and, for a member, a login.
    """

    group: str
    address: str
    others: tuple[str, ...]
    credentials: Credentials
    is_protected: bool


def child_words(ctx: typer.Context, by: ServedBy, http: str) -> list[str]:
    """The command line with which a member or a router starts this command as a child.

    Args:
        ctx: The context of the parent, whose common options are passed on.
        by: The parent.
        http: The address to listen on.

    Raises:
        LocalError: BAD_ADDRESS; or UNPROTECTED, if other machines could reach it unprotected.
    """
    from rollq.net.addresses import is_loopback
    from rollq.net.dialer import split_address
    from rollq.net.ports import free_ports

    unsafe_no_auth = ctx.params["unsafe_no_auth"]
    where = http if ":" in http else f"127.0.0.1:{http}"
    if where.endswith(":0"):
        where = f"{where[:-1]}{free_ports(1)[0]}"
    host, port = split_address(where)
    if not is_loopback(host) and not by.is_protected and not unsafe_no_auth:
        raise LocalError(
            ErrorCode.UNPROTECTED,
            f"other machines would reach the pages on {host} without --tls and --auth require",
            "give --credentials made by `rollq init`, or leave the host out of --http",
        )
    words = ["--host", host, "--port", str(port), "--group", by.group]
    words += ["--servers", ",".join((by.address, *by.others)), "--prefer", by.address]
    if by.credentials.directory:
        words += ["--credentials", by.credentials.directory]
    words += ["--unsafe-no-auth"] * unsafe_no_auth
    words += ["--log-level", ctx.params["log_level"]]
    if ctx.params["log_format"] is not None:
        words += ["--log-format", ctx.params["log_format"]]
    return words + ["--json"] * ctx.params["as_json"]


def _named(setup: WebSetup) -> str:
    """The group in words: its name is not known before a user logs in, unless it was given."""
    return f"group {setup.group}" if setup.group else f"the group of {setup.servers}"


async def _serve(setup: WebSetup, *, as_json: bool) -> None:
    import asyncio
    import logging

    from rollq.base.log_events import UNPROTECTED, tell
    from rollq.cli.notify import ServiceNotes
    from rollq.cli.output import write_answer
    from rollq.cli.service import on_signals
    from rollq.web.server import WebServer

    if setup.is_unprotected and not setup.is_local:
        tell(logging.getLogger("rollq.web"), UNPROTECTED, address=setup.host)
    server = WebServer(setup)
    server.start()
    write_answer(
        {"event": "serving", "url": server.url},
        f"pages of {_named(setup)} are served on {server.url}",
        as_json=as_json,
    )
    asked = asyncio.Event()
    with on_signals(asked.set), ServiceNotes().running() as notes:
        notes.serving(lambda: f"serves {server.url}")
        waits = [asyncio.ensure_future(server.wait()), asyncio.ensure_future(asked.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits[1:]:
            one.cancel()
        notes.ending()
        await server.stop()
