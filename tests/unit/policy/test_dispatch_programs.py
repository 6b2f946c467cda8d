"""Workers say what they can run, and are given that."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.needs import PLACEMENTS
from rollq.grid.commands import SubmitArray
from rollq.policy import dispatch, lanes
from rollq.policy.needs import ProgramSet
from rollq.policy.pools import DispatchSession, Pool
from tests.unit.grid.kit import job_id, submit, worker_id
from tests.unit.policy.kit import Desk, name_of


def having(*names: str, ships: bool = False) -> ProgramSet:
    return ProgramSet(frozenset(names), ships)


def ask_for(desk: Desk, exec_name: str, *names: str, **options: object) -> None:
    for name in names:
        made = submit(name, **options)  # type: ignore[arg-type]
        desk.apply(msgspec.structs.replace(made, exec_name=exec_name))


@pytest.mark.parametrize("placement", sorted(PLACEMENTS))
def test_the_one_worker_that_has_the_program_gets_every_job_that_needs_it(placement: str) -> None:
    desk = Desk(placement)
    for number in range(7):
        desk.worker(f"w{number}", 9, programs=having("other"))
    desk.worker("able", 2, programs=having("other", "special"))
    ask_for(desk, "special", "a", "b", "c")
    ask_for(desk, "other", "x", queue="q2")
    assert sorted(desk.run())[:2] == ["a@able", "b@able"]
    assert desk.run() == []  # it has no credit left, and nobody else may have c
    desk.grant("able", 1)
    assert desk.run() == ["c@able"]


def test_a_program_that_nobody_has_waits_and_runs_when_somebody_gets_it() -> None:
    desk = Desk()
    desk.worker("w1", 5, programs=having("one"))
    desk.worker("w2", 5, programs=having("two"))
    ask_for(desk, "three", "a")
    assert desk.run() == []
    assert desk.reason("a") == "program_missing"
    desk.dispatcher.announce(worker_id("w2"), having("two", "three"))
    assert desk.run() == ["a@w2"]
    desk.dispatcher.announce(worker_id("w2"), having("two"))
    ask_for(desk, "three", "b")
    assert desk.run() == []
    desk.worker("w3", 1)  # says nothing: it is taken to have everything
    assert desk.run() == ["b@w3"]


def test_programs_of_one_queue_do_not_wait_for_each_other() -> None:
    desk = Desk()
    desk.worker("w1", 9, programs=having("one"))
    ask_for(desk, "two", *(f"t{number}" for number in range(20)))
    ask_for(desk, "one", "a", "b")
    assert desk.run() == ["a@w1", "b@w1"]
    desk.worker("w2", 20, programs=having("two"))
    assert len(desk.run()) == 20


def test_a_program_of_few_workers_has_its_turns_where_credit_comes_one_by_one() -> None:
    desk = Desk()
    desk.worker("w1", programs=having("one", "two"))
    desk.worker("w2", programs=having("one"))
    ask_for(desk, "two", "a", "b")
    ask_for(desk, "one", *(f"o{number}" for number in range(9)))
    served = []
    for _ in range(5):
        desk.grant("w1", 1)
        served += desk.run()
    assert {"a@w1", "b@w1"} <= {*served}


def test_priorities_hold_among_all_programs_that_everybody_has() -> None:
    desk = Desk()
    ask_for(desk, "one", "a")
    ask_for(desk, "two", "b", priority=5)
    desk.worker("w1", 1, programs=having("one", "two"))
    desk.worker("w2", 0, programs=having("one", "two", "three"))
    assert desk.run() == ["b@w1"]


def test_a_program_that_comes_with_its_job_needs_a_worker_that_allows_it() -> None:
    desk = Desk()
    desk.worker("w1", 5, programs=having("one"))
    ask_for(desk, "mine", "a", ships_exec=True)
    assert desk.run() == []
    assert desk.reason("a") == "shipping_refused"
    desk.worker("w2", 5, programs=having(ships=True))
    ask_for(desk, "mine", "b")  # this one does not bring it along
    assert desk.run() == ["a@w2"]


def test_a_job_for_one_worker_waits_until_that_one_has_the_program() -> None:
    desk = Desk()
    desk.worker("w1", 5, programs=having("one"))
    desk.worker("w2", 5, programs=having("two"))
    ask_for(desk, "two", "a", worker_name="w1")
    assert desk.run() == []
    assert desk.reason("a") == "program_missing"
    desk.dispatcher.announce(worker_id("w1"), having("one", "two"))
    assert desk.run() == ["a@w1"]


def test_tasks_of_an_array_go_to_those_who_have_its_program() -> None:
    desk = Desk()
    desk.worker("w1", 5, programs=having("one"))
    desk.worker("w2", 2, programs=having("one", "two"))
    desk.apply(SubmitArray(job_id("arr"), "ann", "q", "two", b"", 3))
    assert [one.split("@")[1] for one in desk.run()] == ["w2", "w2"]
    desk.worker("w2", 2, programs=having("two"))
    assert len(desk.run()) == 1


def test_what_is_apart_moves_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "UNFIT_MAX", 2)
    monkeypatch.setattr(dispatch, "SPLITS_PER_TURN_MAX", 3)
    desk = Desk()
    ask_for(desk, "one", "a")
    ask_for(desk, "two", *(f"t{number}" for number in range(9)))
    ask_for(desk, "one", "b")
    desk.worker("w1", 9, programs=having("one"))
    turns = [desk.run() for _ in range(6)]
    assert [one for turn in turns for one in turn] == ["a@w1", "b@w1"]
    assert turns[1] == []  # it takes several turns to come to the last one
    desk.worker("w2", 9, programs=having("two"))
    assert len(desk.run()) == 9


def test_what_nobody_can_run_is_told_by_queue_and_program() -> None:
    desk = Desk()
    ask_for(desk, "one", "a", queue="lost")
    desk.worker("w1", 9, patterns=("job.assign.q",), programs=having("one"))
    ask_for(desk, "two", "b", "c")
    ask_for(desk, "one", "d")
    desk.run()
    told = [(one.queue, one.program, one.waiting, one.workers) for one in desk.unserved()]
    assert told == [("lost", "one", 1, ""), ("q", "two", 2, "w1")]
    assert len(desk.unserved(1)) == 1
    desk.dispatcher.announce(worker_id("w1"), having("one", "two"))
    desk.run()
    assert [one.queue for one in desk.unserved()] == ["lost"]


def test_a_decision_looks_at_nobody_who_could_not_run_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With many workers that lack a program, a job costs no look at each of them."""
    desk = Desk()
    for number in range(300):
        desk.worker(f"w{number}", 1, programs=having(f"own-{number}"))
    desk.worker("able", 100, programs=having("special"))
    ask_for(desk, "special", "first")
    desk.run()
    looks = 0
    can_run = DispatchSession.can_run

    def counted(self: DispatchSession, need: str) -> bool:
        nonlocal looks
        looks += 1
        return can_run(self, need)

    monkeypatch.setattr(DispatchSession, "can_run", counted)
    for number in range(50):
        ask_for(desk, "special", f"s{number}")
        assert desk.run() == [f"s{number}@able"]
    assert looks == 0


def test_parts_that_no_queue_needs_any_more_go_with_their_queues() -> None:
    desk = Desk()
    desk.worker("w1", 1_000, programs=having(*(f"p{number}" for number in range(200))))
    desk.worker("w2", 1_000, programs=having("other"))
    for number in range(200):
        ask_for(desk, f"p{number}", f"a{number}", queue=f"q{number}")
        (taken,) = desk.run()
        name = name_of(job_id(f"a{number}"))
        assert taken == f"{name}@w1"
        desk.ack(f"a{number}")
        desk.forget(f"a{number}")
    session = desk.dispatcher._sessions[worker_id("w1")]
    assert len(session.pools) < 150
    assert all(isinstance(pool, Pool) for pool in session.pools)
