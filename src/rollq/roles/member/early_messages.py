"""Messages of clients and workers that reach a member before it leads.

While this member is about to lead, or a leader is being elected, they wait here in the order of
their arrival, bounded by number and by bytes; then the gateway takes them, or their sessions are
redirected.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from rollq.base.limits import HELD_BYTES_MAX, HELD_MESSAGES_MAX
from rollq.wire.compact import ENCODE, Message
from rollq.wire.messages import ToMemberMessage

MESSAGE_BYTES: Final = 128  # what a message takes beside its encoding


class EarlyMessages:
    """Messages of sessions, and the ends of sessions."""

    __slots__ = ("_bytes", "_messages")

    def __init__(self) -> None:
        # Session, message (None: the end of the session), size. There are at most HELD_MESSAGES_MAX
        # messages of HELD_BYTES_MAX in all, and no more ends than there were sessions.
        self._messages: deque[tuple[int, ToMemberMessage | None, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, session: int, message: ToMemberMessage) -> bool:
        """Keep a message for later; false if there is no room for it."""
        size_bytes = held_bytes(message)
        if len(self._messages) >= HELD_MESSAGES_MAX or self._bytes + size_bytes > HELD_BYTES_MAX:
            return False
        self._messages.append((session, message, size_bytes))
        self._bytes += size_bytes
        return True

    def add_end(self, session: int) -> None:
        """A session is over."""
        self._messages.append((session, None, 0))

    def take(self) -> tuple[int, ToMemberMessage | None]:
        """The oldest; None in place of a message is the end of its session."""
        session, message, size_bytes = self._messages.popleft()
        self._bytes -= size_bytes
        return session, message


def held_bytes(message: Message) -> int:
    """What a message takes while it waits."""
    return MESSAGE_BYTES + len(ENCODE(message))
