"""Whether a silent leader is still there. Pure: time is handed in.

A leader that was stopped, or cut off by a network that drops packets, keeps its connections. While
something is asked of it, silence is suspicious; while only results are awaited, it is asked
something now and then. Every hang-up that helped nothing doubles the patience, so that a slow
group is not made slower by clients that come again and again; one that led back to the same leader
helped nothing either.

Silence is what was looked at: a look that comes late means that we had no time, and what the leader
said meanwhile is not read yet.
"""

from __future__ import annotations

import enum

from rollq.base.limits import (
    CLIENT_TICK_MS,
    GREETING_MS_MAX,
    PROBE_MS,
    SILENCE_BYTES_PER_MS,
    SILENCE_MS_MAX,
    SILENCE_MS_MIN,
)


class Verdict(enum.Enum):
    """What to do about the silence."""

    WAIT = "wait"
    PROBE = "probe"  # ask something, so that silence means something
    HANG_UP = "hang up"


class Watch:
    """For how long a link is silent, and how much patience is left."""

    __slots__ = ("_address", "_doubted", "_looked_ms", "_patience_ms", "_silent_ms")

    def __init__(self) -> None:
        self._looked_ms = 0
        self._silent_ms = 0
        self._patience_ms = SILENCE_MS_MIN
        self._address = ""
        self._doubted = ""  # whom we hung up on last

    def opened(self, now_ms: int, address: str) -> None:
        """A new link."""
        self._address = address
        self.began(now_ms)

    def began(self, now_ms: int) -> None:
        """Something is asked on a link where nothing was awaited."""
        self._looked_ms = now_ms
        self._silent_ms = 0

    def heard(self, now_ms: int, *, is_answer: bool) -> None:
        """Somebody said something; a greeting or a redirect is not yet an answer."""
        self.began(now_ms)
        if is_answer and self._address != self._doubted:
            self._patience_ms = SILENCE_MS_MIN
            self._doubted = ""

    def judge(
        self,
        now_ms: int,
        *,
        is_asked: bool,
        is_awaiting: bool,
        asked_bytes: int = 0,
        is_greeting: bool = False,
    ) -> Verdict:
        """Look at the clock, every CLIENT_TICK_MS. Much that is asked may take its time; a hello
        need not: who does not answer it may be the member that went silent before."""
        self._silent_ms += min(now_ms - self._looked_ms, CLIENT_TICK_MS)
        self._looked_ms = now_ms
        if is_asked:
            patience_ms = self._patience_ms + asked_bytes // SILENCE_BYTES_PER_MS
            if is_greeting:
                patience_ms = min(patience_ms, GREETING_MS_MAX)
            if self._silent_ms < patience_ms:
                return Verdict.WAIT
            self._patience_ms = min(2 * self._patience_ms, SILENCE_MS_MAX)
            self._doubted = self._address
            return Verdict.HANG_UP
        if is_awaiting and self._silent_ms >= PROBE_MS:
            return Verdict.PROBE
        return Verdict.WAIT
