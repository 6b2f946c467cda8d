"""Who listens to which subjects: the subscriptions of all sessions of one leader. Pure, no clock.

A subject has a route: the sessions that get a message, each once, and the queue groups of which one
subscription does. Routes are remembered until a subscription comes or goes, and sets of receivers
are the same object for all routes that share them: whoever encodes for many can see that. Inboxes
are beside the trie, so that no wildcard reaches one and none of them makes routes outdated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import JobId
from rollq.base.subject_limits import (
    ROUTES_KEPT_MAX,
    SUBSCRIPTIONS_MAX,
    SUBSCRIPTIONS_PER_SESSION_MAX,
)
from rollq.subjects.grammar import SEPARATOR, Tokens, parse_pattern
from rollq.subjects.overlap import tokens_overlap
from rollq.subjects.reserved import (
    JOB_EVENTS,
    inbox_token,
    is_inbox,
    is_job_event,
    job_of_event,
)
from rollq.subjects.trie import Trie

ALL_JOB_EVENTS: Final = parse_pattern(JOB_EVENTS)
Receivers: TypeAlias = tuple[int, ...]  # numbers of sessions, each once


@dataclass(slots=True, eq=False)
class QueueGroup:
    """Those who take turns."""

    name: str
    member_count: int = 0
    turn: int = 0  # how many messages it got


@dataclass(slots=True, eq=False)
class Subscription:
    """One session wants what is published to subjects of a pattern."""

    session: int
    number: int  # as the session calls it
    pattern: str  # in its one spelling
    group: QueueGroup | None
    left: int = 0  # how many more messages it gets; 0: there is no such bound


@dataclass(slots=True, eq=False)
class Route:
    """Who gets what is published to a subject.

    Attributes:
        subject: In its one spelling.
        receivers: Sessions with a subscription that is in no queue group.
        groups: Of each queue group the receivers, one subscription each, that take turns.
        count: How many subscriptions get a message: one of each group.
        counted: Subscriptions that end after so many messages.
        is_job_event: It is not for everybody to publish there.
        topic: Which keeps what is published there; empty: none does.
    """

    subject: str
    receivers: Receivers = ()
    groups: list[tuple[QueueGroup, list[tuple[Receivers, Subscription]]]] = field(
        default_factory=list
    )
    count: int = 0
    counted: list[Subscription] = field(default_factory=list)
    is_job_event: bool = False
    topic: str = ""


class ListenedJobs:
    """Of which jobs somebody hears the events: of some by their ids, or of all by a wildcard."""

    __slots__ = ("_by_id", "_wide")

    def __init__(self) -> None:
        self._by_id: dict[JobId, int] = {}  # how many subscriptions name it
        self._wide = 0  # how many name none, and reach them

    def __bool__(self) -> bool:
        return bool(self._wide or self._by_id)

    def hears(self, job_id: JobId) -> bool:
        """Whether somebody listens to a job."""
        return self._wide > 0 or job_id in self._by_id

    def hears_any(self, job_ids: Iterable[JobId]) -> bool:
        """Whether somebody listens to one of these."""
        return self._wide > 0 or not self._by_id.keys().isdisjoint(job_ids)

    def add(self, tokens: Tokens, count: int) -> None:
        """So many subscriptions with this pattern came, or (below 0) went."""
        job_id = job_of_event(tokens)
        if job_id is not None:
            left = self._by_id.get(job_id, 0) + count
            if left:
                self._by_id[job_id] = left
            else:
                self._by_id.pop(job_id, None)
        elif tokens_overlap(tokens, ALL_JOB_EVENTS):
            self._wide += count


class Subscriptions:
    """The subscriptions of one leader's sessions.

    Attributes:
        listened: Of which jobs somebody hears the events.
    """

    def __init__(self, topic_of: Callable[[str], str] = lambda _: "") -> None:
        self._topic_of = topic_of  # the topic of a subject
        self.listened = ListenedJobs()
        self._trie: Trie[Subscription] = Trie()
        self._of_session: dict[int, dict[int, Subscription]] = {}
        self._groups: dict[str, QueueGroup] = {}
        # By token: the session that drew it, and how many of its subscriptions are in it.
        self._inboxes: dict[str, tuple[int, int]] = {}
        self._count = 0  # of `_of_session`, inboxes included
        self._routes: dict[str, Route] = {}  # by subject as it was said; at most ROUTES_KEPT_MAX
        self._sets: dict[Receivers, Receivers] = {}  # those of `_routes`, each once

    def __len__(self) -> int:
        return self._count

    def add(self, session: int, number: int, pattern: str, queue_group: str = "") -> None:
        """A session subscribes; a number that it uses already is replaced.

        Raises:
            RemoteError: BAD_SUBJECT, if the pattern is not valid.
            StateError: ACCESS_DENIED, if it is in the inbox of another; OVERLOADED.
        """
        tokens = parse_pattern(pattern)
        token = self._inbox_of(tokens, session) if is_inbox(tokens) else ""
        self.remove(session, number)
        own = self._of_session.get(session, {})
        if len(own) >= SUBSCRIPTIONS_PER_SESSION_MAX or self._count >= SUBSCRIPTIONS_MAX:
            raise StateError(
                ErrorCode.OVERLOADED,
                f"{len(own)} subscriptions of this session, {self._count} in all",
                f"at most {SUBSCRIPTIONS_PER_SESSION_MAX} and {SUBSCRIPTIONS_MAX}; use wildcards",
            )
        group = None
        if queue_group and not token:
            group = self._groups.setdefault(queue_group, QueueGroup(queue_group))
            group.member_count += 1
        subscription = Subscription(session, number, SEPARATOR.join(tokens), group)
        self._of_session.setdefault(session, own)[number] = subscription
        self._count += 1
        if token:
            self._inboxes[token] = session, self._inboxes.get(token, (session, 0))[1] + 1
        else:
            self._trie.insert(subscription.pattern, subscription)
            self.listened.add(tokens, 1)
            self.forget_routes()

    def patterns_of(self, session: int) -> list[str]:
        """What a session is subscribed to."""
        return [one.pattern for one in self._of_session.get(session, {}).values()]

    def end_after(self, session: int, number: int, message_count: int) -> None:
        """A subscription ends when it got so many more messages."""
        subscription = self._of_session.get(session, {}).get(number)
        if subscription is not None:
            subscription.left = message_count
            self.forget_routes()

    def remove(self, session: int, number: int) -> None:
        """A session does not want this any more."""
        own = self._of_session.get(session, {})
        subscription = own.pop(number, None)
        if subscription is None:
            return
        if not own:
            del self._of_session[session]
        self._drop(subscription)
        self.forget_routes()

    def remove_session(self, session: int) -> None:
        """A session is over."""
        own = self._of_session.pop(session, None)
        if own is not None:
            for subscription in own.values():
                self._drop(subscription)
            self.forget_routes()

    def clear(self) -> None:
        """Leadership is lost."""
        self._trie = Trie()
        self.listened = ListenedJobs()
        self._of_session.clear()
        self._groups.clear()
        self._inboxes.clear()
        self._count = 0
        self.forget_routes()

    def route(self, subject: str, tokens: Tokens) -> Route:
        """Who gets what is published to a subject, as it was said and in its tokens. The route is
        remembered, but for that to an inbox, which is used once."""
        if is_inbox(tokens):
            inbox = self._inboxes.get(tokens[1]) if len(tokens) > 1 else None
            found = () if inbox is None else inbox[:1]
            return Route(SEPARATOR.join(tokens), found, count=len(found))
        route = self._routes.get(subject)
        if route is None:
            if len(self._routes) >= ROUTES_KEPT_MAX:
                self.forget_routes()
            route = self._routes[subject] = self._find(tokens)
        return route

    def known_route(self, subject: str) -> Route | None:
        """The route of a subject that was published to since a subscription came or went."""
        return self._routes.get(subject)

    def take_turn(self, group: QueueGroup, taking: list[tuple[Receivers, Subscription]]) -> int:
        """The place in the list of whoever of a queue group gets the next message."""
        place = group.turn % len(taking)
        group.turn += 1
        return place

    def count_down(self, subscription: Subscription) -> None:
        """A subscription with a bound got a message."""
        subscription.left -= 1
        if subscription.left <= 0:
            self.remove(subscription.session, subscription.number)

    # --- helpers

    def _inbox_of(self, tokens: Tokens, session: int) -> str:
        """The token of an inbox that this session may have."""
        token = inbox_token(tokens)
        if not token or self._inboxes.get(token, (session, 0))[0] != session:
            raise StateError(
                ErrorCode.ACCESS_DENIED,
                "the inbox belongs to another session",
                "subscribe to _inbox.TOKEN.> with a random token of your own",
            )
        return token

    def _drop(self, subscription: Subscription) -> None:
        """Take a subscription out of all but the table of its session."""
        self._count -= 1
        tokens = parse_pattern(subscription.pattern)
        if is_inbox(tokens):
            token = inbox_token(tokens)
            session, count = self._inboxes.pop(token)
            if count > 1:
                self._inboxes[token] = session, count - 1
            return
        self._trie.remove(subscription.pattern, subscription)
        self.listened.add(tokens, -1)
        group = subscription.group
        if group is not None:
            group.member_count -= 1
            if not group.member_count:
                del self._groups[group.name]

    def forget_routes(self) -> None:
        """Subscriptions have changed, or topics."""
        if self._routes:
            self._routes = {}
            self._sets = {}

    def _find(self, tokens: Tokens) -> Route:
        subject = SEPARATOR.join(tokens)
        plain: dict[int, None] = {}
        groups: dict[QueueGroup, list[tuple[Receivers, Subscription]]] = {}
        counted = []
        count = 0
        for subscription in self._trie.match(subject):
            if subscription.group is None:
                plain[subscription.session] = None
                count += 1
                if subscription.left:
                    counted.append(subscription)
            else:
                alone = self._one((subscription.session,))
                groups.setdefault(subscription.group, []).append((alone, subscription))
        return Route(
            subject,
            self._one(tuple(plain)),
            list(groups.items()),
            count + len(groups),
            counted,
            is_job_event(tokens),
            self._topic_of(subject),
        )

    def _one(self, receivers: Receivers) -> Receivers:
        return self._sets.setdefault(receivers, receivers)
