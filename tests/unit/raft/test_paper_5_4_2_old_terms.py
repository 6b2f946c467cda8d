"""Raft paper §5.4.2: a leader commits entries of earlier terms only with one of its own."""

from __future__ import annotations

from rollq.raft.types import AppendResponse, EntryKind, Role
from tests.unit.raft.helpers import make_leader, make_node, run_ready
from tests.unit.raft.network import Network


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    node = make_node(1, 2, 2)
    make_leader(node)
    own = node.last_index
    assert own == 4
    for acknowledged in (1, 2, 3):
        for follower in (2, 3):
            node.step(AppendResponse(1, follower, node.term, acknowledged))
        assert node.commit == 0
    node.step(AppendResponse(1, 2, node.term, own))
    assert node.commit == own


def test_a_term_begins_with_an_empty_entry() -> None:
    node = make_node(1)
    make_leader(node)
    (entry,) = node.entry_slice(2, 3)
    assert (entry.term, entry.kind, entry.data) == (2, int(EntryKind.NORMAL), b"")


def test_figure_8_an_old_entry_on_a_majority_may_still_be_overwritten() -> None:
    net = Network(1, 2, 3, 4, 5)
    net.elect(1)
    # (a) 1 leads and has entry 2 on itself and 2 only.
    net.drop = lambda m: m.sender == 1 and m.to in (3, 4, 5)
    net[1].propose(b"two")
    net.settle()
    # (b) 5 is elected by 3, 4 and itself, and takes another entry 2.
    net.heal()
    for member_id in (1, 2):
        net.isolate(member_id)
    for member_id in (3, 4, 5):
        net.tick(member_id, net.options.election_ticks_min)
    net.drop = lambda m: m.sender == 5 and type(m).__name__ == "AppendEntries"
    net[5].campaign()
    net.settle()
    assert net[5].role is Role.LEADER
    # (c) 1 is elected anew and spreads its old entry to 3, but nothing of its new term.
    net.heal()
    net.isolate(5)
    for member_id in (1, 2, 3, 4):
        net.tick(member_id, 2 * net.options.election_ticks_min)
    net.wire.clear()
    net[1].step(AppendResponse(1, 3, net[5].term, 0))
    net[1].campaign()
    net.collect()
    node = net[1]
    for _ in range(4):
        wire, net.wire = net.wire, []
        for message in wire:
            if type(message).__name__ != "AppendEntries":
                net[message.to].step(message)
        net.collect()
    assert node.role is Role.LEADER
    run_ready(node)
    for follower in (2, 3):
        node.step(AppendResponse(1, follower, node.term, 2))
    assert node.term_at(2) == 1
    assert node.commit == 1, "on a majority, but of an old term"
    for follower in (2, 3):
        node.step(AppendResponse(1, follower, node.term, node.last_index))
    assert node.commit == node.last_index
