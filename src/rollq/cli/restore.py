"""`rollq restore`: creates a new group from a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rollq.cli.backup import BackupArgument, counted_jobs
from rollq.cli.options import Json

EPILOG = """\b
Examples:
  rollq restore /backups/grid.rqb --state ./new/5000 --address 127.0.0.1:5000
  rollq leader 5000 --state ./new/5000
"""


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command(epilog=EPILOG)(restore)


def restore(
    file: BackupArgument,
    state: Annotated[
        Path,
        typer.Option("--state", metavar="DIR", help="State directory to create; must be empty."),
    ],
    address: Annotated[
        str,
        typer.Option("--address", metavar="HOST:PORT", help="Where others will reach the member."),
    ] = "127.0.0.1:5000",
    group: Annotated[
        str,
        typer.Option(
            "--group", metavar="NAME", help="Name of the new group (default: that of the backup)."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Create the state directory of the first member of a new group from a backup.

    The backup is verified first. Start the member on the directory; add more members with empty
    directories (`rollq cluster add`). It is a new group: the members of the old one cannot join it.
    Jobs that were running are run again, unless their worker reconnects with them.
    """
    import msgspec

    from rollq.backup.contents import verify
    from rollq.backup.restore import restore as restore_file
    from rollq.cli.output import write_json, write_line
    from rollq.cli.progress import progress_bar
    from rollq.net.dialer import split_address
    from rollq.security.identity import check_group_name
    from rollq.store.backup_file import BackupFile

    port = split_address(address)[1]
    if group:
        check_group_name(group)
    with BackupFile(file) as backup:
        with progress_bar("checking", is_quiet=as_json, in_bytes=True, vanishes=True) as advance:
            summary = verify(backup, advance)
        with progress_bar("restoring", is_quiet=as_json, in_bytes=True, vanishes=True) as advance:
            restored = restore_file(backup, state, address, group=group, progress=advance)
    if as_json:
        write_json(msgspec.to_builtins(restored) | {"state": str(state), "jobs": summary.jobs})
        return
    write_line(
        f"restored group {restored.group} at log index {restored.index} into {state}, "
        f"jobs: {counted_jobs(summary.jobs)}"
    )
    write_line(f"start it: rollq leader {port} --state {state} --group {restored.group}")
    write_line(
        "more members: start them on empty directories with --peers "
        f"{address}, then rollq cluster add HOST:PORT"
    )
