"""Back-pressure on the links of clients and workers. Links and driver are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollq.base.access import LinkRole, Principal
from rollq.base.subject_limits import SUBSCRIBER_BYTES_MAX
from rollq.roles.member.leader.publishing import FanOut
from rollq.roles.member.session_links import SessionLinks
from rollq.wire.messages import Ping
from rollq.wire.shared_frames import SharedForm
from rollq.wire.subject_messages import Deliver, Missed, Publish, Subscribe

ANN = Principal(LinkRole.CLIENT, "ann", "here")


class FakeLink:
    """Whether it is read."""

    def __init__(self) -> None:
        self.is_read = True
        self.connection = SimpleNamespace(form=SharedForm(has_batch=True))
        self.waiting_bytes = 0
        self.frames: list[bytes] = []
        self.said: list[Any] = []
        self.on_drained: Callable[[Any], None] | None = None

    def post_frames(self, data: bytes) -> None:
        self.frames.append(data)

    def write_now(self, data: bytes) -> None:
        self.frames.append(data)

    def flush(self) -> None:
        self.said.append("flush")

    def send(self, message: Any) -> None:
        self.said.append(message)

    def notify_drained(self, on_drained: Callable[[Any], None]) -> None:
        self.on_drained = on_drained

    def drain(self) -> None:
        """The peer has read all."""
        self.waiting_bytes = 0
        assert self.on_drained is not None
        self.on_drained(self)

    def pause(self) -> None:
        self.is_read = False

    def resume(self) -> None:
        self.is_read = True


class Leader:
    """What is busy: nothing, some sessions, or everything."""

    def __init__(self) -> None:
        self.busy_with: set[int] = set()
        self.is_all_busy = False
        self.publishing = SimpleNamespace(missed=0)
        self.proposals = Proposals(self._is_busy_with)
        self.reads = SimpleNamespace(is_asking=False)
        self.gateway = SimpleNamespace(publishes=lambda number, run: None)
        self.topics = SimpleNamespace()

    def is_busy(self, share: int = 1) -> bool:
        return self.is_all_busy

    def _is_busy_with(self, number: int, share: int = 1) -> bool:
        return number in self.busy_with


class Proposals(list[Any]):
    """None."""

    def __init__(self, is_busy_with: Callable[[int], bool]) -> None:
        super().__init__()
        self.is_busy_with = is_busy_with


class Links:
    """Session links with a leader, and two links that have said something."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.woken: list[str] = []
        driver: Any = SimpleNamespace(
            leader_state=self.leader,
            leading=True,
            session_message=lambda *_: None,
            session_closed=lambda _: None,
        )
        wake, wake_live = (partial(self.woken.append, what) for what in ("turn", "live"))
        self.links = SessionLinks(driver, wake, wake_live)
        self.ann, self.bob = FakeLink(), FakeLink()
        self.hear(self.ann)  # session 1
        self.hear(self.bob)  # session 2

    def hear(self, link: FakeLink) -> None:
        self.links.hear(cast(Any, link), [Ping()], ANN)


@pytest.fixture
def world() -> Links:
    return Links()


def test_a_session_of_which_too_much_waits_is_not_read_and_others_are(world: Links) -> None:
    world.leader.busy_with = {1}
    world.hear(world.ann)
    world.hear(world.bob)
    assert (world.ann.is_read, world.bob.is_read) == (False, True)
    world.links.maybe_resume()
    assert not world.ann.is_read
    world.leader.busy_with = set()
    world.links.maybe_resume()
    assert world.ann.is_read


def test_when_all_may_be_read_again_one_of_which_too_much_waits_is_not(world: Links) -> None:
    world.leader.busy_with = {1}
    world.leader.is_all_busy = True
    world.hear(world.ann)
    assert (world.ann.is_read, world.bob.is_read) == (False, False)
    world.leader.is_all_busy = False
    world.links.maybe_resume()
    assert (world.ann.is_read, world.bob.is_read) == (False, True)


