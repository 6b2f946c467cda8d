"""A topic in the simulator: a client that publishes to it, and a durable subscriber.

The subscriber uses `roles.client.topics.positions` of the product and an application that persists
its position; it crashes and resumes from that position.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rollq.base.topic_limits import TOPIC_BYTES_MIN
from rollq.roles.client.session import signals
from rollq.roles.client.session.signals import SessionState
from rollq.roles.client.topics.positions import TopicPosition
from rollq.testing.checkers.topics import TopicChecker
from rollq.testing.clock import MS, VirtualTimeline
from rollq.testing.jitter import SeededJitter
from rollq.testing.sim_client import SimClient
from rollq.wire.messages import Accepted, Admin, Error
from rollq.wire.subject_messages import FROM_START, Consumed, Deliver, Missed, Publish, Subscribe

TOPIC: Final = "prices"
SUBJECT: Final = "price.eur"
DURABLE: Final = "desk"
MESSAGES: Final = 60
KEPT: Final = (3, 20, 1_000)  # one is drawn: retention of a few messages, or of all
LOOK_MS: Final = 200


class SimTopic:
    """The publishing and the reading application."""

    def __init__(
        self,
        writer: SimClient,
        reader: SimClient,
        timeline: VirtualTimeline,
        chance: SeededJitter,
        checker: TopicChecker,
    ) -> None:
        self._writer, self._reader = writer, reader
        self._timeline = timeline
        self._chance = chance
        self._checker = checker
        self._left = MESSAGES
        self._is_made = False
        self._put_id = b""
        self._life = 0  # of the subscribed reader's process
        self._place: TopicPosition | None = None
        writer.on_answers.append(self._on_answer)
        reader.on_answers.append(self._subscribed)
        reader.on_published.append(self._published)

    def start(self) -> None:
        """Create the topic, then publish and read."""
        self._timeline.after(self._chance.draw(1, 400) * MS, self._look)

    def unmet(self) -> list[str]:
        """Why the topic has not converged yet."""
        if self._left:
            return [f"{self._left} messages are not published"]
        last, got = self._checker.last_index, self._checker.reader_index
        return [] if got == last else [f"the reader of the topic is at {got} of {last}"]

    def _look(self) -> None:
        chance = self._chance
        self._timeline.after(chance.draw(LOOK_MS // 4, LOOK_MS) * MS, self._look)
        if not self._is_made:
            self._make()
            return
        if self._reader.machine is not None and self._reader.life != self._life:
            self._subscribe()
        if self._left and self._writer.machine is not None:
            self._left -= 1
            payload = chance.draw_id()
            self._writer.ask(Publish(SUBJECT, payload, request_id=chance.draw_id()))

    def _make(self) -> None:
        if self._put_id in self._writer.pending:
            return
        self._put_id = self._chance.draw_id()
        wanted = {
            "name": TOPIC,
            "patterns": ("price.>",),
            "age_ms": 0,
            "bytes_max": TOPIC_BYTES_MIN,
            "count_max": self._chance.pick(KEPT),
        }
        self._writer.ask(Admin(self._put_id, "put_topic", msgspec.msgpack.encode(wanted)))

    def _on_answer(self, request: signals.Request, answer: Any) -> None:
        if request is not None and isinstance(request, Admin) and isinstance(answer, Accepted):
            self._is_made |= answer.request_id == self._put_id
        elif isinstance(request, Publish) and isinstance(answer, Accepted):
            self._checker.accepted(answer.count, request.payload)

    def _subscribe(self) -> None:
        """Subscribe from a new process of the reader, at its persisted position."""
        self._life = self._reader.life
        number = 1 + self._chance.draw(0, 1_000)
        ident = (self._chance.draw_id(), number, ">", "", TOPIC, DURABLE, FROM_START)
        asked = Subscribe(*ident)
        self._place = TopicPosition(asked)
        self._checker.begun()
        self._reader.ask(asked)

    def _subscribed(self, request: signals.Request, answer: Any) -> None:
        if isinstance(request, Subscribe) and isinstance(answer, Error):
            self._life = 0  # refused: try again

    def _published(self, messages: list[Any]) -> None:
        place = self._place
        for message in messages if place is not None else ():
            assert place is not None, "above"
            if type(message) is Error:
                self._life = 0
            elif type(message) is Missed and message.number:
                self._checker.missed(place.missed(message), message.index)
            elif type(message) is Deliver and message.number == place.asked.number:
                if place.takes(message):
                    self._checker.read(message.index, message.payload)
                    place.mark_read(message.index)
                if self._chance.chance(700):
                    place.reads_on()
                    self._timeline.after(self._chance.draw(0, 50) * MS, self._tell, place)
        if place is not None:
            self._timeline.after(LOOK_MS * MS, self._finish, place)

    def _finish(self, place: TopicPosition) -> None:
        """When idle, confirm the last message."""
        place.reads_on()
        self._tell(place)

    def _tell(self, place: TopicPosition) -> None:
        machine = self._reader.machine
        if place is not self._place or machine is None or self._life != self._reader.life:
            return
        if machine.link is SessionState.OPEN and place.has_unsent_ack:
            told: Consumed = place.take_ack()
            self._checker.consumed(told.index)
            self._reader.send(told)
