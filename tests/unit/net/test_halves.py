from __future__ import annotations

from rollq.net.halves import Halves


class FakeLink:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def abort(self, reason: str) -> None:
        self.reasons.append(reason)


def test_who_keeps_others_waiting_for_longest_is_cut_off() -> None:
    halves = Halves(100)
    slow, quick, last = FakeLink(), FakeLink(), FakeLink()
    halves.note(slow, 40, has_begun_anew=False)
    halves.note(quick, 30, has_begun_anew=False)
    halves.note(slow, 60, has_begun_anew=False)  # more of the same frame: not younger by that
    assert halves.total_bytes == 90
    halves.note(last, 20, has_begun_anew=False)
    (reason,) = slow.reasons
    assert "more than 100 bytes of unfinished frames" in reason
    assert (halves.total_bytes, quick.reasons, last.reasons) == (50, [], [])


def test_another_frame_begins_to_wait_anew() -> None:
    halves = Halves(100)
    busy, slow = FakeLink(), FakeLink()
    halves.note(busy, 50, has_begun_anew=False)
    halves.note(slow, 40, has_begun_anew=False)
    halves.note(busy, 70, has_begun_anew=True)
    assert (slow.reasons != [], busy.reasons) == (True, [])
    assert halves.total_bytes == 70


def test_whole_frames_and_lost_connections_take_nothing() -> None:
    halves = Halves(100)
    one, other = FakeLink(), FakeLink()
    halves.note(one, 50, has_begun_anew=False)
    halves.note(one, 0, has_begun_anew=True)
    halves.note(other, 50, has_begun_anew=False)
    halves.forget(other)
    halves.forget(other)
    assert halves.total_bytes == 0


def test_one_that_is_too_much_alone_is_cut_off() -> None:
    halves = Halves(100)
    one = FakeLink()
    halves.note(one, 101, has_begun_anew=False)
    assert len(one.reasons) == 1
    assert halves.total_bytes == 0
