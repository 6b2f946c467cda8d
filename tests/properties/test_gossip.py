"""Nodes that received the same updates agree, in whatever order and however often they came;
and no bytes whatever do any harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.federation_limits import GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_NODES_MAX
from rollq.gossip.codec import decode_datagram, encode_datagram, in_pages
from rollq.gossip.nodes import NodeTable
from rollq.gossip.records import Ack, Datagram, NodeUpdate, Probe, ProbeFor, Standing, Sync
from tests.unit.gossip.kit import NOW_MS, machine, node_id, record

KEY = (b"key.", bytes(32))

numbers = st.integers(1, 6)
updates = st.builds(
    lambda number, incarnation, standing, term: NodeUpdate(
        standing, 0, record(number, incarnation=incarnation, term=incarnation, leads=term)
    ),
    st.integers(2, 6),
    st.integers(100, 105),
    st.sampled_from(Standing),
    st.just(value=False),
)
said = st.one_of(
    st.builds(Probe, st.integers(0, 9), numbers.map(node_id)),
    st.builds(Ack, st.integers(0, 9), numbers.map(node_id)),
    st.builds(ProbeFor, st.integers(0, 9), numbers.map(node_id)),
    st.builds(Sync, st.booleans()),
)
datagrams = st.builds(
    lambda sender, what, told: Datagram(
        NOW_MS, node_id(sender), f"10.0.0.{sender}:5000", what, tuple(told)
    ),
    numbers,
    said,
    st.lists(updates, max_size=5),
)


@given(st.lists(updates, max_size=30), st.randoms())
def test_the_order_of_news_does_not_matter(told: list[NodeUpdate], chance: object) -> None:
    shuffled = [*told, *told]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    tables = []
    for heard in (told, shuffled):
        table = NodeTable()
        for one in heard:
            table.merge(one, 0, is_page=False)
        tables.append({(n.record.node_id, n.record.incarnation, n.standing) for n in table})
    assert tables[0] == tables[1]


@given(st.lists(st.tuples(datagrams, st.integers(0, 3_000)), max_size=40))
def test_nothing_that_is_said_breaks_a_node(heard: list[tuple[Datagram, int]]) -> None:
    node = machine(2)
    now_ms = 0
    incarnation = node.me.incarnation
    for datagram, later_ms in heard:
        now_ms += later_ms
        for send in (*node.receive(datagram, now_ms), *node.tick(now_ms)):
            sent = Datagram(NOW_MS, node.me.node_id, node.me.address, send.message, send.updates)
            data = encode_datagram(KEY, sent)
            assert len(data) <= GOSSIP_DATAGRAM_BYTES_MAX
            assert decode_datagram([KEY], data, NOW_MS) == sent
        assert node.me.incarnation >= incarnation
        incarnation = node.me.incarnation
        assert node.nodes.get(node.me.node_id) is None
        assert len(node.nodes) <= GOSSIP_NODES_MAX


@given(st.binary(max_size=GOSSIP_DATAGRAM_BYTES_MAX + 100))
def test_no_bytes_of_a_stranger_are_a_datagram(data: bytes) -> None:
    assert not isinstance(decode_datagram([KEY], data, NOW_MS), Datagram)


@given(st.lists(updates, max_size=60))
def test_pages_have_everything_once_and_in_order(told: list[NodeUpdate]) -> None:
    assert [one for page in in_pages(told) for one in page] == told
