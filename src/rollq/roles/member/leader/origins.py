"""Who waits for the outcome of a command that is on its way into the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.ids import NIL_ID, MessageId
from rollq.grid.commands import Command
from rollq.grid.effects import Applied, Outcome


class Origin(msgspec.Struct, frozen=True):
    """Whoever waits for the outcome of a command.

    Attributes:
        settle: Called once, when the command is applied, with this origin, the command, its
            outcome, and the entry that it was in. Never called if leadership is lost before.
        session: Whose request it was; it may be gone by then.
        request_id: As the session named its request; a job's is the job's id.
        attempt: That was acked or nacked, if any.
    """

    settle: Settle
    session: int = 0
    request_id: MessageId = NIL_ID
    attempt: int = 0


# Each settles the kind of command that it was proposed with.
Settle: TypeAlias = Callable[[Origin, Any, Outcome, Applied], None]


def _ignore(origin: Origin, command: Command, outcome: Outcome, applied: Applied) -> None:
    """The outcome is seen in the events."""


SILENT: Final = Origin(_ignore)  # nobody waits

# A command, who waits for it, and how many bytes of an entry it takes at most.
Proposal: TypeAlias = tuple[Command, Origin, int]
