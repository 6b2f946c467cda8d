"""What clients and workers say to a member that is about to lead, until it does: in the order in
which it came, bounded by number and by bytes."""

from __future__ import annotations

from collections import deque
from typing import Final

from rollq.base.limits import HELD_BYTES_MAX, HELD_MESSAGES_MAX
from rollq.wire import messages
from rollq.wire.messages import SessionMessage
from rollq.wire.output_messages import OutputChunk
from rollq.wire.staging_messages import CommitBatch, StageJobs

GUESS_BYTES: Final = 128  # of a message without its body


class Held:
    """Messages of sessions, and their ends."""

    __slots__ = ("_bytes", "_messages")

    def __init__(self) -> None:
        self._messages: deque[tuple[int, SessionMessage | None]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, session: int, message: SessionMessage) -> bool:
        """Keep a message for later; false if there is no room for it."""
        size_bytes = _size_bytes(message)
        if len(self._messages) >= HELD_MESSAGES_MAX or self._bytes + size_bytes > HELD_BYTES_MAX:
            return False
        self._messages.append((session, message))
        self._bytes += size_bytes
        return True

    def add_end(self, session: int) -> None:
        """A session is over. There are never more of these than there were sessions."""
        self._messages.append((session, None))

    def take(self) -> tuple[int, SessionMessage | None]:
        """The oldest; None in place of a message is the end of its session."""
        session, message = self._messages.popleft()
        if message is not None:
            self._bytes -= _size_bytes(message)
        return session, message


def _size_bytes(message: SessionMessage) -> int:
    """About what a message takes, and never much less if it takes much."""
    if isinstance(message, messages.SubmitBulk):
        return GUESS_BYTES + sum(GUESS_BYTES + len(item.body) for item in message.items)
    if isinstance(message, StageJobs):
        return GUESS_BYTES + sum(
            GUESS_BYTES + len(group.bodies) + len(group.job_ids) + len(group.keys)
            for group in message.groups
        )
    if isinstance(message, CommitBatch):
        return GUESS_BYTES * (1 + len(message.parts))
    if isinstance(message, messages.SubmitJob | messages.SubmitArray):
        return GUESS_BYTES + len(message.body)
    if isinstance(message, messages.AckJob):
        return GUESS_BYTES + len(message.result)
    if isinstance(message, messages.Cancel | messages.Confirm):
        return GUESS_BYTES * (1 + len(message.job_ids))
    if isinstance(message, messages.HelloWorker | messages.Heartbeat):
        return GUESS_BYTES * (1 + len(message.holding))
    if isinstance(message, messages.Admin):
        return GUESS_BYTES + len(message.arguments)
    if isinstance(message, messages.CachePut):
        return GUESS_BYTES + len(message.payload)
    if isinstance(message, OutputChunk):
        return GUESS_BYTES + len(message.data)
    return GUESS_BYTES
