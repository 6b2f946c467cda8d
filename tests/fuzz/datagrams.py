"""Datagrams of a federation, for strangers to try."""

from __future__ import annotations

from typing import Final

from rollq.gossip.codec import HEAD_BYTES, Key, encode_datagram
from rollq.gossip.records import Ack, Figures, NodeKind, NodeUpdate, Probe, ProbeFor, Standing, Sync
from tests.unit.gossip.kit import alive, datagram, node_id, record

FEDERATION_KEY: Final[Key] = (b"fuzz", b"f" * 32)
_LED: Final = alive(3, leads=True, term=7, figures=Figures(3, 2, 100, 5, 9))
_GONE: Final = NodeUpdate(Standing.DEAD, 60, record(4, kind=NodeKind.ROUTER, group=""))
_MINE: Final = NodeUpdate(Standing.SUSPECT, 0, record(1))
DATAGRAMS: Final = tuple(
    encode_datagram(FEDERATION_KEY, one)
    for one in (
        datagram(2, Probe(7, node_id(1)), alive(2), _MINE),
        datagram(2, Ack(7, node_id(1))),
        datagram(2, ProbeFor(8, node_id(3)), _LED),
        datagram(2, Sync(asks=True), alive(2), _LED, _GONE),
    )
)
BODIES: Final = tuple(data[HEAD_BYTES:] for data in DATAGRAMS)
