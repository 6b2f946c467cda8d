"""`rollq blobs`: stored files of a member, a worker or a shared store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rollq.base.amounts import AGES_S, SIZES, amount, counted
from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.cli.failures import EXIT_FOUND
from rollq.cli.options import Json, Limit, StateDir

if TYPE_CHECKING:
    from rollq.base.digests import Digest
    from rollq.store.blobs.local import LocalBlobs, Use
    from rollq.store.blobs.protocol import Leftover, StoredBlob
    from rollq.store.blobs.remote import FsspecBlobs

EPILOG = """\b
Examples:
  rollq blobs ls --state ./state/5000
  rollq blobs verify --store s3://bucket/blobs
"""
app = typer.Typer(
    name="blobs",
    help="List, check and clean up stored files.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Store = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="ROLLQ_STORE",
        metavar="URL",
        help="Shared object store instead: s3://BUCKET/FOLDER or any fsspec URL.",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; print what would be done.")
]
DAY_MS: Final = 86_400_000
BEGINNING_MIN: Final = 4


@app.command(epilog="Example: rollq blobs ls --state ./state/5000 --json | jq .bytes")
def ls(
    state: StateDir = None, store: Store = "", limit: Limit = 1_000, as_json: Json = False
) -> None:
    """List blobs by digest. Read-only.

    With --json: one JSON object per line.
    """
    from itertools import islice

    from rollq.cli.output import remark, write_json, write_line

    blobs = _look(state, store)
    listed = iter(blobs.digests())
    for blob in islice(listed, limit):
        document = _document(blob)
        if as_json:
            write_json(document)
        else:
            write_line(f"{document['digest']}  {blob.size:>14}  {document['changed']}")
    if next(listed, None) is not None:
        remark(f"more than {limit} blobs: use --limit to see more")


@app.command(
    epilog="""\b
Examples:
  rollq blobs stat --state ./state/5000
  rollq blobs stat --state ./state/5000 ba7816bf
"""
)
def stat(
    digest: Annotated[
        str,
        typer.Argument(
            metavar="DIGEST", help="Digest of a blob, or its first digits (default: totals)."
        ),
    ] = "",
    state: StateDir = None,
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Show one blob, or totals. Read-only.

    Exit code 4 if there is no such blob.
    """
    from rollq.cli.output import write_fields, write_json

    blobs = _look(state, store)
    document = _one(blobs, digest) if digest else _sums(blobs)
    if as_json:
        write_json(document)
    else:
        write_fields(document)


@app.command(
    epilog="""\b
Examples:
  rollq blobs verify --state ./state/5000
  rollq blobs verify --store s3://bucket/blobs --dry-run
"""
)
def verify(
    digest: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIGEST", help="Digests, or their first digits (default: all)."),
    ] = None,
    state: StateDir = None,
    store: Store = "",
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Verify blobs against their digests. Corrupt ones are moved to rotten/ and no longer served; a
    member fetches them again from its peers.

    A directory in use is not changed: its process detects corrupt blobs by itself. Exit code 1 if a
    blob is corrupt.
    """
    from rollq.base.errors import StateError
    from rollq.cli.output import remark, write_json, write_line

    blobs, changes = _look(state, store), not dry_run
    wanted = [_named(blobs, text).digest for text in digest or ()]
    if changes and state is not None:
        try:
            blobs = _take(state)
        except DiskError as error:
            if error.code is not ErrorCode.DISK_BUSY:
                raise
            remark(f"{error.message}; corrupt blobs are not moved")
            changes = False
    checked, rotten = 0, []
    for one in wanted or (blob.digest for blob in blobs.digests()):
        try:
            is_sound = blobs.verify(one) if changes else blobs.check(one)
        except StateError:
            if wanted:
                raise
            continue  # it was deleted meanwhile
        checked += 1
        if not is_sound:
            rotten.append(one.hex())
            if not as_json:
                write_line(f"corrupt  {one.hex()}")
    blobs.close()
    if as_json:
        write_json({"checked": checked, "rotten": rotten, "set_aside": changes})
    else:
        aside = " and set aside" if rotten and changes else ""
        write_line(f"{counted(checked, 'blob')} checked, {len(rotten)} corrupt{aside}")
    if rotten:
        raise typer.Exit(EXIT_FOUND)


@app.command(
    epilog="""\b
Examples:
  rollq blobs gc --state ./state/5000 --dry-run
  rollq blobs gc --state ./state/worker --max-bytes 20G --keep needed.txt
  rollq blobs gc --store s3://bucket/blobs --older-than 30d --keep needed.txt
