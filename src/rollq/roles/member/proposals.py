"""Commands on their way into the log, and who waits for their outcome.

A command waits here until the next turn of the loop, rides in a batch with everything else that
arrived, and is found again by the log index of its entry when that is applied.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.errors import ErrorCode, RemoteError
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

COMMAND_BYTES_GUESS = 128  # what a command costs beside its payload; in the history it costs twice
ID_BYTES = 20  # an id, or a number beside it, as the log holds it


class Waiter(enum.IntEnum):
    """What its outcome means to whoever asked."""

    NOBODY = 0
    REQUEST = 1  # Accepted or Error by request id
    ACK = 2  # AckTaken
    OPEN_WORKER = 3  # the worker may be given work
    CACHE = 4  # as REQUEST, and the workers are told of the cache


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Who waits for the outcome of a command."""

    waiter: Waiter
    session: int = 0
    request_id: MessageId = NIL_ID
    attempt: int = 0


# Module names, because an attribute of an enum is dear where it is read for every command.
REQUEST: Final = Waiter.REQUEST
ACK: Final = Waiter.ACK

SILENT = Origin(Waiter.NOBODY)


# A command, who waits for it, and how many bytes of an entry it takes at most.
Proposal: TypeAlias = tuple[Command, Origin, int]


class Proposals:
    """Waiting commands, and the origins of those that are in the log but not applied."""

    def __init__(self) -> None:
        self._waiting: deque[Proposal] = deque()
        self._waiting_bytes = 0
        self._proposed: dict[int, list[Proposal]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether what clients ask for must be refused for now."""
        return (
            len(self._waiting) >= PENDING_COMMANDS_MAX or self._waiting_bytes >= PENDING_BYTES_MAX
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
                ErrorCode.BAD_PAYLOAD, "more than the group agrees on at once", "send it in parts"
            )
        self._waiting.append((command, origin, size_bytes))
        self._waiting_bytes += size_bytes

    def add_own(self, commands: Iterable[Command]) -> None:
        """Queue what the leader itself asks for; nobody waits for the outcome."""
        for command in commands:
            self.add(command)

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
        """Leadership is lost: whoever waits will ask again, with the same ids."""
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
