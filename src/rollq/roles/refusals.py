"""Members that do not let us in. Pure.

One that is behind the others may not know an account or token that was made a moment ago, so one
refusal proves nothing. Two in a row do: then whoever waits is told, and members are dialed seldom.
A member that is not reached says nothing about it: with two of three down, one refuses each time.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import NOT_LET_IN_CODES, RollqError
from rollq.base.ids import NIL_ID
from rollq.wire.messages import Error

ENOUGH: Final = 2


def is_refusal(message: Error) -> bool:
    """Whether an answer to a hello says that we are not let in."""
    return message.request_id == NIL_ID and message.code in NOT_LET_IN_CODES


def refusal_of(error: RollqError) -> Error | None:
    """An error of dialing, as an answer that says so; None if it is about something else."""
    if error.code not in NOT_LET_IN_CODES:
        return None
    return Error(NIL_ID, int(error.code), error.message, error.hint)


class Refusals:
    """Those in a row.

    Attributes:
        last: Why we are not let in; None: we may be.
    """

    __slots__ = ("_count", "last")

    def __init__(self) -> None:
        self.last: Error | None = None
        self._count = 0

    @property
    def final(self) -> Error | None:
        """What to answer to whatever is asked, as long as there were enough of them."""
        return self.last if self._count >= ENOUGH else None

    def noted(self, error: Error) -> None:
        """We are not let in."""
        self.last = error
        self._count += 1

    def over(self) -> None:
        """A member let us in, or answered our hello in another way."""
        self.last = None
        self._count = 0
