from __future__ import annotations

from rollq.base.limits import (
    CLIENT_TICK_MS,
    GREETING_MS_MAX,
    PROBE_MS,
    SILENCE_BYTES_PER_MS,
    SILENCE_MS_MAX,
    SILENCE_MS_MIN,
)
from rollq.roles.client.watch import Verdict, Watch


def silence(
    watch: Watch,
    *,
    is_asked: bool = True,
    is_awaiting: bool = False,
    asked_bytes: int = 0,
    is_greeting: bool = False,
    begin_ms: int = 0,
) -> tuple[int, Verdict]:
    """How long nothing is said before something is to be done, and what."""
    for now_ms in range(begin_ms, begin_ms + 100_000, CLIENT_TICK_MS):
        verdict = watch.judge(
            now_ms,
            is_asked=is_asked,
            is_awaiting=is_awaiting,
            asked_bytes=asked_bytes,
            is_greeting=is_greeting,
        )
        if verdict is not Verdict.WAIT:
            return now_ms - begin_ms, verdict
    return 0, Verdict.WAIT


def test_silence_counts_only_while_something_is_asked() -> None:
    watch = Watch()
    watch.opened(0, "a")
    assert silence(watch, is_asked=False) == (0, Verdict.WAIT)
    watch.began(0)
    assert silence(watch) == (SILENCE_MS_MIN, Verdict.HANG_UP)


def test_a_leader_that_owes_results_is_probed() -> None:
    watch = Watch()
    watch.heard(1_000, is_answer=True)
    found = silence(watch, is_asked=False, is_awaiting=True, begin_ms=1_000)
    assert found == (PROBE_MS, Verdict.PROBE)


def test_every_hang_up_in_vain_doubles_the_patience_and_a_word_of_another_resets_it() -> None:
    watch = Watch()
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
    watch = Watch()
    for patience_ms in (SILENCE_MS_MIN, 2 * SILENCE_MS_MIN, 4 * SILENCE_MS_MIN):
        watch.opened(0, "slow")
        watch.heard(0, is_answer=True)
        assert silence(watch) == (patience_ms, Verdict.HANG_UP)
    watch.opened(0, "other")
    watch.heard(0, is_answer=True)
    watch.opened(0, "slow")
    watch.heard(0, is_answer=True)
    assert silence(watch) == (SILENCE_MS_MIN, Verdict.HANG_UP)


def test_while_we_have_no_time_ourselves_nobody_is_silent() -> None:
    watch = Watch()
    watch.opened(0, "a")
    assert watch.judge(20 * SILENCE_MS_MIN, is_asked=True, is_awaiting=True) is Verdict.WAIT
    # What it said meanwhile is read now; if it said nothing, it is given almost all of its time.
    left_ms = SILENCE_MS_MIN - CLIENT_TICK_MS
    assert silence(watch, begin_ms=20 * SILENCE_MS_MIN) == (left_ms, Verdict.HANG_UP)


def test_a_hello_is_not_waited_for_longer_and_longer() -> None:
    watch = Watch()
    for patience_ms in (SILENCE_MS_MIN, GREETING_MS_MAX, GREETING_MS_MAX):
        watch.opened(0, "a")
        assert silence(watch, is_greeting=True) == (patience_ms, Verdict.HANG_UP)


def test_much_that_is_asked_may_take_its_time() -> None:
    watch = Watch()
    watch.opened(0, "a")
    much = 1_000 * SILENCE_BYTES_PER_MS
    assert silence(watch, asked_bytes=much) == (SILENCE_MS_MIN + 1_000, Verdict.HANG_UP)
