"""Topics: what is kept, what is dropped, and where those who read stand."""

from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.base.topic_limits import KEPT_MESSAGE_BYTES, TOPIC_BYTES_MAX, TOPIC_BYTES_MIN
from rollq.grid.apply import apply_entry
from rollq.grid.bounds import Bounds
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import AdvanceTime
from rollq.grid.effects import Done, Duplicate, Kept, SendKept, TellTopic
from rollq.grid.events import AccessFact
from rollq.grid.invariants import check
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state_hash import hash_state
from rollq.grid.topic_commands import (
    CursorMove,
    ForgetCursor,
    MoveCursors,
    OpenCursor,
    PublishKept,
    PutTopic,
    RemoveTopic,
    TopicTrim,
    TrimTopics,
)
from rollq.grid.topic_records import TopicRecord
from rollq.policy.trimming import over_age
from tests.unit.grid.kit import Grid, refusal


def put(name: str = "prices", *patterns: str, **bounds: Any) -> PutTopic:
    """A topic with few bounds."""
    wanted: dict[str, Any] = {"age_ms": 0, "bytes_max": TOPIC_BYTES_MIN, "count_max": 100}
    return PutTopic(name, patterns or (f"{name}.>",), **(wanted | bounds), by="olga")


def publish(*payloads: bytes, topic: str = "prices") -> PublishKept:
    """Messages to one subject of a topic."""
    return PublishKept(topic, (f"{topic}.a",) * len(payloads), payloads)


def kept(grid: Grid, name: str = "prices") -> dict[int, bytes]:
    """What a topic keeps, by index."""
    load = grid.state.bodies.load
    return {at: load(one.payload) for at, one in topic(grid, name).messages.items()}


def topic(grid: Grid, name: str = "prices") -> TopicRecord:
    """A topic."""
    return grid.state.topics.by_name[name]


def cursors(grid: Grid) -> dict[str, int]:
    """Where the durable subscriptions of the topic stand."""
    return {name: cursor.index for name, cursor in topic(grid).cursors.items()}


def test_a_topic_numbers_what_is_published() -> None:
    grid = Grid()
    applied = grid.apply(put())
    assert applied.effects == [TellTopic("prices")]
    (event,) = applied.events
    assert (event.kind, event.detail) == ("topic_put", "prices prices.>")
    assert event.access == AccessFact("olga", resource="topic:prices")
    applied = grid.apply(publish(b"a", b"b"), publish(b"c"))
    assert applied.outcomes == [Kept(1, 2), Kept(3, 1)]
    assert applied.events == []
    stamp_ms = applied.stamp_ms
    assert applied.effects == [
        SendKept("prices", 1, ("prices.a", "prices.a"), (b"a", b"b"), (), stamp_ms),
        SendKept("prices", 3, ("prices.a",), (b"c",), (), stamp_ms),
    ]
    assert kept(grid) == {1: b"a", 2: b"b", 3: b"c"}


def test_what_is_beyond_a_bound_goes_oldest_first() -> None:
    grid = Grid()
    grid.apply(put(count_max=2))
    applied = grid.apply(publish(b"a", b"b", b"c"))
    assert applied.outcomes == [Kept(1, 3)]
    assert kept(grid) == {2: b"b", 3: b"c"}
    grid.apply(put(count_max=9))
    large = bytes(INLINE_BYTES_MAX)
    grid.apply(publish(large))
    assert kept(grid) == {2: b"b", 3: b"c", 4: large}
    grid.apply(publish(large))
    assert kept(grid) == {5: large}
    assert grid.state.topics.size_bytes == KEPT_MESSAGE_BYTES + len("prices.a") + len(large)


def test_a_smaller_bound_counts_at_once() -> None:
    grid = Grid()
    grid.apply(put(), publish(b"a", b"b", b"c"))
    grid.apply(put(count_max=1))
    assert kept(grid) == {3: b"c"}
    assert grid.ask(put(count_max=1)) == Duplicate()


def test_nothing_of_a_publish_is_kept_if_a_part_cannot_be() -> None:
    grid = Grid()
    grid.apply(put())
    bad = (
        PublishKept("prices", ("a", "b"), (b"",)),
        PublishKept("prices", ("a",), (b"",), ("r", "r")),
        PublishKept("prices", (), ()),
        PublishKept("prices", ("",), (b"",)),
        PublishKept("prices", ("a",), (b"",), ("r" * 1_025,)),
        publish(b"", bytes(INLINE_BYTES_MAX + 1)),
    )
    for command in bad:
        assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS
    assert refusal(grid.ask(publish(b"", topic="nowhere"))) is ErrorCode.UNKNOWN_TOPIC
    assert kept(grid) == {}


