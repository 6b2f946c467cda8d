"""Sessions and their credit."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError, RemoteError, StateError
from rollq.base.limits import CREDIT_MAX
from rollq.grid.commands import (
    AssignRun,
    CloseWorker,
    PauseQueue,
    ResumeQueue,
)
from rollq.policy.dispatch import Dispatcher
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import Desk


class TestSessions:
    def test_credit_below_nothing_is_the_peers_fault(self) -> None:
        desk = Desk()
        desk.worker("w")
        with pytest.raises(RemoteError) as refused:
            desk.grant("w", -1)
        assert refused.value.code is ErrorCode.BAD_CREDIT
        assert desk.credit("w") == 0

    def test_credit_is_limited_in_all_and_with_what_is_under_way(self) -> None:
        desk = Desk()
        desk.worker("w", CREDIT_MAX + 5)
        assert desk.credit("w") == CREDIT_MAX
        desk.submit("a")
        assert len(desk.decide()) == 1
        desk.grant("w", 7)
        assert desk.credit("w") == CREDIT_MAX - 1

    def test_credit_without_a_session_is_refused(self) -> None:
        desk = Desk()
        with pytest.raises(StateError) as refused:
            desk.grant("nobody", 1)
        assert refused.value.code is ErrorCode.UNKNOWN_WORKER
        assert desk.credit("nobody") == 0

    def test_a_new_session_starts_without_credit(self) -> None:
        desk = Desk()
        desk.worker("w", 5)
        desk.worker("w")
        desk.submit("a")
        assert desk.decide() == []

    def test_a_refusal_gives_nothing_back_to_a_later_session(self) -> None:
        desk = Desk()
        desk.worker("w", 1)
        desk.submit("a")
        decided = desk.decide()
        desk.apply(PauseQueue("q"))
        desk.worker("w", 0)
        assert desk.settle(decided) == []
        assert desk.credit("w") == 0
        desk.apply(ResumeQueue("q"))
        desk.grant("w", 1)
        assert desk.run() == ["a@w"]

    def test_a_session_that_the_group_closed_is_given_nothing(self) -> None:
        desk = Desk()
        desk.worker("w", 5)
        desk.submit("a", "b")
        assert desk.run(1) == ["a@w"]
        decided = desk.decide(1)
        desk.apply(CloseWorker(worker_id("w"), 1))
        assert desk.settle(decided) == []
        assert desk.decide() == []
        desk.worker("v", 5)
        assert desk.run() == ["a@v", "b@v"]

    def test_a_session_of_an_older_incarnation_is_given_nothing(self) -> None:
        desk = Desk()
        desk.worker("w", 5)
        desk.open_worker("w", incarnation=2)
        desk.submit("a")
        assert desk.decide() == []

    def test_an_ack_makes_its_worker_less_loaded(self) -> None:
        desk = Desk()
        desk.worker("w1", 1)
        desk.submit("a")
        desk.run()
        desk.worker("w2", 1)
        desk.submit("b")
        desk.run()
        desk.grant("w1", 2)
        desk.grant("w2", 2)
        desk.submit("c")
        desk.ack("b")
        assert desk.run() == ["c@w2"]

    def test_a_wrong_placement_is_refused_at_the_start(self) -> None:
        with pytest.raises(LocalError):
            Dispatcher(Desk().state, "fastest")

    def test_a_refusal_of_something_never_decided_changes_nothing(self) -> None:
        desk = Desk()
        desk.worker("w", 1)
        desk.submit("a")
        desk.dispatcher.refused(AssignRun(worker_id("w"), 1, 1, 100, job_id("a")), (0,))
        assert desk.credit("w") == 1
        assert desk.run() == ["a@w"]
