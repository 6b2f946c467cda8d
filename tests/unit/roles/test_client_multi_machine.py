from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.limits import MULTI_AHEAD, MULTI_GATHER_MS, MULTI_GRACE_MS
from rollq.base.router_limits import MULTI_AWAY_MS
from rollq.roles.client.several_groups import machine as multi_machine
from rollq.roles.client.several_groups.machine import MultiMachine, share
from rollq.roles.client.several_groups.routes import GroupRoute, GroupTable, Policy
from rollq.roles.client.several_groups.signals import (
    AssignToGroup,
    CancelCopies,
    CloseGroupSession,
    DeliverRefusal,
    DeliverResult,
    Event,
    GroupAccepted,
    GroupAdded,
    GroupDown,
    GroupEnded,
    GroupRefused,
    GroupRemoved,
    GroupStarted,
    GroupUp,
    Instruction,
    JobAbandoned,
    JobsSubmitted,
    MultiTick,
    Pin,
    StopSending,
)


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


J, K, L = job(1), job(2), job(3)


def table(
    count: int,
    policy: Policy = Policy.ROUND_ROBIN,
    *routes: GroupRoute,
    weights: tuple[int, ...] = (),
) -> GroupTable:
    """Groups that are named a, b, c…"""
    made = GroupTable(routes, policy)
    for number in range(count):
        made.add("abcdefgh"[number], weights[number] if weights else 1)
    return made


def up(count: int, policy: Policy = Policy.ROUND_ROBIN, *routes: GroupRoute) -> MultiMachine:
    machine = MultiMachine(table(count, policy, *routes))
    for group in range(count):
        machine.handle(GroupUp(group))
    return machine


def feed(machine: MultiMachine, *events: Event) -> list[Instruction]:
    return [instruction for event in events for instruction in machine.handle(event)]


def test_round_robin_takes_turns_over_groups_that_are_up() -> None:
    machine = up(3)
    machine.handle(GroupDown(1, 0))
    placed = feed(machine, *(JobsSubmitted((job(n),)) for n in range(1, 5)))
    assert placed == [
        AssignToGroup((job(1),), 0),
        AssignToGroup((job(2),), 2),
        AssignToGroup((job(3),), 0),
        AssignToGroup((job(4),), 2),
    ]


def test_least_inflight_prefers_the_idle_group() -> None:
    machine = up(2, Policy.LEAST_INFLIGHT)
    assert feed(machine, JobsSubmitted((J,)), JobsSubmitted((K,))) == [
        AssignToGroup((J,), 0),
        AssignToGroup((K,), 1),
    ]
    machine.handle(GroupEnded(1, K))
    assert machine.handle(JobsSubmitted((L,))) == [AssignToGroup((L,), 1)]


def test_jobs_wait_while_no_group_is_up_and_go_in_order() -> None:
    machine = MultiMachine(table(2))
    assert feed(machine, JobsSubmitted((J,)), JobsSubmitted((K,))) == []
    assert machine.pending_count == 2
    assert machine.handle(GroupUp(1)) == [AssignToGroup((J, K), 1)]
    assert machine.pending_count == 0


def test_a_group_that_is_back_within_the_grace_keeps_its_jobs() -> None:
    machine = up(2)
    feed(machine, JobsSubmitted((J,)), GroupAccepted(0, (J,)))
    machine.handle(GroupDown(0, 1_000))
    assert machine.handle(MultiTick(1_000 + MULTI_GRACE_MS - 1)) == []
    assert machine.handle(GroupUp(0)) == []
    assert machine.handle(MultiTick(1_000 + 2 * MULTI_GRACE_MS)) == []
    assert machine.handle(GroupEnded(0, J)) == [DeliverResult(J)]


def test_after_the_grace_jobs_go_elsewhere_under_the_same_id_and_the_copy_is_cancelled() -> None:
    machine = up(2)
    machine.handle(JobsSubmitted((J,)))
    machine.handle(GroupDown(0, 0))
    assert machine.handle(MultiTick(MULTI_GRACE_MS)) == [
        StopSending((J,), 0),
        AssignToGroup((J,), 1),
    ]
    assert machine.handle(GroupUp(0)) == [CancelCopies((J,), 0)]
    assert machine.handle(GroupEnded(0, J, is_cancelled=True)) == []
    assert machine.handle(GroupEnded(1, J)) == [DeliverResult(J)]
    assert not machine.is_open(J)