@pytest.mark.parametrize(
    "command",
    [
        put("n" * 129),
        PutTopic("", ("a",), 0, TOPIC_BYTES_MIN, 1),
        PutTopic("a", (), 0, TOPIC_BYTES_MIN, 1),
        PutTopic("a", ("",), 0, TOPIC_BYTES_MIN, 1),
        PutTopic("a", ("a",) * 9, 0, TOPIC_BYTES_MIN, 1),
        put(age_ms=-1),
        put(bytes_max=TOPIC_BYTES_MIN - 1),
        put(bytes_max=TOPIC_BYTES_MAX + 1),
        put(count_max=0),
        put(count_max=500_001),
    ],
)
def test_a_topic_out_of_bounds_is_refused(command: PutTopic) -> None:
    assert refusal(Grid().ask(command)) is ErrorCode.BAD_OPTIONS


def test_a_subject_belongs_to_one_topic() -> None:
    grid = Grid()
    grid.apply(put("prices", "price.*.eur", "rate.>"))
    assert refusal(grid.ask(put("other", "price.oil.>"))) is ErrorCode.TOPIC_CONFLICT
    assert refusal(grid.ask(put("other", "free", "rate"))) is ErrorCode.TOPIC_CONFLICT
    grid.apply(put("other", "price.oil.usd", "price.*"))
    grid.apply(put("prices", "price.*.eur"))  # with itself it may
    assert refusal(grid.ask(put("prices", "price.>"))) is ErrorCode.TOPIC_CONFLICT


def test_topics_are_few_and_have_their_shares() -> None:
    grid = Grid()
    grid.apply(put("a", bytes_max=TOPIC_BYTES_MAX), put("b", bytes_max=TOPIC_BYTES_MAX))
    assert refusal(grid.ask(put("c"))) is ErrorCode.GRID_FULL
    grid.apply(put("b"))
    grid.apply(put("c"))
    grid.state.bounds = Bounds(topics=3)
    assert refusal(grid.ask(put("d"))) is ErrorCode.GRID_FULL
    assert grid.ask(put("c", count_max=7)) == Done()


def test_a_topic_that_is_made_again_does_not_repeat_an_index() -> None:
    grid = Grid()
    grid.apply(put(), publish(b"a", b"b"), OpenCursor("prices", "d"))
    applied = grid.apply(RemoveTopic("prices", "olga"))
    assert [event.kind for event in applied.events] == ["topic_remove"]
    assert applied.effects == [TellTopic("prices")]
    assert grid.state.topics.size_bytes == 0
    assert refusal(grid.ask(RemoveTopic("prices"))) is ErrorCode.UNKNOWN_TOPIC
    grid.state = decode_snapshot(encode_snapshot(grid.state))
    grid.apply(put())
    assert grid.apply(publish(b"c")).outcomes == [Kept(3, 1)]
    assert cursors(grid) == {}


def test_a_durable_subscription_begins_where_it_says() -> None:
    grid = Grid()
    grid.apply(put(count_max=3), publish(b"a", b"b", b"c", b"d"))
    begins = {"new": 0, "all": -1, "second": 2, "fourth": 4, "later": 99}
    grid.apply(*(OpenCursor("prices", name, index) for name, index in begins.items()))
    assert cursors(grid) == {"new": 4, "all": 1, "second": 1, "fourth": 3, "later": 4}
    assert grid.ask(OpenCursor("prices", "new", -1)) == Duplicate()
    assert cursors(grid)["new"] == 4


def test_cursors_go_on_and_never_back() -> None:
    grid = Grid()
    grid.apply(put(), publish(b"a", b"b", b"c"), OpenCursor("prices", "d", -1))

    def move(index: int) -> Any:
        other = CursorMove("nowhere", "d", 1), CursorMove("prices", "nobody", 1)
        return grid.ask(MoveCursors((CursorMove("prices", "d", index), *other)))

    assert move(2) == Done(1)
    assert move(1) == Done(0)
    assert cursors(grid) == {"d": 2}
    assert move(1_000) == Done(1)
    assert cursors(grid) == {"d": 3}


