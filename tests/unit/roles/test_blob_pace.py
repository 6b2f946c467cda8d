"""How much of the machine blobs take where jobs have work to do."""

from __future__ import annotations

import pytest

from rollq.roles.blobs.pace import REST, REST_S_MAX, REST_S_MIN, Throttle


class Clock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def work(self, seconds: float) -> str:
        self.now_s += seconds
        return "done"


def test_a_step_is_followed_by_a_rest() -> None:
    clock = Clock()
    pace = Throttle(lambda: True, clock)
    assert pace.rest_s() == 0
    assert pace.step(lambda: clock.work(0.001)) == "done"
    assert pace.rest_s() == pytest.approx(REST * 0.001)
    clock.now_s += REST * 0.0011
    assert pace.rest_s() == 0


def test_a_long_step_does_not_stop_everything() -> None:
    clock = Clock()
    pace = Throttle(lambda: True, clock)
    for _ in range(3):
        pace.step(lambda: clock.work(10))
    assert pace.rest_s() == pytest.approx(REST_S_MAX)


def test_rests_of_several_add_up() -> None:
    clock = Clock()
    pace = Throttle(lambda: True, clock)
    pace.step(lambda: clock.work(0.001))
    pace.step(lambda: clock.work(0))
    began_s = clock.now_s
    pace.step(lambda: clock.work(0.001))
    assert pace.rest_s() == pytest.approx(2 * REST * 0.001 - (clock.now_s - began_s))


def test_a_step_that_fails_is_followed_by_a_rest_as_well() -> None:
    clock = Clock()
    pace = Throttle(lambda: True, clock)

    def fail() -> None:
        clock.work(0.001)
        raise OSError

    with pytest.raises(OSError):
        pace.step(fail)
    assert pace.rest_s() > 0


def test_nobody_rests_where_there_are_no_jobs() -> None:
    clock, busy = Clock(), [False]
    pace = Throttle(lambda: busy[0], clock)
    pace.step(lambda: clock.work(0.001))
    assert pace.rest_s() == 0
    busy[0] = True
    assert pace.rest_s() == 0, "what was done before is forgiven"
    pace.step(lambda: clock.work(0.001))
    assert pace.rest_s() > 0
    busy[0] = False
    assert pace.rest_s() == 0


def test_a_rest_is_no_shorter_than_a_timer_can_be() -> None:
    clock = Clock()
    pace = Throttle(lambda: True, clock)
    pace.step(lambda: clock.work(0.00001))
    assert pace.rest_s() == REST_S_MIN
