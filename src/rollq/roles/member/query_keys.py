"""Decoders of view keys, and their bounds."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.limits import (
    ACTION_BYTES_MAX,
    BATCH_KEY_BYTES_MAX,
    CLIENT_ID_BYTES_MAX,
    EXEC_NAME_BYTES_MAX,
    JOB_KEY_BYTES_MAX,
    QUEUE_NAME_BYTES_MAX,
)
from rollq.grid import batches, matching, pages
from rollq.grid.commands import BatchName
from rollq.wire.rules import Free, Int, Text, bounds, compile_bounds

PLACE_BYTES_MAX = 8  # of a key that is a number, big-endian
PLACE_MAX = 2**62  # far beyond any log index; counting on from there cannot overflow
DIGITS_MAX = 32  # of an id
SEARCH_BYTES_MAX = 256  # of a text that jobs are searched for


class JobPlace(NamedTuple):
    """A job, and the log index to read its events back from; 0: from the newest."""

    job_id: JobId
    before: int


def no_key(key: bytes) -> None:
    """The key is ignored."""


def some_id(key: bytes) -> bytes:
    """An id, or the last id of the page before."""
    return key


def name_key(key: bytes) -> str:
    """A name, or the last name of the page before."""
    return key.decode()


def place_key(key: bytes) -> int:
    """A page position: a number, big-endian."""
    place = int.from_bytes(key, "big")
    if place > PLACE_MAX:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            "the page key is out of range",
            f"send a number up to {PLACE_MAX}, big-endian, in {PLACE_BYTES_MAX} bytes at most",
        )
    return place


def job_place(key: bytes) -> JobPlace:
    """A job id, followed by a page position."""
    return JobPlace(key[:GUID_BYTES], place_key(key[GUID_BYTES:]))


def job_filter(key: bytes) -> matching.JobFilter:
    """A filter of jobs; empty: all jobs."""
    wanted = _decode_filter(key) if key else matching.JobFilter()
    _check_filter(wanted)
    return wanted


def id_filter(key: bytes) -> pages.IdFilter:
    """A filter of ids."""
    wanted = _decode_ids(key)
    _check_ids(wanted)
    return wanted


def batch_name(key: bytes) -> BatchName:
    """The client and key of a batch."""
    name = _decode_batch(key)
    _check_batch(name)
    return name


def batch_filter(key: bytes) -> batches.BatchFilter:
    """A filter of batches; empty: all batches."""
    wanted = _decode_batches(key) if key else batches.BatchFilter()
    _check_batches(wanted)
    return wanted


_decode_batch = msgspec.msgpack.Decoder(BatchName).decode
_decode_batches = msgspec.msgpack.Decoder(batches.BatchFilter).decode
_decode_ids = msgspec.msgpack.Decoder(pages.IdFilter).decode
_decode_filter = msgspec.msgpack.Decoder(matching.JobFilter).decode
_check_ids = compile_bounds(
    pages.IdFilter,
    bounds(first=Text(DIGITS_MAX), last=Text(DIGITS_MAX), before=Int(0, PLACE_MAX)),
    {},
)
_check_batch = compile_bounds(
    BatchName,
    bounds(client_id=Text(CLIENT_ID_BYTES_MAX), batch_key=Text(BATCH_KEY_BYTES_MAX)),
    {},
)
_check_batches = compile_bounds(
    batches.BatchFilter,
    bounds(
        client_id=Text(CLIENT_ID_BYTES_MAX),
        after_client=Text(CLIENT_ID_BYTES_MAX),
        after_key=Text(BATCH_KEY_BYTES_MAX),
    ),
    {},
)
_check_filter = compile_bounds(
    matching.JobFilter,
    bounds(
        state=Text(ACTION_BYTES_MAX),
        queue=Text(QUEUE_NAME_BYTES_MAX),
        client_id=Text(CLIENT_ID_BYTES_MAX),
        exec_name=Text(EXEC_NAME_BYTES_MAX),
        after=Int(0, PLACE_MAX),
        newest=Free(),
        key=Text(JOB_KEY_BYTES_MAX),
        text=Text(SEARCH_BYTES_MAX),
        since_ms=Int(0, PLACE_MAX),
        until_ms=Int(0, PLACE_MAX),
    ),
    {},
)
