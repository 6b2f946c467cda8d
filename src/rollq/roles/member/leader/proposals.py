"""Commands that wait to be proposed, and the origins of proposed ones.

A command waits here until the next turn, goes into one entry with all others that arrived, joined
with like ones, and is found again by the index of that entry when it is applied.

If more commands wait than one turn takes, clients take turns (`turns`). Heavy commands go into
entries of their own behind the others, so that light requests are answered before those are
applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from sys import maxsize
from typing import Any, Final

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.limits import (
    APPLY_BYTES_MAX,
    ENTRY_BYTES_MAX,
    HEAVY_TURN_MAX,
    HEAVY_WEIGHT_MIN,
    JOB_WEIGHT,
    PENDING_BYTES_MAX,
    PENDING_BYTES_PAUSE,
    PENDING_COMMANDS_MAX,
    PENDING_COMMANDS_PAUSE,
    STAGE_CHUNK_JOBS,
    TURN_COMMANDS_MAX,
    TURN_WEIGHT_MAX,
)
from rollq.grid.command_codec import encoded_bytes
from rollq.grid.commands import (
    AckRun,
    AssignRun,
    AssignTasks,
    CancelJobs,
    Command,
    ConfirmRun,
    PurgeJobs,
    RedriveJobs,
    SubmitBulk,
    SubmitRun,
    UnpackBatch,
)
from rollq.grid.topic_commands import PublishKept
from rollq.roles.member.leader.joining import count_of, joined
from rollq.roles.member.leader.origins import SILENT, Origin, Proposal
from rollq.roles.member.leader.turns import ClientTurns

COMMAND_BYTES_GUESS = 128  # overhead of a command beside its payload; twice that in the history
LIGHT: Final = range(HEAVY_WEIGHT_MIN)
HEAVY: Final = range(HEAVY_WEIGHT_MIN, maxsize)
RUN_JOB_BYTES = 80  # overhead of a job in a run beside its payload: an id and some numbers
RUN_JOBS_LIGHTER: Final = 3  # jobs in a run that cost as much as one job alone


class ProposalBatch(list[Proposal]):
    """The proposals of one entry.

    Attributes:
        heavy: The weight of its heavy commands.
        proposed_us: When it was proposed, by the monotonic clock.
    """

    __slots__ = ("heavy", "proposed_us")

    def __init__(self, proposals: Iterable[Proposal] = (), heavy: int = 0) -> None:
        super().__init__(proposals)
        self.heavy = heavy
        self.proposed_us = 0


class Proposals:
    """Waiting commands, and the origins of those that are proposed but not applied.

    Commands of a client stay in the order of its session; all others keep the order of arrival. The
    leader's own come last in a turn: they were decided on a state without the others.
    """

    def __init__(self) -> None:
        self._waiting: deque[Proposal] = deque()  # from workers, timers and hellos
        self._requested: ClientTurns[Proposal] = ClientTurns()  # from clients
        self._own: deque[Proposal] = deque()  # from the leader
        self._alone: deque[Proposal] = deque()  # each becomes an entry, the last of its turn
        # Entries of this turn that are not proposed yet: raft had no room for the first.
        self._formed: deque[ProposalBatch] = deque()
        self._count = 0  # of commands in all of these
        self._bytes = 0  # the sum of their sizes
        # By log index, from the proposal of an entry until it is applied or leadership is lost.
        self._proposed: dict[int, ProposalBatch] = {}
        self._ahead = 0  # the weight of the heavy commands in `_proposed`

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether client requests must be refused for now."""
        return self._count >= PENDING_COMMANDS_MAX or self._bytes >= PENDING_BYTES_MAX

    def check_room(self) -> None:
        """Raises StateError OVERLOADED if `is_full`."""
        if self.is_full:
            raise StateError(
                ErrorCode.OVERLOADED,
                f"leader overloaded: {self._count} commands wait to be proposed",
                "send it again",
            )

    def is_busy(self, share: int = 1) -> bool:
        """Whether the backlog exceeds the bound (divided by `share`) for reading sessions."""
        return (
            self._count > PENDING_COMMANDS_PAUSE // share
            or self._bytes > PENDING_BYTES_PAUSE // share
        )

    def is_busy_with(self, session: int, share: int = 1) -> bool:
        """Whether a session's backlog exceeds the bound (divided by `share`) for reading it."""
        return self._requested.is_long(session, share)

    def add(self, command: Command, origin: Origin = SILENT) -> None:
        """Queue a command for the next turn.

        Raises:
            RemoteError: BAD_PAYLOAD if it is larger than an entry may be. The leader's own commands
                never are.
        """
        self._waiting.append(self._counted(command, origin))

    def add_request(self, command: Command, origin: Origin) -> None:
        """Queue a client's command, in turn with those of others. Raises as `add` does."""
        proposal = self._counted(command, origin)
        self._requested.add(origin.session, proposal, weight_of(proposal))

    def add_own(self, commands: Iterable[Command], origin: Origin = SILENT) -> None:
        """Queue commands of the leader itself."""
        for command in commands:
            self._own.append(self._counted(command, origin))

    def add_alone(self, command: Command, origin: Origin) -> None:
        """Queue a command of the leader for an entry of its own, behind the others of its turn."""
        self._alone.append(self._counted(command, origin))

    def batches(self) -> Iterator[ProposalBatch]:
        """Remove and return the entries of this turn, in order, each of bounded size."""
        if not self._formed and self._count:
            self._form()
        while self._formed:
            batch = self._formed.popleft()
            self._count -= len(batch)
            self._bytes -= sum([size_bytes for _, _, size_bytes in batch])
            yield batch if len(batch) == 1 else ProposalBatch(joined(batch), batch.heavy)

    def put_back(self, batch: ProposalBatch) -> None:
        """Raft had no room for the batch: it goes first in the next turn."""
        self._formed.appendleft(batch)
        self._count += len(batch)
        self._bytes += sum([size_bytes for _, _, size_bytes in batch])

    def proposed(self, index: int, batch: ProposalBatch, now_us: int) -> None:
        """The batch was proposed as the entry at this index."""
        batch.proposed_us = now_us
        self._proposed[index] = batch
        self._ahead += batch.heavy

    def settled(self, index: int) -> ProposalBatch | None:
        """The entry at this index is applied: remove and return its batch, if this leader proposed
        it."""
        batch = self._proposed.pop(index, None)
        if batch is not None:
            self._ahead -= batch.heavy
        return batch

    def commands(self) -> Iterator[Command]:
        """All commands that are not applied yet."""
        own = chain(self._own, self._alone)
        for proposal in chain(self._waiting, self._requested, own, *self._formed):
            yield proposal[0]
        for batch in self._proposed.values():
            yield from (command for command, _, _ in batch)

    def clear(self) -> None:
        """Leadership is lost: clients and workers retry with the same ids."""
        self._waiting.clear()
        self._requested = ClientTurns()
        self._own.clear()
        self._alone.clear()
        self._formed.clear()
        self._count = self._bytes = self._ahead = 0
        self._proposed.clear()

    def _counted(self, command: Command, origin: Origin) -> Proposal:
        size_bytes = size_bytes_of(command)
        if size_bytes > ENTRY_BYTES_MAX:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"request of {size_bytes} bytes exceeds the log entry limit of {ENTRY_BYTES_MAX}",
                "send it in parts",
            )
        self._count += 1
        self._bytes += size_bytes
        return command, origin, size_bytes

    def _form(self) -> None:
        """Form the entries of a turn. While a heavy command is not applied, no other heavy one is
        taken: light commands after it would wait for all of them."""
        light = [self._waiting.popleft() for _ in range(min(len(self._waiting), TURN_COMMANDS_MAX))]
        light += self._requested.take(TURN_COMMANDS_MAX, TURN_WEIGHT_MAX, LIGHT)
        heavy: list[Proposal] = []
        if not self._ahead:
            heavy += self._requested.take(TURN_COMMANDS_MAX, HEAVY_TURN_MAX, HEAVY)
        for _ in range(min(len(self._own), TURN_COMMANDS_MAX)):
            proposal = self._own.popleft()
            (heavy if type(proposal[0]) is UnpackBatch else light).append(proposal)
        self._formed.extend(_entries(light, ENTRY_BYTES_MAX))
        for batch in _entries(heavy, APPLY_BYTES_MAX):
            batch.heavy = sum(map(weight_of, batch))
            self._formed.append(batch)
        while self._alone:
            self._formed.append(ProposalBatch((self._alone.popleft(),)))