def test_one_session_is_not_read_while_none_is(world: Links) -> None:
    world.leader.busy_with = {1}
    world.leader.is_all_busy = True
    world.hear(world.ann)
    world.leader.busy_with = set()
    world.links.maybe_resume()
    assert [link.is_read for link in (world.ann, world.bob)] == [False, False]
    world.leader.is_all_busy = False
    world.links.maybe_resume()
    assert [link.is_read for link in (world.ann, world.bob)] == [True, True]


def test_a_session_that_is_gone_is_not_resumed(world: Links) -> None:
    world.leader.busy_with = {1}
    world.hear(world.ann)
    world.links.closed(cast(Any, world.ann), "gone")
    world.leader.busy_with = set()
    world.links.maybe_resume()
    assert not world.ann.is_read


def test_publishes_that_are_live_wait_for_no_turn(world: Links) -> None:
    world.woken.clear()
    world.links.hear(cast(Any, world.ann), [Publish("a", b"")], ANN)
    assert world.woken == ["live"]


def test_a_publish_that_is_to_be_confirmed_begins_a_turn(world: Links) -> None:
    """Who leads is asked in a turn: without one it would be answered at the next tick."""
    world.woken.clear()
    world.leader.reads.is_asking = True
    world.links.hear(cast(Any, world.ann), [Publish("a", b"", request_id=b"r" * 16)], ANN)
    assert world.woken == ["turn"]


def test_what_a_session_holds_are_its_live_subscriptions_and_those_of_topics(world: Links) -> None:
    reads_topic = Subscribe(bytes(16), 2, "b.>", topic="t", durable="d")
    world.leader.publishing.subscriptions = SimpleNamespace(patterns_of=lambda number: ["a"])
    world.leader.topics = SimpleNamespace(held_by=lambda number: [reads_topic])
    assert world.links.held(cast(Any, world.ann)) == [Subscribe(bytes(16), 0, "a"), reads_topic]
    assert world.links.held(cast(Any, FakeLink())) == []


BOTH, ONE = (1, 2), (1,)
TOLD = [Deliver("a", b"1"), Deliver("a", b"2")]


def test_all_receivers_are_sent_the_same_bytes_in_one_write(world: Links) -> None:
    world.links.deliver([FanOut(BOTH, TOLD), FanOut(ONE, TOLD), FanOut((7,), TOLD)])
    assert world.ann.frames[0] is world.bob.frames[0]
    assert [len(link.frames) for link in (world.ann, world.bob)] == [2, 1]
    assert world.ann.said == world.bob.said == ["flush"]


def test_one_that_did_not_agree_is_sent_nothing(world: Links) -> None:
    world.ann.connection.form = None
    world.links.deliver([FanOut(BOTH, TOLD)])
    assert (len(world.ann.frames), len(world.bob.frames)) == (0, 1)


def test_one_that_does_not_read_is_told_how_much_it_missed(world: Links) -> None:
    world.ann.waiting_bytes = SUBSCRIBER_BYTES_MAX + 1
    world.links.deliver([FanOut(BOTH, TOLD), FanOut(BOTH, TOLD[:1])])
    world.ann.waiting_bytes = 1  # it goes on when it has read all, and no sooner
    world.links.deliver([FanOut(BOTH, TOLD)])
    assert (len(world.ann.frames), len(world.bob.frames)) == (0, 3)
    world.links.deliver([FanOut((2,), TOLD)])  # who reads is written to at once
    assert len(world.bob.frames) == 4
    assert world.ann.said == ["flush", "flush"]
    world.ann.drain()
    assert world.ann.said[2:] == [Missed(5)]
    world.links.deliver([FanOut(BOTH, TOLD)])
    assert len(world.ann.frames) == 1
    assert world.leader.publishing.missed == 5


def test_one_that_is_gone_is_told_nothing(world: Links) -> None:
    world.ann.waiting_bytes = SUBSCRIBER_BYTES_MAX + 1
    world.links.deliver([FanOut(ONE, TOLD)])
    world.links.closed(cast(Any, world.ann), "gone")
    world.ann.drain()
    assert world.ann.said == ["flush"]