def test_what_a_group_did_not_answer_goes_elsewhere_before_what_it_accepted() -> None:
    machine = up(2)
    feed(
        machine, JobsSubmitted((J,)), JobsSubmitted((K,)), JobsSubmitted((L,))
    )  # J and L are with 0
    feed(machine, GroupAccepted(0, (J,)), GroupAccepted(1, (K,)), GroupDown(0, 0))
    assert machine.handle(MultiTick(MULTI_AWAY_MS - 1)) == []
    assert machine.handle(MultiTick(MULTI_AWAY_MS)) == [
        StopSending((L,), 0),
        AssignToGroup((L,), 1),
    ]
    assert machine.handle(MultiTick(MULTI_GRACE_MS)) == [
        StopSending((J,), 0),
        AssignToGroup((J,), 1),
    ]
    assert machine.handle(GroupUp(0)) == [CancelCopies((L, J), 0)]


def test_what_cannot_be_sent_again_stays_where_it_is() -> None:
    machine = up(2)
    feed(machine, JobsSubmitted((J,)), JobsSubmitted((K,)), Pin((J, L)), GroupDown(0, 0))
    assert machine.handle(MultiTick(2 * MULTI_GRACE_MS)) == []
    assert machine.handle(GroupUp(0)) == []
    assert machine.handle(GroupEnded(0, J)) == [DeliverResult(J)]


def test_reclaimed_jobs_go_before_those_that_came_later() -> None:
    machine = up(1)
    machine.handle(JobsSubmitted((J,)))
    machine.handle(GroupDown(0, 0))
    machine.handle(JobsSubmitted((K,)))
    machine.handle(MultiTick(MULTI_GRACE_MS))
    assert machine.handle(GroupUp(0)) == [AssignToGroup((J,), 0), AssignToGroup((K,), 0)]


def test_the_first_result_counts_and_the_other_copy_is_cancelled() -> None:
    machine = up(2)
    machine.handle(JobsSubmitted((J,)))
    machine.handle(GroupDown(0, 0))
    machine.handle(MultiTick(MULTI_GRACE_MS))
    machine.handle(GroupUp(0))
    # The old group had finished it before the cancel came.
    assert machine.handle(GroupEnded(0, J)) == [
        DeliverResult(J),
        StopSending((J,), 1),
        CancelCopies((J,), 1),
    ]
    assert machine.handle(GroupEnded(1, J)) == []


def test_a_copy_in_a_group_that_is_gone_is_cancelled_when_it_is_back() -> None:
    machine = up(3)
    machine.handle(JobsSubmitted((J,)))
    machine.handle(GroupDown(0, 0))
    machine.handle(MultiTick(MULTI_GRACE_MS))
    machine.handle(GroupEnded(1, J))
    assert machine.handle(GroupUp(0)) == [CancelCopies((J,), 0)]
    assert machine.handle(GroupUp(0)) == []


def test_a_job_never_returns_to_a_group_that_cancelled_its_copy() -> None:
    machine = up(2)
    machine.handle(JobsSubmitted((J,)))
    machine.handle(GroupDown(0, 0))
    machine.handle(MultiTick(MULTI_GRACE_MS))  # J is with 1
    machine.handle(GroupUp(0))  # and cancelled in 0
    machine.handle(GroupDown(1, MULTI_GRACE_MS))
    assert machine.handle(MultiTick(2 * MULTI_GRACE_MS)) == [StopSending((J,), 1)]
    assert machine.pending_count == 1
    assert machine.handle(GroupUp(1)) == [AssignToGroup((J,), 1)]


def test_a_refusal_counts_only_from_the_group_that_has_the_job() -> None:
    machine = up(2)
    machine.handle(JobsSubmitted((J,)))
    assert machine.handle(GroupRefused(1, J)) == []
    assert machine.handle(GroupRefused(0, J)) == [DeliverRefusal(J)]
    assert machine.handle(GroupRefused(0, J)) == []


