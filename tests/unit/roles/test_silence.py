from __future__ import annotations

from rollq.base.limits import (
    GREETING_MS_MAX,
    LOOK_MS,
    SILENCE_FORGIVEN_MS,
    SILENCE_MS_MAX,
    SILENCE_MS_MIN,
)
from rollq.roles.silence import Silence, Verdict

PING_MS = 400


def silence(
    watch: Silence,
    *,
    is_asked: bool = True,
    is_greeting: bool = False,
    ping_ms: int = 0,
    extra_ms: int = 0,
    begin_ms: int = 0,
) -> tuple[int, Verdict]:
    """How long nothing is said before something is to be done, and what."""
    for now_ms in range(begin_ms, begin_ms + 100_000, LOOK_MS):
        verdict = watch.judge(
            now_ms,
            is_asked=is_asked,
            is_greeting=is_greeting,
            ping_ms=ping_ms,
            extra_ms=extra_ms,
        )
        if verdict is not Verdict.WAIT:
            return now_ms - begin_ms, verdict
    return 0, Verdict.WAIT


def test_a_member_that_answers_no_pings_is_watched_only_while_something_is_asked() -> None:
    watch = Silence()
    watch.opened(0, "a")
    assert silence(watch, is_asked=False) == (0, Verdict.WAIT)
    watch.began(0)
    assert silence(watch) == (SILENCE_MS_MIN, Verdict.HANG_UP)


def test_silence_is_answered_with_a_ping_and_then_with_a_hang_up() -> None:
    watch = Silence()
    watch.opened(1_000, "a")
    idle = {"is_asked": False, "ping_ms": PING_MS}
    assert silence(watch, begin_ms=1_000, **idle) == (PING_MS, Verdict.PING)  # type: ignore[arg-type]
    at_ms = 1_000 + PING_MS
    assert silence(watch, begin_ms=at_ms, **idle) == (PING_MS, Verdict.HANG_UP)  # type: ignore[arg-type]


def test_a_pong_ends_the_silence() -> None:
    watch = Silence()
    watch.opened(0, "a")
    for begin_ms in range(0, 10_000, PING_MS):
        found = silence(watch, is_asked=False, ping_ms=PING_MS, begin_ms=begin_ms)
        assert found == (PING_MS, Verdict.PING)
        watch.heard(begin_ms + PING_MS, is_answer=True)


def test_while_answers_are_awaited_the_ping_goes_early_enough_to_be_answered() -> None:
    watch = Silence()
    watch.opened(0, "a")
    at_ms, verdict = silence(watch, ping_ms=10 * SILENCE_MS_MIN)
    assert (at_ms, verdict) == (-(-SILENCE_MS_MIN // 2 // LOOK_MS) * LOOK_MS, Verdict.PING)
    found = silence(watch, ping_ms=10 * SILENCE_MS_MIN, begin_ms=at_ms)
    assert found == (SILENCE_MS_MIN - at_ms, Verdict.HANG_UP)


def test_every_hang_up_in_vain_doubles_the_patience_and_a_word_of_another_resets_it() -> None:
    watch = Silence()
    patience_ms = SILENCE_MS_MIN
    for address in "abcd" * 5:
        watch.opened(0, address)
        assert silence(watch) == (patience_ms, Verdict.HANG_UP)
        patience_ms = min(2 * patience_ms, SILENCE_MS_MAX)
    assert patience_ms == SILENCE_MS_MAX
    watch.opened(0, "e")
    watch.heard(0, is_answer=False)
    assert silence(watch) == (SILENCE_MS_MAX, Verdict.HANG_UP)
    watch.opened(0, "f")
    watch.heard(0, is_answer=True)
    assert silence(watch) == (SILENCE_MS_MIN, Verdict.HANG_UP)


def test_a_leader_that_was_only_slow_is_given_more_time_from_then_on() -> None:
    watch = Silence()
    for patience_ms in (SILENCE_MS_MIN, 2 * SILENCE_MS_MIN, 4 * SILENCE_MS_MIN):
        watch.opened(0, "slow")
        watch.heard(0, is_answer=True)
        assert silence(watch) == (patience_ms, Verdict.HANG_UP)
    watch.opened(0, "other")
    watch.heard(0, is_answer=True)
    watch.opened(0, "slow")
    watch.heard(0, is_answer=True)
    assert silence(watch) == (SILENCE_MS_MIN, Verdict.HANG_UP)


def test_after_a_long_good_session_a_slow_leader_is_like_any_other() -> None:
    watch = Silence()
    watch.opened(0, "slow")
    assert silence(watch) == (SILENCE_MS_MIN, Verdict.HANG_UP)
    watch.opened(0, "slow")
    watch.heard(SILENCE_FORGIVEN_MS - 1, is_answer=True)
    assert silence(watch, begin_ms=SILENCE_FORGIVEN_MS - 1)[0] == 2 * SILENCE_MS_MIN
    watch.opened(0, "slow")
    watch.heard(SILENCE_FORGIVEN_MS, is_answer=True)
    assert silence(watch, begin_ms=SILENCE_FORGIVEN_MS)[0] == SILENCE_MS_MIN


def test_while_we_have_no_time_ourselves_nobody_is_silent() -> None:
    watch = Silence()
    watch.opened(0, "a")
    assert watch.judge(20 * SILENCE_MS_MIN, is_asked=True, ping_ms=PING_MS) is Verdict.WAIT
    # What it said meanwhile is read now; if it said nothing, it is given almost all of its time.
    left_ms = SILENCE_MS_MIN - LOOK_MS
    assert silence(watch, begin_ms=20 * SILENCE_MS_MIN) == (left_ms, Verdict.HANG_UP)


def test_the_hello_of_a_client_is_not_waited_for_longer_and_longer() -> None:
    watch = Silence()
    for patience_ms in (SILENCE_MS_MIN, GREETING_MS_MAX, GREETING_MS_MAX):
        watch.opened(0, "a")
        assert silence(watch, is_greeting=True) == (patience_ms, Verdict.HANG_UP)


def test_much_that_is_asked_may_take_its_time() -> None:
    watch = Silence()
    watch.opened(0, "a")
    assert silence(watch, extra_ms=1_000) == (SILENCE_MS_MIN + 1_000, Verdict.HANG_UP)
