"""Bodies and results that are too large for the log: stored as blobs before they are proposed, and
put back into messages before they are sent. Pure.

Invariants:
- a command refers to a blob only after the shell has reported that a majority holds it;
- a failed store is retried a bounded number of times, then the request is refused with the reason:
  nothing is dropped;
- at most one message of a session is completed at a time, and only while the peer reads;
- a message that cannot be completed is retried as long as its session lasts. It is made from the
  state, so the next leader makes it again.
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
    """Bytes to be stored as blobs."""

    parts: tuple[bytes, ...]
    size_bytes: int
    then: Callable[[Sequence[BlobRef]], None]  # one of these two is called, once
    failed: Callable[[RollqError], None]
    tries: int = 0  # 0 <= tries <= KEEP_TRIES_MAX
    not_before_ms: int = 0  # of the next try


class Keeping:
    """Stores blobs, KEEPS_MAX at a time; the rest waits in order."""

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
        """Whether the backlog exceeds the bound (divided by `share`) for reading sessions."""
        return self._bytes > PENDING_BYTES_PAUSE // share

    def keep(
        self,
        parts: tuple[bytes, ...],
        then: Callable[[Sequence[BlobRef]], None],
        failed: Callable[[RollqError], None],
        *,
        must: bool = False,
    ) -> None:
        """Store bytes; then `then` or `failed` is called, once, unless leadership is lost. With
        `must` it is never refused, because its sender cannot send it again; such bytes are bounded
        by the links, which are not read while the backlog is large.

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
        """Start as many as the bound permits."""
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
        """The shell's result of a KeepBlobs."""
        keep = self._under_way.pop(ticket, None)
        if keep is None:
            return  # of an earlier term
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
        """Leadership is lost: senders retry with the next leader. Tickets are never reused, so a
        late result finds no entry."""
        self._waiting.clear()
        self._under_way.clear()
        self._bytes = 0


@dataclass(slots=True)
class Delivery:
    """A message to send once it is complete."""

    number: int
    message: AssignJob | Result
    knows_blobs: bool
    is_wanted: Callable[[], bool]  # checked before it is completed, and before it is sent
    sent: Callable[[], None]
    not_before_ms: int = 0


class Deliveries:
    """Messages that wait for blob contents, in order for each session."""

    def __init__(self, outputs: Outputs, clock: Clock, shell: Shell) -> None:
        self._outputs = outputs
        self._clock = clock
        self._shell = shell
        self._last_ticket = 0
        self._waiting: dict[int, deque[Delivery]] = {}  # by session
        self._under_way: dict[int, Delivery] = {}  # by ticket
        self._reading: dict[int, None] = {}  # sessions in `_under_way`; each at most once

    def __bool__(self) -> bool:
        return bool(self._waiting or self._under_way)

    def add(self, delivery: Delivery) -> None:
        """Send a message once it is complete, after others of its session."""
        self._waiting.setdefault(delivery.number, deque()).append(delivery)
        self.pump()

    def pump(self) -> None:
        """Start as many as the bound permits."""
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
        """The shell's result of a Complete; None: it failed for now."""
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
