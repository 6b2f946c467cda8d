"""Raft paper §7: log compaction and InstallSnapshot, here in chunks that resume."""

from __future__ import annotations

import pytest

from rollq.base.errors import LocalError
from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.progress import ProgressState
from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    Entry,
    InstallSnapshot,
    InstallSnapshotResponse,
    Position,
    RaftHeartbeat,
    Role,
    SnapshotMeta,
)
from tests.unit.raft.helpers import drain, entries_of, make_leader, make_node, of_kind, run_ready
from tests.unit.raft.network import Network, SeededJitter, voters_config

META = SnapshotMeta(index=5, term=2, config=voters_config(1, 2, 3), size_bytes=9, sha256=b"s")


def behind(entries: int = 5) -> Network:
    """Member 3 misses entries that the leader no longer has."""
    net = Network(1, 2, 3)
    net.elect(1)
    net.isolate(3)
    for at in range(entries):
        net[1].propose(b"%d" % at)
    net.settle()
    net.hosts[1].take_snapshot()
    net.heal()
    return net


def chunk(offset: int, data: bytes, meta: SnapshotMeta = META, term: int = 3) -> InstallSnapshot:
    return InstallSnapshot(1, 2, term, meta, offset, len(data), data)


def answers(node: RaftNode) -> list[tuple[int, int, bool]]:
    sent = of_kind(run_ready(node), InstallSnapshotResponse)
    return [(m.index, m.offset, m.installed) for m in sent]


def test_compaction_forgets_entries_but_not_their_end() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    for at in range(5):
        leader.propose(b"%d" % at)
    net.settle()
    net.hosts[1].take_snapshot(keep=2)
    assert (leader.first_index, leader.last_index) == (5, 6)
    assert (leader.term_at(3), leader.term_at(4)) == (None, 1)
    assert [e.index for e in leader.entry_slice(1, 99)] == [5, 6]
    leader.propose(b"on")
    net.settle()
    assert net[3].last_index == 7


def test_a_snapshot_may_not_outrun_what_is_applied() -> None:
    node = make_node(1, 1)
    with pytest.raises(LocalError):
        node.snapshot_taken(SnapshotMeta(index=2, term=1), 2)
    with pytest.raises(LocalError):
        node.snapshot_taken(SnapshotMeta(index=0, term=0), 1)


def test_a_follower_that_is_too_far_behind_gets_the_snapshot_in_chunks() -> None:
    net = behind()
    net.beat(1)
    chunks = [c for r in net.hosts[3].readies for c in r.snapshot_chunks]
    assert [(c.offset, len(c.data), c.done) for c in chunks] == [
        (0, 10, False),
        (10, 10, False),
        (20, 10, False),
        (30, 2, True),
    ]
    assert net[3].applied == net[1].applied
    assert net.hosts[3].chain == net.hosts[1].chain
    assert net[1].progress[3].state is ProgressState.REPLICATE
    net[1].propose(b"on")
    net.settle()
    assert net[3].commit == net[1].commit


def test_a_chunk_that_was_lost_is_sent_again() -> None:
    net = behind()
    lost: list[InstallSnapshot] = []

    def drop(message: object) -> bool:
        if isinstance(message, InstallSnapshot) and message.offset == 10 and not lost:
            lost.append(message)
            return True
        return False

    net.drop = drop
    net.beat(1)
    assert net[1].progress[3].snapshot_index == 6
    net.beat(1)
    net.beat(1)
    assert lost
    assert net[3].applied == net[1].applied


def test_a_transfer_goes_on_where_it_stopped_under_a_new_leader() -> None:
    net = behind()
    net.hosts[2].take_snapshot()
    net.drop = lambda m: isinstance(m, InstallSnapshot) and m.offset == 20
    net.beat(1)
    net.heal()
    net.isolate(1)
    for member_id in (2, 3):
        net.tick(member_id, net.options.election_ticks_min)
    net.hosts[2].readies.clear()
    net[2].campaign()
    net.settle()
    net.beat(2)
    offsets = [m.offset for r in net.hosts[2].readies for m in of_kind(r.send_now, InstallSnapshot)]
    assert offsets[0] == 0
    assert 10 not in offsets
    assert net[3].applied == net[2].applied


def test_a_newer_snapshot_of_the_leader_starts_a_new_transfer() -> None:
    net = behind()
    net.drop = lambda m: isinstance(m, InstallSnapshot) and m.offset == 20
    net.beat(1)
    net[1].propose(b"newer")
    net.settle(1, 2)
    net.hosts[1].take_snapshot()
    net.heal()
    for _ in range(3):
        net.beat(1)
    done = [c.meta.index for r in net.hosts[3].readies for c in r.snapshot_chunks if c.done]
    assert done == [7]


def test_a_newer_snapshot_is_noticed_with_the_followers_answer_too() -> None:
    net = behind()
    net.drop = lambda m: isinstance(m, InstallSnapshotResponse)
    net.beat(1)
    net.heal()
    net[1].propose(b"newer")
    net.settle(1, 2)
    net.hosts[1].take_snapshot()
    net[1].step(InstallSnapshotResponse(1, 3, net[1].term, index=6, offset=10))
    (message,) = of_kind(net[1].ready().send_now, InstallSnapshot)
    assert (message.meta.index, message.offset) == (7, 0)


