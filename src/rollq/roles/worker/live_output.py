"""Watches of live output, and the next chunks for each. Pure.

Invariants:
- nothing is copied or kept for a job without watchers;
- a watcher that wants everything also gets output that is only on disk, without gaps;
- a watcher is sent no more than its window beyond its offsets, and all of them together no more
than
  the bound of `share`. Output that is not kept until then is skipped, which the offset of the next
  chunk shows;
- a watch ends with ATTEMPT_ENDED once its attempt has ended and all kept output was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from rollq.base.ids import MessageId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    OUTPUT_CHUNK_BYTES_MAX,
    OUTPUT_KEPT_BYTES,
    OUTPUT_WATCHES_PER_WORKER_MAX,
    OUTPUT_WINDOW_BYTES,
)
from rollq.roles.worker.capture import Tail
from rollq.wire.output_messages import (
    ATTEMPT_ENDED,
    STREAMS,
    UNWANTED,
    Offsets,
    OutputChunk,
    TellOutput,
)

Tails: TypeAlias = tuple[Tail, Tail]
FindTails: TypeAlias = Callable[[AttemptRef], Tails | None]
BOTH: Final = range(len(STREAMS))


class LocalOutputWatch:
    """One watcher of one attempt: the offsets that were sent, and the limits of its window."""

    __slots__ = ("began", "next", "ref", "tails", "until", "watch_id", "whole")

    def __init__(self, message: TellOutput) -> None:
        self.watch_id = message.watch_id
        self.ref = _ref_of(message)
        self.next = list(message.offsets)
        self.until = [0, 0]
        self.whole = message.whole
        self.tails: Tails | None = None
        self.began = False  # whether a first chunk was sent
        self.move(message)

    def move(self, message: TellOutput) -> None:
        """The watcher has consumed everything before these offsets."""
        for stream in BOTH:
            until = message.offsets[stream] + OUTPUT_WINDOW_BYTES
            self.until[stream] = max(self.until[stream], until)


class LiveOutput:
    """The watches of one session with a leader.

    Args:
        tails: The streams of a running attempt; None if it has none.
        is_open: Whether an attempt waits or runs here.
    """

    def __init__(self, tails: FindTails, is_open: Callable[[AttemptRef], bool]) -> None:
        self._tails = tails
        self._is_open = is_open
        self._watches: dict[MessageId, LocalOutputWatch] = {}
        self._refused: list[OutputChunk] = []

    def __bool__(self) -> bool:
        return bool(self._watches or self._refused)

    @property
    def watch_count(self) -> int:
        """The number of watches."""
        return len(self._watches)

    def take(self, message: TellOutput) -> None:
        """Handle the leader's message that begins, moves or ends a watch."""
        if not message.on:
            self._watches.pop(message.watch_id, None)
            return
        watch = self._watches.get(message.watch_id)
        if watch is not None and watch.ref == _ref_of(message):
            watch.move(message)
        elif watch is None and not self._has_room():
            self._refused.append(_end_of(message.watch_id, message.attempt))
        else:
            watch = self._watches[message.watch_id] = LocalOutputWatch(message)
            self._find(watch)

    def clear(self) -> None:
        """The session is over: watchers ask the next leader."""
        self._watches.clear()
        self._refused.clear()

    def share(self, bytes_max: int) -> list[OutputChunk]:
        """The next chunks, with at most `bytes_max` of output; watchers take turns."""
        chunks, self._refused = self._refused, []
        eager = list(self._watches.values())
        for watch in eager:
            self._find(watch)
        while eager:
            taking: list[LocalOutputWatch] = []
            for watch in eager:
                for stream in BOTH:
                    chunk = self._next(watch, stream, bytes_max)
                    if chunk is not None:
                        bytes_max -= len(chunk.data)
                        chunks.append(chunk)
                        taking.append(watch)
            eager = list(dict.fromkeys(taking))
            for watch in eager:
                watch.began = True
                del self._watches[watch.watch_id]
                self._watches[watch.watch_id] = watch  # moved to the end: the others come first
        for watch in list(self._watches.values()):
            if not self._has_more(watch) and not self._is_open(watch.ref):
                del self._watches[watch.watch_id]
                chunks.append(_end_of(watch.watch_id, watch.ref.attempt))
            elif not watch.began:
                watch.began = True
                totals = (0, 0) if watch.tails is None else _totals(watch.tails)
                chunks.append(OutputChunk(watch.watch_id, watch.ref.attempt, totals=totals))
        return chunks

    def _has_room(self) -> bool:
        """Whether one more watch is possible; a slow watcher of an ended attempt is dropped for
        it."""
        if len(self._watches) < OUTPUT_WATCHES_PER_WORKER_MAX:
            return True
        for watch in self._watches.values():
            if not self._is_open(watch.ref):
                del self._watches[watch.watch_id]
                self._refused.append(_end_of(watch.watch_id, watch.ref.attempt))
                return True
        return False

    def _find(self, watch: LocalOutputWatch) -> None:
        """Find the streams if the attempt has started; they then live as long as the watch."""
        if watch.tails is None:
            watch.tails = self._tails(watch.ref)
            if watch.tails is not None:
                for tail in watch.tails:
                    tail.keep(OUTPUT_KEPT_BYTES)

    def _next(self, watch: LocalOutputWatch, stream: int, bytes_max: int) -> OutputChunk | None:
        at = watch.next[stream]
        size = min(OUTPUT_CHUNK_BYTES_MAX, watch.until[stream] - at, bytes_max)
        if watch.tails is None or at == UNWANTED or size <= 0 or watch.tails[stream].total <= at:
            return None
        offset, data = watch.tails[stream].read(at, size, whole=watch.whole)
        watch.next[stream] = offset + len(data)
        watch.until[stream] += offset - at  # skipped output does not use up the window
        return OutputChunk(
            watch.watch_id, watch.ref.attempt, stream, offset, data, _totals(watch.tails)
        )

    def _has_more(self, watch: LocalOutputWatch) -> bool:
        return watch.tails is not None and any(
            UNWANTED != watch.next[stream] < watch.tails[stream].total for stream in BOTH
        )


def _totals(tails: Tails) -> Offsets:
    out, err = tails
    return out.total, err.total


def _ref_of(message: TellOutput) -> AttemptRef:
    return AttemptRef(message.job_id, message.attempt, message.fence)


def _end_of(watch_id: MessageId, attempt: int) -> OutputChunk:
    return OutputChunk(watch_id, attempt, end=ATTEMPT_ENDED)
