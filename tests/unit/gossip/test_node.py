"""What a node may call itself."""

from __future__ import annotations

import pytest

from rollq.base.errors import LocalError
from rollq.gossip.node import GossipNode, OwnNode
from rollq.gossip.records import NodeKind
from rollq.gossip.setup import FederationSetup
from rollq.roles.service import SystemClock, SystemJitter
from rollq.security.federation_key import FederationKey
from tests.unit.gossip.kit import node_id

SETUP = FederationSetup((FederationKey(b"key.", b"k" * 32),))


@pytest.mark.parametrize(
    ("group", "address"),
    [("g\n", "a:5000"), ("g", "a b:5000"), ("g", "a,b:5000"), ("g", "a:0"), ("g", "a")],
)
def test_what_others_would_refuse_is_refused_at_the_start(group: str, address: str) -> None:
    own = OwnNode(node_id(1), NodeKind.MEMBER, group=group, address=address)
    with pytest.raises(LocalError, match="cannot be used in a federation"):
        GossipNode(SETUP, own, SystemClock(), SystemJitter())


def test_any_printable_group_and_a_dialable_address_will_do() -> None:
    own = OwnNode(node_id(1), NodeKind.MEMBER, group="größe 1", address="[::1]:5000")
    assert GossipNode(SETUP, own, SystemClock(), SystemJitter()).machine.me.address == "[::1]:5000"