def test_withdrawn_jobs_are_cancelled_where_they_are() -> None:
    machine = up(1)
    machine.handle(JobsSubmitted((J,)))
    machine.handle(JobsSubmitted((K,)))
    assert machine.group_of(J) is machine.groups[0]
    assert machine.handle(JobAbandoned(J)) == [StopSending((J,), 0), CancelCopies((J,), 0)]
    machine.handle(GroupDown(0, 0))
    assert machine.group_of(K) is None
    assert machine.handle(JobAbandoned(K)) == [StopSending((K,), 0)]
    assert machine.handle(JobAbandoned(L)) == []
    assert machine.handle(GroupUp(0)) == [CancelCopies((K,), 0)]


def test_copies_left_behind_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_machine, "MULTI_COPIES_MAX", 2)
    machine = up(2)
    machine.handle(GroupDown(1, 0))
    feed(machine, JobsSubmitted((J,)), JobsSubmitted((K,)), JobsSubmitted((L,)))
    machine.handle(GroupUp(1))
    machine.handle(GroupDown(0, 0))
    machine.handle(MultiTick(MULTI_GRACE_MS))
    assert machine.handle(GroupUp(0)) == [CancelCopies((K, L), 0)]


@pytest.mark.parametrize(
    ("total", "groups", "each"), [(0, 3, 0), (-1, 3, 0), (9, 3, 3), (10, 3, 3), (2, 3, 1)]
)
def test_a_total_cap_is_split_evenly(total: int, groups: int, each: int) -> None:
    assert share(total, groups) == each


GROUPS = 3
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 9)),
        st.tuples(st.just("flip"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("wait"), st.integers(1, 2)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("withdraw"), st.integers(0, 9)),
    ),
    max_size=60,
)


class World:
    """Groups that do what they are told, and what the application saw."""

    def __init__(self, policy: Policy) -> None:
        self.machine = MultiMachine(table(GROUPS, policy))
        self.now_ms = 0
        self.is_up = [False] * GROUPS
        self.live: list[dict[bytes, None]] = [{} for _ in range(GROUPS)]
        self.cancelled: list[dict[bytes, None]] = [{} for _ in range(GROUPS)]
        self.submitted: dict[bytes, None] = {}
        self.closed: dict[bytes, None] = {}  # ended or withdrawn

    def feed(self, event: Event) -> None:
        for instruction in self.machine.handle(event):
            if isinstance(instruction, AssignToGroup):
                group = instruction.group
                assert self.is_up[group]
                for job_id in instruction.job_ids:
                    assert job_id in self.submitted
                    assert job_id not in self.closed
                    assert job_id not in self.cancelled[group], "it would come back cancelled"
                    self.live[group][job_id] = None
            elif isinstance(instruction, CancelCopies):
                assert self.is_up[instruction.group]
                for job_id in instruction.job_ids:
                    self.live[instruction.group].pop(job_id, None)
                    self.cancelled[instruction.group][job_id] = None
            elif isinstance(instruction, DeliverResult):
                assert instruction.job_id not in self.closed, "ended twice"
                self.closed[instruction.job_id] = None

    def step(self, word: str, number: int) -> None:
        job_id = job(number + 1)
        if word == "submit" and job_id not in self.submitted:
            self.submitted[job_id] = None
            self.feed(JobsSubmitted((job_id,)))
        elif word == "flip":
            self.is_up[number] = not self.is_up[number]
            self.feed(GroupUp(number) if self.is_up[number] else GroupDown(number, self.now_ms))
        elif word == "wait":
            self.now_ms += number * MULTI_GRACE_MS
            self.feed(MultiTick(self.now_ms))
        elif word == "end":
            for group in range(GROUPS):
                if self.is_up[group] and self.live[group].pop(job_id, True) is None:
                    self.feed(GroupEnded(group, job_id))
        elif word == "withdraw" and job_id in self.submitted:
            self.closed[job_id] = None
            self.feed(JobAbandoned(job_id))


