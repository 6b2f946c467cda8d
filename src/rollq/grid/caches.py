"""Handlers of caches: named sets of files that any number of jobs refer to."""

from __future__ import annotations

from operator import attrgetter

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode
from rollq.base.jobs import CacheEntry
from rollq.base.limits import (
    CACHE_ENTRIES_MAX,
    CACHE_ID_BYTES_MAX,
    CACHE_TARGETS_MAX,
    FILE_NAME_BYTES_MAX,
    PATTERN_BYTES_MAX,
)
from rollq.grid.admission import is_long, refused_bounds
from rollq.grid.commands import PutCache, RemoveCache
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.events import CACHE_PUT, CACHE_REMOVED, Event, asked_by
from rollq.grid.outcomes import CACHES_FULL, DONE_ONE, DUPLICATE_OPEN
from rollq.grid.refs import hold_blobs, maybe_drop_cache, refuse_blobs
from rollq.grid.state import CacheHolder, CacheRecord, GridState

_MODE_MAX = 0o777


def put_cache(state: GridState, command: PutCache, out: Applied) -> Outcome:
    """Create a cache; the same files again may add another target."""
    refusal = refuse_cache(state, command)
    if refusal is not None:
        return refusal
    entries = tuple(sorted(command.entries, key=attrgetter("name")))
    cache = state.caches.get(command.cache_id)
    if cache is None:
        if len(state.caches) >= state.bounds.caches:
            return CACHES_FULL
        cache = CacheRecord(command.cache_id, entries, (command.target_pattern,), out.stamp_ms)
        state.caches[command.cache_id] = cache
        hold_blobs(state, (entry.blob for entry in entries), CacheHolder(cache.cache_id))
    elif cache.entries != entries:
        return refused_conflict(cache)
    elif cache.removed:
        cache.removed, cache.targets = False, (command.target_pattern,)
    elif command.target_pattern in cache.targets:
        return DUPLICATE_OPEN
    elif len(cache.targets) >= CACHE_TARGETS_MAX:
        return refused_bounds(f"the cache has {CACHE_TARGETS_MAX} targets already")
    else:
        cache.targets = (*cache.targets, command.target_pattern)
    cache.stamp_ms = out.stamp_ms
    detail = f"{command.target_pattern} {command.by}".rstrip()
    out.events.append(cache_fact(CACHE_PUT, cache, detail, command.by))
    return DONE_ONE


def refused_conflict(cache: CacheRecord) -> Refused:
    """The name is taken by other files: jobs that refer to it must get the files they meant."""
    reason = f"cache {cache.cache_id!r} holds other files"
    if cache.removed:
        reason += f"; it is removed, but {cache.user_count} jobs or arrays still need it"
    return Refused(ErrorCode.CACHE_CONFLICT, reason)


def refuse_cache(state: GridState, command: PutCache) -> Refused | None:
    """Why this cache may not be created."""
    if not command.cache_id or is_long(command.cache_id, CACHE_ID_BYTES_MAX):
        return refused_bounds("cache_id is empty or too long")
    if not command.target_pattern or is_long(command.target_pattern, PATTERN_BYTES_MAX):
        return refused_bounds("target_pattern is empty or too long")
    if not 0 < len(command.entries) <= CACHE_ENTRIES_MAX:
        return refused_bounds(f"a cache has 1 to {CACHE_ENTRIES_MAX} files")
    return refuse_entries(state, command.entries)


def refuse_entries(state: GridState, entries: tuple[CacheEntry, ...]) -> Refused | None:
    """Why these cannot be the files of a cache."""
    names: dict[str, None] = {}
    sizes: dict[Digest, int] = {}
    for entry in entries:
        if not entry.name or is_long(entry.name, FILE_NAME_BYTES_MAX) or entry.name in names:
            return refused_bounds("the name of a file is empty, too long or there twice")
        if not 0 <= entry.mode <= _MODE_MAX:
            return refused_bounds("the mode of a file is not 0 to 0o777")
        names[entry.name] = None
        refusal = refuse_blobs(state, (entry.blob,), sizes, 1)
        if refusal is not None:
            return refusal
    return None


def remove_cache(state: GridState, command: RemoveCache, out: Applied) -> Outcome:
    """Remove a cache for new jobs; it is kept while jobs that refer to it need it."""
    cache = state.caches.get(command.cache_id)
    if cache is None or cache.removed:
        return Refused(ErrorCode.UNKNOWN_CACHE, f"no cache {command.cache_id[:64]!r}")
    cache.removed = True
    cache.stamp_ms = out.stamp_ms
    out.events.append(cache_fact(CACHE_REMOVED, cache, command.by, command.by))
    maybe_drop_cache(state, command.cache_id)
    return DONE_ONE


def cache_fact(kind: str, cache: CacheRecord, detail: str, by: str) -> Event:
    """An event about a cache: number and total size of its files."""
    return Event(
        kind,
        count=len(cache.entries),
        detail=detail,
        cache_id=cache.cache_id,
        blob_bytes=sum(entry.blob.size for entry in cache.entries),
        access=asked_by(by),
    )
