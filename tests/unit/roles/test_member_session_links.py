"""Back-pressure on the links of clients and workers. Links and driver are stand-ins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollq.base.access import LinkRole, Principal
from rollq.roles.member.session_links import SessionLinks
from rollq.wire.messages import Ping

ANN = Principal(LinkRole.CLIENT, "ann", "here")


class FakeLink:
    """Whether it is read."""

    def __init__(self) -> None:
        self.is_read = True

    def pause(self) -> None:
        self.is_read = False

    def resume(self) -> None:
        self.is_read = True


class Leader:
    """What is busy: nothing, some sessions, or everything."""

    def __init__(self) -> None:
        self.busy_with: set[int] = set()
        self.is_all_busy = False
        self.proposals = SimpleNamespace(is_busy_with=self._is_busy_with)

    def is_busy(self, share: int = 1) -> bool:
        return self.is_all_busy

    def _is_busy_with(self, number: int, share: int = 1) -> bool:
        return number in self.busy_with


class Links:
    """Session links with a leader, and two links that have said something."""

    def __init__(self) -> None:
        self.leader = Leader()
        driver: Any = SimpleNamespace(
            leader_state=self.leader, session_message=lambda *_: None, session_closed=lambda _: None
        )
        self.links = SessionLinks(driver, lambda: None)
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
