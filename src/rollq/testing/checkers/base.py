"""What a checker is, and how it complains."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rollq.grid.command_codec import decode_batch
from rollq.grid.commands import Command
from rollq.grid.effects import Applied, Done, RunDone
from rollq.grid.state import GridState
from rollq.raft.types import Entry, EntryKind

if TYPE_CHECKING:
    from rollq.roles.member.driver import Driver
    from rollq.roles.member.work import Work
    from rollq.testing.sim_member import SimMember
    from rollq.testing.sim_worker import SimWorker


class Violation(Exception):  # noqa: N818 - a verdict, not an error
    """A promise of the product is broken, or it did not do its duty in time."""

    def __init__(self, checker: str, what: str) -> None:
        super().__init__(f"{checker}: {what}")
        self.checker = checker
        self.what = what


class Checker:
    """Watches; the default of every observation is to do nothing."""

    name = "checker"

    def fail(self, what: str) -> None:
        """Stop the run."""
        raise Violation(self.name, what)

    def started(self, member: SimMember, driver: Driver) -> None:
        """A member recovered from its disk."""

    def turned(self, member: SimMember, driver: Driver) -> None:
        """A member finished a turn."""

    def works(self, member: SimMember, driver: Driver, work: Work) -> None:
        """A member is about to write."""

    def sends(self, member: SimMember, driver: Driver, output: Any) -> None:
        """A message leaves a member."""

    def hears(self, member: SimMember, session: int, message: Any) -> None:
        """A member takes a message of a session."""

    def applied(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """A member applied an entry."""

    def worked(self, worker: SimWorker, event: Any, instructions: list[Any]) -> None:
        """A worker's machine handled an event; what it asks for is not done yet."""

    def finished(self, members: list[SimMember]) -> None:
        """The run is over and everything is whole again."""


class LogChecker(Checker):
    """Keeps an account of its own from the log: each entry once, when a member first applies it."""

    def __init__(self) -> None:
        self._seen = 0

    def applied(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Go through an entry that no member had applied yet."""
        if entry.index <= self._seen:
            return
        self._seen = entry.index
        if entry.kind == EntryKind.NORMAL and entry.data:
            commands = _commands_in(entry.data)
            for command, outcome in zip(commands, applied.outcomes, strict=True):
                if isinstance(outcome, Done):
                    self.done(applied.index, command, outcome.count)
                elif isinstance(outcome, RunDone):
                    others = dict(outcome.others)
                    count = outcome.count + len(others)
                    self.done_run(command, [at for at in range(count) if at not in others])
        self.followed(member, applied, state)

    def done(self, index: int, command: Command, count: int) -> None:
        """A command was done, not refused and not known; `count` is its outcome's."""

    def done_run(self, command: Command, positions: list[int]) -> None:
        """A run was done for the jobs at these positions."""

    def followed(self, member: SimMember, applied: Applied, state: GridState) -> None:
        """All commands of an entry are told; this is what it came to."""


@lru_cache(maxsize=1)
def _commands_in(data: bytes) -> tuple[Command, ...]:
    """Decoded once for all checkers, which see an entry one after the other."""
    return decode_batch(data).commands
