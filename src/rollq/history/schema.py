"""From event to row: the columns of the history, and their version. Pure.

One row is one JSON line. A column may be added; none is removed or changes its meaning, so a line
of any version can be read by today's reader. Ids are in their text form, because people, `jq` and
Spark read these lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from rollq.base.ids import guid_to_text
from rollq.base.requests import request_document, request_in
from rollq.grid.events import Event, each_of

SCHEMA_VERSION = 1


class HistoryRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fact with its place. `index` comes first, so that a reader can skip by prefix."""

    index: int
    ordinal: int
    ts: int  # the leader's wall clock in milliseconds when it proposed the entry
    type: str  # the legacy name of the event
    jobId: str = ""  # noqa: N815 - the legacy column names
    clientId: str = ""  # noqa: N815
    queue: str = ""
    execName: str = ""  # noqa: N815
    workerId: str = ""  # noqa: N815
    attempt: int = 0
    fence: int = 0
    priority: int = 0
    delayMs: int = 0  # noqa: N815
    leaseMs: int = 0  # noqa: N815
    status: int = 0
    cause: int = 0
    exitCode: int = 0  # noqa: N815
    signal: int = 0
    runMs: int = 0  # noqa: N815
    peakBytes: int = 0  # noqa: N815
    bodyBytes: int = 0  # noqa: N815
    count: int = 0
    arrayId: str = ""  # noqa: N815
    detail: str = ""
    cacheId: str = ""  # noqa: N815
    blobBytes: int = 0  # noqa: N815
    fetchedBytes: int = 0  # noqa: N815
    heldBytes: int = 0  # noqa: N815
    jobKey: str = ""  # noqa: N815
    request: str = ""  # of a new job or array: what it was asked to run, as JSON


def to_lines(index: int, stamp_ms: int, events: Iterable[Event]) -> list[bytes]:
    """The JSON lines of one log index, without line ends."""
    return [_encode(_row(index, n, stamp_ms, event)) for n, event in enumerate(each_of(events))]


def from_line(line: bytes) -> HistoryRow:
    """The row that a line of any version holds."""
    return _decoder.decode(line)


def _row(index: int, ordinal: int, stamp_ms: int, event: Event) -> HistoryRow:
    return HistoryRow(
        index,
        ordinal,
        stamp_ms,
        event.kind,
        _text(event.job_id) if event.job_id else "",
        event.client_id,
        event.queue,
        event.exec_name,
        _text(event.worker_id) if event.worker_id else "",
        event.attempt,
        event.fence,
        event.priority,
        event.delay_ms,
        event.lease_ms,
        int(event.status),  # an enum of 0 would be written out, a plain 0 is not
        int(event.cause),
        event.exit_code,
        event.signal,
        event.run_ms,
        event.peak_bytes,
        event.body_bytes,
        event.count,
        _text(event.array_id) if event.array_id else "",
        event.detail,
        event.cache_id,
        event.blob_bytes,
        event.fetched_bytes,
        event.held_bytes,
        event.job_key,
        _request(event.request) if event.request else "",
    )


def _request(body: bytes) -> str:
    return _encode(request_document(request_in(body))).decode()


_encode = msgspec.json.Encoder().encode
_text = lru_cache(16_384)(guid_to_text)  # the rows of one job are not far from each other
_decoder = msgspec.json.Decoder(HistoryRow)