@given(steps, st.sampled_from(Policy))
def test_every_job_ends_once_and_no_copy_stays(
    script: list[tuple[str, int]], policy: Policy
) -> None:
    world = World(policy)
    for word, number in script:
        world.step(word, number)
    for group in range(GROUPS):
        if not world.is_up[group]:
            world.step("flip", group)
    for number in range(10):
        world.step("end", number)
    assert world.closed == {**world.closed, **world.submitted}
    assert world.machine.pending_count == 0
    assert all(not group.inflight and not group.copies for group in world.machine.groups.values())
    assert all(not live for live in world.live)


def test_the_first_jobs_wait_for_all_groups() -> None:
    machine = MultiMachine(table(3))
    assert (
        feed(machine, GroupStarted(0), GroupUp(0), *(JobsSubmitted((job(n),)) for n in range(1, 7)))
        == []
    )
    assert feed(machine, GroupUp(2), MultiTick(MULTI_GATHER_MS - 1)) == []
    placed = machine.handle(GroupUp(1))
    assert [len(group.inflight) for group in machine.groups.values()] == [2, 2, 2]
    assert [one for made in placed if isinstance(made, AssignToGroup) for one in made.job_ids] == [
        job(n) for n in range(1, 7)
    ]


def test_a_group_that_does_not_come_up_is_not_waited_for_longer_than_the_bound() -> None:
    machine = MultiMachine(table(3))
    feed(
        machine,
        GroupStarted(1_000),
        GroupUp(0),
        GroupUp(1),
        JobsSubmitted((J,)),
        JobsSubmitted((K,)),
    )
    assert machine.handle(MultiTick(1_000 + MULTI_GATHER_MS)) == [
        AssignToGroup((J,), 0),
        AssignToGroup((K,), 1),
    ]
    assert machine.handle(JobsSubmitted((L,))) == [AssignToGroup((L,), 0)]


def test_a_group_that_comes_up_late_gets_its_share_of_what_is_unsent() -> None:
    machine = MultiMachine(table(2))
    jobs = [job(n) for n in range(1, 3 * MULTI_AHEAD + 1)]
    feed(machine, GroupStarted(0), GroupUp(0), MultiTick(MULTI_GATHER_MS), JobsSubmitted(jobs))
    assert [len(group.inflight) for group in machine.groups.values()] == [MULTI_AHEAD, 0]
    machine.handle(GroupUp(1))
    assert [len(group.inflight) for group in machine.groups.values()] == [MULTI_AHEAD, MULTI_AHEAD]
    # Whoever accepts is given more, in the order in which jobs came.
    assert machine.handle(GroupAccepted(0, (jobs[0],))) == [
        AssignToGroup((jobs[2 * MULTI_AHEAD],), 0)
    ]
    assert machine.handle(GroupAccepted(0, (jobs[0],))) == []
    assert machine.handle(GroupEnded(1, jobs[MULTI_AHEAD])) == [
        DeliverResult(jobs[MULTI_AHEAD]),
        AssignToGroup((jobs[2 * MULTI_AHEAD + 1],), 1),
    ]


def test_a_group_that_is_added_gets_its_share() -> None:
    groups = table(1)
    machine = MultiMachine(groups)
    machine.handle(GroupUp(0))
    machine.handle(JobsSubmitted([job(n) for n in range(1, 2 * MULTI_AHEAD + 1)]))
    number = groups.add("later")
    assert machine.handle(GroupAdded(number)) == []
    machine.handle(GroupUp(number))
    assert [len(group.inflight) for group in machine.groups.values()] == [MULTI_AHEAD] * 2
    assert machine.pending_count == 0


def test_what_a_removed_group_has_goes_elsewhere_and_is_cancelled_there() -> None:
    groups = table(2)
    machine = MultiMachine(groups)
    feed(machine, GroupUp(0), GroupUp(1), JobsSubmitted((J,)), GroupAccepted(0, (J,)))
    groups.remove(0)
    assert machine.handle(GroupRemoved(0)) == [
        StopSending((J,), 0),
        CancelCopies((J,), 0),
        CloseGroupSession(0),
        AssignToGroup((J,), 1),
    ]
    assert feed(machine, GroupEnded(0, J), GroupDown(0, 0), JobsSubmitted((K,))) == [
        AssignToGroup((K,), 1)
    ]
    assert groups.load == {0: 0, 1: 2}


