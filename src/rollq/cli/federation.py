"""`rollq federation`: creates its key; and options of processes that take part in a federation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.federation_limits import GOSSIP_SEEDS_MAX
from rollq.cli.options import Json

if TYPE_CHECKING:
    from rollq.gossip.setup import FederationSetup

EPILOG = """\b
Examples:
  rollq federation key federation.key
  rollq leader 5000 --group g1 --federation-key federation.key
  rollq leader 6000 --group g2 --federation-key federation.key --seeds 127.0.0.1:5000
"""
app = typer.Typer(
    name="federation",
    help="Create the key of a federation of groups.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
KEY_BYTES: Final = 32

FederationKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--federation-key",
        envvar="ROLLQ_FEDERATION_KEY",
        metavar="FILE",
        help="Gossip with processes that have this key, on the UDP port of the same number.",
        show_default="no gossip",
    ),
]
Seeds = Annotated[
    str,
    typer.Option(
        "--seeds",
        envvar="ROLLQ_SEEDS",
        metavar="HOST:PORT,…",
        help="Processes of the federation to contact first, beside --peers; one is enough.",
        show_default=False,
    ),
]


@app.command(
    epilog="""\b
Examples:
  rollq federation key federation.key
  (umask 077; rollq federation key > federation.key)
"""
)
def key(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A new file.", show_default="standard output"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a key, and write it to a file that only its owner can read.

    Copy it to every process of the federation. A file may have a second key in a second line: the
    first signs, and signatures of both are accepted.
    """
    import os
    import secrets

    from rollq.cli.output import write_answer
    from rollq.security.federation_key import federation_keys

    text = secrets.token_hex(KEY_BYTES)
    if file is None:
        write_answer({"key": text}, text, as_json=as_json)
        return
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(made, "w") as stream:
            stream.write(text + "\n")
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{file}: {error.strerror or error}",
            "name a file that does not exist",
        ) from None
    (named,) = federation_keys(text.encode(), str(file))
    write_answer(
        {"file": str(file), "key_id": named.key_id.hex()},
        f"made federation key {named.key_id.hex()} in {file}",
        as_json=as_json,
    )


def given_federation(key_file: Path | None, seeds: str) -> FederationSetup | None:
    """The setup from --federation-key and --seeds; None without a key: no gossip.

    Raises:
        LocalError: BAD_SETUP, BAD_ADDRESS or BAD_CREDENTIALS.
    """
    from rollq.gossip.setup import FederationSetup
    from rollq.net.dialer import split_address
    from rollq.security.files import read_federation_keys

    named = tuple(dict.fromkeys(part.strip() for part in seeds.split(",") if part.strip()))
    if key_file is None:
        if named:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                "--seeds without --federation-key",
                "make a key with `rollq federation key`, and give it to every process",
            )
        return None
    if len(named) > GOSSIP_SEEDS_MAX:
        raise LocalError(
            ErrorCode.BAD_SETUP, f"more than {GOSSIP_SEEDS_MAX} seeds", "a few are enough"
        )
    for seed in named:
        split_address(seed)
    return FederationSetup(read_federation_keys(key_file), named)