def test_a_durable_subscription_is_refused() -> None:
    grid = Grid()
    assert refusal(grid.ask(OpenCursor("prices", "d"))) is ErrorCode.UNKNOWN_TOPIC
    grid.apply(put())
    assert refusal(grid.ask(OpenCursor("prices", ""))) is ErrorCode.BAD_OPTIONS
    assert refusal(grid.ask(OpenCursor("prices", "d", -2))) is ErrorCode.BAD_OPTIONS
    grid.state.bounds = Bounds(cursors_per_topic=1)
    grid.apply(OpenCursor("prices", "d"))
    assert refusal(grid.ask(OpenCursor("prices", "e"))) is ErrorCode.GRID_FULL


def test_a_durable_subscription_is_forgotten() -> None:
    grid = Grid()
    forget = ForgetCursor("prices", "d", "olga")
    assert refusal(grid.ask(forget)) is ErrorCode.UNKNOWN_TOPIC
    grid.apply(put(), publish(b"a"), OpenCursor("prices", "d"))
    applied = grid.apply(forget)
    (event,) = applied.events
    assert (event.kind, event.detail) == ("cursor_forget", "prices d")
    assert applied.effects == [TellTopic("prices")]
    assert refusal(grid.ask(forget)) is ErrorCode.UNKNOWN_TOPIC


def test_what_is_over_age_is_dropped() -> None:
    grid = Grid()
    grid.apply(put(age_ms=25), put("for-ever"))
    for payload in (b"a", b"b", b"c"):  # ten milliseconds apart
        grid.apply(publish(payload), publish(payload, topic="for-ever"))
    now_ms = grid.stamp_ms
    assert over_age(grid.state, now_ms + 5) == []
    (trim,) = over_age(grid.state, now_ms + 6)
    assert trim == TrimTopics((TopicTrim("prices", 2),))
    assert grid.ask(trim) == Done(1)
    assert grid.ask(trim) == Done(0)
    assert kept(grid) == {2: b"b", 3: b"c"}
    assert grid.ask(TrimTopics((TopicTrim("prices", 99), TopicTrim("nowhere", 99)))) == Done(2)
    assert kept(grid) == {}
    assert grid.apply(publish(b"d")).outcomes == [Kept(4, 1)]
    assert len(kept(grid, "for-ever")) == 3


def test_a_leap_of_the_time_is_no_age() -> None:
    grid = Grid()
    grid.apply(put(age_ms=1_000), publish(b"a"))
    grid.apply(AdvanceTime(grid.stamp_ms + 1_000_000))
    time_ms = grid.state.time_ms
    assert over_age(grid.state, time_ms + 900) == []
    assert over_age(grid.state, time_ms + 1_100) == [TrimTopics((TopicTrim("prices", 2),))]


def test_one_look_drops_so_many() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(topics_trimmed=3)
    grid.apply(put("a", age_ms=1), put("b", age_ms=1))
    grid.apply(publish(b"1", b"2", topic="a"), publish(b"1", b"2", topic="b"))
    (trim,) = over_age(grid.state, grid.stamp_ms + 100)
    assert trim == TrimTopics((TopicTrim("a", 3), TopicTrim("b", 2)))


def test_a_snapshot_has_all_of_it() -> None:
    grid = Grid()
    grid.apply(put("b"), put(count_max=3), publish(b"a", b"", b"c", b"d"), put("c"))
    grid.apply(PublishKept("b", ("b.1", "b.2"), (b"x", b"y"), ("inbox", "")))
    grid.apply(OpenCursor("prices", "d", -1), OpenCursor("prices", "c"), RemoveTopic("c"))
    copy = decode_snapshot(encode_snapshot(grid.state))
    assert check(copy) == []
    assert copy.topics.by_name["b"].messages[1].reply_to == "inbox"
    before, grid.state = grid.state, copy
    assert kept(grid) == {2: b"", 3: b"c", 4: b"d"}
    data = encode_batch(9_999, [publish(b"more"), MoveCursors((CursorMove("prices", "d", 4),))])
    for state in (before, copy):
        hash_state(state, apply_entry(state, state.applied_index + 1, data))
    assert before.state_hash == copy.state_hash
    assert encode_snapshot(before) == encode_snapshot(copy)


def test_members_that_differ_in_a_topic_have_other_hashes() -> None:
    one, other = Grid(), Grid()
    hashes = []
    for grid, payloads in ((one, (b"a",)), (other, (b"a", b"b"))):
        grid.apply(put())
        applied = grid.apply(publish(*payloads))
        hash_state(grid.state, applied)
        hashes.append(grid.state.state_hash)
    assert hashes[0] != hashes[1]
