"""Reference counts of blobs and caches, whose content is stored elsewhere.

`state.blobs` counts the references of jobs (until they can never run again), of results (until they
are forgotten) and of caches, each under its holder, which also decides who may read a blob. Every
`hold` has its `release`; a count is never clamped, and a blob or a removed cache is dropped with
its last reference. `invariants` recounts.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from rollq.base.digests import DIGEST_BYTES, Digest
from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_BYTES_MAX, BLOBS_PER_JOB_MAX, CACHES_PER_JOB_MAX
from rollq.grid.effects import Refused
from rollq.grid.state import ArrayRecord, BlobCount, CacheHolder, GridState, Holder, PastRecord


def refuse_blobs(
    state: GridState, blobs: tuple[BlobRef, ...], sizes: dict[Digest, int], count_max: int
) -> Refused | None:
    """Why these may not be referenced; `sizes` has those of the same command, and is extended."""
    if len(blobs) > count_max:
        return _out_of_bounds(f"more than {count_max} blobs")
    for blob in blobs:
        if len(blob.digest) != DIGEST_BYTES or not 0 <= blob.size <= BLOB_BYTES_MAX:
            return _out_of_bounds("a blob has a digest of 32 bytes and a size in bounds")
        known = state.blobs.get(blob.digest)
        size = sizes.setdefault(blob.digest, blob.size if known is None else known.size)
        if size != blob.size:
            return _out_of_bounds(f"blob {blob.digest.hex()} has {size} bytes, not {blob.size}")
    return None


def refuse_files(
    state: GridState, blobs: tuple[BlobRef, ...], caches: tuple[str, ...]
) -> Refused | None:
    """Why nothing that needs these may be submitted; None if it may."""
    refusal = refuse_blobs(state, blobs, {}, BLOBS_PER_JOB_MAX) if blobs else None
    if refusal is not None or not caches:
        return refusal
    if len(caches) > CACHES_PER_JOB_MAX:
        return _out_of_bounds(f"more than {CACHES_PER_JOB_MAX} caches")
    for cache_id in caches:
        cache = state.caches.get(cache_id)
        if cache is None or cache.removed:
            return Refused(ErrorCode.UNKNOWN_CACHE, f"no cache {cache_id[:64]!r}")
    return None


def _out_of_bounds(message: str) -> Refused:
    return Refused(ErrorCode.BAD_OPTIONS, message)


def past_with(blobs: tuple[BlobRef, ...], caches: tuple[str, ...]) -> PastRecord | None:
    """The PastRecord of a new job with files; None without."""
    return PastRecord(blobs=blobs, caches=caches) if blobs or caches else None


def caches_of(state: GridState, job_id: JobId) -> tuple[str, ...]:
    """The caches that a job needs."""
    job = state.jobs.get(job_id)
    if job is None:
        return ()
    if job.array is not None:
        return job.array.caches
    return job.past.caches if job.past is not None else ()


def hold_files(state: GridState, owner: PastRecord | ArrayRecord, client_id: ClientId) -> None:
    """Add the references of a job or array of a client."""
    hold_blobs(state, owner.blobs, client_id)
    for cache_id in owner.caches:
        state.caches[cache_id].user_count += 1


def release_files(state: GridState, owner: PastRecord | ArrayRecord, client_id: ClientId) -> None:
    """Remove the references of a job or array that will never run again."""
    release_blobs(state, owner.blobs, client_id)
    for cache_id in owner.caches:
        state.caches[cache_id].user_count -= 1
        maybe_drop_cache(state, cache_id)


def give_up_files(state: GridState, past: PastRecord, client_id: ClientId) -> None:
    """Release the files of a job that will never run again, and forget their names."""
    release_files(state, past, client_id)
    past.blobs, past.caches = (), ()


def hold_blobs(state: GridState, blobs: Iterable[BlobRef], holder: Holder) -> None:
    """Add one reference of this holder to each."""
    counts = state.blobs
    for blob in blobs:
        known = counts.get(blob.digest)
        if known is None:
            known = counts[blob.digest] = BlobCount(blob.size, holder=holder)
            if state.blob_news is not None:
                state.blob_news.append((blob.digest, True))
        elif known.holders is not None:
            known.holders[holder] = known.holders.get(holder, 0) + 1
        elif known.holder != holder:
            known.holders = {known.holder: known.count, holder: 1}
        known.count += 1


def release_blobs(state: GridState, blobs: Iterable[BlobRef], holder: Holder) -> None:
    """Remove one reference of this holder from each."""
    counts = state.blobs
    for blob in blobs:
        known = counts[blob.digest]
        known.count -= 1
        if not known.count:
            del counts[blob.digest]
            if state.blob_news is not None:
                state.blob_news.append((blob.digest, False))
        elif known.holders is not None:
            _let_go(known, known.holders, holder)


def _let_go(known: BlobCount, holders: dict[Holder, int], holder: Holder) -> None:
    holders[holder] -= 1
    if not holders[holder]:
        del holders[holder]
        if len(holders) == 1:
            (known.holder,) = holders
            known.holders = None


def holders_of(state: GridState, digest: Digest) -> tuple[Holder, ...]:
    """The clients and caches that refer to a blob."""
    known = state.blobs.get(digest)
    if known is None:
        return ()
    return (known.holder,) if known.holders is None else tuple(known.holders)


def blob_bytes(blobs: tuple[BlobRef, ...]) -> int:
    """The total size of these."""
    return sum([blob.size for blob in blobs])


def maybe_drop_cache(state: GridState, cache_id: str) -> None:
    """Delete a removed cache that nothing needs."""
    cache = state.caches[cache_id]
    if cache.removed and not cache.user_count:
        del state.caches[cache_id]
        release_blobs(state, (entry.blob for entry in cache.entries), CacheHolder(cache_id))


def files_crc(crc: int, blobs: tuple[BlobRef, ...], caches: tuple[str, ...]) -> int:
    """The checksum of a body, continued over the files that the job needs."""
    for blob in blobs:
        crc = crc32(blob.digest, crc)
    for cache_id in caches:
        crc = crc32(cache_id.encode() + b"\0", crc)
    return crc
