"""The log of a state directory, record by record, as it is on disk, with what is damaged and what a
rewritten log has superseded. Entries are opaque here; the caller decodes commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rollq.raft.types import Entry
from rollq.store.disk import Disk
from rollq.store.identity import IdentityHead, decode_head
from rollq.store.places import segment_name
from rollq.store.record import (
    HEADS,
    Kind,
    RecordHeader,
    decode_body,
    decode_entries,
    decode_header,
    find_headers,
)
from rollq.store.walk import segment_numbers


@dataclass(slots=True)
class Dumped:
    """One range in a segment: a record, or (header None) bytes that are none."""

    segment: int
    offset: int
    size_bytes: int
    header: RecordHeader | None = None
    is_sound: bool = False  # header and body
    head: IdentityHead | None = None
    entries: list[Entry] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of record, or `damage`."""
        return "damage" if self.header is None else Kind(self.header.kind).name.lower()


def dump(disk: Disk) -> Iterator[Dumped]:
    """Everything in all segments, in order. Zeros after the last record are omitted."""
    for number in segment_numbers(disk):
        name = segment_name(number)
        yield from _dump_segment(disk.read(name, 0, max(disk.size(name), 0)), number)


def _dump_segment(data: bytes, number: int) -> Iterator[Dumped]:
    offset = 0
    seq = 0
    while offset < len(data):
        header = decode_header(data, offset, number)
        if header is not None and header.seq > seq:
            yield _record(data, offset, number, header)
            seq = header.seq
            offset += header.record_bytes
            continue
        # A recycled file has old records after the newest: their batches are lower.
        later = ((at, found) for at, found in find_headers(data, offset, number) if found.seq > seq)
        end = next((at for at, _ in later), len(data))
        if end < len(data) or data[offset : offset + 1].strip(b"\0"):
            yield Dumped(number, offset, end - offset)
        offset = end


def _record(data: bytes, offset: int, number: int, header: RecordHeader) -> Dumped:
    record = Dumped(number, offset, header.record_bytes, header)
    body = decode_body(header, data, offset)
    if body is None:
        return record
    if header.kind in HEADS:
        record.head = decode_head(body)
        record.is_sound = record.head is not None
    elif header.kind == Kind.ENTRIES:
        entries = decode_entries(header, body)
        record.entries = entries or []
        record.is_sound = entries is not None
    else:
        record.is_sound = True
    return record
