"""Encoding and authentication of datagrams. Pure.

    version (1 byte) | key id (4) | first 16 bytes of HMAC-SHA256 over all the rest | msgpack

Before the HMAC is verified only the length, the version and the key id are read. The content is
validated after that too: a holder of the key can still send invalid or hostile records.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from rollq.base.federation_limits import (
    GOSSIP_ADDRESS_BYTES_MAX,
    GOSSIP_AGE_MS_MAX,
    GOSSIP_DATAGRAM_BYTES_MAX,
    GOSSIP_GROUP_BYTES_MAX,
)
from rollq.gossip.records import Datagram, NodeRecord, NodeUpdate

VERSION: Final = 1
KEY_ID_BYTES: Final = 4
MAC_BYTES: Final = 16
HEAD_BYTES: Final = 1 + KEY_ID_BYTES + MAC_BYTES
MAC_OF: Final = b"rollq gossip 1"
# Upper bound of everything but the updates: header, numbers, ids and the longest address.
ENVELOPE_BYTES_MAX: Final = HEAD_BYTES + GOSSIP_ADDRESS_BYTES_MAX + 64
NEWS_BYTES_MAX: Final = GOSSIP_DATAGRAM_BYTES_MAX - ENVELOPE_BYTES_MAX

Key: TypeAlias = tuple[bytes, bytes]  # (key id, key)


class DatagramRefusal(enum.StrEnum):
    """Why a datagram was dropped."""

    TOO_LONG = "too_long"
    BAD_VERSION = "bad_version"  # or too short to hold one
    NO_KEY = "no_key"  # the key id is not in our key file
    BAD_MAC = "bad_mac"
    BAD_BODY = "bad_body"  # not valid msgpack, or a field is out of range
    TOO_OLD = "too_old"  # or from the future


def encode_datagram(key: Key, datagram: Datagram) -> bytes:
    """Encode and sign a datagram."""
    return signed(key, _encode(datagram))


def signed(key: Key, body: bytes) -> bytes:
    """Prepend the header and the HMAC to an encoded body."""
    head = bytes((VERSION,)) + key[0]
    return head + _mac(key[1], head, body) + body


def decode_datagram(keys: Sequence[Key], data: bytes, now_ms: int) -> Datagram | DatagramRefusal:
    """Verify and decode a datagram; a refusal if it is not authentic, not valid or too old."""
    if len(data) > GOSSIP_DATAGRAM_BYTES_MAX:
        return DatagramRefusal.TOO_LONG
    if len(data) <= HEAD_BYTES or data[0] != VERSION:
        return DatagramRefusal.BAD_VERSION
    head, mac = data[: HEAD_BYTES - MAC_BYTES], data[HEAD_BYTES - MAC_BYTES : HEAD_BYTES]
    body = data[HEAD_BYTES:]
    key = next((key for key_id, key in keys if key_id == head[1:]), None)
    if key is None:
        return DatagramRefusal.NO_KEY
    if not hmac.compare_digest(mac, _mac(key, head, body)):
        return DatagramRefusal.BAD_MAC
    try:
        datagram = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return DatagramRefusal.BAD_BODY
    if abs(datagram.sent_ms - now_ms) > GOSSIP_AGE_MS_MAX:
        return DatagramRefusal.TOO_OLD
    # The incarnation is from the clock of a third node: allow for two clock differences.
    is_sound = is_address(datagram.address) and all(
        _is_sound(update.record, now_ms + 2 * GOSSIP_AGE_MS_MAX) for update in datagram.updates
    )
    return datagram if is_sound else DatagramRefusal.BAD_BODY


def packed(updates: Iterable[NodeUpdate]) -> tuple[NodeUpdate, ...]:
    """The longest prefix of these updates that fits into one datagram."""
    return next(in_pages(updates), ())


def in_pages(updates: Iterable[NodeUpdate]) -> Iterator[tuple[NodeUpdate, ...]]:
    """Split updates into pages, each of which fits into one datagram."""
    page: list[NodeUpdate] = []
    room = NEWS_BYTES_MAX
    for one in updates:
        size = len(_encode(one))
        if size > room:
            yield tuple(page)
            page, room = [], NEWS_BYTES_MAX
        page.append(one)
        room -= size
    if page:
        yield tuple(page)


def is_name(text: str, bytes_max: int) -> bool:
    """Whether the text is printable (safe on terminals) and not longer than `bytes_max`."""
    return text.isprintable() and len(text.encode(errors="replace")) <= bytes_max


def is_address(address: str) -> bool:
    """Whether it is `host:port`. Addresses of a group are joined by commas for its clients, which
    accept none with a space."""
    host, _, port = address.rpartition(":")
    return (
        bool(host)
        and not any(char == "," or char.isspace() for char in host)
        and is_name(address, GOSSIP_ADDRESS_BYTES_MAX)
        and port.isascii()
        and port.isdecimal()
        and 0 < int(port[:6]) < 65_536
    )


def _is_sound(record: NodeRecord, incarnation_max: int) -> bool:
    """A node's first incarnation is its start time: one far in the future could not be refuted."""
    return (
        record.incarnation <= incarnation_max
        and is_name(record.group, GOSSIP_GROUP_BYTES_MAX)
        and is_address(record.address)
    )


def _mac(key: bytes, head: bytes, body: bytes) -> bytes:
    return hmac.digest(key, MAC_OF + head + body, "sha256")[:MAC_BYTES]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Datagram).decode
