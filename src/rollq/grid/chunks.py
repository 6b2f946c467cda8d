"""One message of a staged part, as stored in the state: packed, with references to the files of its
jobs.

`keep_chunk` and `drop_chunk` are a pair: counts, bytes, blob and cache references of staged jobs
change here only.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

import msgspec

from rollq.base.digests import Digest
from rollq.base.ids import GUID_BYTES, ClientId, JobId
from rollq.base.jobs import BulkItem
from rollq.base.limits import (
    BLOBS_PER_JOB_MAX,
    EXEC_NAME_BYTES_MAX,
    INLINE_BYTES_MAX,
    JOB_KEY_BYTES_MAX,
    STAGE_CHUNK_JOBS_MAX,
)
from rollq.base.staged import KEY_END, SAME_BODY, StagedGroup, ids_of, items_of
from rollq.grid.admission import is_long, refuse_options, refuse_queue, refused_bounds
from rollq.grid.effects import Refused
from rollq.grid.refs import hold_blobs, maybe_drop_cache, refuse_blobs, refuse_files, release_blobs
from rollq.grid.repeats import why_another
from rollq.grid.state import CommittedBatch, GridState, StagedChunk

PIECE_BYTES: Final = INLINE_BYTES_MAX  # the largest body that a `Bodies` stores

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[StagedGroup, ...]).decode


def refuse_groups(state: GridState, groups: tuple[StagedGroup, ...]) -> Refused | None:
    """Why these jobs may not be staged; the commit checks whether their ids are free."""
    count = sum(len(group.sizes) for group in groups)
    if not 0 < count <= STAGE_CHUNK_JOBS_MAX:
        return refused_bounds(f"a message of a part has 1 to {STAGE_CHUNK_JOBS_MAX} jobs")
    sizes: dict[Digest, int] = {}
    for group in groups:
        if group.redrives is not groups[0].redrives:
            return refused_bounds("jobs to run again do not share a message with new ones")
        refusal = None if group.redrives else _refuse_names(state, group)
        refusal = refusal or _refuse_columns(group)
        if refusal is not None:
            return refusal
        for blobs in group.blobs:
            refusal = refuse_blobs(state, blobs, sizes, BLOBS_PER_JOB_MAX)
            if refusal is not None:
                return refusal
    return None


def _refuse_names(state: GridState, group: StagedGroup) -> Refused | None:
    if group.queue not in state.queues:
        refusal = refuse_queue(state, group.queue)
        if refusal is not None:
            return refusal
    if is_long(group.exec_name, EXEC_NAME_BYTES_MAX):
        return refused_bounds("exec_name is too long")
    if group.options is not None and group.options not in state.options_seen:
        refusal = refuse_options(group.options)
        if refusal is not None:
            return refusal
    return refuse_files(state, (), group.caches) if group.caches else None


def _refuse_columns(group: StagedGroup) -> Refused | None:
    count = len(group.sizes)
    if not count or len(group.job_ids) != GUID_BYTES * count:
        return refused_bounds("not as many ids as jobs, or none")
    least = SAME_BODY if group.redrives else 0
    if min(group.sizes) < least or max(group.sizes) > INLINE_BYTES_MAX:
        return refused_bounds(f"body is larger than {INLINE_BYTES_MAX} bytes")
    if group.redrives and (group.blobs or group.caches or group.keys):
        return refused_bounds("a job that runs again has the key and the files that it has")
    if sum(size for size in group.sizes if size > 0) != len(group.bodies):
        return refused_bounds("not as many bytes as the sizes of the bodies say")
    if group.blobs and len(group.blobs) != count:
        return refused_bounds("not as many lists of blobs as jobs")
    if not group.keys:
        return None
    keys = group.keys.encode().split(KEY_END.encode())
    if len(keys) != count:
        return refused_bounds("not as many keys as jobs")
    if max(map(len, keys)) > JOB_KEY_BYTES_MAX:
        return refused_bounds(f"key has more than {JOB_KEY_BYTES_MAX} bytes")
    return None


def keep_chunk(
    state: GridState, groups: tuple[StagedGroup, ...], crc: int, client_id: ClientId
) -> StagedChunk:
    """Store staged jobs of a client."""
    data = _encode(groups)
    keep = state.bodies.keep
    chunk = StagedChunk(
        b"".join(group.job_ids for group in groups),
        crc,
        pieces=tuple(keep(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES)),
        blobs=tuple(chain.from_iterable(chain.from_iterable(group.blobs for group in groups))),
        caches=tuple(chain.from_iterable(group.caches for group in groups)),
        redrives=groups[0].redrives,
        parents=_parents_in(groups),
    )
    hold_chunk(state, chunk, client_id)
    return chunk


def _parents_in(groups: tuple[StagedGroup, ...]) -> bytes:
    """The parents of these jobs, except jobs that precede them in the message."""
    if not any(group.options is not None and group.options.after for group in groups):
        return b""
    seen: dict[JobId, None] = {}
    found: dict[JobId, None] = {}
    for group in groups:
        after = () if group.options is None else group.options.after
        found.update(dict.fromkeys([one.job_id for one in after if one.job_id not in seen]))
        seen.update(dict.fromkeys(ids_of(group.job_ids)))
    return b"".join(found)


def hold_chunk(state: GridState, chunk: StagedChunk, client_id: ClientId) -> None:
    """Count a chunk, and add its references."""
    state.staged_count += chunk.count
    state.staged_bytes += bytes_of(state, chunk)
    hold_blobs(state, chunk.blobs, client_id)
    for cache_id in chunk.caches:
        state.caches[cache_id].user_count += 1


def drop_chunk(state: GridState, chunk: StagedChunk, client_id: ClientId) -> None:
    """Remove a chunk: its jobs are unpacked, or will never be accepted."""
    state.staged_count -= chunk.count
    state.staged_bytes -= bytes_of(state, chunk)
    state.bodies.drop_all(chunk.pieces)
    release_blobs(state, chunk.blobs, client_id)
    for cache_id in chunk.caches:
        state.caches[cache_id].user_count -= 1
        maybe_drop_cache(state, cache_id)


def bytes_of(state: GridState, chunk: StagedChunk) -> int:
    """The size of a chunk."""
    return sum(map(state.bodies.size, chunk.pieces)) + len(chunk.job_ids)


def groups_of(state: GridState, chunk: StagedChunk) -> tuple[StagedGroup, ...]:
    """The jobs of a chunk."""
    return _decode(b"".join(map(state.bodies.load, chunk.pieces)))


def other_job(state: GridState, client_id: ClientId, chunk: StagedChunk) -> tuple[JobId, str]:
    """The first id in it that belongs to a different job than the staged one, and what differs;
    empty: there is none."""
    for group in groups_of(state, chunk):
        for item in items_of(group):
            record = state.jobs.get(item.job_id)
            if record is None:
                continue
            if why := why_another(state, record, client_id, group, item):
                return item.job_id, why
    return b"", ""


def find_staged(
    state: GridState, job_id: JobId
) -> tuple[CommittedBatch, StagedGroup, BulkItem] | None:
    """A new job that is accepted and not unpacked yet, with its batch and group."""
    if job_id not in state.reserved:
        return None
    for batch in state.committed.values():
        for chunk in batch.chunks:
            if job_id not in chunk.job_ids or chunk.redrives:  # cheap test first
                continue
            for group in groups_of(state, chunk):
                for item in items_of(group):
                    if item.job_id == job_id:
                        return batch, group, item
    return None
