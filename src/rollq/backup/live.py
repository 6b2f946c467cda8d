"""A backup of a group that runs, from a follower if there is one: the leader has enough to do.

The member writes a snapshot of its state, at an index that is not before anything that was
committed when it was asked, and sends it as it would to a peer; then history and files come as any
reader and client gets them. If the member is lost meanwhile another one is asked, for a snapshot of
its own.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from rollq.backup.contents import state_in
from rollq.backup.pieces import FORMS, HistoryPiece, put_piece
from rollq.base.digests import Digest
from rollq.base.errors import DiskError, ErrorCode, RemoteError, RollqError, StateError
from rollq.base.limits import BLOB_TRANSFERS_MAX
from rollq.roles.blobs.client import BlobClient
from rollq.roles.reader.channel import Channel
from rollq.roles.reader.reader import Reader
from rollq.security.credentials import NONE, Credentials
from rollq.store.backup_file import BLOB, SNAPSHOT, BackupWriter, Manifest, Progress
from rollq.wire.features import BACKUP
from rollq.wire.reader_messages import SNAPSHOT as SNAPSHOT_FORM
from rollq.wire.reader_messages import BackupAsk, BackupTold

READ_BYTES: Final = 1024 * 1024

# Shows how far a stage has got: by its name, and whether it counts bytes.
Stage: TypeAlias = Callable[[str, bool], AbstractContextManager[Progress]]


class LiveSource(NamedTuple):
    """Where a backup is taken from.

    Attributes:
        servers: Addresses of members.
        member: The one to ask first; empty: a follower.
        timeout_s: How long members that cannot serve are asked again.
        credentials: As for `Client`.
    """

    servers: Sequence[str]
    member: str = ""
    timeout_s: float = 30.0
    credentials: Credentials = NONE


class _Sent(NamedTuple):
    told: BackupTold
    address: str
    group: str


def take_live(
    source: LiveSource,
    writer: BackupWriter,
    stage: Stage,
    *,
    with_history: bool = True,
    with_blobs: bool = True,
) -> None:
    """Write a backup, up to its end. Whatever was accepted before this was called is in it.

    Raises:
        DialError: no member answers.
        DeadlineError: members answer, and none can serve.
        StateError: ACCESS_DENIED; HISTORY_GONE if history was let go while it was copied.
    """
    begun_ms = time.time_ns() // 1_000_000
    reader = Reader(
        source.servers,
        timeout_s=source.timeout_s,
        prefer=source.member,
        credentials=source.credentials,
    )
    with reader:
        with stage("state", True) as progress:
            sent = reader.ask(lambda channel: _copy_state(channel, writer, progress))
        first, last = sent.told.index + 1, sent.told.index
        if with_history:
            with stage("history", False) as progress:
                first = _copy_history(reader, last, writer, progress)
    if with_blobs:
        blobs = state_in(writer.read_back, last).blobs
        wanted = {digest: count.size for digest, count in blobs.items()}
        with stage("files", True) as progress:
            asyncio.run(_copy_blobs(source, sent.group, wanted, writer, progress))
    told = sent.told
    writer.finish(
        Manifest(
            version("rollq"),
            sent.group,
            told.cluster_id.hex(),
            sent.address,
            begun_ms,
            told.index,
            told.term,
            told.sha256.hex(),
            told.large_count,
            first,
            last,
            with_blobs,
        )
    )


def _copy_state(channel: Channel, writer: BackupWriter, progress: Progress) -> _Sent:
    if BACKUP not in channel.welcome.features:
        raise StateError(
            ErrorCode.NOT_READY, "a member of this version gives no backups", "upgrade it first"
        )
    channel.say(BackupAsk(channel.new_request()))
    told = channel.hear(BackupTold)
    while not told.index:  # it writes it down
        told = channel.hear(BackupTold)
    done = 0
    with writer.part(SNAPSHOT, "") as put:
        while done < told.size_bytes:
            piece = channel.hear_piece()
            if piece.form != SNAPSHOT_FORM or piece.first != done or not piece.data:
                raise RemoteError(ErrorCode.BAD_PAYLOAD, "a piece of another answer came")
            put(piece.data)
            done += len(piece.data)
            progress(done, told.size_bytes)
    return _Sent(told, channel.address, channel.welcome.group)


def _copy_history(reader: Reader, last: int, writer: BackupWriter, progress: Progress) -> int:
    """Returns the first index that there is history of."""
    first = reader.span(fresh=False).floor + 1
    for piece in reader.pieces(first, last, forms=FORMS):
        put_piece(writer, HistoryPiece(piece.first, piece.last, piece.form, piece.data))
        progress(piece.last - first + 1, last - first + 1)
    return first


async def _copy_blobs(
    source: LiveSource,
    group: str,
    sizes: dict[Digest, int],
    writer: BackupWriter,
    progress: Progress,
) -> None:
    """Those that nobody has any more are left out: whoever checks the backup finds that."""
    if not sizes:
        return
    done, total = 0, sum(sizes.values())
    digests = list(sizes)
    folder = tempfile.TemporaryDirectory(dir=writer.path.parent, prefix=".rollq-backup-")
    client = BlobClient(source.servers, group, credentials=source.credentials)
    with folder as name:
        async with client:
            for at in range(0, len(digests), BLOB_TRANSFERS_MAX):
                some = digests[at : at + BLOB_TRANSFERS_MAX]
                paths = [Path(name) / digest.hex() for digest in some]
                fetches = [
                    _fetch(client, digest, path, sizes[digest])
                    for digest, path in zip(some, paths, strict=True)
                ]
                found = await asyncio.gather(*fetches)
                for digest, path, is_there in zip(some, paths, found, strict=True):
                    if is_there:
                        _put_file(writer, digest, path)
                    done += sizes[digest]
                    progress(done, total)


async def _fetch(client: BlobClient, digest: Digest, path: Path, size: int) -> bool:
    try:
        await client.fetch(digest, path, size)
    except RollqError as error:
        if error.code is not ErrorCode.BLOB_MISSING:
            raise
        return False
    return True


def _put_file(writer: BackupWriter, digest: Digest, path: Path) -> None:
    try:
        with path.open("rb") as file, writer.part(BLOB, digest.hex()) as put:
            while data := file.read(READ_BYTES):
                put(data)
        path.unlink()
    except OSError as error:
        raise DiskError(ErrorCode.DISK_FAILED, f"cannot read {path}: {error.strerror}") from error
