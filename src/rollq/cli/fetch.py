"""`rollq fetch`: downloads output files of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollq.cli.options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT_S,
    JobArgument,
    Json,
    Servers,
    Timeout,
)

if TYPE_CHECKING:
    from rollq.roles.client.client import Client
    from rollq.roles.client.results.result import Result

EPILOG = """\b
Examples:
  rollq fetch 6f9619ff-8b86-d011-b42d-00c04fc964ff --save ./results
  rollq fetch 6f9619ff-8b86-d011-b42d-00c04fc964ff model.pt --save .
"""

Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Files to fetch (default: all).")
]
Save = Annotated[Path, typer.Option("--save", metavar="DIR", help="Directory to save files in.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(fetch)


def fetch(
    job_id: JobArgument,
    names: Names = None,
    save: Save = Path(),
    servers: Servers = DEFAULT_SERVERS,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Download the output files of a job, as long as its result is kept.

    Files are verified. An interrupted download resumes when repeated with the same --save. Prints
    the path of every file.
    """
    from rollq.base.amounts import counted
    from rollq.cli.ids import with_job_ids
    from rollq.cli.output import remark, write_json, write_line

    result = with_job_ids(
        servers,
        timeout,
        [job_id],
        lambda client, ids: _fetch(client, ids[0], names or None, save, is_quiet=as_json),
    )
    files = [result.outputs[name] for name in names or result.outputs]
    if as_json:
        rows = [
            {"name": one.name, "path": str(save / one.name), "size": one.size, "digest": one.digest}
            for one in files
        ]
        write_json({"id": result.id, "files": rows})
    else:
        for one in files:
            write_line(str(save / one.name))
        if not files:
            remark(f"job {result.id} left no output files")
        if result.data_size:
            size = counted(result.data_size, "byte")
            remark(f"it returned {size}: rollq logs {result.id} > FILE")


async def _fetch(
    client: Client, job_id: bytes, names: list[str] | None, folder: Path, *, is_quiet: bool
) -> Result:
    from rollq.base.errors import DiskError, ErrorCode
    from rollq.cli.grid import check_is_job
    from rollq.cli.progress import progress_bar

    await check_is_job(client, job_id)
    result = await client.result_of(job_id)
    try:
        with progress_bar("download", is_quiet=is_quiet, in_bytes=True) as downloaded:
            await result.asave_files(folder, names, downloaded)
    except OSError as error:
        raise DiskError(
            ErrorCode.DISK_FAILED,
            f"{error.filename or folder}: {error.strerror or error}",
            "check --save",
        ) from None
    return result
