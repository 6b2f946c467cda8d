"""The group's time: wall clocks that leap do not end what has a duration."""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.limits import CLOCK_SKEW_MS_MAX, REPORT_TICKS
from rollq.base.staged import StagedGroup
from rollq.grid.state import ASSIGNED
from rollq.grid.times import elapsed_ms
from rollq.raft.types import AppendResponse
from rollq.roles.member.group_clock import GroupClock
from rollq.roles.member.status import ClusterView
from rollq.wire import messages as wire
from rollq.wire.messages import MemberReport
from rollq.wire.staging_messages import StageJobs
from tests.unit.roles.members import TICK_MS, Clock, Group, job, submit

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


def test_no_job_starts_before_its_rate_allows_while_a_leap_is_under_way() -> None:
    group = Group("a", "b", "c")
    leader = group.elect()
    group.client(CLIENT)
    group.worker(WORKER, credit=9)
    rate = {"scope": "exec", "name": "calc", "rate": DAY_MS // (4 * TICK_MS), "burst": 1}
    group.say(CLIENT, wire.Admin(REQUEST, "put_limit", msgspec.msgpack.encode(rate)))
    group.say(CLIENT, submit(1), submit(2))
    leader.leader_state.maybe_leap(leader.time.now_ms() + DAY_MS)
    group.lost = (AppendResponse,)
    group.run(8)  # the second start would be due after 4 of them
    assert not leader.state.leaps
    group.lost = ()
    group.until(lambda: leader.state.jobs[job(2)].state is ASSIGNED)
    state = leader.state
    assert len(state.leaps) == 1
    first, second = (state.jobs[job(number)].stamp_ms for number in (1, 2))
    assert elapsed_ms(state, first, second) >= 4 * TICK_MS


def test_a_leap_is_no_time_for_the_rate_of_a_job_that_is_started_in_its_turn() -> None:
    group = Group("a", "b", "c")
    leader = group.elect()
    group.client(CLIENT)
    group.worker(WORKER)
    rate = {"scope": "exec", "name": "calc", "rate": DAY_MS // (4 * TICK_MS), "burst": 1}
    group.say(CLIENT, wire.Admin(REQUEST, "put_limit", msgspec.msgpack.encode(rate)))
    group.say(CLIENT, submit(1), submit(2))
    leader.leader_state.maybe_leap(leader.time.now_ms() + DAY_MS)
    group.tell(WORKER, wire.Credit(9))
    group.until(lambda: leader.state.jobs[job(2)].state is ASSIGNED)
    state = leader.state
    assert len(state.leaps) == 1
    first, second = (state.jobs[job(number)].stamp_ms for number in (1, 2))
    assert elapsed_ms(state, first, second) >= 4 * TICK_MS


def test_one_leap_is_under_way_at_a_time() -> None:
    group = Group("a", "b", "c")
    leader = group.elect()
    to_ms = leader.time.now_ms() + DAY_MS
    leader.leader_state.maybe_leap(to_ms)
    leader.leader_state.maybe_leap(to_ms + DAY_MS)
    group.settle()
    assert len(leader.state.leaps) == 1
    assert not leader.time.is_leaping
    assert leader.time.rates_ms() == leader.time.now_ms() == to_ms


def test_a_leader_that_lost_its_leap_begins_without_one() -> None:
    group_clock = GroupClock(Clock(), 5_000)
    group_clock.begin_leap()
    group_clock.lead(5_000)
    assert not group_clock.is_leaping


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
