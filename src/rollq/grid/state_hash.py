"""A running hash of the state, fed with what each entry changed: members that applied as much of
the log have the same, or one of them went astray.

The columns of facts that count are fixed here and do not follow the fields of `Event`: members of
two builds must agree. Who changes them makes a new version of command batches, and feeds older
entries as before.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct, pack
from typing import Final

from rollq.grid.effects import Applied
from rollq.grid.state import HASH_BYTES, GridState

_SIZES: Final = Struct("<15q")


def hash_state(state: GridState, applied: Applied) -> None:
    """Feed the facts of an entry that was just applied, and the sizes of all tables. Column by
    column, because a tuple a fact would cost three times as much."""
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
        numbers = [event.fence for event in events]
        numbers += [event.attempt for event in events]
        numbers += [event.status for event in events]
        numbers += [event.count for event in events]
        parts.append("".join([event.kind for event in events]).encode())
        parts += [event.job_id or event.array_id for event in events]
        parts += [event.worker_id for event in events]
        parts.append(pack(f"<{len(numbers)}q", *numbers))
    state.state_hash = blake2b(b"".join(parts), digest_size=HASH_BYTES).digest()
