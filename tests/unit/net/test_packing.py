from __future__ import annotations

from rollq.net.packing import (
    BELIEVED_S,
    LOOKED_AT_S,
    SLOW_BYTES_PER_S,
    WAITED_BYTES_MIN,
    Pace,
)

MUCH_BYTES = SLOW_BYTES_PER_S // 10


def _waited(took_s: float, waiting_bytes: int, *more_bytes: int, left_bytes: int = 0) -> Pace:
    pace = Pace()
    pace.began(100.0, waiting_bytes)
    for size_bytes in more_bytes:
        pace.wrote(100.0, size_bytes, waiting_bytes)
    pace.ended(100.0 + took_s, left_bytes)
    return pace


def test_a_link_is_slow_for_a_while_after_much_left_slowly() -> None:
    pace = _waited(0.2, MUCH_BYTES)
    assert pace.is_slow(100.3)
    assert pace.is_slow(100.1 + BELIEVED_S)
    assert not pace.is_slow(100.3 + BELIEVED_S)


def test_what_leaves_fast_or_is_little_shows_nothing() -> None:
    assert not Pace().is_slow(0.0)
    assert not _waited(0.05, MUCH_BYTES).is_slow(100.1)
    assert not _waited(9.0, WAITED_BYTES_MIN - 1).is_slow(110.0)


def test_what_was_written_meanwhile_and_what_is_left_count() -> None:
    assert _waited(0.2, MUCH_BYTES // 2, MUCH_BYTES).is_slow(100.3)
    assert not _waited(0.2, MUCH_BYTES, 2 * MUCH_BYTES).is_slow(100.3)
    assert not _waited(0.08, MUCH_BYTES).is_slow(100.3)
    assert _waited(0.08, MUCH_BYTES, left_bytes=MUCH_BYTES // 2).is_slow(100.3)


def test_a_link_on_which_something_always_waits_is_looked_at_as_well() -> None:
    for share, is_slow in ((2, True), (0.5, False)):
        pace = Pace()
        pace.began(100.0, MUCH_BYTES)
        step_bytes = round(SLOW_BYTES_PER_S * LOOKED_AT_S)
        for step in range(1, 4):  # as much comes as leaves
            pace.wrote(100.0 + step * LOOKED_AT_S * share, step_bytes, MUCH_BYTES)
        assert pace.is_slow(101.0) is is_slow
