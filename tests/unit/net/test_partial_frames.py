from __future__ import annotations

from rollq.net.partial_frames import PartialFrames


class FakeLink:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def abort(self, reason: str) -> None:
        self.reasons.append(reason)


def test_the_connection_with_the_oldest_incomplete_frame_is_aborted() -> None:
    partial_frames = PartialFrames(100)
    slow, quick, last = FakeLink(), FakeLink(), FakeLink()
    partial_frames.note(slow, 40, has_begun_anew=False)
    partial_frames.note(quick, 30, has_begun_anew=False)
    partial_frames.note(slow, 60, has_begun_anew=False)  # more of the same frame: as old as before
    assert partial_frames.total_bytes == 90
    partial_frames.note(last, 20, has_begun_anew=False)
    (reason,) = slow.reasons
    assert "exceed 100 bytes" in reason
    assert (partial_frames.total_bytes, quick.reasons, last.reasons) == (50, [], [])


def test_the_next_frame_of_a_connection_is_a_new_one() -> None:
    partial_frames = PartialFrames(100)
    busy, slow = FakeLink(), FakeLink()
    partial_frames.note(busy, 50, has_begun_anew=False)
    partial_frames.note(slow, 40, has_begun_anew=False)
    partial_frames.note(busy, 70, has_begun_anew=True)
    assert (slow.reasons != [], busy.reasons) == (True, [])
    assert partial_frames.total_bytes == 70


def test_whole_frames_and_lost_connections_take_nothing() -> None:
    partial_frames = PartialFrames(100)
    one, other = FakeLink(), FakeLink()
    partial_frames.note(one, 50, has_begun_anew=False)
    partial_frames.note(one, 0, has_begun_anew=True)
    partial_frames.note(other, 50, has_begun_anew=False)
    partial_frames.forget(other)
    partial_frames.forget(other)
    assert partial_frames.total_bytes == 0


def test_one_that_is_too_much_alone_is_cut_off() -> None:
    partial_frames = PartialFrames(100)
    one = FakeLink()
    partial_frames.note(one, 101, has_begun_anew=False)
    assert len(one.reasons) == 1
    assert partial_frames.total_bytes == 0
