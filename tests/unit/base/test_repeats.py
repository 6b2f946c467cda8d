from __future__ import annotations

from rollq.base.repeats import KINDS_MAX, QUIET_MS, QUIET_MS_MAX, Repeats


def written(repeats: Repeats, until_ms: int, step_ms: int = 100) -> dict[int, str]:
    lines = {now: repeats.line("k", "trouble", now) for now in range(0, until_ms, step_ms)}
    return {now: line for now, line in lines.items() if line}


def test_the_first_is_written_and_then_a_count_less_and_less_often() -> None:
    found = written(Repeats(), 8 * QUIET_MS)
    assert found == {
        0: "trouble",
        QUIET_MS: f"trouble ({QUIET_MS // 100 - 1} more like this since)",
        3 * QUIET_MS: f"trouble ({2 * QUIET_MS // 100 - 1} more like this since)",
        7 * QUIET_MS: f"trouble ({4 * QUIET_MS // 100 - 1} more like this since)",
    }


def test_kinds_do_not_hide_each_other() -> None:
    repeats = Repeats()
    assert [repeats.line(kind, kind, 0) for kind in "aabba"] == ["a", "", "b", "", ""]


def test_some_may_be_written_before_they_are_counted() -> None:
    repeats = Repeats(burst=3)
    assert [bool(repeats.line("k", "x", now)) for now in range(5)] == [True] * 3 + [False] * 2


def test_what_is_over_is_news_when_it_comes_again() -> None:
    repeats = Repeats()
    repeats.line("k", "x", 0)
    repeats.over("k")
    assert repeats.line("k", "x", 1) == "x"


def test_what_was_long_ago_is_news() -> None:
    repeats = Repeats()
    repeats.line("k", "x", 0)
    repeats.line("k", "x", 1)
    assert repeats.line("k", "x", QUIET_MS + QUIET_MS_MAX) == "x"


def test_memory_is_bounded() -> None:
    repeats = Repeats()
    for number in range(2 * KINDS_MAX):
        repeats.line(str(number), "x", 0)
    assert len(repeats._kinds) == KINDS_MAX
