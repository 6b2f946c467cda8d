"""Checker of topics: accepted messages are kept under their index, and a durable subscription
gets all of them in order, at least once, except those reported as dropped."""

from __future__ import annotations

from rollq.grid.effects import Applied, SendKept
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.testing.checkers.base import Checker
from rollq.testing.sim_member import SimMember


class TopicChecker(Checker):
    """A model of the messages, built from the log, and of the reader's position."""

    name = "topics"

    def __init__(self) -> None:
        self._seen = 0  # entries
        self._kept: dict[int, bytes] = {}  # by index, including messages dropped since
        self._at = 0  # the last index that the reader's current process got; -1 before the first
        self._done = 0  # the highest index that any of its processes has consumed
        self._opened: dict[str, None] = {}  # durable names known to the group

    @property
    def last_index(self) -> int:
        """The index of the newest message."""
        return len(self._kept)

    @property
    def reader_index(self) -> int:
        """The position of the reader."""
        return self._done if self._at < 0 else self._at

    # --- from the log

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        """Indexes are consecutive; no cursor is ahead of what its reader has consumed."""
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
                if durable not in self._opened:  # it starts here, whatever was dropped before
                    self._opened[durable] = None
                    self._done = cursor.index
                elif cursor.index > self._done:
                    self.fail(f"{durable} is at {cursor.index}, and was done with {self._done}")

    # --- from the applications

    def accepted(self, index: int, payload: bytes) -> None:
        """A publish was answered with its index."""
        if self._kept.get(index) != payload:
            self.fail(f"index {index} was accepted, and is another message")

    def begun(self) -> None:
        """A new process of the reader started: unconfirmed messages may be delivered again."""
        self._at = -1

    def read(self, index: int, payload: bytes) -> None:
        """The reader received a message."""
        if self._kept.get(index) != payload:
            self.fail(f"index {index} was read, and is another message")
        if self._at < 0 and index > self._done + 1:
            self.fail(f"a reader that was done with {self._done} begins with {index}")
        elif self._at >= 0 and not self._is_next(index):
            self.fail(f"index {index} was read after {self._at}")
        self._at = index

    def missed(self, count: int, next_index: int) -> None:
        """The reader was told how many messages were dropped, and the index that follows."""
        first = next_index - count
        if first > self._done + 1 if self._at < 0 else count and not self._is_next(first):
            self.fail(f"{first} to {next_index - 1} were missed, after {self.reader_index}")
        self._at = max(self._at, next_index - 1)

    def consumed(self, index: int) -> None:
        """The reader has consumed all messages up to this index."""
        self._done = max(self._done, index)

    def _is_next(self, index: int) -> bool:
        """Whether the current process may go on with this index: after its last one, or, once
        subscribed again, after what an earlier process had consumed whose confirmation came late.
        """
        return index in (self._at + 1, max(self._at, self._done) + 1)
