"""`rollq backup`: copies a group into one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollq.cli.credentials import given_credentials
from rollq.cli.failures import EXIT_FOUND
from rollq.cli.options import DEFAULT_SERVERS, DEFAULT_TIMEOUT_S, Json, Servers, Timeout

if TYPE_CHECKING:
    from rollq.backup.contents import Summary
    from rollq.store.backup_file import BackupFile, Progress

EPILOG = """\b
Examples:
  rollq backup take /backups/grid.rqb
  rollq backup verify /backups/grid.rqb
  rollq restore /backups/grid.rqb --state ./new/5000 --address 127.0.0.1:5000
"""
app = typer.Typer(
    name="backup",
    help="Copy a group into one file, and check such a file.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
BackupArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


@app.callback()
def backup() -> None:
    """Copy a group into one file, and check such a file."""


@app.command(
    epilog="""\b
Examples:
  rollq backup take /backups/grid.rqb
  rollq backup take /backups/grid.rqb --member 10.0.0.2:5000 --json
  rollq backup take /backups/grid.rqb --state ./state/5000
"""
)
def take(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup; must not exist.")],
    servers: Servers = DEFAULT_SERVERS,
    member: Annotated[
        str,
        typer.Option(
            "--member",
            metavar="HOST:PORT",
            help="Ask this member first.",
            show_default="a follower",
        ),
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Copy this state directory of a stopped member instead.",
            show_default=False,
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Include the event history.")
    ] = True,
    blobs: Annotated[
        bool, typer.Option("--blobs/--no-blobs", help="Include files that jobs and results need.")
    ] = True,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Copy a running group, or a stopped member, into one file, and verify that file.

    It includes everything that was accepted before it began; the group keeps working meanwhile.
    FILE gets its name when it is complete, and only its owner can read it. It contains payloads
    and results of all jobs, and hashes of access tokens: protect it like a state directory. Exit
    code 1 if files that jobs refer to are missing.
    """
    from rollq.backup.live import LiveSource, take_live
    from rollq.backup.stopped import take_stopped
    from rollq.cli.output import remark
    from rollq.roles.reader.reader import addresses_in
    from rollq.store.backup_file import BackupFile, BackupWriter

    with BackupWriter(file) as writer:
        if state is not None:
            take_stopped(state, writer, with_history=history, with_blobs=blobs)
        else:
            source = LiveSource(addresses_in(servers), member, timeout, given_credentials())
            stage = _quiet_stage if as_json else _shown_stage
            take_live(source, writer, stage, with_history=history, with_blobs=blobs)
        with BackupFile(writer.partial) as written:
            summary = _checked(written, is_quiet=as_json)
            document = _document(written, summary) | {"file": str(file)}
        writer.publish()
    _show(document, as_json=as_json)
    if not blobs:
        remark("files are not included: jobs that need them cannot run where it is restored")
    if document["blobs_missing"]:
        raise typer.Exit(EXIT_FOUND)


@app.command(epilog="Example: rollq backup verify /backups/grid.rqb --json | jq .jobs")
def verify(file: BackupArgument, as_json: Json = False) -> None:
    """Read a whole backup, verify it, and show its contents.

    Exit code 1 if it is damaged, or lacks files that its jobs refer to.
    """
    from rollq.store.backup_file import BackupFile

    with BackupFile(file) as written:
        document = _document(written, _checked(written, is_quiet=as_json))
    _show(document, as_json=as_json)
    if document["blobs_missing"]:
        raise typer.Exit(EXIT_FOUND)


def counted_jobs(jobs: dict[str, int]) -> str:
    """The number of jobs by state, without zeros."""
    shown = [f"{count} {name}" for name, count in jobs.items() if count]
    return ", ".join(shown) or "none"


@contextmanager
def _shown_stage(name: str, in_bytes: bool) -> Iterator[Progress]:
    from rollq.cli.progress import progress_bar

    with progress_bar(name, in_bytes=in_bytes, vanishes=True) as advance:
        yield advance


@contextmanager
def _quiet_stage(name: str, in_bytes: bool) -> Iterator[Progress]:
    yield lambda done, total: None


def _checked(file: BackupFile, *, is_quiet: bool) -> Summary:
    from rollq.backup.contents import verify as verify_file
    from rollq.cli.progress import progress_bar

    with progress_bar("checking", is_quiet=is_quiet, in_bytes=True, vanishes=True) as advance:
        return verify_file(file, advance)


def _document(file: BackupFile, summary: Summary) -> dict[str, Any]:
    from rollq.documents.times import when

    manifest = file.manifest
    return {
        "file": str(file.path),
        "bytes": file.size_bytes,
        "group": manifest.group,
        "cluster": manifest.cluster_id,
        "source": manifest.source,
        "begun": when(manifest.begun_ms),
        "begun_ms": manifest.begun_ms,
        "rollq_version": manifest.rollq_version,
        "index": manifest.index,
        "term": manifest.term,
        "jobs": summary.jobs,
        "clients": summary.clients,
        "workers": summary.workers,
        "queues": summary.queues,
        "arrays": summary.arrays,
        "caches": summary.caches,
        "accounts": summary.accounts,
        "snapshot_bytes": summary.snapshot_bytes,
        "history_first": manifest.history_first,
        "history_last": manifest.history_last,
        "history_bytes": summary.history_bytes,
        "has_blobs": manifest.has_blobs,
        "blobs": summary.blobs,
        "blob_bytes": summary.blob_bytes,
        "blobs_missing": summary.blobs_missing if manifest.has_blobs else [],
    }


def _show(document: dict[str, Any], *, as_json: bool) -> None:
    from rollq.cli.output import remark, write_fields, write_json

    missing = document["blobs_missing"]
    if as_json:
        write_json(document)
    else:
        write_fields(
            {
                "file": f"{document['file']}, {document['bytes']:,} bytes, complete and unchanged",
                "group": f"{document['group']} (cluster {document['cluster']})",
                "taken": f"{document['begun']} from {document['source']}, "
                f"by rollq {document['rollq_version']}",
                "state": f"log index {document['index']}, term {document['term']}, "
                f"{document['snapshot_bytes']:,} bytes",
                "jobs": counted_jobs(document["jobs"]),
                "history": _history(document),
                "files": f"{document['blobs']}, {document['blob_bytes']:,} bytes"
                if document["has_blobs"]
                else "left out",
            }
        )
    if missing:
        remark(
            f"{len(missing)} files that jobs refer to are missing; the first is {missing[0]}\n"
            "  jobs that need them cannot run, and results that name them cannot be fetched, where "
            "it is restored"
        )


def _history(document: dict[str, Any]) -> str:
    if document["history_first"] > document["history_last"]:
        return "left out"
    ends = f"{document['history_first']} to {document['history_last']}"
    return f"log index {ends}, {document['history_bytes']:,} bytes"
