"""Whether a silent member is still there: shared by the machines of workers and clients. Pure.

A member whose process was stopped, whose host is gone or whose network drops packets keeps its
connections open. So silence is a fault: a member that says nothing for a while is asked (`PING`),
and one that does not answer is left (`HANG_UP`). While requests wait for answers the time is
shorter, because a caller waits.

Every hang-up that helped nothing doubles the time, so that a slow group is not made slower by
sessions that come again and again; one that led back to the same member helped nothing either.

Silence is what was looked at: a look that comes late means that we had no time, and what the
member said meanwhile is not read yet.
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
    """What to do about the silence."""

    WAIT = "wait"
    PING = "ping"  # ask, so that silence means something
    HANG_UP = "hang up"


class Silence:
    """For how long a link is silent, and how long that is borne.

    Args:
        greeting_ms: How long a hello may go unanswered at first.
        greeting_ms_max: And at most, after doubling.
    """

    __slots__ = (
        "_address",
        "_asks",
        "_doubled",
        "_doubted",
        "_greeting_ms",
        "_greeting_ms_max",
        "_looked_ms",
        "_opened_ms",
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
        self._asks = False  # a ping was sent and nothing was heard since
        self._address = ""
        self._doubted = ""  # the member that was left last

    @property
    def is_patient(self) -> bool:
        """Whether silence is borne for longer than at first: hang-ups did not help lately."""
        return self._doubled > 0

    def opened(self, now_ms: int, address: str) -> None:
        """A new link; the hello is on its way."""
        self._address = address
        self._opened_ms = now_ms
        self.began(now_ms)

    def began(self, now_ms: int) -> None:
        """Something is asked on a link where nothing was awaited."""
        self._looked_ms = now_ms
        self._silent_ms = 0
        self._asks = False

    def heard(self, now_ms: int, *, is_answer: bool) -> None:
        """The member said something; a greeting or a redirect is not yet an answer."""
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
        """Look at the clock, every LOOK_MS.

        Args:
            now_ms: Monotonic time.
            is_greeting: The answer to our hello is due.
            is_asked: Requests wait for answers.
            ping_ms: After so much silence the member is pinged; 0: it does not answer pings.
            extra_ms: What requests are given beyond the usual, because they are large.
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
        if silent_ms >= limit_ms and (is_greeting or is_asked or self._asks):
            self._doubled += 1
            self._doubted = self._address
            return Verdict.HANG_UP
        if ping_ms and not is_greeting and not self._asks and silent_ms >= ping_ms:
            self._asks = True
            return Verdict.PING
        return Verdict.WAIT

    def _patience_ms(self, base_ms: int) -> int:
        """The base, doubled so often, up to the maximum."""
        return min(base_ms << min(self._doubled, 16), max(SILENCE_MS_MAX, base_ms))
