from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.federation_limits import (
    GOSSIP_ADDRESS_BYTES_MAX,
    GOSSIP_AGE_MS_MAX,
    GOSSIP_DATAGRAM_BYTES_MAX,
    GOSSIP_GROUP_BYTES_MAX,
)
from rollq.base.limits import CLUSTER_ID_BYTES_MAX, TERM_MAX
from rollq.gossip.codec import (
    HEAD_BYTES,
    KEY_ID_BYTES,
    DatagramRefusal,
    decode_datagram,
    encode_datagram,
    in_pages,
    packed,
    signed,
)
from rollq.gossip.records import (
    AGE_S_MAX,
    COUNT_MAX,
    Ack,
    Datagram,
    Figures,
    NodeUpdate,
    Probe,
    ProbeFor,
    Standing,
    Sync,
)
from rollq.security import federation_key
from tests.unit.gossip.kit import NOW_MS, alive, datagram, node_id, record

OLD = (b"old.", b"o" * 32)
NEW = (b"new.", b"n" * 32)
SAID = (Probe(1, node_id(2)), Ack(2**63 - 1, node_id(2)), ProbeFor(0, node_id(3)), Sync(asks=True))
WHOLE = datagram(1, SAID[0], alive(2), NodeUpdate(Standing.LEFT, 60, record(3, leads=True, term=9)))


def by_insider(body: Any) -> bytes:
    """Whatever, signed by somebody who has the key."""
    return signed(NEW, body if isinstance(body, bytes) else msgspec.msgpack.encode(body))


@pytest.mark.parametrize("said", SAID)
def test_what_is_said_comes_back(said: Any) -> None:
    told = msgspec.structs.replace(WHOLE, message=said)
    assert decode_datagram([NEW], encode_datagram(NEW, told), NOW_MS) == told


def test_either_of_two_keys_is_taken_and_no_other() -> None:
    by_old, by_new = encode_datagram(OLD, WHOLE), encode_datagram(NEW, WHOLE)
    assert decode_datagram([NEW, OLD], by_old, NOW_MS) == WHOLE
    assert decode_datagram([OLD, NEW], by_new, NOW_MS) == WHOLE
    assert decode_datagram([NEW], by_old, NOW_MS) is DatagramRefusal.NO_KEY
    renamed = by_old[:1] + NEW[0] + by_old[1 + KEY_ID_BYTES :]
    assert decode_datagram([NEW, OLD], renamed, NOW_MS) is DatagramRefusal.BAD_MAC
    assert federation_key.KEY_ID_BYTES == KEY_ID_BYTES


def test_no_bit_can_be_changed_and_no_byte_be_missing() -> None:
    data = encode_datagram(NEW, WHOLE)
    for place in range(len(data)):
        for bit in range(8):
            bad = bytearray(data)
            bad[place] ^= 1 << bit
            assert isinstance(decode_datagram([NEW], bytes(bad), NOW_MS), DatagramRefusal)
        assert isinstance(decode_datagram([NEW], data[:place], NOW_MS), DatagramRefusal)
    assert decode_datagram([NEW], data + b"\0", NOW_MS) is DatagramRefusal.BAD_MAC


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", DatagramRefusal.BAD_VERSION),
        (b"\x01" * HEAD_BYTES, DatagramRefusal.BAD_VERSION),
        (b"\x02" + encode_datagram(NEW, WHOLE)[1:], DatagramRefusal.BAD_VERSION),
        (b"\x01" + bytes(GOSSIP_DATAGRAM_BYTES_MAX), DatagramRefusal.TOO_LONG),
        (b"\x01" + bytes(100), DatagramRefusal.NO_KEY),
        (by_insider(b"\xc1"), DatagramRefusal.BAD_BODY),
        (by_insider(b"\x91" * 1_000), DatagramRefusal.BAD_BODY),  # depth
        (
            by_insider(b"\xdd\xff\xff\xff\xff"),
            DatagramRefusal.BAD_BODY,
        ),  # four billion of something
        (by_insider([]), DatagramRefusal.BAD_BODY),
        (by_insider({"sent_ms": NOW_MS}), DatagramRefusal.BAD_BODY),
    ],
)
def test_what_is_no_datagram_is_refused(data: bytes, why: DatagramRefusal) -> None:
    assert decode_datagram([NEW], data, NOW_MS) is why


