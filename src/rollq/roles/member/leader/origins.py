"""Callbacks for the outcomes of proposed commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.ids import NIL_ID, MessageId
from rollq.grid.commands import Command
from rollq.grid.effects import Applied, Outcome


class Origin(msgspec.Struct, frozen=True):
    """The source of a command, and the callback for its outcome.

    Attributes:
        settle: Called once, when the command is applied, with this origin, the command, its
            outcome, and the applied entry. Never called if leadership is lost before.
        session: Of the request; it may be closed by then.
        request_id: The session's id of the request; the job id for a job.
        attempt: The acked or nacked attempt, if any.
    """

    settle: Settle
    session: int = 0
    request_id: MessageId = NIL_ID
    attempt: int = 0


# Each settles the kind of command that it was proposed with.
Settle: TypeAlias = Callable[[Origin, Any, Outcome, Applied], None]


def _ignore(origin: Origin, command: Command, outcome: Outcome, applied: Applied) -> None:
    """Does nothing: the outcome is in the events."""


SILENT: Final = Origin(_ignore)  # for commands without a callback

# A command, its origin, and an upper bound of its bytes in an entry.
Proposal: TypeAlias = tuple[Command, Origin, int]
