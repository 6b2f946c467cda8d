"""The checker of topics: what a durable subscription may be told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollq.grid.effects import Applied, SendKept
from rollq.testing.checkers.base import Violation
from rollq.testing.checkers.topics import TopicChecker

MESSAGES = 40


@pytest.fixture
def checker() -> TopicChecker:
    """Messages 1 to 40 are kept; a reader has consumed none of them."""
    one = TopicChecker()
    payloads = tuple(map(payload, range(1, MESSAGES + 1)))
    kept = SendKept("prices", 1, ("price.eur",) * MESSAGES, payloads, (), 0)
    entry: Any = SimpleNamespace(index=1)
    cursor = SimpleNamespace(index=0)
    topics = {"prices": SimpleNamespace(cursors={"desk": cursor})}
    state: Any = SimpleNamespace(topics=SimpleNamespace(by_name=topics))
    member: Any = None
    one.on_apply(member, entry, Applied(1, 0, [], [], [kept]), state)
    one.begun()
    return one


def payload(index: int) -> bytes:
    return index.to_bytes(2)


def read(checker: TopicChecker, *indexes: int) -> None:
    for index in indexes:
        checker.read(index, payload(index))


def test_a_message_left_out_is_a_violation(checker: TopicChecker) -> None:
    read(checker, 1, 2)
    with pytest.raises(Violation, match="index 4 was read after 2"):
        read(checker, 4)


def test_dropped_messages_follow_the_last_one_read(checker: TopicChecker) -> None:
    read(checker, 1, 2)
    checker.missed(3, 6)
    read(checker, 6)
    with pytest.raises(Violation, match="8 to 9 were missed, after 6"):
        checker.missed(2, 10)


def test_a_process_goes_on_after_what_an_earlier_one_had_consumed(checker: TopicChecker) -> None:
    """A reader consumed 33 and ended; its confirmation came after the next process was given 18,
    which then subscribed again. 34 to 36 had been dropped."""
    read(checker, *range(1, 34))
    checker.consumed(33)
    checker.begun()
    read(checker, 18)
    checker.missed(3, 37)
    read(checker, 37)


def test_so_it_does_with_a_message_that_is_there(checker: TopicChecker) -> None:
    read(checker, *range(1, 34))
    checker.consumed(33)
    checker.begun()
    read(checker, 18, 34)
    with pytest.raises(Violation, match="index 36 was read after 34"):
        read(checker, 36)
