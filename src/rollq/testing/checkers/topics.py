"""Checker of topics: what was accepted is kept under its index, and a durable subscription gets all
of it in order, at least once, but for what is told to be dropped."""

from __future__ import annotations

from rollq.grid.effects import Applied, SendKept
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.testing.checkers.base import Checker
from rollq.testing.sim_member import SimMember


class TopicChecker(Checker):
    """Its own account: messages by the log, and what the reader saw."""

    name = "topics"

    def __init__(self) -> None:
        self._seen = 0  # entries
        self._kept: dict[int, bytes] = {}  # by index, also what was dropped since
        self._at = 0  # of the reader's process: the last index that it got or was told of
        self._done = 0  # the highest that any process of it was done with, or began after
        self._opened: dict[str, None] = {}  # durable names that the group knows

    @property
    def last_index(self) -> int:
        """Of the newest message."""
        return len(self._kept)

    @property
    def reader_index(self) -> int:
        """How far the reader is."""
        return self._done if self._at < 0 else self._at

    # --- what was agreed on

    def applied(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Indexes follow each other; no cursor is ahead of what its reader has said."""
        if entry.index <= self._seen:
            return
        self._seen = entry.index
        for effect in applied.effects:
            if isinstance(effect, SendKept):
                if effect.index != self.last_index + 1:
                    self.fail(f"index {effect.index} came after {self.last_index}")
                for payload in effect.payloads:
                    self._kept[self.last_index + 1] = payload
        for topic in state.topics.by_name.values():
            for durable, cursor in topic.cursors.items():
                if durable not in self._opened:  # it begins here, whatever was dropped before
                    self._opened[durable] = None
                    self._done = cursor.index
                elif cursor.index > self._done:
                    self.fail(f"{durable} is at {cursor.index}, and was done with {self._done}")

    # --- what the applications saw

    def accepted(self, index: int, payload: bytes) -> None:
        """A publish was answered with its index."""
        if self._kept.get(index) != payload:
            self.fail(f"index {index} was accepted, and is another message")

    def begun(self) -> None:
        """A new process of the reader: it may get again what the group does not know it has."""
        self._at = -1

    def read(self, index: int, payload: bytes) -> None:
        """The reader got a message."""
        if self._kept.get(index) != payload:
            self.fail(f"index {index} was read, and is another message")
        if self._at < 0 and index > self._done + 1:
            self.fail(f"a reader that was done with {self._done} begins with {index}")
        elif 0 <= self._at != index - 1:
            self.fail(f"index {index} was read after {self._at}")
        self._at = index

    def missed(self, count: int, next_index: int) -> None:
        """The reader was told that so many were dropped, and with which it goes on."""
        first = next_index - count
        if first > self._done + 1 if self._at < 0 else count and first != self._at + 1:
            self.fail(f"{first} to {next_index - 1} were missed, after {max(self._at, self._done)}")
        self._at = max(self._at, next_index - 1)

    def consumed(self, index: int) -> None:
        """The reader is done with all up to this."""
        self._done = max(self._done, index)
