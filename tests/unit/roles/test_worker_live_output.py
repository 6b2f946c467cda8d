"""What a worker shows of the output of its attempts: windows, shares, ends."""

from __future__ import annotations

from pathlib import Path

from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    OUTPUT_CHUNK_BYTES_MAX,
    OUTPUT_KEPT_BYTES,
    OUTPUT_WATCHES_PER_WORKER_MAX,
    OUTPUT_WINDOW_BYTES,
    STREAM_BYTES_MAX,
)
from rollq.roles.worker.capture import SpooledTail, Tail, end_of
from rollq.roles.worker.live_output import LiveOutput, Tails
from rollq.wire.output_messages import ATTEMPT_ENDED, OutputChunk, TellOutput

JOB, FENCE, MUCH = b"j" * 16, 7, 10**9
REF = AttemptRef(JOB, 1, FENCE)


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def tell(number: int = 1, out: int = 0, err: int = 0, attempt: int = 1) -> TellOutput:
    return TellOutput(name(number), JOB, attempt, FENCE, (out, err))


class World:
    """One attempt and those who watch it."""

    def __init__(self) -> None:
        self.tails: Tails = (Tail(), Tail())
        self.runs = True
        self.is_open = True
        self.watched = LiveOutput(
            lambda ref: self.tails if self.runs and ref == REF else None,
            lambda ref: self.is_open and ref == REF,
        )

    def share(self, bytes_max: int = MUCH) -> list[OutputChunk]:
        return self.watched.share(bytes_max)


def chunk(number: int, stream: int, offset: int, data: bytes, *totals: int) -> OutputChunk:
    out, err = totals
    return OutputChunk(name(number), 1, stream, offset, data, (out, err))


def test_what_was_written_is_shown_and_then_what_is_new() -> None:
    world = World()
    world.tails[0].feed(b"one")
    world.watched.take(tell())
    assert world.share() == [chunk(1, 0, 0, b"one", 3, 0)]
    assert world.share() == []
    world.tails[0].feed(b"two")
    world.tails[1].feed(b"bad")
    assert world.share() == [chunk(1, 0, 3, b"two", 6, 3), chunk(1, 1, 0, b"bad", 6, 3)]


def test_a_watch_is_answered_at_once_also_if_nothing_was_written() -> None:
    world = World()
    world.watched.take(tell())
    assert world.share() == [OutputChunk(name(1), 1)]
    assert world.share() == []


def test_a_stream_that_is_not_wanted_is_not_shown() -> None:
    world = World()
    world.tails[0].feed(b"one")
    world.tails[1].feed(b"bad")
    world.watched.take(tell(out=-1))
    assert world.share() == [chunk(1, 1, 0, b"bad", 3, 3)]


def test_one_who_comes_back_goes_on_where_it_was() -> None:
    world = World()
    world.tails[0].feed(b"one two")
    world.watched.take(tell(out=4))
    assert world.share() == [chunk(1, 0, 4, b"two", 7, 0)]


def test_the_offset_tells_what_was_left_out() -> None:
    world = World()
    world.watched.take(tell())
    world.tails[0].feed(bytes(OUTPUT_KEPT_BYTES) + b"x" * OUTPUT_KEPT_BYTES)
    first, *_ = world.share()
    assert (first.offset, first.totals) == (OUTPUT_KEPT_BYTES, (2 * OUTPUT_KEPT_BYTES, 0))
    assert first.data == b"x" * OUTPUT_CHUNK_BYTES_MAX


def test_nobody_is_sent_more_than_its_window() -> None:
    world = World()
    world.watched.take(tell())
    world.tails[0].feed(bytes(OUTPUT_KEPT_BYTES))
    sent = 0
    while chunks := world.share():
        assert all(len(one.data) <= OUTPUT_CHUNK_BYTES_MAX for one in chunks)
        sent += sum(len(one.data) for one in chunks)
    assert sent == OUTPUT_WINDOW_BYTES
    world.tails[0].feed(b"more")
    assert world.share() == []
    world.watched.take(tell(out=sent))
    assert world.share() == [chunk(1, 0, sent, b"more", sent + 4, 0)]


def test_what_is_left_out_takes_no_room_in_the_window() -> None:
    world = World()
    world.watched.take(tell())
    world.tails[0].feed(bytes(10 * OUTPUT_KEPT_BYTES))
    assert sum(len(one.data) for one in world.share()) == OUTPUT_WINDOW_BYTES
    world.watched.take(tell(out=1))  # said before the gap was heard of
    world.tails[0].feed(b"more")
    assert world.share() == []


def test_a_share_bounds_all_and_everybody_has_a_turn() -> None:
    world = World()
    world.tails[0].feed(bytes(1_000))
    world.watched.take(tell(1))
    world.watched.take(tell(2))
    sent = {name(1): 0, name(2): 0}
    for _ in range(10):
        chunks = world.share(100)
        assert sum(len(one.data) for one in chunks) <= 100
        for one in chunks:
            sent[one.watch_id] += len(one.data)
    assert sent == {name(1): 500, name(2): 500}


