"""From event to row: the columns of the history, and their version. Pure.

One row is one JSON line. A column may be added; none is removed or changes its meaning, so a line
of any version can be read by today's reader. Ids are in their text form, because people, `jq` and
Spark read these lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from rollq.base.edges import CONDITION_WORDS, each_edge
from rollq.base.ids import GUID_TEXT_BYTES, guid_to_text, guids_to_text
from rollq.base.requests import request_document, request_in
from rollq.base.staged import KEY_END
from rollq.grid.events import Event, Run, each

SCHEMA_VERSION = 1
PATTERN_JOBS_MIN: Final = 32  # a pattern for fewer costs more than it saves
REQUIRED: Final = ("index", "ordinal", "ts", "type")  # always written; others if they are set


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
    request: str = ""  # of a new job or array: its request, as JSON
    by: str = ""  # of requests: the account, or the client id
    account: str = ""  # the account or role that was changed
    action: str = ""  # that was refused, or done
    resource: str = ""  # that it was refused or done on
    address: str = ""  # address of the requester
    parents: str = ""  # of a new job: the ids it waits for, with conditions, as JSON


def to_lines(index: int, stamp_ms: int, events: Iterable[Event]) -> list[bytes]:
    """The JSON lines of one log index, without line ends."""
    return to_text(index, stamp_ms, events).split(b"\n")[:-1]


def to_text(index: int, stamp_ms: int, events: Iterable[Event]) -> bytes:
    """The JSON lines of one log index, each with its line end."""
    pieces: list[bytes] = []
    ordinal = 0
    for event in events:
        if event.run is None or event.run.count < PATTERN_JOBS_MIN:
            for one in each(event):
                pieces.append(_encode(to_row(index, ordinal, stamp_ms, one)))
                ordinal += 1
        else:
            pieces.append(_run_text(index, ordinal, stamp_ms, event, event.run))
            ordinal += event.run.count
    pieces.append(b"")
    return b"\n".join(pieces)


def from_line(line: bytes) -> HistoryRow:
    """The row that a line of any version holds."""
    return _decoder.decode(line)


def _run_text(index: int, ordinal: int, stamp_ms: int, event: Event, run: Run) -> bytes:
    """The lines of a run, without the last line end: what its jobs share is written once, into a
    pattern for each of them."""
    shared = msgspec.structs.asdict(to_row(index, ordinal, stamp_ms, event))
    differ = _columns(ordinal, event, run)
    pattern: list[str] = []
    columns: list[Iterable[object]] = []
    for name, value in shared.items():
        column = differ.get(name)
        if column is None:
            if value or name in REQUIRED:
                pattern.append(f',"{name}":{_json(value)}'.replace("%", "%%"))
        elif name == "jobId":
            pattern.append(',"jobId":"%s"')
            columns.append(column)
        elif name in REQUIRED or all(column):
            pattern.append(f',"{name}":%s')
            columns.append(column)
        else:  # empty values are omitted
            pattern.append("%s")
            columns.append([f',"{name}":{one}' if one else "" for one in column])
    line = "{" + "".join(pattern)[1:] + "}"
    rows = map(line.__mod__, zip(*columns, strict=True))
    return "\n".join(rows).encode()


def _columns(ordinal: int, event: Event, run: Run) -> dict[str, Sequence[object]]:
    """The columns of a run, by name: numbers, or JSON."""
    count = run.count
    ids = guids_to_text(run.job_ids).decode("ascii")
    starts = range(0, len(ids), GUID_TEXT_BYTES)
    columns: dict[str, Sequence[object]] = {
        "ordinal": range(ordinal, ordinal + count),
        "jobId": [ids[start : start + GUID_TEXT_BYTES] for start in starts],
        "runMs": run.run_ms,
        "peakBytes": run.peak_bytes,
        "fetchedBytes": run.fetched_bytes,
        "heldBytes": run.held_bytes,
        "bodyBytes": run.body_bytes,
        "blobBytes": run.blob_bytes,
        "fence": run.fences,
    }
    if event.fence and not run.fences:
        columns["fence"] = range(event.fence, event.fence + count)
    if run.keys:
        columns["jobKey"] = [_json(key) if key else "" for key in run.keys.split(KEY_END)]
    if run.requests:
        columns["request"] = [_json(request_text(one)) if one else "" for one in run.requests]
    return {name: column for name, column in columns.items() if column}


def to_row(index: int, ordinal: int, stamp_ms: int, event: Event) -> HistoryRow:
    """The row of an event that stands for one fact."""
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
        request_text(event.request),
        *(() if event.access is None else msgspec.structs.astuple(event.access)),
        **({"parents": parents_text(event.parents)} if event.parents else {}),
    )


def parents_text(edges: bytes) -> str:
    """The parents of a job, as JSON: {"id": "ok", …}."""
    words = {guid_to_text(one): CONDITION_WORDS[word] for one, word, _ in each_edge(edges)}
    return _json(words)


def _json(value: object) -> str:
    return _encode(value).decode()


def request_text(body: bytes) -> str:
    """The request of a job, as JSON; empty if unknown."""
    return _json(request_document(request_in(body))) if body else ""


_encode = msgspec.json.Encoder().encode
_text = lru_cache(16_384)(guid_to_text)  # the rows of one job are not far from each other
_decoder = msgspec.json.Decoder(HistoryRow)
