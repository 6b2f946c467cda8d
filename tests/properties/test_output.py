"""Output from a worker's tails to a reader: whatever happens in between, what is shown is what was
written there, nothing twice, and what is missing is told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.jobs import AttemptRef
from rollq.base.limits import OUTPUT_WINDOW_BYTES
from rollq.roles.client.results.streams import StreamPosition
from rollq.roles.worker.capture import Tail
from rollq.roles.worker.live_output import LiveOutput
from rollq.wire.output_messages import ATTEMPT_ENDED, STREAMS, OutputChunk, TellOutput
from tests.effort import examples

REF = AttemptRef(b"j" * 16, 1, 7)
WATCH = b"w" * 16
STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 1), st.integers(0, 300_000)),
    st.tuples(st.just("share"), st.integers(0, 1), st.integers(0, 200_000)),
    st.tuples(st.just("take"), st.integers(0, 1), st.integers(0, 10)),
    st.tuples(st.just("move"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("cut"), st.integers(0, 1), st.just(0)),
)


class Road:
    """A worker's side, a reader's side, and what is on its way between."""

    def __init__(self) -> None:
        self.tails = (Tail(), Tail())
        self.is_open = True
        self.watched = LiveOutput(lambda _: self.tails, lambda _: self.is_open)
        self.reading = StreamPosition("")
        self.on_the_way: list[OutputChunk] = []
        self.ended = False
        self.again = False
        self.ask()

    def step(self, what: str, stream: int, size: int) -> None:
        if what == "write":
            begin = self.tails[stream].total
            self.tails[stream].feed(written(stream, begin, begin + size))
        elif what == "share":
            chunks = self.watched.share(size)
            assert sum(len(one.data) for one in chunks) <= size
            self.on_the_way += chunks
            waiting = sum(len(one.data) for one in self.on_the_way if one.stream == stream)
            assert waiting <= OUTPUT_WINDOW_BYTES or self.again
        elif what == "take":
            self.take(size)
        elif what == "move":
            self.ask()
        else:
            if stream:
                self.on_the_way.clear()
            else:
                self.again = True  # what came is not lost, and comes once more
            self.watched.clear()
            self.ask()

    def ask(self) -> None:
        tell = TellOutput(WATCH, REF.job_id, 1, REF.fence, self.reading.offsets)
        self.watched.take(tell)

    def take(self, count: int) -> None:
        now, self.on_the_way = self.on_the_way[:count], self.on_the_way[count:]
        for chunk in now:
            self.ended |= chunk.end == ATTEMPT_ENDED
            at = list(self.reading.at)
            part = self.reading.take(chunk)
            if part is not None:
                stream = STREAMS.index(part.stream)
                assert part.offset == at[stream] + part.skipped
                after = part.offset + len(part.data)
                assert part.data == written(stream, part.offset, after)
                assert self.reading.at[stream] == after


def written(stream: int, begin: int, end: int) -> bytes:
    """What the program writes between two offsets: no two near places look alike."""
    period = bytes(range(stream, 251))
    start = begin % len(period)
    count = (start + end - begin) // len(period) + 1
    return (period * count)[start : start + end - begin]


@settings(max_examples=examples(60))
@given(st.lists(STEPS, max_size=30))
def test_what_is_shown_was_written_and_what_is_missing_is_told(
    steps: list[tuple[str, int, int]],
) -> None:
    road = Road()
    for step in steps:
        road.step(*step)
    road.is_open = False
    for _ in range(100):
        road.step("share", 0, 10**9)
        road.take(10**9)
        road.ask()
        if road.ended:
            break
    assert road.reading.at == [tail.total for tail in road.tails]
