"""What keys of `rollq top` do, and the lines it draws, without a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.counters import counter, counters_by, gauges_by
from rollq.cli.terminal import keys_in
from rollq.cli.top_screen import ALARM, KEYS, SELECTED, Screen, frame
from rollq.documents.rates import Totals, oldest_in, rates_of, totals_in

NOW_MS = 1_000_000_000


def queue(name: str, waiting: int = 0, **more: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("delayed", "running", "ok", "failed", "dead", "cancelled"), 0)
    row = {"name": name, "paused": False, "waiting": waiting, "oldest_s": 61.0, "rate": 1.5}
    return row | counts | more


def job(name: str, state: str = "running", **more: Any) -> dict[str, Any]:
    row = {"id": name * 8, "exec": "calcA", "state": state, "queue": "q", "client": "ann"}
    return row | {"changed_ms": NOW_MS - 5_000, "worker": "w" * 8} | more


LOAD = {"cpu_percent": 12.5, "memory_used_bytes": 2**30, "memory_total_bytes": 4 * 2**30}


def look(**more: Any) -> dict[str, Any]:
    worker = {
        **{"id": "w" * 8, "name": "w1", "slots": 4, "running": 3, "cpu_capped": True},
        **{"state": "ready", "patterns": ["job.assign.>"], "load": LOAD},
    }
    member = {"address": "a:1", "lag": 7, "active": True}
    cluster = {"leader": "a:1", "term": 3, "members": [member], "alarms": []}
    states = ("waiting", "delayed", "running", "ok", "failed", "dead", "cancelled")
    return {
        "ts_ms": NOW_MS,
        "cluster": cluster,
        "jobs": dict.fromkeys(states, 2),
        "rates": {"accepted": 12.5, "started": None, "ended": 0.0, "failed": 0.0},
        "queues": [queue("small", 1), queue("large", 100)],
        "workers": [worker],
        "slowest": [job("a"), job("b", changed_ms=NOW_MS - 60_000)],
        "cut": [],
    } | more


def texts(screen: Screen, height: int = 24) -> list[str]:
    return [line.text for line in frame(screen, 80, height, NOW_MS)]


def selected(screen: Screen) -> str:
    (line,) = [one.text for one in frame(screen, 80, 24, NOW_MS) if one.look == SELECTED]
    return line.split()[0]


def press(screen: Screen, *keys: str) -> None:
    for key in keys:
        screen.press(key)


def test_a_member_that_is_away_has_no_lag() -> None:
    shown = look()
    shown["cluster"]["members"].append({"address": "b:1", "lag": None, "active": False})
    assert "members 2 (1 away)  lag 7" in texts(Screen(shown))[0]


def test_a_frame_shows_all_at_once() -> None:
    shown = texts(Screen(look()))
    assert len(shown) == 24
    assert "leader a:1  term 3  members 1  lag 7" in shown[0]
    assert "waiting 2" in shown[1]
    assert "accepted 12.5  started -" in shown[2]
    everything = "\n".join(shown)
    tables = ("queues (2)", "workers, 3 of 4 slots busy (1)", "running longest (2)")
    for part in (*tables, "CPU cap", "1 min 1 s"):
        assert part in everything
    assert everything.index("large") < everything.index("small")


def test_a_worker_that_gets_no_jobs_is_not_shown_as_up() -> None:
    (worker,) = look()["workers"]
    for state in ("away", "drained"):
        shown = texts(Screen(look(workers=[worker | {"state": state}])))
        assert any("w1" in line and state in line for line in shown)


def test_jobs_fetched_ahead_are_in_no_slot() -> None:
    (first,) = look()["workers"]
    shown = texts(Screen(look(workers=[first | {"running": 9}, first | {"id": "v", "running": 1}])))
    assert any(line.startswith("workers, 5 of 8 slots busy (2)") for line in shown)


def test_a_list_that_is_cut_says_so() -> None:
    screen = Screen(look(cut=["queues", "workers", "slowest"]))
    shown = "\n".join(texts(screen))
    for title in ("queues (2 or more)", "workers (1 or more)", "running longest (2 or more)"):
        assert title in shown
    press(screen, "enter")
    screen.jobs, screen.are_jobs_cut = [job("c")], True
    assert "jobs of queue large (1 or more)" in "\n".join(texts(screen))
    press(screen, "escape", "down", "enter")
    assert "jobs of queue small (0)" in "\n".join(texts(screen))


def test_a_frame_fits_80_columns() -> None:
    longest = queue("render." * 9, 99_999, oldest_s=3_599.0, running=99_999, rate=12_345.0)
    rows = [job("a", exec="program" * 5, queue="queue" * 9, client="client" * 9)]
    shown = texts(Screen(look(queues=[longest], slowest=rows)))
    assert max(map(len, shown[3:])) <= 80
    assert any(line.startswith("render.r") and line.endswith("12345") for line in shown)


@pytest.mark.parametrize("height", [5, 8, 24, 60])
def test_a_frame_is_as_high_as_the_screen(height: int) -> None:
    many = look(queues=[queue(f"q{number}", number) for number in range(100)])
    screen = Screen(many)
    press(screen, *["down"] * 99)
    assert len(texts(screen, height)) == height
    if height >= 24:
        assert selected(screen) == "q0"


def test_rows_are_selected_and_opened_and_left_again() -> None:
    screen = Screen(look())
    assert selected(screen) == "large"
    press(screen, "j")
    assert selected(screen) == "small"
    assert screen.press("enter")
    assert (screen.place.kind, screen.place.queue) == ("jobs", "small")
    screen.jobs = [job("d", changed_ms=1), job("c", "failed", worker_name="w1")]
    assert "jobs of queue small (2)" in "\n".join(texts(screen))
    press(screen, "down")
    assert screen.press("enter")
    assert (screen.place.kind, screen.place.job) == ("job", "d" * 8)
    screen.lines = ["job dddddddd", "why"]
    assert texts(screen)[4:6] == ["job dddddddd", "why"]
    press(screen, "escape", "backspace")
    assert screen.place.kind == "main"
    press(screen, "escape")
    assert screen.place.kind == "main"


def test_sections_take_turns() -> None:
    screen = Screen(look())
    press(screen, "tab")
    assert selected(screen) == "w1"
    assert screen.press("enter")
    assert screen.place.worker == "w" * 8
    press(screen, "escape", "right")
    assert selected(screen) == "b" * 8  # it runs longest
    press(screen, "left", "left")
    assert screen.section == "queues"


def test_rows_are_sorted_and_filtered() -> None:
    screen = Screen(look())
    press(screen, "s", "s")
    assert [one["name"] for one in screen.rows()] == ["large", "small"]
    press(screen, "/", "s", "m", "x", "backspace")
    assert texts(screen)[-1] == "/sm_"
    press(screen, "enter")
    assert [one["name"] for one in screen.rows()] == ["small"]
    press(screen, "/", "escape")
    assert len(screen.rows()) == 2


def test_keys_that_mean_nothing_do_nothing() -> None:
    screen = Screen()
    for key in (*KEYS, "x", "ü"):
        if key not in ("q", "/"):
            screen.press(key)
    assert not screen.is_over
    press(screen, "escape", "escape", "q")
    assert screen.is_over


def test_what_is_wrong_is_said() -> None:
    screen = Screen(look(), trouble="no leader, since 12:00:00 (5 s)")
    screen.look["cluster"]["alarms"] = [{"text": "the disk is full"}]  # type: ignore[index]
    alarms = [line.text for line in frame(screen, 80, 24, NOW_MS) if line.look == ALARM]
    assert alarms == ["no leader, since 12:00:00 (5 s)", "alarm: the disk is full"]
    assert texts(Screen(trouble="no leader"))[1] == "no leader"
    press(screen, "p", "?")
    assert "PAUSED" in texts(screen)[0]
    assert "  q, Ctrl-C        quit" in texts(screen)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"jk", ["j", "k"]),
        (b"\x1b[A\x1bOB\r", ["up", "down", "enter"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[200~", []),
        (b"\x00\x07a", ["a"]),
        (b"\x7f\t\x1b[6~", ["backspace", "tab", "page down"]),
    ],
    ids=["letters", "arrows", "escape", "unknown", "control", "others"],
)
def test_keys(data: bytes, keys: list[str]) -> None:
    assert keys_in(data) == keys


def test_rates_are_differences_of_counters() -> None:
    families = [
        counter("rollq_jobs_accepted_total", 10),
        counter("rollq_attempts_started_total", 8),
        counters_by("rollq_jobs_ended_total", "outcome", {"succeeded": 4, "failed": 1, "dead": 1}),
        gauges_by("rollq_queue_oldest_seconds", "queue", {"q": 3.5}),
    ]
    totals = totals_in(families)
    assert totals == Totals(10, 8, 6, 2)
    assert oldest_in(families) == {"q": 3.5}
    assert oldest_in([]) == {}
    assert rates_of(Totals(0, 4, 6, 0), totals, 2.0) == {
        **{"accepted": 5.0, "started": 2.0, "ended": 0.0, "failed": 1.0}
    }
    unknown = dict.fromkeys(("accepted", "started", "ended", "failed"))
    assert rates_of(None, totals, 1.0) == unknown
    assert rates_of(Totals(11), totals, 1.0) == unknown  # another member tells it