def _entries(proposals: list[Proposal], bytes_max: int) -> Iterator[ProposalBatch]:
    """Pack proposals into entries of at most `bytes_max`, or of a single command."""
    batch = ProposalBatch()
    batch_bytes = 0
    for proposal in proposals:
        if batch and batch_bytes + proposal[2] > bytes_max:
            yield batch
            batch, batch_bytes = ProposalBatch(), 0
        batch.append(proposal)
        batch_bytes += proposal[2]
    if batch:
        yield batch


def weight_of(proposal: Proposal) -> int:
    """The cost of writing and applying a command, in bytes of small jobs: the number of jobs counts
    most, and their payload much less."""
    command, _, size_bytes = proposal
    jobs = JOBS.get(type(command))
    return size_bytes // 16 + int(JOB_WEIGHT * (1 if jobs is None else jobs(command)))


def size_bytes_of(command: Command) -> int:
    """An upper bound of a command's bytes in an entry, except for names that are known to be short:
    an entry larger than a frame could not be replicated. Frequent commands are estimated; all
    others are encoded to be measured."""
    return SIZES.get(type(command), encoded_bytes)(command)


def _of_assignment(command: AssignRun | AssignTasks) -> int:
    return COMMAND_BYTES_GUESS * count_of(command)


def _of_submits(command: SubmitRun) -> int:
    if command.blobs or command.caches or command.keys:
        return COMMAND_BYTES_GUESS + encoded_bytes(command)
    count = max(len(command.bodies), count_of(command))
    return COMMAND_BYTES_GUESS + RUN_JOB_BYTES * count + sum(map(len, command.bodies))