@pytest.mark.parametrize("off_ms", [-GOSSIP_AGE_MS_MAX - 1, GOSSIP_AGE_MS_MAX + 1])
def test_an_old_one_is_a_replay_and_one_of_tomorrow_too(off_ms: int) -> None:
    data = encode_datagram(NEW, WHOLE)
    assert decode_datagram([NEW], data, NOW_MS + off_ms) is DatagramRefusal.TOO_OLD
    just = off_ms + (1 if off_ms < 0 else -1)
    assert decode_datagram([NEW], data, NOW_MS + just) == WHOLE


@pytest.mark.parametrize(
    "fields",
    [
        {"node_id": b"short"},
        {"kind": 2},
        {"group": "g" * (GOSSIP_GROUP_BYTES_MAX + 1)},
        {"group": "ö" * GOSSIP_GROUP_BYTES_MAX},  # twice as many bytes
        {"group": "\x1b[2J"},
        {"cluster_id": bytes(CLUSTER_ID_BYTES_MAX + 1)},
        {"address": "no-port"},
        {"address": ":5000"},
        {"address": "host:0"},
        {"address": "host:99999"},
        {"address": "host:٣٤٥"},
        {"address": "a\nb:5000"},
        {"address": "a b:5000"},
        {"address": "a,b:5000"},
        {"address": "h" * GOSSIP_ADDRESS_BYTES_MAX + ":5000"},
        {"incarnation": -1},
        {"incarnation": NOW_MS + 2 * GOSSIP_AGE_MS_MAX + 1},  # which nobody could outbid
        {"term": TERM_MAX + 1},
        {"figures": Figures(COUNT_MAX + 1)},
        {"figures": Figures(-1)},
    ],
)
def test_whoever_has_the_key_may_still_not_say_everything(fields: dict[str, Any]) -> None:
    told = datagram(1, SAID[0], NodeUpdate(Standing.ALIVE, 0, record(2, **fields)))
    assert decode_datagram([NEW], by_insider(told), NOW_MS) is DatagramRefusal.BAD_BODY


@pytest.mark.parametrize(
    "fields",
    [
        {"address": "x"},
        {"address": "\x07bell:5000"},
        {"sender": b""},
        {"sent_ms": -5},
        {"updates": (NodeUpdate(Standing.ALIVE, AGE_S_MAX + 1, record(2)),)},
        {"updates": (NodeUpdate(4, 0, record(2)),)},  # type: ignore[arg-type]
        {"message": Probe(-1, node_id(1))},
    ],
)
def test_nor_around_it(fields: dict[str, Any]) -> None:
    told = msgspec.structs.replace(WHOLE, **fields)
    assert decode_datagram([NEW], by_insider(told), NOW_MS) is DatagramRefusal.BAD_BODY


def test_a_newer_version_may_add_fields_at_the_end() -> None:
    rows = msgspec.to_builtins(WHOLE, builtin_types=(bytes,))
    newer = [*rows, "new"]
    newer[4] = [[*one[:2], [*one[2], "new"], "new"] for one in rows[4]]
    assert decode_datagram([NEW], by_insider(newer), NOW_MS) == WHOLE


def largest(number: int) -> NodeUpdate:
    host = f"{number:0{GOSSIP_ADDRESS_BYTES_MAX - 6}d}"
    figures = Figures(*([COUNT_MAX] * 5))
    fields = {"group": "g" * GOSSIP_GROUP_BYTES_MAX, "cluster_id": bytes(CLUSTER_ID_BYTES_MAX)}
    told = record(2, **fields, address=f"{host}:50000", incarnation=NOW_MS)
    whole = msgspec.structs.replace(told, leads=True, term=TERM_MAX, figures=figures)
    return NodeUpdate(Standing.DEAD, AGE_S_MAX, whole)


def test_the_largest_news_fit_into_the_largest_datagram() -> None:
    updates = [largest(number) for number in range(5)]
    pages = list(in_pages(updates))
    assert [one for page in pages for one in page] == updates
    for page in (*pages, packed(alive(number) for number in range(2, 200))):
        assert page
        told = Datagram(
            2**62, node_id(1), largest(1).record.address, Ack(2**63 - 1, node_id(2)), page
        )
        assert len(encode_datagram(NEW, told)) <= GOSSIP_DATAGRAM_BYTES_MAX
    assert len(packed(alive(number) for number in range(2, 200))) > 8
    assert packed([]) == ()
