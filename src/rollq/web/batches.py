"""GET of batches: a list, one batch, and failures of its client's jobs."""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode, StateError
from rollq.base.outcomes import DEAD, FAILED
from rollq.documents.jobs import batch_document, batch_id, batch_of_id
from rollq.grid.batches import BatchFilter, BatchView
from rollq.grid.commands import BatchName
from rollq.grid.pages import JobFilter
from rollq.web.call import ApiCall, ApiReply, Page
from rollq.web.errors import bad_request
from rollq.web.jobs import FailureGroups, collect


class BatchQuery(Page, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A filter of batches."""

    client: str = ""


async def batches(call: ApiCall) -> ApiReply:
    """Batches, by client and key."""
    wanted: BatchQuery = call.query
    after = _name(wanted.after) if wanted.after else BatchName("", "")
    key = BatchFilter(wanted.client, after.client_id, after.batch_key)
    rows = await call.links.read(
        list[BatchView], "batches", msgspec.msgpack.encode(key), wanted.limit
    )
    last = rows[-1] if len(rows) == wanted.limit else None
    return ApiReply(
        {
            "batches": [batch_document(row) for row in rows],
            "after": batch_id(last.client_id, last.batch_key) if last else None,
        }
    )


async def batch(call: ApiCall) -> ApiReply:
    """One batch."""
    return ApiReply(batch_document(await _known_batch(call)))


async def failures(call: ApiCall) -> ApiReply:
    """Failed and dead jobs of the batch's client, grouped by cause: which of them belong to the
    batch is not recorded. `whole` is false if not all were examined."""
    found = await _known_batch(call)
    groups = FailureGroups()
    is_whole = True
    for state in (FAILED, DEAD):
        is_whole &= await collect(call, JobFilter(state, client_id=found.client_id), groups)
    return ApiReply({"groups": groups.rows(), "whole": is_whole})


async def _known_batch(call: ApiCall) -> BatchView:
    name = _name(call.path["id"])
    row = await call.links.find(BatchView, "batch", msgspec.msgpack.encode(name))
    if row is None:
        raise StateError(
            ErrorCode.UNKNOWN_BATCH,
            f"no batch {name.batch_key[:64]!r} of client {name.client_id[:64]!r}",
            "it was never staged here, or it was dropped or accepted so long ago that it is "
            "forgotten",
        )
    return row


def _name(text: str) -> BatchName:
    try:
        return BatchName(*batch_of_id(text))
    except ValueError as error:
        raise bad_request(str(error), "use the `id` of a row of GET /batches") from None
