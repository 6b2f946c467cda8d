"""Detects a silent member: shared by the machines of workers and clients. Pure.

A member whose process is stopped, whose host is gone or whose network drops packets keeps its
connections open. So a member that sends nothing for a while is pinged (`PING`), and is left if it
does not answer (`HANG_UP`). While requests wait for answers the time is shorter.

Every hang-up without effect doubles the time, so that reconnecting sessions do not slow down a slow
group; one that led back to the same member has no effect either.

Time counts only between timely checks: a late check means that this process had no time, and that
messages of the member may be unread.
"""

from __future__ import annotations

import enum

from rollq.base.limits import (
    GREETING_MS_MAX,
    LOOK_MS,
    SILENCE_FORGIVEN_MS,
    SILENCE_MS_MAX,
    SILENCE_MS_MIN,
)


class Verdict(enum.Enum):
    """The result of a check."""

    WAIT = "wait"
    PING = "ping"  # request a message
    HANG_UP = "hang up"


class Silence:
    """How long a link is silent, and how long it may be.

    Args:
        greeting_ms: How long a hello may stay unanswered at first.
        greeting_ms_max: The maximum after doubling.
    """

    __slots__ = (
        "_address",
        "_doubled",
        "_doubted",
        "_greeting_ms",
        "_greeting_ms_max",
        "_looked_ms",
        "_opened_ms",
        "_pinged",
        "_silent_ms",
    )

    def __init__(
        self, greeting_ms: int = SILENCE_MS_MIN, greeting_ms_max: int = GREETING_MS_MAX
    ) -> None:
        self._greeting_ms = greeting_ms
        self._greeting_ms_max = greeting_ms_max
        self._looked_ms = 0
        self._silent_ms = 0
        self._opened_ms = 0  # when the link was opened
        self._doubled = 0  # how often the time was doubled
        self._pinged = False  # a ping was sent, and no message came since
        self._address = ""
        self._doubted = ""  # the member of the last hang-up

    @property
    def is_patient(self) -> bool:
        """Whether more silence than at first is permitted: the last hang-ups had no effect."""
        return self._doubled > 0

    def opened(self, now_ms: int, address: str) -> None:
        """A link was opened, and the hello sent."""
        self._address = address
        self._opened_ms = now_ms
        self.began(now_ms)

    def began(self, now_ms: int) -> None:
        """A request was sent on an idle link."""
        self._looked_ms = now_ms
        self._silent_ms = 0
        self._pinged = False

    def heard(self, now_ms: int, *, is_answer: bool) -> None:
        """A message arrived; Welcome and redirects are no answers."""
        self.began(now_ms)
        if not is_answer or not self._doubled:
            return
        if self._address != self._doubted or now_ms - self._opened_ms >= SILENCE_FORGIVEN_MS:
            self._doubled = 0
            self._doubted = ""

    def judge(
        self,
        now_ms: int,
        *,
        is_greeting: bool = False,
        is_asked: bool = False,
        ping_ms: int = 0,
        extra_ms: int = 0,
    ) -> Verdict:
        """Check the link; called every LOOK_MS.

        Args:
            now_ms: Monotonic time.
            is_greeting: The hello is unanswered.
            is_asked: Requests wait for answers.
            ping_ms: Ping the member after so much silence; 0: it does not answer pings.
            extra_ms: Added to the limit for large requests.
        """
        self._silent_ms += min(now_ms - self._looked_ms, LOOK_MS)
        self._looked_ms = now_ms
        silent_ms = self._silent_ms
        if is_greeting:
            limit_ms = min(self._patience_ms(self._greeting_ms), self._greeting_ms_max)
        elif is_asked:
            limit_ms = self._patience_ms(SILENCE_MS_MIN) + extra_ms
            ping_ms = min(ping_ms, limit_ms // 2)
        elif ping_ms:
            limit_ms = self._patience_ms(2 * ping_ms)
        else:
            return Verdict.WAIT
        if silent_ms >= limit_ms and (is_greeting or is_asked or self._pinged):
            self._doubled += 1
            self._doubted = self._address
            return Verdict.HANG_UP
        if ping_ms and not is_greeting and not self._pinged and silent_ms >= ping_ms:
            self._pinged = True
            return Verdict.PING
        return Verdict.WAIT

    def _patience_ms(self, base_ms: int) -> int:
        """The base, doubled for every hang-up, up to the maximum."""
        return min(base_ms << min(self._doubled, 16), max(SILENCE_MS_MAX, base_ms))
