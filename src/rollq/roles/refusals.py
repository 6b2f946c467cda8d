"""Sessions that members refuse. Pure.

A member that is behind may not know a new account or token yet, so one refusal proves nothing. Two
in a row do: then waiting requests fail, and dialing slows down. Members that cannot be reached do
not count: with two of three down, the third refuses each time.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import NOT_LET_IN_CODES, RollqError
from rollq.base.ids import NIL_ID
from rollq.wire.messages import Error

ENOUGH: Final = 2


def is_refusal(message: Error) -> bool:
    """Whether an answer to a hello refuses the session."""
    return message.request_id == NIL_ID and message.code in NOT_LET_IN_CODES


def refusal_of(error: RollqError) -> Error | None:
    """A dial error as the answer that refuses a session; None if it is another error."""
    if error.code not in NOT_LET_IN_CODES:
        return None
    return Error(NIL_ID, int(error.code), error.message, error.hint)


class Refusals:
    """Refusals in a row.

    Attributes:
        last: The last refusal; None: the session may be accepted.
    """

    __slots__ = ("_count", "last")

    def __init__(self) -> None:
        self.last: Error | None = None
        self._count = 0

    @property
    def final(self) -> Error | None:
        """The error for all requests while there were enough refusals in a row."""
        return self.last if self._count >= ENOUGH else None

    def noted(self, error: Error) -> None:
        """Count a refusal."""
        self.last = error
        self._count += 1

    def over(self) -> None:
        """A member accepted the session, or answered the hello in another way."""
        self.last = None
        self._count = 0
