"""A running hash of the state, updated with the changes of each entry: it is equal on members that
applied the same log, unless one of them diverged.

The columns of events that count are fixed here, independent of the fields of `Event`, because
members of different builds must agree. A change needs a new version of command batches, and older
entries must be hashed as before. A run counts as its single facts.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct, pack
from typing import Final

import msgspec

from rollq.grid.effects import Applied
from rollq.grid.events import ACCESS_KINDS, RULE_KINDS, Event
from rollq.grid.snapshot_rows import limit_rows, policy_rows, weight_rows
from rollq.grid.state import HASH_BYTES, GridState

_SIZES: Final = Struct("<15q")
_NUMBER: Final = Struct("<q")
_TOPICS: Final = Struct("<5q")
_SCHEDULES: Final = Struct("<2q")
_encode: Final = msgspec.msgpack.Encoder().encode


def hash_state(state: GridState, applied: Applied) -> None:
    """Add the events of an entry that was just applied, and the sizes of all tables.

    Column by column, because one tuple per fact would take three times as long: first all kinds,
    then all ids, workers, fences, attempts, statuses and counts.
    """
    sizes = _SIZES.pack(
        applied.index,
        applied.stamp_ms,
        state.last_seq,
        state.last_fence,
        len(state.jobs),
        len(state.arrays),
        len(state.clients),
        len(state.workers),
        len(state.batches),
        len(state.caches),
        len(state.blobs),
        len(state.dead),
        len(state.confirmed),
        len(state.reserved),
        state.staged_count,
    )
    parts = [state.state_hash, sizes]
    events = applied.events
    if events:
        counts = [1 if event.run is None else event.run.count for event in events]
        counted = list(zip(events, counts, strict=True))
        parts += [event.kind.encode() * count for event, count in counted]
        parts += [
            event.job_id or event.array_id if event.run is None else event.run.job_ids
            for event in events
        ]
        parts += [event.worker_id * count for event, count in counted]
        parts += [_fences(event, count) for event, count in counted]
        parts += [_NUMBER.pack(event.attempt) * count for event, count in counted]
        parts += [_NUMBER.pack(event.status) * count for event, count in counted]
        parts += [_NUMBER.pack(event.count) * count for event, count in counted]
        kinds = [event.kind for event in events]
        if not ACCESS_KINDS.isdisjoint(kinds):  # since version 8
            parts.append(_encode((state.access.listed_accounts(), state.access.listed_roles())))
        if not RULE_KINDS.isdisjoint(kinds):  # since version 10
            parts.append(_encode((policy_rows(state), limit_rows(state), weight_rows(state))))
    topics = state.topics
    if topics.by_name:  # since version 10
        sums = len(topics.by_name), topics.size_bytes, topics.first_sum, topics.last_sum
        parts.append(_TOPICS.pack(*sums, topics.cursor_sum))
    schedules = state.schedules
    if schedules.by_name:  # since version 12
        parts.append(_SCHEDULES.pack(len(schedules.by_name), schedules.next_sum))
    state.state_hash = blake2b(b"".join(parts), digest_size=HASH_BYTES).digest()


def _fences(event: Event, count: int) -> bytes:
    run = event.run
    if run is not None and run.fences:
        return pack(f"<{count}q", *run.fences)
    if count == 1 or not event.fence:
        return _NUMBER.pack(event.fence) * count
    return pack(f"<{count}q", *range(event.fence, event.fence + count))
