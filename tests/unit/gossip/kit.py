"""Nodes and datagrams for tests of gossip."""

from __future__ import annotations

from typing import Any

import msgspec

from rollq.gossip.machine import GossipMachine
from rollq.gossip.records import Datagram, Message, NodeKind, NodeRecord, NodeUpdate, Standing
from rollq.testing.jitter import SeededJitter

NOW_MS = 1_700_000_000_000


def node_id(number: int) -> bytes:
    """The id of a node."""
    return number.to_bytes(8, "big")


def record(number: int, **fields: Any) -> NodeRecord:
    """What a node says of itself."""
    made = NodeRecord(
        node_id(number),
        NodeKind.MEMBER,
        group=f"g{number}",
        cluster_id=node_id(number),
        address=f"10.0.0.{number}:5000",
        incarnation=100,
    )
    return msgspec.structs.replace(made, **fields)


def alive(number: int, **fields: Any) -> NodeUpdate:
    """That a node is there."""
    return NodeUpdate(Standing.ALIVE, 0, record(number, **fields))


def datagram(sender: int, said: Message, *updates: NodeUpdate) -> Datagram:
    """What a node sends."""
    return Datagram(NOW_MS, node_id(sender), f"10.0.0.{sender}:5000", said, updates)


def machine(*seeds: int) -> GossipMachine:
    """Node 1, at 0 ms of its clock."""
    addresses = [f"10.0.0.{seed}:5000" for seed in seeds]
    return GossipMachine(record(1), addresses, SeededJitter("gossip"), 0)
