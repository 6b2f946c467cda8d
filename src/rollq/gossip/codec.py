"""Datagrams as bytes, and back. Pure.

    version (1 byte) | id of the key (4) | HMAC-SHA256 of all else, its first 16 bytes | msgpack

Nothing of a datagram is looked at before its authentication is verified, but for its length, its
version and the id of its key. What is said then is still checked: whoever has the key may say what
nodes say, and no more.
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
from rollq.gossip.records import Datagram, News, NodeRecord

VERSION: Final = 1
KEY_ID_BYTES: Final = 4
MAC_BYTES: Final = 16
HEAD_BYTES: Final = 1 + KEY_ID_BYTES + MAC_BYTES
MAC_OF: Final = b"rollq gossip 1"
# Of what is around the news: numbers, ids and the longest address.
ENVELOPE_BYTES_MAX: Final = HEAD_BYTES + GOSSIP_ADDRESS_BYTES_MAX + 64
NEWS_BYTES_MAX: Final = GOSSIP_DATAGRAM_BYTES_MAX - ENVELOPE_BYTES_MAX

Key: TypeAlias = tuple[bytes, bytes]  # its id, and the key


class Refusal(enum.StrEnum):
    """Why a datagram is ignored."""

    TOO_LONG = "too_long"
    BAD_VERSION = "bad_version"  # or it is too short to have one
    NO_KEY = "no_key"  # signed with a key that we have not
    BAD_MAC = "bad_mac"
    BAD_BODY = "bad_body"  # it breaks a rule of the format
    TOO_OLD = "too_old"  # or from the future


def encode_datagram(key: Key, datagram: Datagram) -> bytes:
    """A datagram, signed."""
    return signed(key, _encode(datagram))


def signed(key: Key, body: bytes) -> bytes:
    """What is said, as it is sent."""
    head = bytes((VERSION,)) + key[0]
    return head + _mac(key[1], head, body) + body


def decode_datagram(keys: Sequence[Key], data: bytes, now_ms: int) -> Datagram | Refusal:
    """What somebody sent who has one of these keys, if the clocks agree; else why it is ignored."""
    if len(data) > GOSSIP_DATAGRAM_BYTES_MAX:
        return Refusal.TOO_LONG
    if len(data) <= HEAD_BYTES or data[0] != VERSION:
        return Refusal.BAD_VERSION
    head, mac = data[: HEAD_BYTES - MAC_BYTES], data[HEAD_BYTES - MAC_BYTES : HEAD_BYTES]
    body = data[HEAD_BYTES:]
    key = next((key for key_id, key in keys if key_id == head[1:]), None)
    if key is None:
        return Refusal.NO_KEY
    if not hmac.compare_digest(mac, _mac(key, head, body)):
        return Refusal.BAD_MAC
    try:
        datagram = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Refusal.BAD_BODY
    if abs(datagram.sent_ms - now_ms) > GOSSIP_AGE_MS_MAX:
        return Refusal.TOO_OLD
    # Both clocks may be off: by their difference at most, which is bounded, and that of a third.
    is_sound = _is_address(datagram.address) and all(
        _is_sound(news.record, now_ms + 2 * GOSSIP_AGE_MS_MAX) for news in datagram.news
    )
    return datagram if is_sound else Refusal.BAD_BODY


def packed(news: Iterable[News]) -> tuple[News, ...]:
    """As many of these, in this order, as fit into one datagram."""
    return next(in_pages(news), ())


def in_pages(news: Iterable[News]) -> Iterator[tuple[News, ...]]:
    """All of these, as they fit into datagrams."""
    page: list[News] = []
    room = NEWS_BYTES_MAX
    for one in news:
        size = len(_encode(one))
        if size > room:
            yield tuple(page)
            page, room = [], NEWS_BYTES_MAX
        page.append(one)
        room -= size
    if page:
        yield tuple(page)


def is_name(text: str, bytes_max: int) -> bool:
    """Whether a name may be told: it is text that terminals show as it is, and short enough."""
    return text.isprintable() and len(text.encode(errors="replace")) <= bytes_max


def _is_sound(record: NodeRecord, incarnation_max: int) -> bool:
    """Incarnations begin with the time of a start: one far in the future could not be refuted."""
    return (
        record.incarnation <= incarnation_max
        and is_name(record.group, GOSSIP_GROUP_BYTES_MAX)
        and _is_address(record.address)
    )


def _is_address(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return (
        bool(host)
        and is_name(address, GOSSIP_ADDRESS_BYTES_MAX)
        and port.isascii()
        and port.isdecimal()
        and 0 < int(port[:6]) < 65_536
    )


def _mac(key: bytes, head: bytes, body: bytes) -> bytes:
    return hmac.digest(key, MAC_OF + head + body, "sha256")[:MAC_BYTES]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Datagram).decode
