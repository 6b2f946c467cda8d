"""Publishing to subjects, and delivery to subscribers. Only messages with a topic are replicated;
those are delivered once they are applied (`topics`).

What is published in a turn waits here, in batches with the same receivers: the shell encodes each
batch once and writes the same bytes to all of them. A receiver gets its messages in the order of
publishing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import NIL_ID, JobId
from rollq.grid.effects import SendKept
from rollq.grid.state import ASSIGNED
from rollq.roles.member.leader.reads import Reads
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import Session, WorkerSession
from rollq.roles.member.leader.subscriptions import Receivers, Route, Subscriptions
from rollq.roles.member.leader.topics import TopicRequests
from rollq.roles.member.replica import Replica
from rollq.subjects.grammar import parse_subject
from rollq.subjects.reserved import is_job_event, job_of_event
from rollq.wire.subject_messages import Deliver, Publish, Subscribe, Unsubscribe


@dataclass(slots=True, eq=False)
class FanOut:
    """Messages for the same sessions, in order."""

    receivers: Receivers
    messages: list[Deliver]


class Publishing:
    """Publishes and deliveries at one leader.

    Attributes:
        subscriptions: Of all sessions.
        published: Messages published to subjects since this process began.
        on_job_event: Called with the job events that workers publish.
        delivered: Deliveries of them, one per receiving session.
        missed: Deliveries dropped for slow sessions; counted by the shell.
    """

    def __init__(
        self, replica: Replica, replies: Replies, topics: TopicRequests, reads: Reads
    ) -> None:
        self.subscriptions = Subscriptions(topics.topic_of)
        self._topics = topics
        self.on_job_event: Callable[[JobId, bytes], None] = lambda job_id, payload: None
        self.published = 0
        self.delivered = 0
        self.missed = 0
        self._replica = replica
        self._replies = replies
        self._reads = reads
        self._due: list[FanOut] = []
        # The last batch in `_due` for each of its sessions.
        self._last: dict[int, FanOut] = {}

    # --- messages of sessions

    def publish(self, session: Session, message: Publish) -> None:
        """Deliver a message to its subscribers. Without a request id it is not answered, not even
        by an error. A request with a receiver is answered by the receiver, and not by the leader.

        The leader's answer waits until its leadership is confirmed: under another leader the
        subject may have a topic, or other subscribers.

        Raises:
            RemoteError: BAD_SUBJECT.
            StateError: ACCESS_DENIED; OVERLOADED.
        """
        request_id = message.request_id
        route = self.subscriptions.known_route(message.subject)
        if route is None or route.is_job_event:
            try:
                route = self._route_for(session, message)
            except RollqError as error:
                if request_id != NIL_ID:
                    raise
                self._replies.refused[int(error.code)] += 1
                return
        if route.topic:
            self._publish_kept(session, message, route.topic)
            return
        if request_id != NIL_ID:
            self._reads.check_room()
        count = self._deliver(route, Deliver(route.subject, message.payload, message.reply_to))
        if request_id != NIL_ID and not (message.reply_to and count):
            self._reads.once_current(partial(self._answer, session.number, message, count))

    def publish_all(self, messages: Sequence[Publish], first: int = 0) -> int:
        """Deliver messages from this position on, up to the first that has a topic, needs an answer
        of the leader, or whose route is unknown or restricted. Returns how many were delivered."""
        known, count = self.subscriptions.known_route, 0
        for at in range(first, len(messages)):
            message = messages[at]
            route = known(message.subject)
            if route is None or route.is_job_event or route.topic:
                break
            if message.request_id != NIL_ID and not (message.reply_to and route.count):
                break
            self._deliver(route, Deliver(route.subject, message.payload, message.reply_to))
            count += 1
        return count

    def subscribe(self, session: Session, message: Subscribe) -> None:
        """Subscribe a session to a pattern, or to a topic.

        Raises:
            RemoteError: BAD_SUBJECT; BAD_OPTIONS.
            StateError: ACCESS_DENIED or OVERLOADED; as `TopicRequests.subscribe`.
        """
        if message.topic or message.durable:
            self.subscriptions.remove(session.number, message.number)
            self._topics.subscribe(session, message)
            return
        self._topics.unsubscribe(session, message.number)
        self.subscriptions.add(session.number, message.number, message.pattern, message.queue_group)
        self._replies.accept(session.number, message.request_id)

    def unsubscribe(self, session: Session, message: Unsubscribe) -> None:
        """End a subscription, at once or after some more messages."""
        if self._topics.unsubscribe(session, message.number):
            return
        if message.after:
            self.subscriptions.end_after(session.number, message.number, message.after)
        else:
            self.subscriptions.remove(session.number, message.number)

    def left(self, session: Session) -> None:
        """A session was removed."""
        self.subscriptions.remove_session(session.number)

    # --- effects of applied entries

    def kept(self, effect: SendKept) -> None:
        """A topic has taken messages: deliver them to live subscribers too."""
        if not len(self.subscriptions):
            return
        replies = effect.reply_to or ("",) * len(effect.subjects)
        columns = zip(effect.subjects, effect.payloads, replies, strict=True)
        for index, (subject, payload, reply_to) in enumerate(columns, effect.index):
            fields = (effect.topic, index, effect.stamp_ms)
            self.publish_own(Deliver(subject, payload, reply_to, "", *fields))

    # --- messages of the leader itself

    def has_subscriber(self, subject: str) -> bool:
        """Whether a subject has a subscriber."""
        return len(self.subscriptions) > 0 and self._find(subject).count > 0

    def publish_own(self, message: Deliver) -> int:
        """Publish a message of the leader itself; returns the number of subscriptions it goes
        to."""
        if not len(self.subscriptions):
            return 0
        return self._deliver(self._find(message.subject), message)

    # --- once a turn

    def take(self) -> list[FanOut]:
        """Remove and return the batches to send."""
        due, self._due = self._due, []
        self._last.clear()
        return due

    def clear(self) -> None:
        """Leadership is lost."""
        self.subscriptions.clear()
        self.take()

    # --- helpers

    def _answer(self, session: int, message: Publish, count: int) -> None:
        """Answer a message that went to `count` subscriptions."""
        if not message.reply_to:
            self._replies.accept(session, message.request_id, count)
            return
        no_responders = StateError(
            ErrorCode.NO_RESPONDERS,
            f"no subscription matches {message.subject[:128]!a}",
            "check the subject, and that the responder has subscribed",
        )
        self._replies.error(session, message.request_id, no_responders)

    def _publish_kept(self, session: Session, message: Publish, topic: str) -> None:
        """Publish to a subject of a topic."""
        try:
            self._topics.publish(session, message, topic)
        except RollqError as error:
            if message.request_id != NIL_ID:
                raise
            self._replies.refused[int(error.code)] += 1

    def _route_for(self, session: Session, message: Publish) -> Route:
        """The route of a subject, if the session may publish to it."""
        tokens = parse_subject(message.subject)
        if is_job_event(tokens):
            job_id = job_of_event(tokens)
            job = None if job_id is None else self._replica.state.jobs.get(job_id)
            if (
                job is None
                or not isinstance(session, WorkerSession)
                or (job.state, job.worker_id) != (ASSIGNED, session.worker_id)
            ):
                raise StateError(
                    ErrorCode.ACCESS_DENIED,
                    "only the worker that holds a job publishes its events",
                    "publish to a subject that does not begin with job.event",
                )
            self.on_job_event(job.job_id, message.payload)
        return self.subscriptions.route(message.subject, tokens)

    def _find(self, subject: str) -> Route:
        known = self.subscriptions.known_route(subject)
        return known or self.subscriptions.route(subject, parse_subject(subject))

    def _deliver(self, route: Route, message: Deliver) -> int:
        self.published += 1
        if route.receivers:
            self._add(route.receivers, message)
        for group, taking in route.groups:
            place = self.subscriptions.take_turn(group, taking)
            receivers, subscription = taking[place]
            self._add(receivers, _for_group(message, group.name))
            if subscription.left:
                self.subscriptions.count_down(subscription)
        for subscription in route.counted:
            self.subscriptions.count_down(subscription)
        return route.count

    def _add(self, receivers: Receivers, message: Deliver) -> None:
        """Add a message to the last batch of the receivers, if that has the same receivers; so each
        session gets its messages in order."""
        self.delivered += len(receivers)
        if len(receivers) == 1:
            last = self._last.get(receivers[0])
            is_same = last is not None and last.receivers == receivers
        else:
            last = self._due[-1] if self._due else None
            is_same = last is not None and last.receivers is receivers
        if last is not None and is_same:
            last.messages.append(message)
            return
        batch = FanOut(receivers, [message])
        self._due.append(batch)
        for number in receivers:
            self._last[number] = batch


def _for_group(message: Deliver, name: str) -> Deliver:
    fields: tuple[Any, ...] = (message.topic, message.index, message.stamp_ms)
    return Deliver(message.subject, message.payload, message.reply_to, name, *fields)
