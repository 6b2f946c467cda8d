"""How far a reader of output is, and which lines are the last."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import OUTPUT_WINDOW_BYTES
from rollq.roles.client.results.streams import (
    INBOX_BYTES_MAX,
    OutputReader,
    StreamPart,
    StreamPosition,
    last_lines,
)
from rollq.roles.client.session.group_session import OnOutput
from rollq.wire.output_messages import OutputChunk, WatchOutput

WATCH = b"w" * 16


def chunk(
    offset: int, data: bytes, *, stream: int = 0, attempt: int = 1, totals: tuple[int, int] = (0, 0)
) -> OutputChunk:
    return OutputChunk(WATCH, attempt, stream, offset, data, totals)


def part(data: bytes, offset: int = 0, stream: str = "stdout", **more: int) -> StreamPart:
    return StreamPart(stream, data, offset, more.get("attempt", 1), more.get("skipped", 0))


def test_what_comes_again_is_not_shown_again() -> None:
    reading = StreamPosition("")
    assert reading.take(chunk(0, b"abc")) == part(b"abc")
    assert reading.take(chunk(0, b"abc")) is None
    assert reading.take(chunk(1, b"bcde")) == part(b"de", 3)
    assert reading.take(chunk(0, b"x", stream=1)) == part(b"x", stream="stderr")
    assert reading.offsets == (5, 1)


def test_what_was_left_out_is_told() -> None:
    reading = StreamPosition("stdout")
    reading.take(chunk(0, b"abc"))
    assert reading.take(chunk(10, b"x")) == part(b"x", 10, skipped=7)
    assert reading.take(chunk(20, b"")) == part(b"", 20, skipped=9)
    assert reading.offsets == (20, -1)


def test_another_attempt_begins_at_the_beginning() -> None:
    reading = StreamPosition("")
    reading.take(chunk(0, b"abc"))
    assert reading.take(chunk(0, b"ab", attempt=2)) == part(b"ab", attempt=2)
    assert reading.take(chunk(3, b"late")) is None
    assert (reading.attempt, reading.offsets) == (2, (2, 0))


def is_level(reading: StreamPosition) -> bool:
    return reading.is_level


def test_level_is_who_has_read_what_there_was_at_the_beginning() -> None:
    reading = StreamPosition("")
    assert not is_level(reading)
    reading.take(chunk(0, b"abc", totals=(3, 2)))
    assert not is_level(reading)
    reading.take(chunk(0, b"de", stream=1, totals=(1_000, 2)))
    assert is_level(reading)
    only = StreamPosition("stderr")
    only.take(chunk(0, b"", totals=(1_000, 0)))
    assert is_level(only)


def test_who_wants_the_whole_takes_nothing_behind_a_gap() -> None:
    reading = StreamPosition("", whole=True)
    assert reading.take(chunk(0, b"abc")) == part(b"abc")
    assert reading.take(chunk(10, b"late")) is None
    assert reading.take(chunk(10, b"")) is None
    assert reading.offsets == (3, 0)
    assert reading.take(chunk(3, b"def")) == part(b"def", 3)
    assert reading.take(chunk(0, b"again", attempt=2)) == part(b"again", attempt=2)


def test_a_stream_must_have_a_name() -> None:
    with pytest.raises(LocalError) as caught:
        StreamPosition("stdin")
    assert caught.value.code is ErrorCode.BAD_OPTIONS


def test_bytes_are_text() -> None:
    assert part("é".encode()).text == "é"
    assert part(b"\xff").text == "\ufffd"


class Silent:
    """A session that is asked, and whose words the test says."""

    def __init__(self) -> None:
        self.asked: list[WatchOutput] = []
        self.on_output: OnOutput | None = None

    def watch(self, request: WatchOutput, on_output: OnOutput) -> None:
        self.asked.append(request)
        self.on_output = on_output

    def unwatch(self, request_id: bytes, job_id: bytes) -> None:
        self.asked.append(WatchOutput(request_id, job_id, on=False))


def test_a_reader_that_rests_holds_a_bounded_amount_and_tells_what_it_missed() -> None:
    async def story() -> None:
        session = Silent()
        reader = OutputReader(session, b"j" * 16, None)  # type: ignore[arg-type]
        parts = reader.parts(9, follow=True, tail=None)
        waiting = asyncio.ensure_future(anext(parts))
        await asyncio.sleep(0)
        hear = session.on_output
        assert hear is not None
        piece = bytes(OUTPUT_WINDOW_BYTES // 4)
        for number in range(100):
            hear(chunk(number * len(piece), piece))
        taken = [await waiting]
        hear(chunk(100 * len(piece), b"end", totals=(0, 0)))
        while taken[-1].data != b"end":
            taken.append(await anext(parts))
        held = sum(len(one.data) for one in taken)
        assert held <= INBOX_BYTES_MAX + len(b"end")
        assert taken[-1].skipped == 100 * len(piece) - held + len(b"end")
        assert session.asked[-1].offsets[0] > 0, "the window was moved"
        await parts.aclose()
        assert not session.asked[-1].on

    asyncio.run(story())


# --- last lines


def test_the_last_lines_of_each_stream() -> None:
    parts = [part(b"a\nb\n"), part(b"x\ny", stream="stderr"), part(b"c\n", 4)]
    assert last_lines(parts, 2) == [
        part(b"b\n", 2),
        part(b"x\ny", stream="stderr"),
        part(b"c\n", 4),
    ]
    assert last_lines(parts, 0) == []


LINES = st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"x", b"\n")), max_size=6)


@example([b"\n", b""], 1)
@given(LINES, st.integers(1, 5))
def test_last_lines_are_those_of_the_whole(pieces: list[bytes], count: int) -> None:
    at = 0
    parts = []
    for piece in pieces:
        parts.append(part(piece, at))
        at += len(piece)
    whole = b"".join(pieces)
    lines = whole.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    keep = b"\n".join(lines[-count:]) + (b"\n" if whole.endswith(b"\n") else b"")
    kept = last_lines(parts, count)
    assert b"".join(one.data for one in kept) == keep
    assert all(whole[one.offset :].startswith(one.data) for one in kept)