def test_no_snapshot_goes_to_a_silent_member() -> None:
    net = behind()
    net.isolate(3)
    for _ in range(net.options.election_ticks_max):
        net.tick(1)
        net.settle()
    net[1].propose(b"x")
    net.settle()
    sent = [m for r in net.hosts[1].readies for m in of_kind(r.send_now, InstallSnapshot)]
    assert sent == []


def test_a_follower_takes_only_the_chunk_that_comes_next() -> None:
    node = make_node(1)
    node.step(chunk(3, b"def"))
    node.step(chunk(0, b"abc"))
    node.step(chunk(0, b"abc"))
    node.step(chunk(3, b"defghijklm"))
    node.step(InstallSnapshot(1, 2, 3, META, 3, 3, b"short"))
    ready = node.ready()
    assert [(c.offset, c.data, c.done) for c in ready.snapshot_chunks] == [(0, b"abc", False)]
    node.advance(ready)
    assert answers(node) == []
    sent = of_kind(ready.send_after_persist, InstallSnapshotResponse)
    assert [m.offset for m in sent] == [0, 3, 3, 3, 3]


def test_a_chunk_without_its_bytes_is_not_taken() -> None:
    node = make_node(1)
    node.step(InstallSnapshot(1, 2, 3, META, 0, 9))
    node.step(InstallSnapshot(1, 2, 3, META, 0, 0))
    assert answers(node) == [(5, 0, False), (5, 0, False)]


def test_the_log_is_replaced_when_the_last_chunk_is_on_disk_and_loaded() -> None:
    node = make_node(1, 1, 1)
    node.step(chunk(0, b"abcdefghi"))
    ready = node.ready()
    assert ready.must_sync
    assert ready.snapshot_chunks[-1].done
    assert ready.committed == []
    assert of_kind(ready.send_after_persist, InstallSnapshotResponse) == []
    node.advance(ready)
    assert (node.first_index, node.last_index, node.commit, node.applied) == (6, 5, 5, 5)
    assert (node.last_term, node.snapshot) == (2, META)
    assert answers(node) == [(5, 0, True)]


def test_nothing_committed_before_a_snapshot_is_applied_after_it() -> None:
    node = make_node(1, 1, 1)
    node.step(chunk(0, b"abcdefghi"))
    node.step(RaftHeartbeat(1, 2, 3, 3))
    ready = node.ready()
    assert ready.snapshot_chunks
    assert ready.committed == []


def test_what_is_committed_is_applied_before_a_snapshot_replaces_the_log() -> None:
    node = make_node(1, 1, 1, 1, commit=3, options=RaftOptions(apply_bytes_max=1))
    node.step(chunk(0, b"abcdefghi"))
    readies = drain(node)[:4]
    assert [[entry.index for entry in one.committed] for one in readies] == [[1], [2], [3], []]
    assert [one.installs for one in readies] == [False, False, False, True]
    assert (node.applied, node.last_index) == (5, 5)


def test_while_a_snapshot_is_installed_nothing_is_appended_or_campaigned_for() -> None:
    node = make_node(1, 1, 1)
    node.step(chunk(0, b"abcdefghi"))
    ready = node.ready()
    node.step(AppendEntries(1, 2, 3, 3, 1, 0, tuple(entries_of(2, 2, 3, first=4))))
    node.step(chunk(0, b"abcdefghi"))
    node.campaign()
    assert (node.last_index, node.role) == (3, Role.FOLLOWER)
    node.advance(ready)
    assert node.last_index == 5
    assert of_kind(run_ready(node), AppendResponse) == []


def test_entries_are_on_disk_before_a_snapshot_replaces_them() -> None:
    node = make_node(1, 2, 3, term=3)
    node.step(AppendEntries(1, 2, 3, 0, 0, 0, (Entry(1, 1), Entry(3, 2))))
    node.step(chunk(0, b"123456789"))
    ready = node.ready()
    assert of_kind(ready.send_after_persist, AppendResponse)
    assert [entry.index for entry in ready.entries] == [2]
    assert ready.snapshot_chunks == []
    node.advance(ready)
    ready = node.ready()
    assert ready.entries == []
    assert [piece.done for piece in ready.snapshot_chunks] == [True]


def test_a_corrupt_snapshot_leaves_what_was_acknowledged_beside_it() -> None:
    node = make_node(1, term=3)
    node.step(AppendEntries(1, 2, 3, 1, 1, 0, tuple(entries_of(3, first=2))))
    node.step(chunk(0, b"abcdefghi"))
    on_disk = 1
    while node.has_ready():
        ready = node.ready()
        on_disk += len(ready.entries)
        if ready.installs:
            node.snapshot_failed()
        for response in of_kind(ready.send_after_persist, AppendResponse):
            assert response.index <= on_disk
        node.advance(ready)
    assert (node.last_index, on_disk) == (2, 2)


