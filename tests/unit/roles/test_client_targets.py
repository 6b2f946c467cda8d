"""Whom results are for: an entry goes only with the one that made it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.wire import messages as wire

JOB = bytes(range(1, 17))


class Target:
    def deliver(self, results: Sequence[wire.Result]) -> bool:
        return True

    def fail(self, error: RollqError) -> None:
        raise AssertionError(error)


def test_an_ask_that_fails_late_leaves_what_another_asked_for_since() -> None:
    engine = GroupEngine("127.0.0.1:1", "")
    first, second = Target(), Target()

    def ask() -> None:
        with engine.register_target(JOB, first):
            engine.take_results([wire.Result(JOB, "done")])  # it came after all, and was taken
            with engine.register_target(JOB, second):
                pass
            raise LocalError(ErrorCode.TIMED_OUT, "no answer")

    with pytest.raises(LocalError, match="no answer"):
        ask()
    assert engine.targets == {JOB: second}
