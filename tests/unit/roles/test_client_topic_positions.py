"""Where a reader of a topic stands, as its client sees it."""

from rollq.roles.client.topics.positions import TopicPosition
from rollq.wire.subject_messages import Consumed, Deliver, Missed, Subscribe


def made(durable: str = "d") -> TopicPosition:
    """A place of subscription 7."""
    return TopicPosition(Subscribe(b"r" * 16, 7, ">", topic="t", durable=durable, from_index=-1))


def message(index: int) -> Deliver:
    """One of the topic."""
    return Deliver("a", b"", topic="t", index=index, number=7)


def has_unsent_ack(place: TopicPosition) -> bool:
    """Whether the leader is to be told something."""
    return place.has_unsent_ack


def test_a_message_is_done_with_when_the_next_is_asked_for() -> None:
    place = made()
    place.reads_on()
    assert not has_unsent_ack(place)
    assert place.takes(message(1))
    place.mark_read(1)
    assert not has_unsent_ack(place)
    place.reads_on()
    assert has_unsent_ack(place)
    assert place.take_ack() == Consumed(7, 1)
    assert not has_unsent_ack(place)


def test_what_comes_again_is_passed_over_and_the_leader_told() -> None:
    place = made()
    for index in (1, 2):
        assert place.takes(message(index))
    place.mark_read(1)
    place.reads_on()
    place.take_ack()
    assert not place.takes(message(1))
    assert has_unsent_ack(place)
    assert place.take_ack() == Consumed(7, 1)
    assert not place.takes(message(2))
    assert not has_unsent_ack(place)  # it is not done with that one
    assert place.takes(message(3))


def test_what_was_dropped_counts_once_however_often_it_is_told() -> None:
    place = made()
    assert place.missed(Missed(5, 7, 6)) == 5
    assert place.missed(Missed(5, 7, 6)) == 0
    assert place.missed(Missed(7, 7, 8)) == 2  # from the same place, by the next leader
    assert place.takes(message(8))
    assert place.missed(Missed(8, 7, 9)) == 0


def test_the_next_leader_is_asked_for_what_is_not_here() -> None:
    durable, plain = made(), made("")
    assert plain.resumed().from_index == -1
    for place in (durable, plain):
        place.takes(message(5))
    assert durable.resumed() == durable.asked
    assert durable.asked.from_index == -1  # the group knows where it stands
    assert plain.resumed().from_index == 6