def test_a_removed_group_is_left_when_what_stays_there_has_ended() -> None:
    groups = table(2)
    machine = MultiMachine(groups)
    feed(machine, GroupUp(0), GroupUp(1), JobsSubmitted((J,)), Pin((J,)))
    groups.remove(0)
    assert machine.handle(GroupRemoved(0)) == []
    assert machine.handle(JobsSubmitted((K,))) == [AssignToGroup((K,), 1)]
    assert machine.handle(GroupEnded(0, J)) == [DeliverResult(J), CloseGroupSession(0)]


def test_jobs_go_where_their_route_leads_by_weight() -> None:
    routes = (GroupRoute("render.>", (("a", 3), ("b", 1))), GroupRoute("render.fast", (("c", 1),)))
    machine = up(3, Policy.ROUND_ROBIN, *routes)
    feed(machine, JobsSubmitted([job(n) for n in range(1, 401)], "job.submit.Render.slow"))
    assert [len(group.inflight) for group in machine.groups.values()] == [300, 100, 0]
    assert machine.handle(JobsSubmitted((job(500),), "render.fast")) == [
        AssignToGroup((job(500),), 2)
    ]
    feed(machine, *(JobsSubmitted((job(n),)) for n in range(600, 603)))
    assert [len(group.inflight) for group in machine.groups.values()] == [301, 101, 2]


def test_jobs_wait_for_a_group_of_their_route_and_others_do_not_wait_for_them() -> None:
    machine = up(2, Policy.ROUND_ROBIN, GroupRoute("render", (("b", 1),)))
    machine.handle(GroupDown(1, 0))
    assert machine.handle(JobsSubmitted((J,), "render")) == []
    assert machine.handle(JobsSubmitted((K,), "calc")) == [AssignToGroup((K,), 0)]
    assert machine.pending_count == 1
    assert machine.is_open(J)
    assert machine.handle(JobAbandoned(J)) == []
    assert machine.pending_count == 0
    assert machine.handle(JobsSubmitted((L,), "render")) == []
    assert machine.handle(GroupUp(1)) == [AssignToGroup((L,), 1)]


def test_machines_that_share_a_table_take_turns_together() -> None:
    groups = table(2, Policy.LEAST_INFLIGHT)
    one, other = MultiMachine(groups), MultiMachine(groups)
    feed(one, GroupUp(0), GroupUp(1), JobsSubmitted((J,)))
    feed(other, GroupUp(0), GroupUp(1))
    assert other.handle(JobsSubmitted((K,))) == [AssignToGroup((K,), 1)]
    one.discard()
    assert other.handle(JobsSubmitted((L,))) == [AssignToGroup((L,), 0)]


class Counting(dict[bytes, None]):
    """Counts what is looked at from its front."""

    looks = 0

    def __iter__(self) -> Iterator[bytes]:
        for one in super().__iter__():
            self.looks += 1
            yield one


def test_what_waits_costs_nothing_more_after_jobs_had_to_move() -> None:
    """Each answer makes room for one job: only that is looked for."""
    machine = up(2)
    moved = tuple(job(number) for number in range(500))
    feed(machine, JobsSubmitted(moved))
    for group in (0, 1):
        feed(machine, GroupAccepted(group, moved))
    feed(machine, GroupDown(0, 0), MultiTick(MULTI_GRACE_MS), GroupAccepted(1, moved), GroupUp(0))
    feed(
        machine,
        JobsSubmitted(tuple(job(number) for number in range(1_000, 1_000 + 4 * MULTI_AHEAD))),
    )
    ((state, waiting),) = machine._pending.items()
    counting = machine._pending[state] = Counting(waiting)
    first = next(iter(machine.groups[0].unanswered))
    (placed,) = feed(machine, GroupAccepted(0, (first,)))
    assert placed == AssignToGroup((next(iter(waiting)),), 0)
    assert counting.looks < 10
