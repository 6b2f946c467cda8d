"""Batches by name and their progress.

A name is listed while its batch is staged, being unpacked, or remembered. The state does not record
which jobs came with which batch: their ends are listed by client.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rollq.base.access_rules import is_client_of
from rollq.base.ids import ClientId
from rollq.grid.commands import BatchName
from rollq.grid.state import BatchKey, BatchRecord, GridState

STAGED: Final = "staged"  # sent, not accepted
UNPACKING: Final = "unpacking"  # accepted; not all jobs are in their queues
ACCEPTED: Final = "accepted"  # all jobs are in their queues


class BatchFilter(msgspec.Struct, frozen=True, array_like=True):
    """Batches of one client, or of all; those after this name."""

    client_id: ClientId = ""
    after_client: ClientId = ""
    after_key: str = ""


class BatchView(msgspec.Struct, frozen=True):
    """One batch.

    Attributes:
        state: staged, unpacking or accepted.
        jobs: The jobs in all its parts, or that were accepted.
        entered: The jobs that are in their queues.
        parts: The staged parts; 0 once it is accepted.
        stamp_ms: When it was last added to, or accepted; 0: unknown.
    """

    client_id: ClientId
    batch_key: str
    state: str
    jobs: int
    entered: int = 0
    parts: int = 0
    stamp_ms: int = 0


def list_batch(state: GridState, name: BatchKey) -> None:
    """Call before a batch is put into one of the tables."""
    if not _is_known(state, name):
        state.batch_names.add(name)


def remember_batch(state: GridState, name: BatchKey, record: BatchRecord) -> None:
    """Record an accepted batch by its key; its name is listed already."""
    state.batches[name] = record
    if len(state.batches) > state.bounds.batches_kept:
        oldest, _ = state.batches.popitem(last=False)
        unlist_batch(state, oldest)


def unlist_batch(state: GridState, name: BatchKey) -> None:
    """Call after a batch was removed from one of the tables."""
    if not _is_known(state, name):
        state.batch_names.remove(name)


def _is_known(state: GridState, name: BatchKey) -> bool:
    return name in state.staged or name in state.committed or name in state.batches


def batch_view(state: GridState, name: BatchName) -> BatchView | None:
    """A batch by its name."""
    key = (name.client_id, name.batch_key)
    record, open_batch = state.batches.get(key), state.committed.get(key)
    if open_batch is not None:
        # The count of a forgotten key is unknown: show the jobs that are left.
        count = open_batch.left if record is None else record.count
        entered = count - open_batch.left
        return BatchView(*key, UNPACKING, count, entered, stamp_ms=open_batch.stamp_ms)
    if record is not None:
        return BatchView(*key, ACCEPTED, record.count, record.count)
    staged = state.staged.get(key)
    if staged is None:
        return None
    parts = len(staged.parts)
    return BatchView(*key, STAGED, staged.count, parts=parts, stamp_ms=staged.stamp_ms)


def batch_page(
    state: GridState, wanted: BatchFilter, limit: int, account: str = ""
) -> list[BatchView]:
    """Up to `limit` batches whose names come after this one, by client and key."""
    after = (wanted.after_client, wanted.after_key)
    names: list[BatchKey] = []
    for first, end in _spans(wanted.client_id, account):
        found = state.batch_names.after(max(after, (first, "")), limit - len(names))
        names += [name for name in found if not end or name[0] < end]
    views = (batch_view(state, BatchName(*name)) for name in names)
    return [one for one in views if one is not None and is_client_of(one.client_id, account)]


def _spans(client_id: ClientId, account: str) -> list[tuple[ClientId, ClientId]]:
    """The ranges [first, end) of client ids that match."""
    if client_id:
        return [(client_id, f"{client_id}\0")]
    if account:  # itself, and ids with its name and a slash as prefix; `0` follows the slash
        return [(account, f"{account}\0"), (f"{account}/", f"{account}0")]
    return [("", "")]
