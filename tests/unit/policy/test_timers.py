from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollq.policy.timers import STALE_MIN, Timers


def test_due_come_earliest_first_and_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("late", 30)
    timers.set("early", 10)
    timers.set("middle", 20)
    assert timers.pop_due(20, 10) == ["early", "middle"]
    assert timers.pop_due(20, 10) == []
    assert timers.next_ms() == 30


def test_due_together_come_in_the_order_in_which_they_were_set() -> None:
    timers: Timers[str] = Timers()
    for name in ("z", "a", "m"):
        timers.set(name, 10)
    assert timers.pop_due(10, 2) == ["z", "a"]
    assert timers.pop_due(10, 2) == ["m"]


def test_a_timer_can_be_put_off_and_brought_forward() -> None:
    timers: Timers[str] = Timers()
    timers.set("off", 10)
    timers.set("off", 50)
    timers.set("forward", 90)
    timers.set("forward", 20)
    assert timers.pop_due(49, 10) == ["forward"]
    assert timers.pop_due(50, 10) == ["off"]
    assert timers.next_ms() is None


def test_a_timer_can_be_put_off_but_not_set_by_it() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.put_off("a", 5)
    timers.put_off("b", 5)
    assert timers.next_ms() == 10
    timers.put_off("a", 20)
    assert (timers.pop_due(19, 9), timers.pop_due(20, 9)) == ([], ["a"])
    assert "b" not in timers


def test_a_cancelled_timer_is_gone() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.cancel("a")
    timers.cancel("never set")
    assert "a" not in timers
    assert len(timers) == 0
    assert timers.pop_due(100, 10) == []


def test_clear_forgets_everything() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.clear()
    assert timers.next_ms() is None


def test_cancelled_timers_take_no_room() -> None:
    timers: Timers[int] = Timers()
    timers.set(-1, 5)
    for number in range(10_000):
        timers.set(number, 1_000 + number)
        timers.cancel(number)
    assert len(timers._heap) + len(timers._fifo) <= STALE_MIN + 4
    assert timers.pop_due(10_000_000, 10) == [-1]


def test_nothing_that_is_due_is_missed_by_a_glance() -> None:
    timers: Timers[int] = Timers()
    assert not timers.may_be_due(1_000)
    timers.set(1, 100)
    timers.set(2, 300)
    timers.set(2, 50)
    assert (timers.may_be_due(49), timers.may_be_due(50)) == (False, True)
    timers.cancel(2)
    timers.set(1, 200)
    assert not timers.may_be_due(49)
    assert timers.may_be_due(200)


STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "cancel", "pop"]), st.integers(0, 9), st.integers(0, 300)),
    max_size=300,
)


@given(STEPS)
def test_timers_agree_with_a_plain_dict(steps: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    model: dict[int, int] = {}
    for what, key, time_ms in steps:
        if what == "set":
            timers.set(key, time_ms)
            model[key] = time_ms
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            due = {key for key, due_ms in model.items() if due_ms <= time_ms}
            assert timers.may_be_due(time_ms) or not due
            popped = timers.pop_due(time_ms, 100)
            assert set(popped) == due
            assert [model[key] for key in popped] == sorted(model[key] for key in due)
            model = {key: due_ms for key, due_ms in model.items() if key not in due}
        assert timers.next_ms() == min(model.values(), default=None)
        assert len(timers) == len(model)


def test_many_timers_are_set_and_cancelled_at_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("x", 5)
    timers.set_all(["a", "b", "c", "d"], 10)
    timers.set_all(["x", "y"], 7)
    timers.set("b", 30)
    timers.cancel_all(["c", "never set"])
    assert timers.pop_due(10, 2) == ["y", "x"]
    assert timers.pop_due(10, 1) == ["a"]
    assert timers.next_ms() == 10
    assert timers.pop_due(10, 9) == ["d"]
    assert timers.next_ms() == 30
    assert timers.pop_due(30, 9) == ["b"]
    assert len(timers) == 0


def test_runs_that_were_cancelled_take_no_room() -> None:
    timers: Timers[int] = Timers()
    timers.set(-1, 5)
    for number in range(0, 20_000, 10):
        keys = list(range(number, number + 10))
        timers.set_all(keys, 1_000 + number)
        timers.cancel_all(keys)
    assert timers._entry_keys <= 2 * len(timers) + STALE_MIN + 10
    assert timers.pop_due(100_000, 10) == [-1]


@given(st.lists(st.tuples(st.lists(st.integers(0, 9), unique=True), st.integers(0, 20))))
def test_runs_are_as_their_keys_one_by_one(steps: list[tuple[list[int], int]]) -> None:
    runs: Timers[int] = Timers()
    ones: Timers[int] = Timers()
    for keys, due_ms in steps:
        if due_ms % 5 == 4:
            runs.cancel_all(keys)
            for key in keys:
                ones.cancel(key)
        elif keys:
            runs.set_all(keys, due_ms)
            for key in keys:
                ones.set(key, due_ms)
        assert runs.next_ms() == ones.next_ms()
        now_ms = due_ms // 2
        assert sorted(runs.pop_due(now_ms, 99)) == sorted(ones.pop_due(now_ms, 99))
    while ones.next_ms() is not None:
        assert runs.next_ms() == ones.next_ms()
        count = len(ones.pop_due(20, 3))
        assert len(runs.pop_due(20, 3)) == count
    assert len(runs) == 0
