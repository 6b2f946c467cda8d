"""The interface of checkers, and their verdict."""

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
    """An invariant is broken, or a liveness bound is exceeded."""

    def __init__(self, checker: str, what: str) -> None:
        super().__init__(f"{checker}: {what}")
        self.checker = checker
        self.what = what


class Checker:
    """Observes a run; every hook does nothing by default."""

    name = "checker"

    def fail(self, what: str) -> None:
        """Fail the run."""
        raise Violation(self.name, what)

    def on_start(self, member: SimMember, driver: Driver) -> None:
        """A member has recovered from its disk."""

    def on_turn(self, member: SimMember, driver: Driver) -> None:
        """A member has finished a turn of its loop."""

    def on_write(self, member: SimMember, driver: Driver, work: Work) -> None:
        """A member is about to write to its disk."""

    def on_send(self, member: SimMember, driver: Driver, output: Any) -> None:
        """A member sends a message."""

    def on_receive(self, member: SimMember, session: int, message: Any) -> None:
        """A member receives a message of a session."""

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """A member has applied an entry."""

    def on_worker_event(self, worker: SimWorker, event: Any, instructions: list[Any]) -> None:
        """A worker's machine has handled an event; its instructions are not executed yet."""

    def on_finish(self, members: list[SimMember]) -> None:
        """The run is over, and the cluster has healed and converged."""


class LogChecker(Checker):
    """Builds a model of its own from the log: sees each entry once, when it is first applied."""

    def __init__(self) -> None:
        self._seen = 0

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Process an entry that no member has applied before."""
        if entry.index <= self._seen:
            return
        self._seen = entry.index
        if entry.kind == EntryKind.NORMAL and entry.data:
            commands = _commands_in(entry.data)
            for command, outcome in zip(commands, applied.outcomes, strict=True):
                if isinstance(outcome, Done):
                    self.on_command(applied.index, command, outcome.count)
                elif isinstance(outcome, RunDone):
                    others = dict(outcome.others)
                    count = outcome.count + len(others)
                    self.on_run(command, [at for at in range(count) if at not in others])
        self.on_entry(member, applied, state)

    def on_command(self, index: int, command: Command, count: int) -> None:
        """A command succeeded: it was neither refused nor a duplicate. `count` is of its
        outcome."""

    def on_run(self, command: Command, positions: list[int]) -> None:
        """A run succeeded for the jobs at these positions."""

    def on_entry(self, member: SimMember, applied: Applied, state: GridState) -> None:
        """All commands of an entry were processed; `applied` has its events."""


@lru_cache(maxsize=1)
def _commands_in(data: bytes) -> tuple[Command, ...]:
    """Decode an entry once for all checkers, which see it one after the other."""
    return decode_batch(data).commands
