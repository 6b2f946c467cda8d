from __future__ import annotations

from rollq.base.limits import (
    GREETING_MS_MAX,
    PROBE_MS,
    SILENCE_BYTES_PER_MS,
    SILENCE_MS_MAX,
    SILENCE_MS_MIN,
)
from rollq.roles.client.watch import Verdict, Watch


def test_silence_counts_only_while_something_is_asked() -> None:
    watch = Watch()
    watch.began(0)
    assert watch.judge(SILENCE_MS_MIN - 1, is_asked=True, is_awaiting=False) is Verdict.WAIT
    assert watch.judge(10**9, is_asked=False, is_awaiting=False) is Verdict.WAIT
    assert watch.judge(SILENCE_MS_MIN, is_asked=True, is_awaiting=False) is Verdict.HANG_UP


def test_a_leader_that_owes_results_is_probed() -> None:
    watch = Watch()
    watch.heard(1_000, is_answer=True)
    assert watch.judge(999 + PROBE_MS, is_asked=False, is_awaiting=True) is Verdict.WAIT
    assert watch.judge(1_000 + PROBE_MS, is_asked=False, is_awaiting=True) is Verdict.PROBE


def test_every_hang_up_in_vain_doubles_the_patience_and_a_word_resets_it() -> None:
    watch = Watch()
    patience_ms = SILENCE_MS_MIN
    for _ in range(20):
        watch.began(0)
        assert watch.judge(patience_ms - 1, is_asked=True, is_awaiting=True) is Verdict.WAIT
        assert watch.judge(patience_ms, is_asked=True, is_awaiting=True) is Verdict.HANG_UP
        patience_ms = min(2 * patience_ms, SILENCE_MS_MAX)
    assert patience_ms == SILENCE_MS_MAX
    watch.heard(0, is_answer=False)
    assert watch.judge(SILENCE_MS_MIN, is_asked=True, is_awaiting=True) is Verdict.WAIT
    watch.heard(0, is_answer=True)
    assert watch.judge(SILENCE_MS_MIN, is_asked=True, is_awaiting=True) is Verdict.HANG_UP


def test_a_hello_is_not_waited_for_longer_and_longer() -> None:
    watch = Watch()
    for patience_ms in (SILENCE_MS_MIN, GREETING_MS_MAX, GREETING_MS_MAX):
        watch.began(0)
        for now_ms, verdict in ((patience_ms - 1, Verdict.WAIT), (patience_ms, Verdict.HANG_UP)):
            judged = watch.judge(now_ms, is_asked=True, is_awaiting=True, is_greeting=True)
            assert judged is verdict


def test_much_that_is_asked_may_take_its_time() -> None:
    watch = Watch()
    watch.began(0)
    much = 1_000 * SILENCE_BYTES_PER_MS
    late_ms = SILENCE_MS_MIN + 1_000
    for now_ms, verdict in ((late_ms - 1, Verdict.WAIT), (late_ms, Verdict.HANG_UP)):
        judged = watch.judge(now_ms, is_asked=True, is_awaiting=False, asked_bytes=much)
        assert judged is verdict
