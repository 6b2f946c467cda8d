"""What a client publishes while leaders come and go. Session and links are stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rollq.base.errors import DeadlineError, ErrorCode
from rollq.base.subject_limits import PUBLISH_AHEAD_BYTES_MAX, PUBLISH_AT_ONCE_BYTES_MAX
from rollq.roles.client.topics.subjects import Subjects
from rollq.wire.shared_frames import SharedForm

MUCH = b"x" * PUBLISH_AT_ONCE_BYTES_MAX


class FakeLink:
    """A connection whose peer reads nothing until it is told to."""

    def __init__(self) -> None:
        self.is_open = True
        self.connection = SimpleNamespace(form=SharedForm(has_batch=True))
        self.waiting_bytes = PUBLISH_AHEAD_BYTES_MAX + 1
        self.said: list[Any] = []
        self.is_waited_for = asyncio.Event()
        self.on_drained: Callable[[Any], None] = lambda _: None

    def send(self, message: Any) -> None:
        self.said.append(message)

    def flush(self) -> None:
        """It was sent."""

    def notify_drained(self, on_drained: Callable[[Any], None]) -> None:
        self.on_drained = on_drained
        self.is_waited_for.set()


def engine_of(link: FakeLink | None) -> Any:
    def timeout_error(what: str, wait_s: float, *, submits: bool) -> DeadlineError:
        return DeadlineError(ErrorCode.TIMED_OUT, what)

    session = SimpleNamespace(link=link)
    loop = asyncio.get_running_loop()
    return SimpleNamespace(session=session, loop=loop, timeout_s=30.0, timeout_error=timeout_error)


def test_a_publisher_goes_on_at_the_next_leader_though_the_lost_one_had_not_read_all() -> None:
    async def script() -> None:
        first, second = FakeLink(), FakeLink()
        engine = engine_of(first)
        subjects = Subjects(engine)
        stuck = asyncio.ensure_future(subjects.publish("a", MUCH))
        await first.is_waited_for.wait()
        first.is_open = False  # lost: nobody tells that it was drained
        engine.session.link = second
        going_on = asyncio.ensure_future(subjects.publish("a", MUCH))
        await second.is_waited_for.wait()
        second.on_drained(second)
        await asyncio.gather(stuck, going_on)

    asyncio.run(asyncio.wait_for(script(), 20))


def test_publishes_that_gave_up_waiting_for_a_leader_leave_nothing_behind() -> None:
    async def script() -> None:
        subjects = Subjects(engine_of(None))
        for _ in range(3):
            with pytest.raises(DeadlineError):
                await subjects.publish("a", b"", timeout_s=0)
        assert not subjects._leader_waiters

    asyncio.run(script())
