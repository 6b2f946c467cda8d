from __future__ import annotations

import zlib

import msgspec
import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import RECORD_BYTES_MAX
from rollq.raft.types import Entry, HardState, Position
from rollq.store import record
from rollq.store.identity import IdentityHead, decode_head, encode_head, note_boot
from rollq.store.record import (
    HEADER_BYTES,
    MAGIC,
    Kind,
    decode_body,
    decode_entries,
    decode_header,
    encode_entries,
    encode_header,
    find_headers,
    stuff,
    unstuff,
)
from tests.unit.store.kit import IDENTITY, entry


def _encode(body: bytes, kind: int = Kind.ENTRIES, seq: int = 4) -> bytes:
    header, _ = encode_header(
        kind=kind,
        segment=3,
        seq=seq,
        synced_seq=seq - 1,
        prev_crc=99,
        hard_state=HardState(5, 6, 7),
        first_index=1,
        last=Position(1, 2),
        body=body,
    )
    return header + body


def test_a_record_reads_back() -> None:
    entries = [entry(1), entry(2)]
    data = _encode(encode_entries(entries))
    header = decode_header(data, 0, 3)
    assert header is not None
    assert (header.seq, header.synced_seq, header.prev_crc) == (4, 3, 99)
    assert (header.hard_state, header.last) == (HardState(5, 6, 7), Position(1, 2))
    assert header.record_bytes == len(data)
    body = decode_body(header, data, 0)
    assert body is not None
    assert decode_entries(header, body) == entries


def test_the_layout_is_the_one_in_the_documentation() -> None:
    body = encode_entries([entry(1), entry(2)])
    words = (3, 4, 3, 5, 6, 7, 1, 2, 1)  # segment, seq, synced; hard state; first, last, last_term
    fixed = b"RQW\x01" + bytes([1, 2, 0, 0]) + b"".join(n.to_bytes(8, "little") for n in words)
    for number in (99, len(body), zlib.crc32(body)):
        fixed += number.to_bytes(4, "little")
    assert _encode(body) == fixed + zlib.crc32(fixed).to_bytes(4, "little") + body
    assert HEADER_BYTES == 96


def test_every_flipped_bit_is_noticed() -> None:
    data = _encode(encode_entries([entry(1), entry(2)]))
    for place in range(len(data) * 8):
        bad = bytearray(data)
        bad[place // 8] ^= 1 << place % 8
        header = decode_header(bytes(bad), 0, 3)
        if place < HEADER_BYTES * 8:
            assert header is None
        else:
            assert header is not None
            assert decode_body(header, bytes(bad), 0) is None


def test_a_header_of_another_segment_or_a_cut_one_is_none() -> None:
    data = _encode(b"")
    assert decode_header(data, 0, 4) is None
    assert decode_header(data[:-1], 0, 3) is None
    assert decode_header(data, 1, 3) is None


def test_an_unknown_version_or_kind_stops_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = _encode(b"", kind=77)
    monkeypatch.setattr(record, "VERSION", 2)
    newer = _encode(b"")
    monkeypatch.undo()
    for data in (strange, newer):
        with pytest.raises(DiskError) as caught:
            decode_header(data, 0, 3)
        assert caught.value.code is ErrorCode.DISK_VERSION
        assert "newer" in caught.value.hint


def test_a_length_over_the_limit_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocalError):
        _encode(bytes(RECORD_BYTES_MAX + 1))
    data = _encode(bytes(50))
    monkeypatch.setattr(record, "RECORD_BYTES_MAX", 49)
    assert decode_header(data, 0, 3) is None


@pytest.mark.parametrize(
    "body",
    [b"", MAGIC, MAGIC[:3], MAGIC[:3] * 3, MAGIC[:3] + b"\0\0", b"R" + MAGIC, b"RQ", b"WRQWRQ"],
)
def test_a_stuffed_body_never_holds_the_magic(body: bytes) -> None:
    assert MAGIC not in stuff(body) + MAGIC[:3]
    assert unstuff(stuff(body)) == body


def test_a_payload_cannot_pretend_to_be_a_header() -> None:
    forged = _encode(b"", seq=9)
    data = _encode(encode_entries([Entry(1, 1, 0, forged), Entry(1, 2)]))
    assert [offset for offset, _ in find_headers(data + forged, 0, 3)] == [0, len(data)]


def test_entries_that_the_header_does_not_name_are_refused() -> None:
    for entries in (
        [entry(1)],
        [entry(1), entry(3)],
        [entry(2), entry(3)],
        [entry(1), entry(2, 2)],
    ):
        data = _encode(encode_entries(entries))
        header = decode_header(data, 0, 3)
        assert header is not None
        assert decode_entries(header, encode_entries(entries)) is None
    header = decode_header(_encode(b"\xc1"), 0, 3)
    assert header is not None
    assert decode_entries(header, b"\xc1") is None
    assert decode_entries(header, b"") == []


def test_a_head_reads_back_and_other_bytes_do_not() -> None:
    head = IdentityHead(IDENTITY, {3: 4}, Position(1, 2))
    assert decode_head(encode_head(head)) == head
    assert decode_head(b"\xc1") is None
    # As it was written before groups were noted.
    older = msgspec.msgpack.encode(msgspec.structs.astuple(head)[:5])
    assert decode_head(stuff(older)) == head


def test_boot_notes_keep_the_newest_and_are_bounded() -> None:
    notes: dict[int, int] = {}
    for member in range(100):
        notes = note_boot(notes, member, member)
    assert list(notes) == list(range(36, 100))
    assert note_boot({1: 5}, 1, 3) == {1: 5}
