"""Topics at a leader: publishes that are agreed on, and readers in their windows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.topic_limits import CURSORS_MOVE_MS, TOPIC_WINDOW, TOPICS_TRIM_MS
from rollq.grid.effects import Kept, Refused
from rollq.grid.topic_commands import PublishKept
from rollq.roles.member.leader.joining import joined, part_of
from rollq.roles.member.leader.origins import SILENT
from rollq.wire import messages as wire
from rollq.wire.subject_messages import Consumed, Deliver, Missed, Publish, Subscribe, Unsubscribe
from tests.unit.roles.members import OURS, Group

ANN, BOB, BOX, ASKED = 1, 2, 3, b"r" * 16
SPEAKS = (*OURS, "subjects")


@pytest.fixture
def group() -> Group:
    """One member that leads, a topic, two clients and a worker."""
    made = Group()
    made.elect()
    made.client(ANN, "ann", SPEAKS)
    made.client(BOB, "bob", SPEAKS)
    made.worker(BOX, 10, SPEAKS)
    for session in (ANN, BOB, BOX):
        made.hear(session)
    put(made)
    return made


def admin(group: Group, action: str, **arguments: Any) -> Any:
    """What an operator is answered."""
    (told,) = group.say(ANN, wire.Admin(ASKED, action, msgspec.msgpack.encode(arguments)))
    return told


def put(group: Group, **bounds: int) -> None:
    """Make the topic, or change it."""
    wanted = {"age_ms": 0, "bytes_max": 100_000_000, "count_max": 5_000} | bounds
    told = admin(group, "put_topic", name="prices", patterns=["price.>", "rate"], **wanted)
    assert told == wire.Accepted(ASKED, 1)


def publish(group: Group, *payloads: bytes, subject: str = "Price.EUR") -> list[int]:
    """Publish in one turn; the indexes that were answered."""
    group.tell(BOX, *(Publish(subject, one, request_id=ASKED) for one in payloads))
    group.settle()
    return [told.count for told in group.hear(BOX)]


def read(group: Group, session: int, pattern: str = ">", **fields: Any) -> list[Any]:
    """Subscribe to the topic; what the session is told at once."""
    return group.say(session, Subscribe(ASKED, 7, pattern, topic="prices", **fields))


def indexes(messages: list[Any]) -> list[int]:
    """Of what a reader got."""
    assert all(type(one) is Deliver and one.number == 7 for one in messages)
    return [one.index for one in messages]


def cursor(group: Group, durable: str = "d") -> int:
    """Where a durable subscription stands, as the group agreed on."""
    group.clock.ms += CURSORS_MOVE_MS
    group.settle()
    return group.leader.state.topics.by_name["prices"].cursors[durable].index


def test_publishes_of_a_turn_are_one_command_and_answered_with_their_indexes(group: Group) -> None:
    before = group.leader.state.applied_index
    assert publish(group, b"a", b"b", b"c") == [1, 2, 3]
    assert group.leader.state.applied_index == before + 1
    assert read(group, BOB, from_index=-1)[1:] == [
        Deliver("price.eur", payload, "", "", "prices", index, stamp_ms, 7)
        for index, payload in ((1, b"a"), (2, b"b"), (3, b"c"))
        for stamp_ms in (group.leader.state.topics.by_name["prices"].messages[1].stamp_ms,)
    ]


def test_live_subscribers_get_it_too_once_it_is_agreed_on(group: Group) -> None:
    group.say(ANN, Subscribe(ASKED, 1, "price.*"))
    publish(group, b"a")
    (got,) = group.hear(ANN)
    assert (got.subject, got.payload, got.topic, got.index, got.number) == (
        *("price.eur", b"a"),
        *("prices", 1, 0),
    )


def test_a_publish_that_cannot_be_kept_is_refused(group: Group) -> None:
    (error,) = group.say(BOB, Publish("rate", bytes(65_537), request_id=ASKED))
    assert error.code == ErrorCode.BAD_PAYLOAD
    assert group.say(BOB, Publish("rate", bytes(65_537))) == []
    assert group.say(BOB, Publish("rates", bytes(65_537), request_id=ASKED)) == [
        wire.Accepted(ASKED, 0)
    ]


def test_a_topic_that_comes_and_goes_is_known_at_once(group: Group) -> None:
    publish(group, b"a")
    assert admin(group, "remove_topic", name="prices") == wire.Accepted(ASKED, 1)
    assert publish(group, b"live") == [0]
    put(group)
    assert publish(group, b"b") == [2]


def test_a_window_is_sent_and_the_rest_when_it_is_consumed(group: Group) -> None:
    publish(group, *(b"%d" % number for number in range(TOPIC_WINDOW + 10)))
    accepted, *got = read(group, BOB, durable="d", from_index=-1)
    assert accepted == wire.Accepted(ASKED, 1)
    assert indexes(got) == list(range(1, TOPIC_WINDOW + 1))
    assert indexes(group.say(BOB, Consumed(7, 4))) == list(
        range(TOPIC_WINDOW + 1, TOPIC_WINDOW + 5)
    )
    assert cursor(group) == 4
    group.say(BOB, Consumed(7, 1_000_000))  # it cannot be done with what it was not sent
    assert cursor(group) == TOPIC_WINDOW + 4


def test_a_pattern_passes_over_the_others_and_the_log_hears_of_it(group: Group) -> None:
    for _ in range(3):
        publish(group, *[b"x"] * 200, subject="rate")
    publish(group, b"y")
    accepted, *got = read(group, BOB, "price.>", durable="d", from_index=-1)
    assert (accepted.count, indexes(got)) == (1, [601])
    assert cursor(group) == 0  # it has something that it is not done with
    group.say(BOB, Consumed(7, 601))
    publish(group, *[b"x"] * (TOPIC_WINDOW + 5), subject="rate")
    assert cursor(group) > 601 + TOPIC_WINDOW - 5


def test_what_is_dropped_is_told_exactly(group: Group) -> None:
    put(group, count_max=3)
    publish(group, *(b"%d" % number for number in range(5)))
    accepted, missed, *got = read(group, BOB, from_index=1)
    assert (accepted.count, missed) == (1, Missed(2, 7, 3))
    assert indexes(got) == [3, 4, 5]


def test_another_client_is_refused_and_the_same_one_takes_over(group: Group) -> None:
    read(group, BOB, durable="d")
    (error,) = read(group, ANN, durable="d")
    assert (error.code, error.request_id) == (ErrorCode.DURABLE_TAKEN, ASKED)
    assert "client bob" in error.message
    group.client(9, "bob", SPEAKS)
    group.hear(9)
    assert read(group, 9, durable="d")[-1] == wire.Accepted(ASKED, 1)
    (ended,) = group.hear(BOB)
    assert ended.code == ErrorCode.DURABLE_TAKEN
    publish(group, b"a")
    assert group.hear(BOB) == []
    assert indexes(group.hear(9)) == [1]
    group.say(BOB, Consumed(7, 1))
    assert cursor(group) == 0


def test_one_that_is_gone_or_has_unsubscribed_makes_room(group: Group) -> None:
    read(group, BOB, durable="d")
    publish(group, b"a", b"b")
    group.say(BOB, Consumed(7, 1))
    group.say(BOB, Unsubscribe(7))
    accepted, got = read(group, BOX, durable="d")
    assert (accepted.count, got.index) == (2, 2)  # also before the log has heard of it
    group.hang_up(BOX)
    group.settle()
    assert read(group, ANN, durable="d")[0] == wire.Accepted(ASKED, 2)


def test_a_former_leader_does_not_let_a_reader_go_on_from_where_it_once_stood() -> None:
    group = Group("a", "b", "c")
    group.elect()
    for session in (ANN, BOB, BOX):
        group.client(session, f"c{session}", SPEAKS)
        group.hear(session)
    put(group)
    read(group, BOB, durable="d")
    group.hang_up(BOB)
    group.settle()
    group.isolated[group.address_of(group.leader)] = None
    assert read(group, ANN, durable="d") == []
    group.isolated.clear()
    group.run(10)
    assert group.hear(ANN) == [wire.Accepted(ASKED, 1)]


def test_a_name_that_is_forgotten_while_a_reader_waits_for_it_ends_the_reader(group: Group) -> None:
    read(group, BOB, durable="d")
    group.say(BOB, Unsubscribe(7))
    forget = msgspec.msgpack.encode({"topic": "prices", "durable": "d"})
    group.tell(ANN, wire.Admin(ASKED, "forget_cursor", forget))
    group.tell(BOX, Subscribe(ASKED, 7, ">", topic="prices", durable="d"))
    group.settle()
    (told,) = group.hear(BOX)
    assert (type(told), told.code) == (wire.Error, ErrorCode.UNKNOWN_TOPIC)
    assert read(group, BOX, durable="d")[0] == wire.Accepted(ASKED, 1)


def test_a_reader_ends_with_its_topic_or_its_name(group: Group) -> None:
    read(group, BOB, durable="d")
    admin(group, "forget_cursor", topic="prices", durable="d")
    (ended,) = group.hear(BOB)
    assert ended.code == ErrorCode.UNKNOWN_TOPIC
    read(group, BOB)
    admin(group, "remove_topic", name="prices")
    (ended,) = group.hear(BOB)
    assert (ended.request_id, ended.code) == (ASKED, ErrorCode.UNKNOWN_TOPIC)
    (error,) = read(group, BOB)
    assert error.code == ErrorCode.UNKNOWN_TOPIC


def test_a_name_that_is_forgotten_begins_anew(group: Group) -> None:
    """Also if its last place was not in the log yet."""
    publish(group, b"a", b"b", b"c")
    read(group, BOB, durable="d", from_index=-1)
    group.hear(BOB)
    group.tell(BOB, Consumed(7, 1))
    group.settle()  # the next places go into the log CURSORS_MOVE_MS later
    group.tell(BOB, Consumed(7, 3))
    admin(group, "forget_cursor", topic="prices", durable="d")
    group.hear(BOB)
    accepted, *messages = read(group, BOB, durable="d", from_index=-1)
    assert (accepted.count, indexes(messages)) == (1, [1, 2, 3])
    assert cursor(group) == 0


def test_a_name_that_is_forgotten_in_the_entry_that_opens_it_is_answered(group: Group) -> None:
    forget = msgspec.msgpack.encode({"topic": "prices", "durable": "d"})
    group.tell(BOB, Subscribe(ASKED, 7, ">", topic="prices", durable="d"))
    group.tell(ANN, wire.Admin(ASKED, "forget_cursor", forget))
    group.settle()
    (told,) = group.hear(BOB)
    assert (type(told), told.code) == (wire.Error, ErrorCode.UNKNOWN_TOPIC)
    assert group.hear(ANN) == [wire.Accepted(ASKED, 1)]
    assert read(group, BOX, durable="d")[0] == wire.Accepted(ASKED, 1)


def test_what_a_session_reads_is_held_until_it_ends(group: Group) -> None:
    topics = group.leader.leader_state.topics
    read(group, BOB, "Price.*", durable="d")
    (held,) = topics.held_by(BOB)
    assert (held.pattern, held.topic, held.durable) == ("price.*", "prices", "d")
    group.say(BOB, Unsubscribe(7))
    assert topics.held_by(BOB) == []


def test_a_reader_has_a_number_and_no_group(group: Group) -> None:
    for fields in ({"number": 0}, {"number": 1, "queue_group": "desk"}):
        (error,) = group.say(BOB, Subscribe(ASKED, pattern=">", topic="prices", **fields))
        assert error.code == ErrorCode.BAD_OPTIONS


@pytest.mark.parametrize(
    ("name", "pattern", "code"),
    [
        ("Prices", "a", ErrorCode.BAD_OPTIONS),
        ("a b", "a", ErrorCode.BAD_SUBJECT),
        ("x", "a b", ErrorCode.BAD_SUBJECT),
        ("x", ">", ErrorCode.TOPIC_CONFLICT),
        ("x", "job.*.>", ErrorCode.TOPIC_CONFLICT),
        ("x", "*.a.b", ErrorCode.TOPIC_CONFLICT),
        ("x", "rate", ErrorCode.TOPIC_CONFLICT),
    ],
)
def test_topics_that_cannot_be(group: Group, name: str, pattern: str, code: ErrorCode) -> None:
    bounds = {"age_ms": 0, "bytes_max": 100_000, "count_max": 5}
    assert admin(group, "put_topic", name=name, patterns=[pattern], **bounds).code == code


def test_what_is_over_age_is_dropped_by_the_leader(group: Group) -> None:
    put(group, age_ms=5_000)
    publish(group, b"a")
    for _ in range(3):
        group.clock.ms += 2_000 + TOPICS_TRIM_MS
        group.settle()
    assert group.leader.state.topics.by_name["prices"].messages == {}


def test_a_joined_publish_settles_each_part() -> None:
    first = PublishKept("t", ("a",), (b"1",))
    second = PublishKept("t", ("b", "c"), (b"2", b"3"), ("", "r"))
    ((command, _, size_bytes),) = joined([(first, SILENT, 10), (second, SILENT, 20)])
    assert command == PublishKept("t", ("a", "b", "c"), (b"1", b"2", b"3"), ("", "", "r"))
    assert size_bytes == 30
    assert part_of(Kept(7, 3), 1, 2) == Kept(8, 2)
    refused = Refused(ErrorCode.UNKNOWN_TOPIC)
    assert part_of(refused, 1, 2) == refused
    other = PublishKept("u", ("a",), (b"1",))
    assert len(joined([(first, SILENT, 1), (other, SILENT, 1)])) == 2
