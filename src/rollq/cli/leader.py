"""`rollq leader`: runs a member of a group."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import HISTORY_DAYS_MAX, HISTORY_MB_MAX
from rollq.cli.federation import FederationKeyFile, Seeds, given_federation
from rollq.cli.logs import Level
from rollq.cli.options import EncryptedDisk, Json, LogFormatOption, LogLevel, UnsafeNoAuth
from rollq.security.mode import Mode

if TYPE_CHECKING:
    from rollq.cli.notify import ServiceNotes
    from rollq.cli.web import ServedBy
    from rollq.roles.member.node import MemberNode
    from rollq.roles.member.setup import BlobsSetup, MemberSetup

EPILOG = """\b
Examples:
  rollq leader 5000
  rollq leader 5001 --group g1 --peers 127.0.0.1:5002,127.0.0.1:5003
"""
TICK_MS: Final = 25


class LeaderRole(enum.StrEnum):
    """How a member becomes leader."""

    AUTO = "auto"
    LEADER = "leader"


Role = Annotated[
    LeaderRole,
    typer.Option(help="auto: take part in elections; leader: group of one, no election."),
]
Group = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_GROUP",
        metavar="NAME",
        help="Name of the group, of a-z, A-Z, 0-9 and . _ -.",
    ),
]
Peers = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_PEERS", metavar="HOST:PORT,…", help="The other members.", show_default=False
    ),
]
Host = Annotated[
    str, typer.Option(envvar="ROLLQ_HOST", metavar="HOST", help="Address to listen on.")
]
Advertise = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_ADVERTISE",
        metavar="HOST[:PORT]",
        help="Address under which others reach this member (default: --host).",
    ),
]
MemberState = Annotated[
    Path | None,
    typer.Option(
        envvar="ROLLQ_STATE",
        metavar="DIR",
        help="State directory of this member; never shared.",
        show_default="./state/PORT",
    ),
]
ElectionMs = Annotated[
    int,
    typer.Option(
        min=100, max=60_000, metavar="MS", help="Election timeout; randomised up to twice this."
    ),
]
HeartbeatMs = Annotated[
    int,
    typer.Option(
        min=TICK_MS, max=30_000, metavar="MS", help="Interval between heartbeats of the leader."
    ),
]
SnapshotEntries = Annotated[
    int, typer.Option(min=10, metavar="N", help="Log entries between two snapshots.")
]
HistoryMb = Annotated[
    int,
    typer.Option(min=0, metavar="MB", help="Keep at most this much sealed history (0 = no limit)."),
]
HistoryDays = Annotated[
    int, typer.Option(min=0, metavar="DAYS", help="Keep history for this many days (0 = for ever).")
]
Blobs = Annotated[
    str,
    typer.Option(
        envvar="ROLLQ_BLOBS",
        metavar="URL",
        help="Store files in this shared object store: s3://bucket/folder.",
        show_default="below the state directory",
    ),
]
BlobBytesMax = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Evict unreferenced files above this total size (0 = never).",
    ),
]
BlobAge = Annotated[
    str,
    typer.Option(
        metavar="AGE", help="Delete unreferenced files this long after last use (0 = never)."
    ),
]
Columns = Annotated[
    bool,
    typer.Option(
        "--columns/--no-columns",
        help="Also keep history as Arrow columns, for faster readers; needs pyarrow.",
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
Auth = Annotated[
    Mode | None,
    typer.Option(
        envvar="ROLLQ_AUTH",
        help="Whether connections must log in.",
        show_default="require with --tls require, else off",
    ),
]
LegacyAccount = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS=ACCOUNT",
        help="Account of legacy peers from an address or network; may be given more than once.",
        show_default="none: they are refused where --auth is require",
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(leader)


def leader(
    ctx: typer.Context,
    port: Annotated[
        int,
        typer.Argument(
            metavar="PORT", min=0, max=65_535, help="Port to listen on (0 = any free port)."
        ),
    ],
    role: Role = LeaderRole.AUTO,
    group: Group = "default",
    peers: Peers = "",
    host: Host = "127.0.0.1",
    advertise: Advertise = "",
    state: MemberState = None,
    election_ms: ElectionMs = 250,
    heartbeat_ms: HeartbeatMs = 100,
    snapshot_entries: SnapshotEntries = 10_000,
    history_mb: HistoryMb = HISTORY_MB_MAX,
    history_days: HistoryDays = HISTORY_DAYS_MAX,
    blobs: Blobs = "",
    blob_bytes_max: BlobBytesMax = "0",
    blob_age: BlobAge = "7d",
    columns: Columns = True,
    tls: Tls = None,
    auth: Auth = None,
    unsafe_no_auth: UnsafeNoAuth = False,
    legacy_account: LegacyAccount = None,
    require_encrypted_disk: EncryptedDisk = False,
    http: Http = "",
    federation_key: FederationKeyFile = None,
    seeds: Seeds = "",
    log_level: LogLevel = Level.INFO,
    log_format: LogFormatOption = None,
    as_json: Json = False,
) -> None:
    """Run one member of a group.

    Without --peers it is a group of one. With --peers the members elect a leader; start each member
    with the others as peers. SIGTERM transfers leadership and stops; a second signal exits at once.
    Exit code 1: the disk failed, or its contents do not allow this member to start.
    """
    from rollq.cli.logs import set_up_logs
    from rollq.cli.service import run
    from rollq.cli.web import child_words

    port = port or _free_port(host)
    setup = _setup(
        address=_address(host, port, advertise, has_peers=bool(peers or federation_key)),
        role=role,
        group=group,
        peers=peers,
        election_ms=election_ms,
        heartbeat_ms=heartbeat_ms,
        snapshot_entries=snapshot_entries,
        history_mb=history_mb,
        history_days=history_days,
        blobs=_blobs(blobs, blob_bytes_max, blob_age),
        columns=columns,
        tls=tls,
        auth=auth,
        legacy_accounts=legacy_account or (),
    )
    setup = replace(setup, federation=given_federation(federation_key, seeds))
    setup = _protected(setup, host, unsafe_no_auth=unsafe_no_auth)
    web = child_words(ctx, _served_by(setup), http) if http else []
    state_dir = _state_dir(state, port, is_encrypted=require_encrypted_disk)
    set_up_logs(ctx, address=setup.address, group=group)
    _check_group(setup, state_dir)
    run(_serve(setup, host, port, state_dir, web, as_json=as_json))


def _served_by(setup: MemberSetup) -> ServedBy:
    from rollq.cli.web import ServedBy

    is_protected = setup.tls is Mode.REQUIRE and setup.auth is Mode.REQUIRE
    return ServedBy(
        setup.group, setup.address, setup.peers, setup.credentials, is_protected=is_protected
    )


def _state_dir(given: Path | None, port: int, *, is_encrypted: bool) -> Path:
    """The state directory; checks that it is encrypted, if required."""
    from rollq.store.at_rest import check_encrypted

    state_dir = given or Path("state") / str(port)
    if is_encrypted:
        check_encrypted(state_dir)
    return state_dir


def _check_group(setup: MemberSetup, state_dir: Path) -> None:
    """Refuse a bad name where a group is born of this member alone. Otherwise only warn, because
    the group may have the name already: on this disk, or on those of its peers."""
    import logging

    from rollq.base.log_events import GROUP_NAME, tell
    from rollq.security.identity import check_group_name

    try:
        check_group_name(setup.group)
    except LocalError as error:
        if not setup.peers and not (state_dir.is_dir() and any(state_dir.iterdir())):
            raise
        tell(logging.getLogger("rollq.member"), GROUP_NAME, cause=error.message, todo=error.hint)


def _setup(
    *,
    address: str,
    role: LeaderRole,
    group: str,
    peers: str,
    election_ms: int,
    heartbeat_ms: int,
    snapshot_entries: int,
    history_mb: int,
    history_days: int,
    blobs: BlobsSetup,
    columns: bool,
    tls: Mode | None,
    auth: Mode | None,
    legacy_accounts: Sequence[str] = (),
) -> MemberSetup:
    from rollq.cli.credentials import given_credentials
    from rollq.history.retention import DAY_MS, Retention
    from rollq.net.dialer import split_address
    from rollq.raft.node import RaftOptions
    from rollq.roles.member.setup import MemberSetup
    from rollq.security.legacy_accounts import LegacyAccounts
    from rollq.security.mode import tls_of_listener

    named = tuple(part.strip() for part in peers.split(",") if part.strip())
    others = tuple(dict.fromkeys(peer for peer in named if peer != address))
    for peer in others:
        split_address(peer)
    if role is LeaderRole.LEADER and others:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            "--role leader is for a group of one and excludes --peers",
            "remove one of the two; members with peers elect their leader",
        )
    election = max(2, election_ms // TICK_MS)
    options = RaftOptions(
        election_ticks_min=election,
        election_ticks_max=2 * election,
        heartbeat_ticks=max(1, heartbeat_ms // TICK_MS),
        quorum_ticks=2 * election,
        fixed_leader=not others,
    )
    options.check()
    credentials = given_credentials()
    tls = tls_of_listener(credentials) if tls is None else tls
    if tls is not Mode.OFF and credentials.certificate is None:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"--tls {tls} without a certificate",
            "give --credentials with ca.pem, cert.pem and key.pem, made by `rollq tls issue`",
        )
    if auth is None:
        auth = Mode.REQUIRE if tls is Mode.REQUIRE else Mode.OFF
    return MemberSetup(
        address,
        others,
        group,
        tick_ms=TICK_MS,
        raft=options,
        snapshot_entries=snapshot_entries,
        retention=Retention(history_mb * 1_000_000, history_days * DAY_MS),
        blobs=blobs,
        columns=columns,
        credentials=credentials,
        tls=tls,
        auth=auth,
        legacy=LegacyAccounts(legacy_accounts),
    )


def _protected(setup: MemberSetup, host: str, *, unsafe_no_auth: bool) -> MemberSetup:
    """Refuse to listen for other machines without TLS and logins, unless --unsafe-no-auth is
    set."""
    from rollq.net.addresses import is_loopback

    lacking = [
        option
        for option, mode in (("--tls", setup.tls), ("--auth", setup.auth))
        if mode is not Mode.REQUIRE
    ]
    if is_loopback(host) or not lacking:
        return setup
    if not unsafe_no_auth:
        raise LocalError(
            ErrorCode.UNPROTECTED,
            f"other machines would reach this member on {host or 'all addresses'} without "
            f"{' and '.join(f'{option} require' for option in lacking)}",
            "give --credentials made by `rollq init`, listen on 127.0.0.1, or use --unsafe-no-auth",
        )
    return replace(setup, is_unprotected=True)


def _blobs(url: str, bytes_max: str, age: str) -> BlobsSetup:
    from rollq.base.amounts import AGES_S, SIZES, amount
    from rollq.roles.member.setup import BlobsSetup

    setup = BlobsSetup(
        url,
        bytes_max=amount(bytes_max, SIZES, "--blob-bytes-max"),
        age_ms=amount(age, AGES_S, "--blob-age") * 1_000,
    )
    if url and setup.bytes_max:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            "--blob-bytes-max does not apply to the shared store of --blobs",
            "remove one of the two; members never evict from a shared store",
        )
    return setup


def _address(host: str, port: int, advertise: str, *, has_peers: bool) -> str:
    from rollq.net.addresses import is_any

    if advertise:
        is_whole = advertise.rpartition(":")[2].isdecimal() and not advertise.endswith("]")
        return advertise if is_whole else f"{advertise}:{port}"
    if is_any(host):
        if has_peers:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"others cannot reach this member as {host or 'nothing'}:{port}",
                "add --advertise with a reachable name or address",
            )
        host = "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _serve(
    setup: MemberSetup, host: str, port: int, state_dir: Path, web: list[str], *, as_json: bool
) -> None:
    import logging

    from rollq.base.log_events import UNPROTECTED, tell
    from rollq.cli.notify import ServiceNotes
    from rollq.cli.output import write_json, write_line
    from rollq.roles.member.node import MemberNode

    if setup.is_unprotected:
        log = logging.getLogger("rollq.member")
        tell(log, UNPROTECTED, address=f"{host}:{port}")
    node = MemberNode(setup, host, port, state_dir)
    with ServiceNotes().running() as notes:
        await node.start()
        member = node.driver.raft.member_id
        if as_json:
            write_json(
                {
                    "event": "serving",
                    "member": str(member),
                    "group": setup.group,
                    "address": setup.address,
                    "state": str(state_dir),
                }
            )
        else:
            write_line(f"rollq member {member} of group {setup.group} serves on {setup.address}")
        await _until_asked(node, web, notes)


def _doing(node: MemberNode) -> str:
    """The status for a service manager."""
    raft = node.driver.raft
    if raft.leader_id == raft.member_id:
        does = f"leads {len(raft.config.voters)} members"
    else:
        does = f"follows {raft.leader_address}" if raft.leader_id else "knows no leader"
    return f"{does} in term {raft.term}, log applied to {node.driver.state.applied_index}"


async def _until_asked(node: MemberNode, web: list[str], notes: ServiceNotes) -> None:
    """Serve until a signal arrives, or an error ends the member."""
    import asyncio

    from rollq.cli.service import on_signals
    from rollq.web.child import WebChild

    stop_requested = asyncio.Event()
    pages = WebChild(web) if web else None
    with on_signals(stop_requested.set):
        notes.serving(lambda: _doing(node))  # last: its receiver may send a signal at once
        if pages is not None:
            pages.start()
        waits = [asyncio.ensure_future(node.wait()), asyncio.ensure_future(stop_requested.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        notes.ending()
        if pages is not None:
            await pages.stop()
        await node.stop()
    if node.failure is not None:
        raise node.failure


def _free_port(host: str) -> int:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise LocalError(
                ErrorCode.CANNOT_LISTEN, f"cannot listen on {host}: {error.strerror}", "use --host"
            ) from None
        return int(probe.getsockname()[1])
