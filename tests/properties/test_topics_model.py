"""Whatever is done with a topic: it is the end of a plain list, and cursors are numbers in it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.topic_limits import KEPT_MESSAGE_BYTES, TOPIC_BYTES_MIN
from rollq.grid.commands import Command
from rollq.grid.effects import Kept
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.topic_commands import (
    CursorMove,
    ForgetCursor,
    MoveCursors,
    OpenCursor,
    PublishKept,
    PutTopic,
    TopicTrim,
    TrimTopics,
)
from tests.effort import examples
from tests.unit.grid.kit import Grid

names = st.sampled_from(["d", "e"])
indexes = st.integers(-1, 40)
payloads = st.sampled_from([b"", b"a", bytes(20_000), bytes(65_536)])
commands = st.one_of(
    st.builds(
        PutTopic,
        st.just("t"),
        st.just(("t.>",)),
        st.just(0),
        st.sampled_from([TOPIC_BYTES_MIN, 2 * TOPIC_BYTES_MIN]),
        st.integers(1, 8),
    ),
    st.lists(payloads, min_size=1, max_size=5).map(
        lambda some: PublishKept("t", ("t.x",) * len(some), tuple(some))
    ),
    st.builds(TrimTopics, st.builds(TopicTrim, st.just("t"), indexes).map(lambda one: (one,))),
    st.builds(OpenCursor, st.just("t"), names, indexes),
    st.builds(ForgetCursor, st.just("t"), names),
    st.builds(
        MoveCursors, st.builds(CursorMove, st.just("t"), names, indexes).map(lambda one: (one,))
    ),
)


class Model:
    """All that was ever published, and how much of it is gone."""

    def __init__(self) -> None:
        self.all: list[bytes] = []
        self.gone = 0
        self.bytes_max, self.count_max = TOPIC_BYTES_MIN, 8
        self.cursors: dict[str, int] = {}

    def apply(self, command: Command) -> None:
        """Do the same as the grid, the obvious way."""
        if isinstance(command, PutTopic):
            self.bytes_max, self.count_max = command.bytes_max, command.count_max
        elif isinstance(command, PublishKept):
            self.all.extend(command.payloads)
        elif isinstance(command, TrimTopics):
            self.gone = max(self.gone, min(command.trims[0].before - 1, len(self.all)))
        elif isinstance(command, OpenCursor):
            self.cursors.setdefault(command.durable, self.start(command.from_index) - 1)
        elif isinstance(command, ForgetCursor):
            self.cursors.pop(command.durable, None)
        elif isinstance(command, MoveCursors):
            move = command.moves[0]
            if move.durable in self.cursors:
                index = min(move.index, len(self.all))
                self.cursors[move.durable] = max(self.cursors[move.durable], index)
        while len(self.all) - self.gone > self.count_max or self.size_bytes() > self.bytes_max:
            self.gone += 1

    def start(self, from_index: int) -> int:
        """Where one begins."""
        begins = {-1: self.gone + 1, 0: len(self.all) + 1}
        return begins.get(from_index, min(from_index, len(self.all) + 1))

    def size_bytes(self) -> int:
        """What is kept."""
        return sum(KEPT_MESSAGE_BYTES + len("t.x") + len(one) for one in self.all[self.gone :])


@given(st.lists(st.tuples(commands, st.booleans()), max_size=30))
@settings(max_examples=examples(150))
def test_a_topic_is_the_end_of_a_list(steps: list[tuple[Command, bool]]) -> None:
    grid, model = Grid(workers=()), Model()
    grid.apply(PutTopic("t", ("t.>",), 0, TOPIC_BYTES_MIN, 8))
    for command, restarts in steps:
        outcome = grid.apply(command).outcomes[0]
        if isinstance(command, PublishKept):
            assert outcome == Kept(len(model.all) + 1, len(command.payloads))
        model.apply(command)
        if restarts:
            grid.state = decode_snapshot(encode_snapshot(grid.state))
        topic = grid.state.topics.by_name["t"]
        kept = [grid.state.bodies.load(one.payload) for one in topic.messages.values()]
        assert kept == model.all[model.gone :]
        assert topic.first_index == model.gone + 1
        assert topic.size_bytes == model.size_bytes()
        assert {name: one.index for name, one in topic.cursors.items()} == model.cursors
