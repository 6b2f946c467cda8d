"""Jobs that are accepted and assigned by the same entry."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.jobs import JobOptions
from rollq.grid.commands import AssignRun, OpenClient, PauseQueue, ResumeQueue, SubmitRun
from rollq.grid.effects import RunDone
from rollq.grid.runs import ids_in
from rollq.grid.state import ASSIGNED, QUEUED
from rollq.policy.needs import ProgramSet
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import Desk, name_of


def run_of(*names: str, client: str = "ann", queue: str = "q", **options: Any) -> SubmitRun:
    ids = b"".join(job_id(name) for name in names)
    made = JobOptions(**options) if options else None
    return SubmitRun(client, queue, "exe", ids, tuple(b"{}" for _ in names), made)


def desk_with(*workers: tuple[str, int]) -> Desk:
    """A desk that knows the client and the queue, with nothing in it, and free workers."""
    desk = Desk()
    desk.worker("first", 1)
    desk.submit("before")
    desk.run()
    for name, credit in workers:
        desk.worker(name, credit)
    return desk


def ahead(desk: Desk, command: SubmitRun) -> list[AssignRun]:
    """What is decided on jobs that are not there yet."""
    assert desk.decide() == []
    return desk.dispatcher.start_at_once(command)


def start(desk: Desk, *commands: SubmitRun) -> list[str]:
    """Submit in one entry what can start in it, too; which job was given to whom."""
    assert desk.decide() == []
    assigned = [run for command in commands for run in desk.dispatcher.start_at_once(command)]
    applied = desk.apply(*commands, *assigned)
    given = []
    for run, outcome in zip(assigned, applied.outcomes[len(commands) :], strict=True):
        assert isinstance(outcome, RunDone)
        refused = [at for at, _ in outcome.others]
        desk.dispatcher.refused(run, refused)
        for at, job in enumerate(ids_in(run.job_ids)):
            if at not in refused:
                given.append(f"{name_of(job)}@{run.worker_id.lstrip(bytes(1)).decode()}")
    return given


def test_a_job_for_which_a_worker_is_free_starts_with_its_acceptance() -> None:
    desk = desk_with(("w", 2))
    assert start(desk, run_of("a")) == ["a@w"]
    assert desk.job("a").state is ASSIGNED
    assert desk.credit("w") == 1
    assert desk.run() == []
    assert start(desk, run_of("b", "c")) == ["b@w"]
    assert desk.job("c").state is QUEUED
    desk.grant("w", 1)
    assert desk.run() == ["c@w"]


def test_a_lease_is_that_of_the_job() -> None:
    desk = desk_with(("w", 2))
    (run,) = ahead(desk, run_of("a", lease_ms=1_234))
    assert run == AssignRun(worker_id("w"), 1, 1, 1_234, job_id("a"))


def test_a_run_is_spread_over_all_who_are_free() -> None:
    desk = desk_with(("v", 4), ("w", 4))
    given = start(desk, run_of("a", "b", "c", "d"))
    assert sorted(one[-1] for one in given) == ["v", "v", "w", "w"]
    assert [one[0] for one in given] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "command",
    [
        run_of("a", client="nobody knows"),
        run_of("a", queue="new"),
        run_of("a", delay_ms=1_000),
        run_of("a", worker_name="w"),
        run_of("before"),
        run_of("a", "a"),
        run_of("a", "before"),
    ],
)
def test_whatever_needs_a_closer_look_takes_the_usual_way(command: SubmitRun) -> None:
    desk = desk_with(("w", 5))
    assert ahead(desk, command) == []
    assert desk.credit("w") == 5


def test_a_job_that_is_submitted_twice_in_an_entry_is_decided_once() -> None:
    desk = desk_with(("w", 5))
    assert start(desk, run_of("a"), run_of("a")) == ["a@w"]
    assert desk.credit("w") == 4


def test_a_paused_queue_starts_nothing() -> None:
    desk = desk_with(("w", 5))
    desk.apply(PauseQueue("q"))
    assert start(desk, run_of("a")) == []


def test_a_pause_in_the_same_entry_gives_the_credit_back() -> None:
    desk = desk_with(("w", 1))
    (run,) = ahead(desk, run_of("a"))
    assert desk.credit("w") == 0
    applied = desk.apply(PauseQueue("q"), run_of("a"), run)
    outcome = applied.outcomes[-1]
    assert isinstance(outcome, RunDone)
    assert [at for at, _ in outcome.others] == [0]
    desk.dispatcher.refused(run, [0])
    assert desk.credit("w") == 1
    assert desk.run() == []
    desk.apply(ResumeQueue("q"))
    assert desk.run() == ["a@w"]


def test_a_submit_that_is_refused_gives_the_credit_back() -> None:
    desk = desk_with(("w", 1))
    command = run_of("a", priority=99)
    (run,) = ahead(desk, command)
    applied = desk.apply(command, run)
    assert job_id("a") not in desk.state.jobs
    outcome = applied.outcomes[-1]
    assert isinstance(outcome, RunDone)
    desk.dispatcher.refused(run, [at for at, _ in outcome.others])
    assert desk.credit("w") == 1
    assert start(desk, run_of("b")) == ["b@w"]


def test_no_client_gets_more_than_its_cap() -> None:
    desk = desk_with(("w", 9))
    desk.apply(OpenClient("ann", 3))  # one of its jobs runs
    assert start(desk, run_of("a", "b", "c", "d")) == ["a@w", "b@w"]
    assert desk.run() == []
    assert start(desk, run_of("e")) == []


def test_decisions_under_way_count_against_the_cap() -> None:
    desk = desk_with(("w", 9))
    desk.apply(OpenClient("ann", 2))
    assert len(ahead(desk, run_of("a"))) == 1
    assert ahead(desk, run_of("b")) == []


def test_nobody_who_waits_is_passed_over() -> None:
    desk = desk_with()
    desk.submit("waits", client="bob")
    desk.grant("first", 1)
    assert desk.dispatcher.decide(0) == []  # its turn is not over
    assert desk.dispatcher.start_at_once(run_of("a")) == []
    assert desk.run() == ["waits@first"]


def test_a_worker_that_lacks_the_program_is_not_given_it() -> None:
    desk = desk_with()
    desk.worker("w", 5, programs=ProgramSet(frozenset({"other"})))
    assert start(desk, run_of("a")) == []
    assert desk.run() == []


def test_a_new_leader_finds_what_waits_and_nothing_that_started_at_once() -> None:
    desk = desk_with(("w", 1))
    assert start(desk, run_of("a", "b")) == ["a@w"]
    follower = desk.follower
    follower.open_worker(worker_id("w"), 1, "w", ("job.assign.>",))
    follower.grant(worker_id("w"), 9)
    (run,) = follower.decide(100)
    assert isinstance(run, AssignRun)
    assert run.job_ids == job_id("b")


def test_what_was_decided_by_a_leader_that_steps_down_waits_if_it_is_accepted() -> None:
    desk = desk_with(("w", 1))
    command = run_of("a")
    assert len(ahead(desk, command)) == 1
    desk.dispatcher.step_down()
    desk.apply(command)  # by another leader
    desk.dispatcher.open_worker(worker_id("w"), 1, "w", ("job.assign.>",))
    desk.grant("w", 1)
    assert desk.run() == ["a@w"]
