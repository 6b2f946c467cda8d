"""What keeps a job waiting though there is credit: caps, pauses, and the name of a worker."""

from __future__ import annotations

import pytest

from rollq.grid.commands import (
    OpenClient,
    PauseQueue,
    ResumeQueue,
    SetSettings,
    Settings,
)
from tests.unit.grid.kit import worker_id
from tests.unit.policy.kit import Desk, in_ones
from tests.unit.policy.scripts import Script


class TestCaps:
    def test_a_client_at_its_cap_does_not_hold_up_others(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.submit("a1", "a2", client="ann")
        desk.submit("b1", "b2", client="bob")
        desk.worker("w", 9)
        assert desk.run() == ["a1@w", "b1@w", "b2@w"]
        assert desk.reason("a2") == "cap"
        desk.ack("a1")
        assert desk.run() == ["a2@w"]

    def test_what_is_decided_counts_before_it_is_applied(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 2))
        desk.submit("a", "b", "c")
        desk.worker("w", 9)
        decided = desk.decide()
        assert len(decided) == 2
        assert desk.decide() == []
        assert desk.settle(decided) == ["a@w", "b@w"]
        assert desk.run() == []

    def test_the_cap_of_the_cluster_is_for_clients_without_one(self) -> None:
        desk = Desk()
        desk.apply(SetSettings(Settings(client_cap=1)))
        desk.apply(OpenClient("bob", 2))
        desk.submit("a1", "a2", client="ann")
        desk.submit("b1", "b2", client="bob")
        desk.worker("w", 9)
        assert desk.run() == ["a1@w", "b1@w", "b2@w"]
        desk.apply(SetSettings(Settings(client_cap=0)))
        assert desk.run() == ["a2@w"]

    def test_a_higher_cap_counts_at_once(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.submit("a", "b")
        desk.worker("w", 9)
        assert desk.run() == ["a@w"]
        desk.apply(OpenClient("ann", 2))
        assert desk.run() == ["b@w"]

    def test_a_lane_that_nobody_serves_does_not_take_the_place_of_another(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.worker("w", 9, ("job.assign.b", "job.assign.c"))
        desk.submit("b1", queue="b")
        assert desk.run() == ["b1@w"]
        desk.worker("x", 1, ("job.assign.a",))
        desk.submit("a1", queue="a")
        desk.submit("c1", queue="c")
        assert desk.run() == []  # both lanes are parked now
        desk.dispatcher.close_worker(worker_id("x"))
        desk.ack("b1")
        assert desk.run() == ["c1@w"]

    def test_a_free_place_wakes_one_lane_and_not_all(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.worker("w", 99)
        names = [f"j{number}" for number in range(20)]
        for name in names:
            desk.submit(name, queue=f"q{name}")
        taken = desk.run()
        holds = desk.dispatcher._holds
        for _ in names[1:]:
            parked = len(holds._parked["ann"])
            desk.ack(taken[-1].removesuffix("@w"))
            desk.grant("w", 1)
            assert len(desk.run()) == 1
            assert len(holds._parked.get("ann", ())) == parked - 1
            taken.append(name_taken(desk))
        assert not holds._parked


def name_taken(desk: Desk) -> str:
    """The one job that runs, as `job@w`."""
    (held,) = desk.state.workers[worker_id("w")].held
    return f"{held[:12].lstrip(bytes(1)).decode()}@w"


class TestPause:
    def test_a_paused_queue_gives_nothing_until_it_is_resumed(self) -> None:
        desk = Desk()
        desk.submit("a1", queue="a")
        desk.submit("b1", queue="b")
        desk.submit("m1", queue="a", worker_name="w")
        desk.apply(PauseQueue("a"))
        desk.worker("w", 9)
        assert desk.run() == ["b1@w"]
        assert desk.reason("a1") == "paused"
        desk.submit("a2", queue="a")
        assert desk.run() == []
        desk.apply(ResumeQueue("a"))
        assert desk.run() == ["m1@w", "a1@w", "a2@w"]

    def test_a_queue_paused_before_its_first_job_is_paused(self) -> None:
        desk = Desk()
        desk.worker("w", 9)
        desk.apply(PauseQueue("a"))
        desk.submit("a1", queue="a")
        assert desk.run() == []
        desk.apply(ResumeQueue("a"))
        assert desk.run() == ["a1@w"]

    def test_a_decision_that_a_pause_overtook_goes_back_in_order(self) -> None:
        desk = Desk()
        desk.worker("w", 3)
        desk.submit("a", "b", "c", "d")
        decided = desk.decide()
        desk.apply(PauseQueue("q"))
        assert desk.settle(decided) == []
        assert desk.credit("w") == 3
        assert desk.run() == []
        desk.apply(ResumeQueue("q"))
        assert desk.run() == ["a@w", "b@w", "c@w"]


class TestNamedWorkers:
    def test_only_the_named_worker_gets_the_job_and_gets_it_first(self) -> None:
        desk = Desk()
        desk.submit("any")
        desk.submit("mine", worker_name="w2")
        desk.worker("w1", 9)
        assert desk.run() == ["any@w1"]
        assert desk.reason("mine") == "no_worker"
        desk.submit("other")
        desk.worker("w2", 9)
        assert desk.run()[0] == "mine@w2"

    def test_mail_and_other_work_share_one_credit(self) -> None:
        desk = Desk()
        desk.worker("w", 1)
        desk.submit("any")
        desk.submit("mine", worker_name="w")
        assert desk.run() == ["mine@w"]
        assert desk.run() == []
        desk.grant("w", 1)
        assert desk.run() == ["any@w"]

    def test_the_named_worker_must_serve_the_queue(self) -> None:
        desk = Desk()
        desk.worker("w", 9, ("job.assign.b",))
        desk.submit("a1", queue="a", worker_name="w")
        desk.submit("b1", queue="b", worker_name="w")
        assert desk.run() == ["b1@w"]

    def test_an_emptied_mailbox_is_forgotten_and_opened_anew(self) -> None:
        desk = Desk()
        desk.worker("w", 9)
        for name in ("a", "b"):
            desk.submit(name, worker_name="w")
            assert desk.run() == [f"{name}@w"]
            assert desk.run() == []
            assert not desk.dispatcher._backlog._pinned
            assert not desk.follower._backlog._pinned
        session = desk.dispatcher._sessions[worker_id("w")]
        assert len(session.pools) == 1

    def test_workers_of_one_name_take_turns(self) -> None:
        desk = Desk()
        for number in (1, 2):
            desk.worker(f"w{number}", 0)
            desk.dispatcher.open_worker(worker_id(f"w{number}"), 1, "twin", ("job.assign.>",))
            desk.grant(f"w{number}", 2)
        desk.submit("a", "b", worker_name="twin")
        decided = desk.decide()
        assert [command.worker_id for command in decided] == [worker_id("w1"), worker_id("w2")]


class TestLines:
    def test_a_turn_moves_no_more_than_it_may(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rollq.policy.limits.MOVES_PER_TURN_MAX", 5)
        script = Script()
        script.play("limit exec:exe running=2\nopen w=99")
        names = " ".join(f"j{number}" for number in range(12))
        script.play(f"submit {names}\nsubmit x exec=other")
        script.play("submit y queue=r exec=other")
        assert turns_of(script) == ["j0@w y@w j1@w", "x@w", ""]  # others do not wait for that
        script.play("unlimit exec:exe")
        assert turns_of(script) == ["j2@w j3@w j4@w j5@w j6@w", "j7@w j8@w j9@w j10@w j11@w", ""]

    def test_who_comes_and_goes_leaves_no_timers_behind(self) -> None:
        script = Script()
        script.play("limit exec:exe rate=4/h burst=1\nopen w=99\nsubmit a\ngives a@w")
        for number in range(20):
            script.play(f"submit j{number}\ngives\ncancel j{number}\ngives")
        limits = script.dispatcher._holds.limits
        assert len(limits._timers) == 1
        script.play("wait 1000000\ngives")
        assert not limits._timers
        assert not limits._holds

    def test_nothing_is_looked_at_while_no_limit_is_set(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = Script()
        monkeypatch.setattr("rollq.policy.limits.limits_of", None)
        script.play("open w=9\nsubmit a b c keys=gpu\ngives a@w b@w c@w\nend a b c")


def turns_of(script: Script) -> list[str]:
    """What each turn gives, until it need not be asked again."""
    turns: list[str] = []
    while not turns or script.dispatcher.next_ms is not None:
        decided = in_ones(script.dispatcher.decide(1_000, script.stamp_ms))
        turns.append(" ".join(script.settle(decided)))
    return turns
