"""Backup of a running group, from a follower if possible, to keep load off the leader.

The member writes a snapshot at an index that covers everything committed before the request, and
sends it as it would to a peer; history and blobs follow as for any reader and client. If the member
is lost meanwhile, another one is asked for a snapshot of its own.
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

# Shows the progress of a stage: its name, and whether it counts bytes.
Stage: TypeAlias = Callable[[str, bool], AbstractContextManager[Progress]]


class LiveSource(NamedTuple):
    """The source of a live backup.

    Attributes:
        servers: Addresses of members.
        member: The one to try first; empty: a follower.
        timeout_s: How long members that cannot serve are retried.
        credentials: As for `Client`.
    """

    servers: Sequence[str]
    member: str = ""
    timeout_s: float = 30.0
    credentials: Credentials = NONE


class _SentState(NamedTuple):
    reply: BackupTold
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
    """Write a complete backup. It contains everything that was accepted before this call.

    Raises:
        DialError: no member answers.
        DeadlineError: members answer, and none can serve.
        StateError: ACCESS_DENIED; HISTORY_GONE if history was deleted while it was copied.
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
            state_sent = reader.ask(lambda channel: _copy_state(channel, writer, progress))
        first, last = state_sent.reply.index + 1, state_sent.reply.index
        if with_history:
            with stage("history", False) as progress:
                first = _copy_history(reader, last, writer, progress)
    if with_blobs:
        blobs = state_in(writer.read_back, last).blobs
        wanted = {digest: count.size for digest, count in blobs.items()}
        with stage("files", True) as progress:
            asyncio.run(_copy_blobs(source, state_sent.group, wanted, writer, progress))
    reply = state_sent.reply
    writer.finish(
        Manifest(
            version("rollq"),
            state_sent.group,
            reply.cluster_id.hex(),
            state_sent.address,
            begun_ms,
            reply.index,
            reply.term,
            reply.sha256.hex(),
            reply.large_count,
            first,
            last,
            with_blobs,
        )
    )


def _copy_state(channel: Channel, writer: BackupWriter, progress: Progress) -> _SentState:
    if BACKUP not in channel.welcome.features:
        raise StateError(
            ErrorCode.NOT_READY, "a member of this version gives no backups", "upgrade it first"
        )
    channel.send(BackupAsk(channel.new_request()))
    reply = channel.receive(BackupTold)
    while not reply.index:  # the member is still writing it
        reply = channel.receive(BackupTold)
    done = 0
    with writer.part(SNAPSHOT, "") as put:
        while done < reply.size_bytes:
            piece = channel.receive_piece()
            if piece.form != SNAPSHOT_FORM or piece.first != done or not piece.data:
                raise RemoteError(ErrorCode.BAD_PAYLOAD, "a piece of another answer came")
            put(piece.data)
            done += len(piece.data)
            progress(done, reply.size_bytes)
    return _SentState(reply, channel.address, channel.welcome.group)


def _copy_history(reader: Reader, last: int, writer: BackupWriter, progress: Progress) -> int:
    """Copy the history; returns its first index."""
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
    """Copy the blobs. Missing ones are left out, and `verify` reports them."""
    if not sizes:
        return
    done, total = 0, sum(sizes.values())
    digests = list(sizes)
    folder = tempfile.TemporaryDirectory(dir=writer.path.parent, prefix=".rollq-backup-")
    client = BlobClient(source.servers, group, credentials=source.credentials)
    with folder as name:
        async with client:
            for at in range(0, len(digests), BLOB_TRANSFERS_MAX):
                page = digests[at : at + BLOB_TRANSFERS_MAX]
                paths = [Path(name) / digest.hex() for digest in page]
                fetches = [
                    _fetch(client, digest, path, sizes[digest])
                    for digest, path in zip(page, paths, strict=True)
                ]
                found = await asyncio.gather(*fetches)
                for digest, path, is_found in zip(page, paths, found, strict=True):
                    if is_found:
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
