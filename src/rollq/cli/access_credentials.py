"""`rollq access token` and `rollq access key`: credentials of an account."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

TOKEN_EPILOG: Final = """\b
Examples:
  rollq access token alice --expires 90d --out alice/token
  rollq access token alice --json | jq -r .token
"""
KEY_EPILOG: Final = """\b
Examples:
  rollq access key alice --out alice/account.key
  rollq access key alice --public 9f3c…e1
"""
Name = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of an account.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=TOKEN_EPILOG)(token)
    app.command(epilog=KEY_EPILOG)(key)


def token(
    account: Name,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="Valid for this long: 12h, 90d (empty = always).")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it there (mode 600) and do not show it."),
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Create a token for an account. It is shown once; the group stores only its hash.

    A file named `token` in a directory of --credentials is used to log in.
    """
    from rollq.base.amounts import AGES_S, amount
    from rollq.cli.grid import with_client
    from rollq.cli.output import remark, write_json, write_line
    from rollq.documents.times import when
    from rollq.security.authority import put_file

    lasts_s = amount(expires, AGES_S, "--expires") if expires else 0
    expires_ms = int(time.time() * 1_000) + lasts_s * 1_000 if expires else 0
    _make_room(out)
    made = with_client(
        servers, timeout, lambda client: client.access.new_token(account, expires_ms=expires_ms)
    )
    if out is not None:
        put_file(out, made.encode() + b"\n", is_secret=True)
    if as_json:
        shown = {"file": str(out)} if out is not None else {"token": made}
        write_json({"account": account, "expires_ms": expires_ms, **shown})
    elif out is not None:
        write_line(f"wrote a token of {account} to {out}")
    else:
        write_line(made)
        until = f"until {when(expires_ms).partition('.')[0]}" if expires else "until it is revoked"
        remark(f"a token of {account}, valid {until}; it is not shown again")


def key(
    account: Name,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Make a pair and write the private key there (mode 600)."
        ),
    ] = None,
    public: Annotated[
        str, typer.Option(metavar="HEX", help="Register this public key, 32 bytes in hex.")
    ] = "",
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Add an Ed25519 key that an account can log in with: a new one, or an existing one.

    A file named `account.key` in a directory of --credentials is used to log in.
    """
    from rollq.cli.grid import with_client
    from rollq.cli.output import write_answer
    from rollq.security.authority import put_file
    from rollq.security.signing import make_key, read_key

    if (out is None) is (not public):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither --out nor --public is given, or both",
            "--out FILE makes a new key, --public HEX registers one",
        )
    _make_room(out)
    private = make_key(account) if out is not None else None
    bytes_ = read_key(private).public if private is not None else _public_key(public)
    with_client(servers, timeout, lambda client: client.access.add_key(account, bytes_))
    document = {"account": account, "public_key": bytes_.hex()}
    text = f"{account} may log in by the key {bytes_.hex()}"
    if out is not None and private is not None:
        put_file(out, private.reveal(), is_secret=True)
        document["file"] = str(out)
        text += f"; its private part is in {out}"
    write_answer(document, text, as_json=as_json)


def _public_key(text: str) -> bytes:
    try:
        made = bytes.fromhex(text)
    except ValueError:
        made = b""
    if len(made) != 32:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, "--public is not 32 bytes in hex", "64 digits 0-9 a-f"
        )
    return made


def _make_room(out: Path | None) -> None:
    """Check the output file before the group is changed, so that the secret is not lost."""
    if out is None:
        return
    if out.exists():
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{out} exists", "remove the file, or name another")
    try:
        out.absolute().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{out.absolute().parent} cannot be made: {error.strerror}",
            "name a file in a directory that you may write to",
        ) from None