def _of_results(command: AckRun) -> int:
    if command.blobs:
        return COMMAND_BYTES_GUESS + encoded_bytes(command)
    columns = (
        command.results,
        command.fences,
        command.run_ms,
        command.peak_bytes,
        command.fetched_bytes,
        command.held_bytes,
    )
    count = max(count_of(command), *map(len, columns))
    return COMMAND_BYTES_GUESS + RUN_JOB_BYTES * count + sum(map(len, command.results))


def _of_confirmed(command: ConfirmRun) -> int:
    return COMMAND_BYTES_GUESS + len(command.job_ids)


def _of_published(command: PublishKept) -> int:
    texts = (command.topic, *command.subjects, *command.reply_to)
    size_bytes = sum(map(len, command.payloads)) + 4 * sum(map(len, texts))  # in UTF-8 at most
    count = max(len(command.subjects), len(command.payloads), len(command.reply_to))
    return COMMAND_BYTES_GUESS * (1 + count) + size_bytes


def _of_items(command: SubmitBulk | RedriveJobs) -> int:
    return max(COMMAND_BYTES_GUESS * len(command.items), encoded_bytes(command))


def _of_jobs(command: CancelJobs | PurgeJobs) -> int:
    return max(COMMAND_BYTES_GUESS * len(command.job_ids), encoded_bytes(command))


# How many lone jobs a command costs as much as, if it is not one.
JOBS: Final[dict[type, Callable[[Any], float]]] = {
    PublishKept: lambda command: 0.5 * len(command.subjects),
    SubmitRun: lambda command: 1 + len(command.bodies) // RUN_JOBS_LIGHTER,
    SubmitBulk: lambda command: len(command.items),
    RedriveJobs: lambda command: len(command.items),
    CancelJobs: lambda command: len(command.job_ids),
    PurgeJobs: lambda command: len(command.job_ids),
    UnpackBatch: lambda command: STAGE_CHUNK_JOBS,
}

SIZES: Final[dict[type, Callable[[Any], int]]] = {
    AssignRun: _of_assignment,
    AssignTasks: _of_assignment,
    SubmitRun: _of_submits,
    AckRun: _of_results,
    ConfirmRun: _of_confirmed,
    PublishKept: _of_published,
    SubmitBulk: _of_items,
    RedriveJobs: _of_items,
    CancelJobs: _of_jobs,
    PurgeJobs: _of_jobs,
}
