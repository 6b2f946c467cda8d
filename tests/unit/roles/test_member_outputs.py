from __future__ import annotations

from rollq.roles.member.outputs import CloseSession, Outputs, ToSession
from rollq.wire.messages import NotLeader

BYE = NotLeader("b", ("a", "b"))


def test_a_session_is_told_everything_of_a_turn_at_once() -> None:
    outputs = Outputs()
    outputs.mail(1).append(BYE)
    outputs.mail(2).append(BYE)
    outputs.mail(1).append(BYE)
    assert outputs.take() == [ToSession(1, [BYE, BYE]), ToSession(2, [BYE])]
    assert outputs.take() == []


def test_nothing_is_said_to_a_session_after_its_end() -> None:
    outputs = Outputs()
    for _ in range(2):  # it may be sent away for each of its messages
        outputs.mail(1).append(BYE)
        outputs.close(1, "over")
    closed = CloseSession(1, "over")
    assert outputs.take() == [ToSession(1, [BYE]), closed, closed]