def test_entries_of_the_term_of_a_snapshot_are_applied_before_it_replaces_them() -> None:
    node = make_node(1, 2, 2, commit=1)
    node.step(chunk(0, b"abcdefghi"))
    readies = drain(node)
    applied = [entry.index for ready in readies for entry in ready.committed]
    assert applied == [1, 2, 3]  # 4 and 5 come with the snapshot alone
    assert readies[0].installs is False
    assert (node.applied, node.first_index) == (5, 6)


def test_entries_of_an_older_term_than_that_of_a_snapshot_may_not_be_committed() -> None:
    node = make_node(1, 1, 1, commit=1)
    node.step(chunk(0, b"abcdefghi"))
    assert [entry.index for ready in drain(node) for entry in ready.committed] == [1]


def test_what_the_log_already_holds_is_only_committed() -> None:
    node = make_node(1, 1, 2, 2, 2, 2)
    node.step(chunk(0, b"abc"))
    assert answers(node) == [(5, 0, True)]
    assert (node.commit, node.last_index, node.first_index) == (5, 6, 1)
    node.step(chunk(0, b"abc"))
    assert answers(node) == [(5, 0, True)]


def test_an_older_snapshot_does_not_replace_a_newer_one_within_a_term() -> None:
    newer = SnapshotMeta(index=8, term=2, size_bytes=9)
    node = make_node(1)
    node.step(chunk(0, b"abc", newer))
    node.step(chunk(0, b"abc"))
    node.step(chunk(3, b"def", newer))
    assert answers(node) == [(8, 3, False), (8, 6, False)]
    node.step(chunk(0, b"abc", term=4))
    assert answers(node) == [(5, 3, False)]


def test_appends_that_reach_past_a_snapshot_end_its_transfer() -> None:
    node = make_node(1)
    node.step(chunk(0, b"abc"))
    node.step(AppendEntries(1, 2, 3, 1, 1, 5, tuple(entries_of(2, 2, 2, 2, first=2))))
    ready = node.ready()
    assert ready.snapshot_chunks == []
    assert len(ready.committed) == 5


def test_a_corrupt_snapshot_is_received_anew() -> None:
    node = make_node(1)
    node.step(chunk(0, b"abcdefghi"))
    ready = node.ready()
    node.snapshot_failed()
    node.advance(ready)
    assert node.last_index == 1
    node.step(chunk(3, b"def"))
    assert answers(node) == [(5, 0, False)]


def test_an_empty_snapshot_is_one_empty_chunk() -> None:
    node = make_node(1)
    node.step(chunk(0, b"", SnapshotMeta(index=5, term=2)))
    run_ready(node)
    assert node.applied == 5


def test_a_snapshot_heals_a_suspect_log() -> None:
    node = make_node(1, suspect=Position(2, 4))
    node.step(chunk(0, b"abcdefghi"))
    run_ready(node)
    assert node.suspect is None


def test_answers_about_another_snapshot_or_offset_do_not_double_chunks() -> None:
    net = behind()
    net.drop = lambda m: isinstance(m, InstallSnapshot)
    net.beat(1)
    leader = net[1]
    for index, offset in ((6, 0), (3, 10), (6, 99)):
        leader.step(InstallSnapshotResponse(1, 3, leader.term, index=index, offset=offset))
    assert not leader.has_ready()
    leader.step(InstallSnapshotResponse(1, 3, leader.term, index=6, offset=10))
    assert len(of_kind(leader.ready().send_now, InstallSnapshot)) == 1


def test_an_answer_to_a_snapshot_means_nothing_to_who_does_not_lead() -> None:
    node = make_node(1)
    node.step(InstallSnapshotResponse(1, 2, 1, index=1, offset=0, installed=True))
    assert not node.has_ready()


def test_a_restart_begins_at_the_snapshot() -> None:
    start = RaftStart(snapshot=META, entries=entries_of(2, 3, first=6))
    node = RaftNode(1, RaftOptions(), start, SeededJitter(1))
    assert (node.commit, node.applied, node.last_index, node.term) == (5, 5, 7, 3)
    assert node.config == META.config


def test_a_recovered_log_with_a_gap_is_refused() -> None:
    for log in ([Entry(2, 7, 0, b"")], [Entry(1, 6, 0, b"")]):
        with pytest.raises(LocalError):
            RaftNode(1, RaftOptions(), RaftStart(snapshot=META, entries=log), SeededJitter(1))


def test_a_replay_after_a_restart_comes_in_bites() -> None:
    node = make_node(*([1] * 50), commit=50, options=RaftOptions(apply_bytes_max=100))
    sizes = []
    while node.has_ready():
        ready = node.ready()
        sizes.append(len(ready.committed))
        node.advance(ready)
    assert sum(sizes) == 50
    assert max(sizes) <= 6


def test_a_leader_without_any_snapshot_cannot_begin_one() -> None:
    node = make_node(1)
    make_leader(node)
    node.member_restarted(2, 0)
    assert of_kind(run_ready(node), InstallSnapshot) == []