def test_an_attempt_that_is_over_is_shown_to_its_end() -> None:
    world = World()
    world.watched.take(tell())
    world.tails[0].feed(bytes(OUTPUT_CHUNK_BYTES_MAX) + b"end")
    world.runs = world.is_open = False
    first, last, end = world.share()
    assert len(first.data) == OUTPUT_CHUNK_BYTES_MAX
    assert (last.data, end) == (b"end", OutputChunk(name(1), 1, end=ATTEMPT_ENDED))
    assert not world.watched


def test_the_end_waits_until_the_watcher_has_taken_the_rest() -> None:
    world = World()
    world.watched.take(tell())
    world.tails[0].feed(bytes(OUTPUT_KEPT_BYTES))
    world.share()
    world.tails[0].feed(b"end")
    world.runs = world.is_open = False
    assert world.share() == []
    world.watched.take(tell(out=OUTPUT_KEPT_BYTES))
    assert [one.data for one in world.share()] == [b"end", b""]
    assert not world.watched


def test_an_attempt_that_waits_is_shown_when_it_runs() -> None:
    world = World()
    world.runs = False
    world.watched.take(tell())
    assert world.share() == [OutputChunk(name(1), 1)]
    world.runs = True
    world.tails[0].feed(b"one")
    assert world.share() == [chunk(1, 0, 0, b"one", 3, 0)]


def test_an_attempt_that_is_not_here_has_ended() -> None:
    world = World()
    world.watched.take(tell(attempt=2))
    assert world.share() == [OutputChunk(name(1), 2, end=ATTEMPT_ENDED)]
    assert not world.watched


def test_a_watch_ends_when_told_and_with_its_session() -> None:
    world = World()
    world.tails[0].feed(b"one")
    for end in (world.watched.clear, lambda: world.watched.take(off())):
        world.watched.take(tell())
        end()
        assert not world.watched
        assert world.share() == []


def off() -> TellOutput:
    return TellOutput(name(1), JOB, 1, FENCE, on=False)


def test_a_watch_may_turn_to_another_attempt() -> None:
    world = World()
    world.watched.take(tell(attempt=3))
    world.watched.take(tell())
    world.tails[0].feed(b"one")
    assert world.share() == [chunk(1, 0, 0, b"one", 3, 0)]


def test_too_many_watches_end_at_once_unless_one_only_lingers() -> None:
    world = World()
    world.tails[0].feed(bytes(OUTPUT_KEPT_BYTES))
    for number in range(1, OUTPUT_WATCHES_PER_WORKER_MAX + 1):
        world.watched.take(tell(number))
    world.watched.take(tell(100))
    assert world.share(0)[0] == OutputChunk(name(100), 1, end=ATTEMPT_ENDED)
    world.is_open = False
    world.watched.take(tell(101))
    assert world.share(0)[0] == OutputChunk(name(1), 1, end=ATTEMPT_ENDED)


# --- the tail


def test_a_tail_is_read_from_any_offset() -> None:
    tail = Tail(6)
    for part in (b"abc", b"defg", b"hi"):
        tail.feed(part)
    assert tail.read(0, 100) == (3, b"defghi")
    assert tail.read(5, 100) == (5, b"fghi")
    assert tail.read(4, 4) == (4, b"efgh")
    assert tail.read(9, 4) == (9, b"")
    assert (tail.end(), tail.total) == (b"defghi", 9)


def test_a_tail_that_is_watched_keeps_more_and_says_the_same() -> None:
    tail = Tail(4)
    tail.keep(8)
    tail.feed(b"abcdef")
    tail.feed(b"gh")
    assert tail.read(0, 100) == (0, b"abcdefgh")
    assert tail.end() == b"efgh"


def test_who_wants_the_whole_is_sent_what_is_on_disk(tmp_path: Path) -> None:
    tail = SpooledTail(str(tmp_path))
    whole = bytes(range(256)) * 400
    for place in range(0, len(whole), 5_000):
        tail.feed(whole[place : place + 5_000])
    kept_from, _ = tail.read(0, 100)
    assert 0 < kept_from <= len(whole) - STREAM_BYTES_MAX
    assert tail.read(0, 100, whole=True) == (0, whole[:100])
    seen = b""
    while len(seen) < len(whole):
        offset, data = tail.read(len(seen), 7_000, whole=True)
        assert offset == len(seen)
        seen += data
    assert seen == whole
    tail.close()
    assert tail.read(0, 100, whole=True)[0] == kept_from


def test_the_end_of_a_stream_is_text_or_exact_bytes() -> None:
    assert end_of("né".encode(), 3) == ("né", None)
    assert end_of(b"caf\xe9", 4) == ("caf\ufffd", b"caf\xe9")
    assert end_of("né".encode()[2:], 3) == ("", None), "a character that was cut in two is left out"
    assert end_of(b"\xa9x", 4) == ("x", None)
    text, exact = end_of(b"\xff" * 9_000, 9_001)
    assert exact == b"\xff" * 4_096
    assert text == "\ufffd" * 4_096
