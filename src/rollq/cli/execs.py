"""`rollq exec`: manages the list of programs that workers may run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.options import Json

EPILOG = """\b
Examples:
  rollq exec digest ./bin/* > digests
  rollq worker 127.0.0.1 5000 --exec-dir ./bin --exec-digests digests
"""
app = typer.Typer(
    name="exec",
    help="List and sign the programs that workers may run.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog="Example: rollq exec digest ./bin/render >> digests")
def digest(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Programs to list.")],
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name that jobs call it by.", show_default="its own"),
    ] = "",
    as_json: Json = False,
) -> None:
    """Print a line for --exec-digests for each program: its name and SHA-256."""
    from rollq.base.names import EXEC_NAME_HINT, is_exec_name
    from rollq.cli.output import write_answer
    from rollq.security.exec_digests import digest_line

    if name and len(files) > 1:
        raise LocalError(ErrorCode.BAD_OPTIONS, "--name is for one file", "leave out the others")
    for file in files:
        called = name or file.name
        if not is_exec_name(called):
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"no job can call {called[:64]!r}",
                f"give it a --name; {EXEC_NAME_HINT}",
            )
        try:
            line = digest_line(file, called)
        except OSError as error:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"{file}: {error.strerror or error}", "check the file"
            ) from None
        document = {"name": called, "digest": line.removeprefix(f"{called} "), "file": str(file)}
        write_answer(document, line, as_json=as_json)


@app.command(epilog="Example: rollq exec key ./exec.key")
def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of the new private key.")],
    as_json: Json = False,
) -> None:
    """Create a key pair for `rollq exec sign`, in FILE and FILE.pub.

    Keep FILE away from the workers. They get FILE.pub: --exec-digests-key.
    """
    from rollq.cli.output import write_answer
    from rollq.security.exec_digests import make_key

    private, public = map(str, make_key(file))
    document = {"private": private, "public": public}
    write_answer(document, f"{private}\n{public}", as_json=as_json)


@app.command(epilog="Example: rollq exec sign digests --key ./exec.key")
def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="List of digests.")],
    private: Annotated[
        Path, typer.Option("--key", metavar="FILE", help="Private key, from `rollq exec key`.")
    ],
    as_json: Json = False,
) -> None:
    """Sign a list of digests: writes FILE.sig, which goes beside the list."""
    from rollq.cli.output import write_answer
    from rollq.security.exec_digests import sign_list

    signature = str(sign_list(file, private))
    write_answer({"signature": signature}, signature, as_json=as_json)