"""
)
def gc(
    state: StateDir = None,
    store: Store = "",
    max_bytes: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Evict the oldest blobs above this total size: 500M, 20G.",
            show_default="",
        ),
    ] = "",
    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="Evict blobs older than this: 12h, 30d.", show_default=""),
    ] = "",
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Digests to keep, one per line; - is stdin.", show_default=False
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove partial uploads and corrupt blobs unchanged for a day (or for --older-than).

    With --max-bytes or --older-than also evict blobs, oldest first. Only the running grid knows
    which blobs are referenced, so those to keep must be listed with --keep (it may be empty).
    Refused for a directory in use: running members and workers evict by themselves.
    """
    import time

    from rollq.cli.output import write_json, write_line
    from rollq.store.blobs.keeper import Keeper

    age_ms = amount(older_than, AGES_S, "--older-than") * 1_000 if older_than else None
    bytes_max = amount(max_bytes, SIZES, "--max-bytes") if max_bytes else None
    evicts = age_ms is not None or bytes_max is not None
    if evicts and keep is None:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "which blobs are still referenced is known only to the running grid",
            "list those to keep: --keep FILE (--keep /dev/null to keep none)",
        )
    kept = _digests_in(keep) if keep is not None else []
    now_ms = time.time_ns() // 1_000_000
    before_ms = now_ms - (DAY_MS if age_ms is None else age_ms)
    blobs = _look(state, store) if dry_run or state is None else _take(state)
    if dry_run:
        leftovers = [one for one in blobs.leftovers() if one.mtime_ms < before_ms]
    else:
        leftovers = blobs.sweep(before_ms)
    gone: list[StoredBlob] = []
    if evicts:
        keeper = Keeper(blobs, [(digest, 1) for digest in kept])
        choose = keeper.victims if dry_run else keeper.evict
        gone = list(choose(now_ms, bytes_max, age_ms))
    blobs.close()
    document = _cleared(leftovers, gone, dry_run=dry_run)
    if as_json:
        write_json(document)
        return
    for name in (*document["leftovers"], *document["blobs"]):
        write_line(f"{'would remove' if dry_run else 'removed'}  {name}")
    write_line(
        f"{counted(len(gone), 'blob')} and {counted(len(leftovers), 'leftover')}, "
        f"{counted(document['bytes'], 'byte')}"
        f"{' would be removed' if dry_run else ' removed'}"
    )


def _look(state: Path | None, url: str) -> LocalBlobs | FsspecBlobs:
    """Open the selected blobs for reading; those of a URL also for changes."""
    if (state is None) == (not url):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "neither or both of --state and --store are given",
            "use --state DIR of a member or worker, or --store URL",
        )
    if state is not None:
        from rollq.store.blobs.local import Use

        return _local(state, Use.LOOK)
    import tempfile

    from rollq.store.blobs.remote import FsspecBlobs

    return FsspecBlobs(url, Path(tempfile.gettempdir()) / "rollq-staging")


def _take(state: Path) -> LocalBlobs:
    """Open the blobs of an unused state directory. Raises DiskError DISK_BUSY."""
    from rollq.store.blobs.local import Use
    from rollq.store.state_lock import holder_of

    _local(state, Use.LOOK)
    holder = holder_of(state)
    if holder:
        raise DiskError(
            ErrorCode.DISK_BUSY,
            f"{holder} is using the state directory {state}",
            "stop it first; running members and workers evict by themselves",
        )
    return _local(state, Use.ALONE)


def _local(state: Path, use: Use) -> LocalBlobs:
    from rollq.store.blobs.local import FOLDER, LocalBlobs

    return LocalBlobs(state / FOLDER, use)


def _one(blobs: LocalBlobs | FsspecBlobs, text: str) -> dict[str, Any]:
    blob = _named(blobs, text)
    path = blobs.path(blob.digest)
    return _document(blob) | ({"path": str(path)} if path is not None else {})


def _named(blobs: LocalBlobs | FsspecBlobs, text: str) -> StoredBlob:
    """Find a blob by its digest or the first digits of it."""
    from itertools import takewhile

    from rollq.base.errors import RemoteError, StateError

    if len(text) < BEGINNING_MIN or text.strip("0123456789abcdef"):
        raise RemoteError(
            ErrorCode.BAD_ID,
            f"{text[:80]!r} is not a digest",
            f"a digest has 64 digits of 0-9 and a-f; the first {BEGINNING_MIN} or more will do",
        )
    first = int(text[:2], 16)
    near = takewhile(lambda blob: blob.digest[0] == first, blobs.digests(first))
    found = [blob for blob in near if blob.digest.hex().startswith(text)]
    if not found:
        raise StateError(
            ErrorCode.BLOB_MISSING, f"no blob has digest {text}", "`rollq blobs ls` lists blobs"
        )
    if len(found) > 1:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{text} is short for {len(found)} digests",
            f"give more digits; one is {found[0].digest.hex()}",
        )
    return found[0]


def _sums(blobs: LocalBlobs | FsspecBlobs) -> dict[str, Any]:
    from rollq.documents.times import when

    count = size = oldest_ms = newest_ms = 0
    for blob in blobs.digests():
        count += 1
        size += blob.size
        oldest_ms = min(oldest_ms or blob.mtime_ms, blob.mtime_ms)
        newest_ms = max(newest_ms, blob.mtime_ms)
    leftovers = list(blobs.leftovers())
    rotten = [one for one in leftovers if one.name.startswith("rotten/")]
    return {
        "blobs": count,
        "bytes": size,
        "oldest": when(oldest_ms),
        "newest": when(newest_ms),
        "partial": len(leftovers) - len(rotten),
        "partial_bytes": sum(one.size for one in leftovers) - sum(one.size for one in rotten),
        "rotten": len(rotten),
        "rotten_bytes": sum(one.size for one in rotten),
    }


def _document(blob: StoredBlob) -> dict[str, Any]:
    from rollq.documents.times import when

    return {
        "digest": blob.digest.hex(),
        "bytes": blob.size,
        "changed": when(blob.mtime_ms),
        "changed_ms": blob.mtime_ms,
    }


def _cleared(leftovers: list[Leftover], gone: list[StoredBlob], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "blobs": [blob.digest.hex() for blob in gone],
        "leftovers": [one.name for one in leftovers],
        "bytes": sum(blob.size for blob in gone) + sum(one.size for one in leftovers),
    }


def _digests_in(path: Path) -> list[Digest]:
    from rollq.base.digests import digest_from_text
    from rollq.cli.stdin import read_text

    try:
        text = read_text() if str(path) == "-" else path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, f"cannot read {path}: {error}") from error
    return [digest_from_text(line.split()[0]) for line in text.splitlines() if line.split()]
