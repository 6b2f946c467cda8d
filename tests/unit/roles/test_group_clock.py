"""The group's time: wall clocks that leap do not end what has a duration."""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.limits import CLOCK_SKEW_MS_MAX, REPORT_TICKS
from rollq.base.staged import StagedGroup
from rollq.grid.times import elapsed_ms
from rollq.roles.member.group_clock import GroupClock
from rollq.roles.member.status import ClusterView
from rollq.wire import messages as wire
from rollq.wire.messages import MemberReport
from rollq.wire.staging_messages import StageJobs
from tests.unit.roles.members import Clock, Group, job, submit

CLIENT, WORKER = 1, 2
DAY_MS = 86_400_000
YEAR_MS = 366 * DAY_MS
REQUEST = b"r" * 16


def owing() -> Group:
    """Three members, one job whose result nobody has fetched, one staged batch, one reader."""
    group = Group("a", "b", "c")
    group.elect()
    group.client(CLIENT)
    group.worker(WORKER, credit=1)
    group.say(CLIENT, submit(1))
    (given,) = (one for one in group.hear(WORKER) if isinstance(one, wire.AssignJob))
    group.hang_up(CLIENT)
    group.say(WORKER, wire.AckJob(given.job_id, given.attempt, given.fence, 0, b"out"))
    group.client(CLIENT, "bob")
    staged = StagedGroup("calc", "calc", job(9), (0,), b"")
    group.say(CLIENT, StageJobs(REQUEST, "batch", "part", 0, (staged,)))
    place = msgspec.msgpack.encode({"name": "reader", "index": 1})
    group.say(CLIENT, wire.Admin(REQUEST, "hold_history", place))
    return group


def is_kept(group: Group) -> bool:
    state = group.leader.state
    return job(1) in state.jobs and bool(state.staged) and bool(state.readers)


def lead_by(group: Group, address: str) -> None:
    """Make this member the leader."""
    leader = group.leader
    if group.address_of(leader) != address:
        leader.raft.transfer_leadership(group.members[address].raft.member_id)
        group.until(lambda: group.members[address].leading)


def test_a_leader_whose_clock_is_far_ahead_forgets_nothing() -> None:
    group = owing()
    wrong = group.follower()
    group.clocks[wrong].wall_ahead_ms = YEAR_MS
    before_ms = group.leader.state.time_ms
    lead_by(group, wrong)
    group.client(3)
    group.say(3, submit(2))
    group.run(3 * REPORT_TICKS)
    assert is_kept(group)
    state = group.leader.state
    assert state.jobs[job(2)].stamp_ms - before_ms < 60_000
    assert not state.leaps


def test_a_wall_clock_that_leaps_while_its_member_leads_ends_nothing() -> None:
    group = owing()
    group.clock.wall_ahead_ms = YEAR_MS  # of all members
    group.run(3 * REPORT_TICKS)
    state = group.leader.state
    assert [leap.leap_ms // DAY_MS for leap in state.leaps] == [366]  # stamps follow the clocks
    assert is_kept(group)
    lead_by(group, group.follower())
    group.run(3 * REPORT_TICKS)
    assert is_kept(group)


def test_a_lone_member_keeps_what_it_owes_over_a_leap() -> None:
    group = Group("a")
    group.elect()
    group.client(CLIENT)
    group.say(
        CLIENT, StageJobs(REQUEST, "batch", "p", 0, (StagedGroup("q", "x", job(9), (0,), b""),))
    )
    group.kill("a")
    group.clock.wall_ahead_ms = YEAR_MS
    again = group.start("a")
    group.until(lambda: again.leading)
    group.run(REPORT_TICKS)
    assert again.state.staged
    assert again.time.now_ms() > YEAR_MS


def test_time_goes_on_where_the_last_leader_was() -> None:
    group = owing()
    leader = group.leader
    stamp_ms = leader.state.time_ms
    group.clock.ms += 60_000  # an idle minute, which no entry tells of
    group.kill(group.address_of(leader))
    group.elect()
    state = group.leader.state
    assert elapsed_ms(state, stamp_ms, group.leader.time.now_ms()) >= 60_000


def test_a_clock_that_is_far_off_is_an_alarm_until_it_is_right() -> None:
    group = owing()
    wrong = group.follower()
    group.clocks[wrong].wall_ahead_ms = -CLOCK_SKEW_MS_MAX - 1_000
    group.run(2 * REPORT_TICKS)
    (alarm,) = cluster(group).alarms
    assert (alarm.code, alarm.member_id) == (
        ErrorCode.CLOCK_SKEW,
        group.members[wrong].raft.member_id,
    )
    assert "6 s behind" in alarm.text
    assert group.warned == [f"clock_skew (305): {alarm.text}; {alarm.todo}"]
    group.clocks[wrong].wall_ahead_ms = 0
    group.run(2 * REPORT_TICKS)
    assert cluster(group).alarms == []


def cluster(group: Group) -> ClusterView:
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "cluster"))
    return msgspec.msgpack.decode(answer.value, type=ClusterView)


def test_a_leader_that_does_not_understand_reports_gets_none() -> None:
    group = Group("a", "b", "c")
    group.elect()
    group.run(REPORT_TICKS)
    assert any(isinstance(letter, MemberReport) for _, _, letter in group.letters)
    group.letters.clear()
    for driver in group.members.values():
        driver._peers._features.clear()
    group.run(REPORT_TICKS)
    assert not any(isinstance(letter, MemberReport) for _, _, letter in group.letters)


def test_a_clock_that_is_ahead_of_the_wall_runs_slower_and_not_back() -> None:
    clock = Clock()
    group_clock = GroupClock(clock, 5_000)
    group_clock.slow_down(is_ahead=True)
    clock.ms += 1_000
    assert group_clock.now_ms() == 5_900
    group_clock.slow_down(is_ahead=False)
    clock.ms += 1_000
    assert group_clock.now_ms() == 6_900
    group_clock.reach(6_000)
    assert group_clock.now_ms() == 6_900
    group_clock.reach(9_000)
    assert group_clock.now_ms() == 9_000
