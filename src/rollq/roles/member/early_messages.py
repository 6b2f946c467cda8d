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

MESSAGE_BYTES: Final = 128  # overhead of a queued message beside its encoding


class EarlyMessages:
    """Queued messages and ends of sessions."""

    __slots__ = ("_bytes", "_bytes_max", "_messages", "_messages_max")

    def __init__(
        self, *, messages_max: int = HELD_MESSAGES_MAX, bytes_max: int = HELD_BYTES_MAX
    ) -> None:
        # Session, message (None: the end of the session), size. There are at most `messages_max`
        # messages of `bytes_max` in all, and no more ends than there were sessions.
        self._messages: deque[tuple[int, ToMemberMessage | None, int]] = deque()
        self._bytes = 0
        self._bytes_max = bytes_max
        self._messages_max = messages_max

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, session: int, message: ToMemberMessage) -> bool:
        """Queue a message; false if there is no room for it."""
        size_bytes = held_bytes(message)
        is_full = len(self._messages) >= self._messages_max
        if is_full or self._bytes + size_bytes > self._bytes_max:
            return False
        self._messages.append((session, message, size_bytes))
        self._bytes += size_bytes
        return True

    def add_end(self, session: int) -> None:
        """Queue the end of a session."""
        self._messages.append((session, None, 0))

    def take(self) -> tuple[int, ToMemberMessage | None]:
        """Remove the oldest; None in place of a message is the end of its session."""
        session, message, size_bytes = self._messages.popleft()
        self._bytes -= size_bytes
        return session, message


def held_bytes(message: Message) -> int:
    """The bytes that a queued message is counted with."""
    return MESSAGE_BYTES + len(ENCODE(message))
