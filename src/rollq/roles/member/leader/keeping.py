"""Bodies and results that are too large for the log: stored as blobs before they are proposed, and
put back into messages before they are sent. Pure.

Laws kept here:
- a command names a blob only after the shell said that a majority holds it;
- what the shell cannot keep for now is tried again, a bounded number of times, and then refused
  with the reason: nothing is dropped;
- of one session one message at a time is completed, and only while the peer reads what it was sent;
- what cannot be completed for now is tried again as long as its session lasts. The message is made
  from the state, so the next leader makes it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import (
    KEEP_AGAIN_MS,
    KEEP_TRIES_MAX,
    KEEPS_MAX,
    PENDING_BYTES_MAX,
    PENDING_BYTES_PAUSE,
    READS_WHOLE_MAX,
)
from rollq.base.stamp import Clock
from rollq.roles.member.leader.sessions import Session
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.outputs import Complete, KeepBlobs, Outputs
from rollq.wire.messages import AssignJob, Result


@dataclass(slots=True)
class Keep:
    """Bytes on their way into blobs."""

    parts: tuple[bytes, ...]
    size_bytes: int
    then: Callable[[Sequence[BlobRef]], None]  # one of these two is called, once
    failed: Callable[[RollqError], None]
    tries: int = 0  # 0 <= tries <= KEEP_TRIES_MAX
    not_before_ms: int = 0  # of the next try


class Keeping:
    """What is being kept, some at once; the rest waits in the order of its coming."""

    def __init__(self, outputs: Outputs, clock: Clock) -> None:
        self._outputs = outputs
        self._clock = clock
        self._last_ticket = 0
        self._waiting: deque[Keep] = deque()
        self._under_way: dict[int, Keep] = {}  # by ticket; at most KEEPS_MAX
        self._bytes = 0  # of `_waiting` and `_under_way`

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def is_busy(self, share: int = 1) -> bool:
        """Whether more waits than (a share of) what may wait while sessions are read."""
        return self._bytes > PENDING_BYTES_PAUSE // share

    def keep(
        self,
        parts: tuple[bytes, ...],
        then: Callable[[Sequence[BlobRef]], None],
        failed: Callable[[RollqError], None],
        *,
        must: bool = False,
    ) -> None:
        """Have bytes kept; then the one or the other is called, once, unless leadership is lost.
        What `must` be kept is not refused: its sender could not send it again. It is bounded by
        what links hold, which are not read while much waits.

        Raises:
            StateError: OVERLOADED.
        """
        size_bytes = sum(map(len, parts))
        if not must and self._bytes + size_bytes > PENDING_BYTES_MAX:
            raise StateError(
                ErrorCode.OVERLOADED, "too many blobs are waiting to be stored", "send it again"
            )
        self._bytes += size_bytes
        self._waiting.append(Keep(parts, size_bytes, then, failed))
        self.pump()

    def pump(self) -> None:
        """Begin what may begin now."""
        now_ms = self._clock.now_ms()
        for _ in range(len(self._waiting)):
            if len(self._under_way) >= KEEPS_MAX:
                return
            keep = self._waiting.popleft()
            if keep.not_before_ms > now_ms:
                self._waiting.append(keep)
                continue
            self._last_ticket += 1
            self._under_way[self._last_ticket] = keep
            self._outputs.append(KeepBlobs(self._last_ticket, keep.parts))

    def kept(self, ticket: int, refs: Sequence[BlobRef], error: RollqError | None) -> None:
        """The shell has done it, or could not."""
        keep = self._under_way.pop(ticket, None)
        if keep is None:
            return  # of an earlier time as leader
        keep.tries += 1
        if error is not None and error.retryable and keep.tries < KEEP_TRIES_MAX:
            keep.not_before_ms = self._clock.now_ms() + KEEP_AGAIN_MS
            self._waiting.append(keep)
            return
        self._bytes -= keep.size_bytes
        if error is None:
            keep.then(refs)
        else:
            keep.failed(error)
        self.pump()

    def clear(self) -> None:
        """Leadership is lost: the senders send it again to the next leader. Tickets go on, so
        that a late answer meets nothing."""
        self._waiting.clear()
        self._under_way.clear()
        self._bytes = 0


@dataclass(slots=True)
class Delivery:
    """A message that is to be sent when it is complete."""

    number: int
    message: AssignJob | Result
    knows_blobs: bool
    is_wanted: Callable[[], bool]  # asked before it is read, and before it is sent
    sent: Callable[[], None]
    not_before_ms: int = 0


class Deliveries:
    """Messages that wait for the bytes of blobs, in order for each session."""

    def __init__(self, outputs: Outputs, clock: Clock, shell: Shell) -> None:
        self._outputs = outputs
        self._clock = clock
        self._shell = shell
        self._last_ticket = 0
        self._waiting: dict[int, deque[Delivery]] = {}  # by session
        self._under_way: dict[int, Delivery] = {}  # by ticket
        self._reading: dict[int, None] = {}  # sessions of those; a session has one at a time

    def __bool__(self) -> bool:
        return bool(self._waiting or self._under_way)

    def add(self, delivery: Delivery) -> None:
        """Send this when it is complete, behind others of its session."""
        self._waiting.setdefault(delivery.number, deque()).append(delivery)
        self.pump()

    def pump(self) -> None:
        """Begin what may begin now."""
        now_ms = self._clock.now_ms()
        for number in list(self._waiting):
            if len(self._under_way) >= READS_WHOLE_MAX:
                return
            if number not in self._reading and self._shell.has_room(number):
                self._begin_next(number, now_ms)

    def _begin_next(self, number: int, now_ms: int) -> None:
        waiting = self._waiting[number]
        while waiting and not waiting[0].is_wanted():
            waiting.popleft()
        if waiting and waiting[0].not_before_ms <= now_ms:
            delivery = waiting.popleft()
            self._last_ticket += 1
            self._under_way[self._last_ticket] = delivery
            self._reading[number] = None
            self._outputs.append(
                Complete(self._last_ticket, delivery.message, delivery.knows_blobs)
            )
        if not waiting:
            del self._waiting[number]

    def completed(self, ticket: int, message: AssignJob | Result | None) -> None:
        """The shell has the message whole; None: not now."""
        delivery = self._under_way.pop(ticket, None)
        if delivery is None:
            return  # its session is gone
        number = delivery.number
        self._reading.pop(number, None)
        if message is None:
            delivery.not_before_ms = self._clock.now_ms() + KEEP_AGAIN_MS
            self._waiting.setdefault(number, deque()).append(delivery)
        elif delivery.is_wanted():
            self._outputs.mail(number).append(message)
            delivery.sent()
        self.pump()

    def gone(self, session: Session) -> None:
        """A session was removed."""
        number = session.number
        self._waiting.pop(number, None)
        if self._reading.pop(number, self) is None:
            for ticket, delivery in list(self._under_way.items()):
                if delivery.number == number:
                    del self._under_way[ticket]

    def clear(self) -> None:
        """Leadership is lost."""
        self._waiting.clear()
        self._under_way.clear()
        self._reading.clear()
