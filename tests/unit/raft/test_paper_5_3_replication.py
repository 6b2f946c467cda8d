"""Raft paper §5.3: log replication."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.raft.node import RaftOptions
from rollq.raft.progress import ProgressState
from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    Entry,
    RaftHeartbeat,
    RaftHeartbeatResponse,
    Role,
)
from tests.unit.raft.helpers import entries_of, make_leader, make_node, of_kind, run_ready
from tests.unit.raft.network import Network


def test_a_proposal_commits_when_a_majority_has_it_on_disk() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(3)
    index = leader.propose(b"x")
    assert leader.commit == index - 1
    net.settle()
    assert [net[i].commit for i in (1, 2, 3)] == [index, index, index - 1]
    assert net.hosts[2].applied[-1].data == b"x"


def test_without_majority_nothing_commits() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(1)
    leader.propose(b"x")
    net.settle()
    assert leader.commit == leader.last_index - 1


def test_a_group_of_one_commits_only_after_its_own_disk() -> None:
    node = make_node(voters=(1,))
    make_leader(node, voters=())
    index = node.propose(b"x")
    first = node.ready()
    assert [e.data for e in first.entries] == [b"x"]
    assert first.must_sync
    assert first.committed == []
    node.advance(first)
    second = node.ready()
    assert [e.data for e in second.committed] == [b"x"]
    assert not second.must_sync
    assert node.applied == index - 1
    node.advance(second)
    assert node.applied == index


def test_the_leader_sends_before_its_own_disk_has_it() -> None:
    node = make_node()
    make_leader(node)
    for follower in (2, 3):
        node.step(AppendResponse(1, follower, node.term, node.last_index))
    run_ready(node)
    node.propose(b"x")
    ready = node.ready()
    assert [m.to for m in of_kind(ready.send_now, AppendEntries)] == [2, 3]


def test_only_a_leader_takes_proposals() -> None:
    with pytest.raises(StateError) as caught:
        make_node().propose(b"x")
    assert caught.value.code is ErrorCode.NOT_LEADER


def test_what_waits_to_be_committed_is_bounded() -> None:
    net = Network(1, 2, 3, options=RaftOptions(uncommitted_bytes_max=10))
    leader = net.elect(1)
    leader.propose(bytes(100))  # when nothing waits, any size may go
    with pytest.raises(StateError) as caught:
        leader.propose(b"x")
    assert caught.value.code is ErrorCode.PROPOSAL_DROPPED
    net.settle()
    leader.propose(bytes(6))
    leader.propose(bytes(4))
    with pytest.raises(StateError):
        leader.propose(b"x")


# Figure 7: what the leader of term 8 has, and six followers' logs.
LEADER = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)
FIGURE_7 = {
    "a": (1, 1, 1, 4, 4, 5, 5, 6, 6),
    "b": (1, 1, 1, 4),
    "c": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
    "d": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
    "e": (1, 1, 1, 4, 4, 4, 4),
    "f": (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
    "empty": (),
}


@pytest.mark.parametrize("name", FIGURE_7)
def test_figure_7_every_follower_comes_to_have_the_leaders_log(name: str) -> None:
    net = Network(1, 2, 3)
    for member_id, terms in ((1, LEADER), (2, FIGURE_7[name]), (3, LEADER)):
        host = net.hosts[member_id]
        host.disk.entries = entries_of(*terms)
        host.disk.hard_state = host.disk.hard_state.__class__(term=7)
        host.boot()
    # Log c or d is newer than the leader's, but the vote of 3 is enough.
    net.elect(1)
    probes = [
        m
        for ready in net.hosts[2].readies
        for m in of_kind(ready.send_after_persist, AppendResponse)
        if m.rejected
    ]
    assert len(probes) <= 3, "one round a conflicting term, not one an entry"
    assert net.logs()[2] == net.logs()[1]
    assert net[2].commit == net[1].commit == len(LEADER) + 1


def test_the_consistency_check_refuses_with_a_hint() -> None:
    node = make_node(1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3)
    node.step(AppendEntries(1, 2, 8, 10, 6, 0))
    node.step(AppendEntries(1, 2, 8, 8, 2, 0))
    node.step(AppendEntries(1, 2, 8, 20, 6, 0))
    answers = of_kind(run_ready(node), AppendResponse)
    assert [(a.index, a.rejected, a.hint_index, a.hint_term) for a in answers] == [
        (10, True, 10, 3),
        (8, True, 6, 2),
        (20, True, 11, 3),
    ]


def test_a_conflict_removes_the_tail_and_only_a_conflict_does() -> None:
    node = make_node(1, 1, 1, 1)
    node.step(AppendEntries(1, 2, 2, 1, 1, 0, (Entry(1, 2, 0, b"2"),)))
    run_ready(node)
    assert node.last_index == 4
    node.step(AppendEntries(1, 2, 2, 1, 1, 0, (Entry(2, 2, 0, b"new"),)))
    ready = node.ready()
    assert ready.entries == [Entry(2, 2, 0, b"new")]
    assert node.last_index == 2


def test_a_tail_replaced_while_it_is_being_written_is_written_again() -> None:
    node = make_node(1)
    node.step(AppendEntries(1, 2, 2, 1, 1, 0, tuple(entries_of(2, 2, first=2))))
    ready = node.ready()
    node.step(AppendEntries(1, 3, 3, 1, 1, 0, tuple(entries_of(3, 3, 3, first=2))))
    node.advance(ready)
    assert [e.term for e in node.ready().entries] == [3, 3, 3]


def test_commit_follows_the_leader_but_never_past_the_last_new_entry() -> None:
    node = make_node(1, 1, 1)
    node.step(AppendEntries(1, 2, 2, 1, 1, 3, (Entry(1, 2, 0, b"2"),)))
    assert node.commit == 2  # what is at 3 may still be another's
    node.step(RaftHeartbeat(1, 2, 2, 9))
    assert node.commit == 3


def test_an_append_before_the_commit_index_is_answered_with_it() -> None:
    node = make_node(1, 1, 1, commit=3)
    node.step(AppendEntries(1, 2, 2, 1, 1, 0, (Entry(2, 2, 0, b"?"),)))
    assert of_kind(run_ready(node), AppendResponse) == [AppendResponse(2, 1, 2, 3)]
    assert node.last_term == 1


def test_a_leader_never_puts_a_follower_past_what_they_share() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net.isolate(3)
    net[1].propose(b"x")
    net.settle()
    net.tick(1, net.options.heartbeat_ticks)
    ready = net[1].ready()
    beats = {m.to: m.commit for m in of_kind(ready.send_now, RaftHeartbeat)}
    assert beats == {2: 2, 3: 1}


@pytest.mark.parametrize(
    "entries",
    [
        (Entry(1, 5, 0, b""),),  # a gap
        (Entry(1, 2, 0, b""), Entry(1, 2, 0, b"")),  # twice
        (Entry(9, 2, 0, b""),),  # newer than its leader
        (Entry(2, 2, 0, b""), Entry(1, 3, 0, b"")),  # falling terms
    ],
)
def test_what_no_leader_would_send_is_refused_whole(entries: tuple[Entry, ...]) -> None:
    node = make_node(1)
    with pytest.raises(RemoteError) as caught:
        node.step(AppendEntries(1, 2, 3, 1, 1, 0, entries))
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
    assert node.last_index == 1


def test_a_conflict_with_a_committed_entry_is_reported() -> None:
    node = make_node(1, 1, commit=1)
    node.step(AppendEntries(1, 2, 2, 1, 1, 2, (Entry(1, 2, 0, b"2"),)))
    assert node.commit == 2
    node.step(AppendEntries(1, 2, 2, 2, 1, 3, (Entry(2, 3, 0, b"3"),)))
    log = node._state.log
    with pytest.raises(RemoteError, match="conflicts with a committed one"):
        log.merge(1, [Entry(2, 2, 0, b"other")])


def test_an_acknowledgement_past_our_log_is_refused() -> None:
    node = make_node()
    make_leader(node)
    with pytest.raises(RemoteError):
        node.step(AppendResponse(1, 2, node.term, 99))


def test_pipelining_is_bounded_by_count_and_resumes_on_answers() -> None:
    net = Network(1, 2, options=RaftOptions(inflight_appends_max=3))
    leader = net.elect(1)
    for at in range(10):
        leader.propose(b"%d" % at)
    assert len(of_kind(leader.ready().send_now, AppendEntries)) == 3
    view = leader.progress[2]
    assert (view.inflight, view.full, view.paused) == (3, True, True)


def test_pipelining_is_bounded_by_bytes() -> None:
    net = Network(1, 2, options=RaftOptions(inflight_bytes_max=100))
    leader = net.elect(1)
    for _ in range(10):
        leader.propose(bytes(40))
    assert len(of_kind(leader.ready().send_now, AppendEntries)) == 3


def test_a_lost_window_recovers_with_the_next_heartbeat() -> None:
    net = Network(1, 2, 3, options=RaftOptions(inflight_appends_max=3))
    leader = net.elect(1)
    net.drop = lambda m: isinstance(m, AppendEntries) and m.to == 3
    for at in range(6):
        leader.propose(b"%d" % at)
        net.settle()
    assert leader.progress[3].full
    net.heal()
    net.beat(1)
    assert net.logs()[3] == net.logs()[1]
    assert leader.progress[3].state is ProgressState.REPLICATE


def test_catching_up_is_cut_into_appends_of_bounded_size() -> None:
    net = Network(1, 2, 3, options=RaftOptions(append_bytes_max=200))
    leader = net.elect(1)
    net.isolate(3)
    for _ in range(20):
        leader.propose(bytes(50))
    net.settle()
    net.heal()
    net.hosts[1].readies.clear()
    net.beat(1)
    assert net[3].last_index == leader.last_index
    sent = [m for ready in net.hosts[1].readies for m in of_kind(ready.send_now, AppendEntries)]
    assert max(len(m.entries) for m in sent) == 3


def test_a_probing_follower_gets_one_append_until_it_answers() -> None:
    node = make_node()
    make_leader(node)
    node.propose(b"x")
    node.propose(b"y")
    assert run_ready(node) == []
    node.step(RaftHeartbeatResponse(1, 2, node.term))
    assert len(of_kind(run_ready(node), AppendEntries)) == 1


def test_an_unreachable_follower_is_probed_from_what_is_sure() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(2)
    leader.propose(b"x")
    net.settle()
    leader.report_unreachable(2)
    view = leader.progress[2]
    assert (view.state, view.next) == (ProgressState.PROBE, view.match + 1)
    net.heal()
    net.beat(1)
    assert leader.progress[2].state is ProgressState.REPLICATE
    assert net[2].last_index == leader.last_index


def test_a_member_that_lost_its_tail_is_brought_back() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    for at in range(5):
        leader.propose(b"%d" % at)
    net.settle()
    host = net.hosts[3]
    del host.disk.entries[2:]
    host.boot()
    leader.member_restarted(3, net[3].last_index)
    net.settle()
    assert net.logs()[3] == net.logs()[1]


def test_nothing_counts_that_a_member_acknowledged_before_it_came_back() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    for at in range(5):
        leader.propose(b"%d" % at)
    net.settle()
    assert leader.commit == leader.progress[3].match == 6
    leader.member_restarted(3, 5)  # its entries up to 5 may be others than ours
    view = leader.progress[3]
    assert (view.match, view.next, view.state) == (0, 6, ProgressState.PROBE)
    net.settle()
    assert leader.progress[3].match == 6


def test_followers_report_no_progress() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    assert net[2].progress == {}
    assert list(net[1].progress) == [1, 2, 3]
    assert net[2].role is Role.FOLLOWER
    net[2].report_unreachable(1)
    net[2].member_restarted(1, 0)
    assert not net[2].has_ready()
