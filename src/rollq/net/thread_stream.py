"""A link for a thread: messages are sent and received by blocking calls.

The loop owns the socket, so that TLS works for threads as well. Frames are encoded on the thread.
Both directions are bounded: `send` waits while the peer does not read, and the peer is not read
while the thread is behind.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

from rollq.base.limits import STREAM_INBOX_MAX, STREAM_UNSENT_BYTES_MAX
from rollq.net.link import Link
from rollq.wire.compact import Message


class ThreadStream:
    """Created on the loop, for a link whose handshake is over. `feed` and `link_closed` are called
    on the loop, `send` and `receive` on the one thread, `close` on any.

    Args:
        link: The link; it is closed with the stream.
        timeout_s: How long a call waits for the peer.
    """

    def __init__(self, link: Link, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._loop: Final = link.loop
        self._changed = threading.Condition()  # guards everything below
        self._inbox: deque[Message] = deque()
        self._is_paused = False  # the link is not read: len(_inbox) was over STREAM_INBOX_MAX
        # Encoded bytes that the system has not taken. A frame is sent if it fits within
        # STREAM_UNSENT_BYTES_MAX with those before it, or if there are none.
        self._unsent_bytes = 0
        self._end = ""  # why it is closed; empty: it is open
        link.notify_written(self._written)

    # --- on the thread

    def receive(self) -> Message:
        """The next message.

        Raises:
            ConnectionError: the link is closed, or the peer was silent for too long.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._inbox or self._end, self._timeout_s):
                raise ConnectionError(f"the peer was silent for {self._timeout_s:g} s")
            if not self._inbox:
                raise ConnectionError(self._end)
            message = self._inbox.popleft()
            if self._is_paused and not self._inbox:
                self._is_paused = False
                self._loop.call_soon_threadsafe(self._link.resume)
            return message

    def send(self, message: Message) -> None:
        """Send a message; waits while the peer does not read.

        Raises:
            ConnectionError: the link is closed, or the peer did not read for too long.
            LocalError: it is illegal now, or too large.
        """
        data = self._link.connection.send(message)
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(len(data)), self._timeout_s):
                raise ConnectionError(f"the peer did not read for {self._timeout_s:g} s")
            if self._end:
                raise ConnectionError(self._end)
            self._unsent_bytes += len(data)
        self._loop.call_soon_threadsafe(self._link.write, data)

    def _has_room(self, size_bytes: int) -> bool:
        fits = self._unsent_bytes + size_bytes <= STREAM_UNSENT_BYTES_MAX
        return bool(self._end) or fits or not self._unsent_bytes

    def close(self, reason: str) -> None:
        """Send queued messages, then close the link. Idempotent."""
        self._finish(reason)
        self._loop.call_soon_threadsafe(self._link.close, reason)

    # --- on the loop

    def feed(self, messages: Iterable[Message]) -> None:
        """Messages arrived."""
        with self._changed:
            self._inbox.extend(messages)
            if len(self._inbox) > STREAM_INBOX_MAX:
                self._is_paused = True
                self._link.pause()
            self._changed.notify_all()

    def link_closed(self, reason: str) -> None:
        """The link is closed; earlier messages can still be received."""
        self._finish(reason)

    def _written(self, size_bytes: int) -> None:
        with self._changed:
            self._unsent_bytes -= size_bytes
            self._changed.notify_all()

    def _finish(self, reason: str) -> None:
        with self._changed:
            self._end = self._end or reason
            self._changed.notify_all()
