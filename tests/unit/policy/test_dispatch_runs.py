"""Decisions in runs: as many jobs at once as each may have, and as fairly as one by one."""

from __future__ import annotations

from collections import Counter

from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid.commands import AssignRun, AssignTasks, OpenClient
from rollq.grid.runs import ids_in
from tests.unit.grid.kit import worker_id
from tests.unit.policy.kit import Desk, in_ones, name_of, said


def names_in(command: AssignRun | AssignTasks) -> list[str]:
    assert isinstance(command, AssignRun)
    return [name_of(job_id) for job_id in ids_in(command.job_ids)]


def test_one_client_is_given_all_credit_in_one_run() -> None:
    desk = Desk()
    desk.worker("w", 5)
    desk.submit(*(f"j{number}" for number in range(9)))
    (run,) = desk.dispatcher.decide(100)
    assert names_in(run) == ["j0", "j1", "j2", "j3", "j4"]
    desk.apply(run)
    assert desk.credit("w") == 0
    desk.grant("w", 100)
    (rest,) = desk.dispatcher.decide(100)
    assert names_in(rest) == ["j5", "j6", "j7", "j8"]


def test_one_free_slot_is_one_job() -> None:
    desk = Desk()
    desk.worker("w", 1)
    desk.submit("a", "b")
    (run,) = desk.dispatcher.decide(100)
    assert names_in(run) == ["a"]


def test_clients_get_equal_parts_of_a_worker() -> None:
    desk = Desk()
    desk.worker("w", 7)
    for client in ("ann", "bob", "cid"):
        desk.submit(*(f"{client}{number}" for number in range(9)), client=client)
    (run,) = desk.dispatcher.decide(100)
    got = Counter(name[:3] for name in names_in(run))
    assert sorted(got.values()) == [2, 2, 3]
    assert names_in(run)[:4] == ["ann0", "ann1", "bob0", "bob1"]


def test_a_client_with_few_jobs_leaves_its_part_to_the_others() -> None:
    desk = Desk()
    desk.worker("w", 10)
    desk.submit("lone", client="ann")
    desk.submit(*(f"b{number}" for number in range(20)), client="bob")
    (run,) = desk.dispatcher.decide(100)
    assert Counter(name[0] for name in names_in(run)) == {"l": 1, "b": 9}


def test_queues_get_equal_parts_of_a_worker() -> None:
    desk = Desk()
    desk.worker("w", 8)
    for queue in ("q", "r"):
        desk.submit(*(f"{queue}{number}" for number in range(9)), queue=queue)
    (run,) = desk.dispatcher.decide(100)
    assert Counter(name[0] for name in names_in(run)) == {"q": 4, "r": 4}


def test_few_jobs_are_spread_over_idle_workers() -> None:
    desk = Desk()
    for number in range(4):
        desk.worker(f"w{number}", 64)
    desk.submit(*(f"j{number}" for number in range(12)))
    runs = desk.dispatcher.decide(100)
    assert sorted(len(names_in(run)) for run in runs) == [3, 3, 3, 3]


def test_a_cap_bounds_a_run() -> None:
    desk = Desk()
    desk.apply(OpenClient("ann", 3))
    desk.worker("w", 10)
    desk.submit(*(f"j{number}" for number in range(9)))
    (run,) = desk.dispatcher.decide(100)
    assert names_in(run) == ["j0", "j1", "j2"]
    assert desk.dispatcher.decide(100) == []


def test_no_more_than_asked_for_is_in_runs() -> None:
    desk = Desk()
    desk.worker("w", 64)
    desk.submit(*(f"j{number}" for number in range(9)))
    (run,) = desk.dispatcher.decide(4)
    assert len(names_in(run)) == 4


def test_jobs_that_are_not_alike_keep_their_order() -> None:
    desk = Desk()
    desk.worker("w", 9)
    desk.submit("a", "b")
    desk.submit("c", lease_ms=2_000)
    desk.submit("d")
    desk.submit_array("arr", 2)
    desk.submit("e")
    runs = desk.dispatcher.decide(100)
    assert [said(one) for one in in_ones(runs)] == [
        "a@w",
        "b@w",
        "c@w",
        "d@w",
        "arr@w",
        "arr@w",
        "e@w",
    ]


def test_an_array_gives_runs_of_tasks_up_to_its_limit() -> None:
    desk = Desk()
    desk.worker("w", 50)
    desk.submit_array("arr", 20, running_max=6)
    runs = desk.dispatcher.decide(100)
    assert runs == [
        AssignTasks(run.array_id, worker_id("w"), 1, run.lease_ms, 6)
        for run in runs
        if isinstance(run, AssignTasks)
    ]
    desk.apply(*runs)
    assert desk.dispatcher.decide(100) == []


def test_a_whole_array_is_given_and_no_more() -> None:
    desk = Desk()
    desk.worker("w", 50)
    desk.submit_array("arr", 20)
    runs = desk.dispatcher.decide(100)
    assert sum(run.count for run in runs if isinstance(run, AssignTasks)) == 20
    desk.apply(*runs)
    assert desk.dispatcher.decide(100) == []
    assert desk.credit("w") == 30


def test_what_is_refused_of_a_run_waits_again() -> None:
    desk = Desk()
    desk.worker("w", 4)
    desk.submit("a", "b", "c", "d")
    (run,) = desk.dispatcher.decide(100)
    desk.dispatcher.refused(run, (1, 3))
    assert desk.credit("w") == 2
    (again,) = desk.dispatcher.decide(100)
    assert names_in(again) == ["b", "d"]


def test_a_run_is_not_longer_than_it_may_be() -> None:
    desk = Desk()
    desk.worker("w", RUN_JOBS_MAX + 10)
    desk.submit(*(f"j{number}" for number in range(RUN_JOBS_MAX + 10)))
    runs = desk.dispatcher.decide(10 * RUN_JOBS_MAX)
    assert [len(names_in(run)) for run in runs] == [RUN_JOBS_MAX, 10]
