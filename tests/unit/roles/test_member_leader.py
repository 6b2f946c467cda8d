"""The leader: credits, adoption, owed results, legacy peers, and its end."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef
from rollq.base.limits import CREDIT_MAX, EARLY_MS_MAX, READER_HOLD_MS_MAX
from rollq.base.staged import StagedGroup
from rollq.grid.command_codec import decode_batch
from rollq.grid.commands import DropBatches, FreeHistory, Settings
from rollq.grid.state import ASSIGNED, DELAYED
from rollq.raft.node import RaftOptions
from rollq.raft.types import AppendResponse, RaftHeartbeat, RequestVote, Role
from rollq.roles.member.early_messages import EarlyMessages
from rollq.wire import messages as wire
from rollq.wire.staging_messages import StageJobs
from tests.unit.roles.members import TICK_MS, Group, job, submit, worker

CLIENT, WORKER, REQUEST = 1, 2, b"r" * 16


def one_member() -> Group:
    group = Group()
    group.elect()
    group.client(CLIENT)
    return group


def three_members() -> Group:
    group = Group("a", "b", "c")
    group.elect()
    group.client(CLIENT)
    return group


def depose(group: Group) -> str:
    """Cut the leader off until another one leads, then let it hear of that; its address."""
    old = group.address_of(group.leader)
    group.isolated[old] = None
    for _ in range(400):
        group.run()
        if group.leader is not group.members[old]:
            break
    group.isolated.clear()
    group.run(8)
    assert not group.members[old].leading
    return old


# --- credits


def test_a_worker_is_given_as_much_as_it_granted_and_no_more() -> None:
    group = one_member()
    group.say(CLIENT, *(submit(number) for number in range(1, 8)))
    told = group.worker(WORKER, credit=3)
    assert [one.job_id for one in told[1:]] == [job(1), job(2), job(3)]
    assert [one.job_id for one in group.say(WORKER, wire.Credit(2))] == [job(4), job(5)]
    assert group.say(WORKER, wire.Credit(0)) == []


def test_credit_that_came_before_the_worker_was_opened_counts() -> None:
    group = one_member()
    group.say(CLIENT, submit(1), submit(2), submit(3))
    hello = wire.HelloWorker(worker(WORKER), ("",))
    told = group.say(WORKER, hello, wire.Credit(1), wire.Credit(1))
    assert [type(one) for one in told] == [wire.Welcome, wire.AssignJob, wire.AssignJob]


def test_credit_is_limited_and_less_than_nothing_ends_the_session() -> None:
    for counts in ((CREDIT_MAX + 1,), (2**31 - 1,), (CREDIT_MAX, 1)):
        group = one_member()
        group.worker(WORKER)
        assert group.say(WORKER, *map(wire.Credit, counts)) == []
        assert not group.closed
        assert group.leader.replica.dispatcher.credit(worker(WORKER)) == CREDIT_MAX
    group = one_member()
    group.worker(WORKER)
    (error,) = group.say(WORKER, wire.Credit(-1))
    assert error.code == ErrorCode.BAD_CREDIT
    assert list(group.closed) == [WORKER]


def test_credit_of_a_session_dies_with_it() -> None:
    group = one_member()
    group.worker(WORKER, credit=5)
    group.hang_up(WORKER)
    group.say(CLIENT, submit(1))
    told = group.worker(3, worker_id=worker(WORKER))
    assert [type(one) for one in told] == [wire.Welcome]
    assert group.leader.replica.dispatcher.credit(worker(WORKER)) == 0


def test_what_a_worker_holds_and_did_not_announce_is_sent_again_for_no_credit() -> None:
    group = one_member()
    group.say(CLIENT, *(submit(number) for number in range(1, 6)))
    group.worker(WORKER, credit=3)
    group.hang_up(WORKER)
    holding = (AttemptRef(job(2), 1, group.leader.state.jobs[job(2)].fence),)
    told = group.worker(3, worker_id=worker(WORKER), holding=holding)
    welcome, *assigns = told
    assert (welcome.owed, [one.job_id for one in assigns]) == (2, [job(1), job(3)])
    assert [one.job_id for one in group.say(3, wire.Credit(1))] == [job(4)]


def test_a_restarted_worker_is_owed_nothing_and_its_old_attempts_are_lost() -> None:
    group = one_member()
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1, incarnation=1)
    (welcome,) = group.worker(3, worker_id=worker(WORKER), incarnation=2)
    assert welcome.owed == 0
    assert group.leader.state.jobs[job(1)].state is DELAYED


# --- a change of leader


def test_everybody_is_told_who_leads_now() -> None:
    group = three_members()
    group.worker(WORKER)
    group.hear(CLIENT)
    old = depose(group)
    new = group.address_of(group.leader)
    for session in (CLIENT, WORKER):
        (told,) = group.hear(session)
        assert isinstance(told, wire.NotLeader)
        assert sorted(told.members) == ["a", "b", "c"]
        assert told.leader in ("", new)
    assert sorted(group.closed) == [CLIENT, WORKER]
    (told, *_) = group.say(9, wire.HelloClient("bob"), to=old)
    assert told == wire.NotLeader(new, told.members)
    assert group.closed[9] == "not the leader"


def test_a_client_asks_the_next_leader_again_and_nothing_happens_twice() -> None:
    group = three_members()
    group.say(CLIENT, submit(1))
    depose(group)
    group.say(11, wire.HelloClient("ann"))
    assert group.say(11, submit(1), submit(2)) == [
        wire.Accepted(job(1), known=True),
        wire.Accepted(job(2)),
    ]
    assert len(group.leader.state.jobs) == 2


def test_what_an_old_leader_could_not_commit_is_not_accepted() -> None:
    group = three_members()
    old = group.address_of(group.leader)
    group.isolated[old] = None
    assert group.say(CLIENT, submit(1)) == []
    assert group.members[old].state.jobs == {}
    depose(group)
    assert [type(one) for one in group.hear(CLIENT)] == [wire.NotLeader]
    assert group.leader.state.jobs == {}


def test_running_attempts_are_adopted_by_the_next_leader() -> None:
    group = three_members()
    group.say(CLIENT, submit(1), submit(2))
    group.worker(WORKER, credit=2)
    depose(group)
    record = group.leader.state.jobs[job(1)]
    ref = AttemptRef(job(1), 1, record.fence)
    group.say(11, wire.HelloClient("ann"))
    welcome, again = group.worker(12, worker_id=worker(WORKER), holding=(ref,))
    assert welcome.owed == 1
    assert (again.job_id, again.attempt) == (job(2), 1)
    assert record.state is ASSIGNED
    assert record.attempt == 1
    told = group.say(12, wire.AckJob(job(1), 1, record.fence, 0, b"out"))
    assert told == [wire.AckTaken(job(1), 1)]
    assert [one.result for one in group.heard(11, wire.Result)] == [b"out"]


def test_a_worker_that_does_not_find_the_next_leader_loses_its_attempts_with_their_leases() -> None:
    group = three_members()
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    depose(group)
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    lease_ms = group.leader.state.jobs[job(1)].lease_ms
    group.run(Settings().worker_grace_ms // TICK_MS + 10)
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    group.run((lease_ms - Settings().worker_grace_ms) // TICK_MS)
    assert group.leader.state.jobs[job(1)].state is not ASSIGNED


def test_names_of_workers_are_known_to_the_next_leader() -> None:
    group = three_members()
    group.worker(WORKER, name="blue")
    depose(group)
    group.say(11, wire.HelloClient("ann"))
    group.say(11, submit(1, subject="calc.blue"))
    assert group.leader.state.jobs[job(1)].options.worker_name == "blue"


# --- a leader that is not ready yet


def not_ready(group: Group) -> str:
    """A member that was elected, and cannot commit the first entry of its term yet."""
    group.kill(group.address_of(group.leader))
    group.lost = (AppendResponse,)
    group.until(lambda: any(one.raft.role is Role.LEADER for one in group.members.values()))
    (address,) = (a for a, one in group.members.items() if one.raft.role is Role.LEADER)
    assert not group.members[address].leading
    return address


def test_what_is_said_to_a_leader_that_is_not_ready_is_held() -> None:
    group = three_members()
    address = not_ready(group)
    assert group.say(11, wire.HelloClient("ann"), submit(1), to=address) == []
    assert group.say(12, wire.HelloClient("bob"), submit(2), to=address) == []
    group.members[address].session_closed(12)
    group.lost = ()
    group.until(lambda: group.members[address].leading)
    group.settle()
    assert group.heard(11, wire.Accepted) == [wire.Accepted(job(1))]
    assert sorted(group.leader.state.jobs) == [job(1), job(2)]
    assert group.leader.leader_state.sessions.numbers() == [11]


def test_who_comes_during_an_election_waits_for_its_outcome() -> None:
    group = three_members()
    group.run()
    group.isolated[group.address_of(group.leader)] = None
    group.lost = (RequestVote,)
    one, other = sorted(group.members.keys() - group.isolated.keys())
    for address in (one, other):
        group.members[address].peer_lost(*group.isolated)
    assert group.say(11, wire.HelloClient("ann"), submit(1), to=one) == []
    assert group.say(12, wire.HelloClient("bob"), submit(2), to=other) == []
    group.lost = ()
    elected = group.address_of(group.elect())
    group.settle()
    at_leader, elsewhere = (11, 12) if elected == one else (12, 11)
    assert len(group.heard(at_leader, wire.Accepted)) == 1
    assert group.heard(elsewhere, wire.NotLeader)[0].leader == elected
    assert at_leader not in group.closed
    assert elsewhere in group.closed


def test_no_snapshot_is_begun_while_somebody_waits_for_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = three_members()
    group.say(CLIENT, submit(1))
    address = not_ready(group)
    driver = group.members[address]
    monkeypatch.setattr(driver.replica.pace, "is_due", lambda **_: True)
    group.tell(11, wire.HelloClient("ann"), to=address)
    assert driver.begin_snapshot() is None
    group.lost = ()
    group.until(lambda: driver.leading)
    assert driver.begin_snapshot() is not None or driver.raft.snapshot.index


def test_nobody_waits_longer_than_an_election_takes() -> None:
    group = three_members()
    group.run()
    address = group.follower()
    for other in group.members.keys() - {address}:
        group.kill(other)
    assert group.say(11, wire.HelloClient("ann"), to=address) == []
    group.run(RaftOptions().election_ticks_max)
    assert [one.leader for one in group.heard(11, wire.NotLeader)] == [""]
    assert [one.leader for one in group.say(12, wire.HelloClient("bob"), to=address)] == [""]


def test_what_is_held_is_sent_away_if_leadership_is_lost_before_it_began() -> None:
    group = three_members()
    address = not_ready(group)
    driver = group.members[address]
    group.tell(11, wire.HelloClient("ann"), submit(1), to=address)
    driver.session_closed(13)
    (rival,) = (one.raft.member_id for one in group.members.values() if one is not driver)
    driver.peer_message(
        "x", RaftHeartbeat(driver.raft.member_id, rival, driver.raft.term + 1, 0), is_proven=True
    )
    group.turn(address)
    assert {type(one) for one in group.hear(11)} == {wire.NotLeader}
    assert group.closed == {11: "not the leader"}


@pytest.mark.parametrize("bounds", [{"messages_max": 2}, {"bytes_max": 400}])
def test_more_than_can_be_held_is_sent_away(bounds: dict[str, int]) -> None:
    group = three_members()
    address = not_ready(group)
    group.members[address]._early = EarlyMessages(**bounds)
    group.tell(11, wire.HelloClient("ann"), submit(1), to=address)
    (told,) = group.say(12, wire.HelloClient("bob"), to=address)
    assert isinstance(told, wire.NotLeader)
    assert told.leader == ""
    assert list(group.closed) == [12]


def test_a_member_that_is_the_whole_group_holds_what_comes_before_it_leads() -> None:
    group = Group()
    group.tell(11, wire.HelloClient("ann"), submit(1), to="a")
    assert not group.members["a"].leading
    group.elect()
    group.settle()
    assert wire.Accepted(job(1)) in group.hear(11)
    assert not group.closed


def test_a_member_holds_what_comes_before_its_group_is_together() -> None:
    group = Group("a", "b", "c")
    group.kill("c")
    group.tell(11, wire.HelloClient("ann"), submit(1), to="a")
    group.tell(12, wire.HelloClient("bob"), submit(2), to="b")
    group.run(3 * RaftOptions().election_ticks_max)
    assert not group.closed
    group.start("c")
    group.elect()
    group.settle()
    told = {number: group.hear(number) for number in (11, 12)}
    # Whoever asked the one that leads now has its job, whoever asked another one knows who leads.
    for number, address in ((11, "a"), (12, "b")):
        if group.members[address].leading:
            assert any(isinstance(one, wire.Accepted) for one in told[number])
            assert number not in group.closed
        else:
            (redirect, *_) = told[number]
            assert isinstance(redirect, wire.NotLeader)
            assert redirect.leader == group.address_of(group.leader)


def test_a_member_whose_group_does_not_come_together_holds_nobody_for_ever() -> None:
    group = Group("a", "b", "c")
    group.kill("c")
    group.tell(11, wire.HelloClient("ann"), to="a")
    group.run(EARLY_MS_MAX // TICK_MS)
    (told,) = group.hear(11)
    assert isinstance(told, wire.NotLeader)
    assert list(group.closed) == [11]


# --- credit and refusals of the group


def test_a_decision_that_the_group_refused_gives_the_credit_back() -> None:
    group = one_member()
    group.worker(WORKER)
    group.say(CLIENT, submit(1))
    # In one turn: the queue is paused, and its job is assigned to the new credit after that.
    group.tell(CLIENT, wire.Admin(REQUEST, "pause", msgspec.msgpack.encode({"queue": "calc"})))
    assert group.say(WORKER, wire.Credit(1)) == []
    group.say(CLIENT, submit(2, subject="other"))
    assert [one.job_id for one in group.heard(WORKER, wire.AssignJob)] == [job(2)]


def test_what_is_left_lying_is_asked_for_once_however_many_turns_pass() -> None:
    group = three_members()
    place = msgspec.msgpack.encode({"name": "reader", "index": 1})
    group.say(CLIENT, wire.Admin(REQUEST, "hold_history", place))
    staged = StagedGroup("calc", "calc", job(1), (0,), b"")
    group.say(CLIENT, StageJobs(REQUEST, "batch", "part", 0, (staged,)))
    leader = group.leader
    group.lost = (AppendResponse,)  # nothing is agreed on meanwhile
    group.clock.ms += READER_HOLD_MS_MAX
    group.run(5)
    first, last = leader.state.applied_index + 1, leader.raft.last_index + 1
    asked = [
        type(command)
        for entry in leader.raft.entry_slice(first, last)
        for command in decode_batch(entry.data).commands
    ]
    assert asked == [DropBatches, FreeHistory]
    group.lost = ()
    group.until(lambda: not leader.state.readers and not leader.state.staged)
