"""Commands on their way into the log, and who waits for their outcome.

A command waits here until the next turn of the loop, goes into one entry with everything else that
arrived, and is found again by the index of that entry when it is applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import NIL_ID, MessageId
from rollq.base.limits import (
    ENTRY_BYTES_MAX,
    PENDING_BYTES_MAX,
    PENDING_BYTES_PAUSE,
    PENDING_COMMANDS_MAX,
    PENDING_COMMANDS_PAUSE,
    TURN_COMMANDS_MAX,
)
from rollq.grid.command_codec import encoded_bytes
from rollq.grid.commands import (
    AckJob,
    AssignJob,
    AssignTask,
    CancelJobs,
    Command,
    ConfirmResults,
    PurgeJobs,
    RedriveJobs,
    SubmitBulk,
    SubmitJob,
)
from rollq.grid.effects import Applied, Outcome

COMMAND_BYTES_GUESS = 128  # what a command costs beside its payload; in the history it costs twice
ID_BYTES = 20  # an id, or a number beside it, as the log holds it


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


class Proposals:
    """Waiting commands, and the origins of those that are in the log but not applied."""

    def __init__(self) -> None:
        self._waiting: deque[Proposal] = deque()
        self._waiting_bytes = 0  # the sum of the sizes in `_waiting`
        # By log index, from the proposal of an entry until it is applied or leadership is lost.
        self._proposed: dict[int, list[Proposal]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether what clients ask for must be refused for now."""
        return (
            len(self._waiting) >= PENDING_COMMANDS_MAX or self._waiting_bytes >= PENDING_BYTES_MAX
        )

    def check_room(self) -> None:
        """Raises StateError OVERLOADED if `is_full`."""
        if self.is_full:
            raise StateError(
                ErrorCode.OVERLOADED,
                f"leader overloaded: {len(self._waiting)} commands wait to be proposed",
                "send it again",
            )

    def is_busy(self, share: int = 1) -> bool:
        """Whether more waits than (a share of) what may wait while sessions are read."""
        return (
            len(self._waiting) > PENDING_COMMANDS_PAUSE // share
            or self._waiting_bytes > PENDING_BYTES_PAUSE // share
        )

    def add(self, command: Command, origin: Origin = SILENT) -> None:
        """Queue a command for the next turn.

        Raises:
            RemoteError: BAD_PAYLOAD if it is larger than an entry may be. What the leader asks for
                itself never is.
        """
        size_bytes = size_bytes_of(command)
        if size_bytes > ENTRY_BYTES_MAX:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"request of {size_bytes} bytes exceeds the log entry limit of {ENTRY_BYTES_MAX}",
                "send it in parts",
            )
        self._waiting.append((command, origin, size_bytes))
        self._waiting_bytes += size_bytes

    def add_own(self, commands: Iterable[Command], origin: Origin = SILENT) -> None:
        """Queue what the leader itself proposes."""
        for command in commands:
            self.add(command, origin)

    def batches(self) -> Iterator[list[Proposal]]:
        """What goes into the log in this turn, in entries of bounded size, in order."""
        waiting = self._waiting
        if len(waiting) <= TURN_COMMANDS_MAX and self._waiting_bytes <= ENTRY_BYTES_MAX:
            if waiting:
                batch = list(waiting)
                waiting.clear()
                self._waiting_bytes = 0
                yield batch
            return
        count = 0
        while waiting and count < TURN_COMMANDS_MAX:
            batch = []
            size_bytes = 0
            while waiting and count < TURN_COMMANDS_MAX:
                if batch and size_bytes + waiting[0][2] > ENTRY_BYTES_MAX:
                    break
                size_bytes += waiting[0][2]
                batch.append(waiting.popleft())
                count += 1
            self._waiting_bytes -= size_bytes
            yield batch

    def put_back(self, batch: list[Proposal]) -> None:
        """Consensus had no room for it now: it goes first next time."""
        self._waiting.extendleft(reversed(batch))
        self._waiting_bytes += sum([size_bytes for _, _, size_bytes in batch])

    def proposed(self, index: int, batch: list[Proposal]) -> None:
        """The batch is the entry at this index."""
        self._proposed[index] = batch

    def settled(self, index: int) -> list[Proposal]:
        """The entry at this index is applied: what it held, if it was ours."""
        return self._proposed.pop(index, [])

    def clear(self) -> None:
        """Leadership is lost: clients and workers ask again, with the same ids."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._proposed.clear()


def size_bytes_of(command: Command) -> int:
    """What a command adds to its entry, but for names that are known to be short: an entry that is
    larger than a frame could not be sent to the other members. The commands that come by the
    thousand are guessed; any other is encoded to be measured."""
    return SIZES.get(type(command), encoded_bytes)(command)


def _of_assignment(_: AssignJob | AssignTask) -> int:
    return COMMAND_BYTES_GUESS


def _of_job(command: SubmitJob) -> int:
    if command.blobs or command.caches or command.key:
        return COMMAND_BYTES_GUESS + encoded_bytes(command)
    return COMMAND_BYTES_GUESS + len(command.body)


def _of_result(command: AckJob) -> int:
    if command.blobs:
        return COMMAND_BYTES_GUESS + encoded_bytes(command)
    return COMMAND_BYTES_GUESS + len(command.result)


def _of_confirmed(command: ConfirmResults) -> int:
    return COMMAND_BYTES_GUESS + ID_BYTES * len(command.job_ids)


def _of_items(command: SubmitBulk | RedriveJobs) -> int:
    return max(COMMAND_BYTES_GUESS * len(command.items), encoded_bytes(command))


def _of_jobs(command: CancelJobs | PurgeJobs) -> int:
    return max(COMMAND_BYTES_GUESS * len(command.job_ids), encoded_bytes(command))


SIZES: Final[dict[type, Callable[[Any], int]]] = {
    AssignJob: _of_assignment,
    AssignTask: _of_assignment,
    SubmitJob: _of_job,
    AckJob: _of_result,
    ConfirmResults: _of_confirmed,
    SubmitBulk: _of_items,
    RedriveJobs: _of_items,
    CancelJobs: _of_jobs,
    PurgeJobs: _of_jobs,
}
