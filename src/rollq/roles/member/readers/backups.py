"""Answers `BackupAsk` with a snapshot of this member, as sent to a follower."""

from __future__ import annotations

from concurrent.futures import Future

from rollq.base.errors import DiskError, ErrorCode, StateError
from rollq.base.limits import EXPORT_ALIVE_MS, READER_PIECE_BYTES
from rollq.raft.types import SnapshotMeta
from rollq.roles.member.driver import Driver
from rollq.roles.member.readers.reader_context import ELSEWHERE
from rollq.roles.member.readers.session import ReaderSession
from rollq.store.snapshots import OpenSnapshot
from rollq.wire.reader_messages import SNAPSHOT, BackupAsk, BackupTold


def send_backup(session: ReaderSession, ask: BackupAsk) -> None:
    """Answer `BackupAsk`: keep-alives while it is under way, then its description, then all of it.

    Raises:
        StateError: NOT_READY without a leader, or if no snapshot can be taken here.
    """
    member = session.member
    asked = member.snapshot_from(member.fresh_index())
    meta = _awaited(session, ask, asked)

    def open_it(driver: Driver) -> tuple[OpenSnapshot, bytes]:
        return driver.snapshots.open(meta), driver.roll.cluster_id

    try:
        opened, cluster_id = member.on_loop(open_it)
    except DiskError as error:
        raise _unavailable(error.message) from None
    try:
        session.send(
            BackupTold(
                ask.request_id,
                index=meta.index,
                term=meta.term,
                size_bytes=meta.size_bytes,
                sha256=meta.sha256,
                large_count=meta.large_count,
                cluster_id=cluster_id,
            )
        )
        for offset in range(0, meta.size_bytes, READER_PIECE_BYTES):
            data = opened.read(offset, READER_PIECE_BYTES)
            session.send_piece(ask.request_id, offset, offset + len(data), SNAPSHOT, data)
    finally:
        member.later(opened.close)


def _awaited(
    session: ReaderSession, ask: BackupAsk, asked: Future[SnapshotMeta | None]
) -> SnapshotMeta:
    while True:
        try:
            meta = asked.result(EXPORT_ALIVE_MS / 1000)
        except TimeoutError:
            session.member.check_running()
            session.send(BackupTold(ask.request_id))
        else:
            break
    if meta is None:
        raise _unavailable("a snapshot could not be written here; the log of the member says why")
    return meta


def _unavailable(reason: str) -> StateError:
    return StateError(ErrorCode.NOT_READY, reason, ELSEWHERE)
