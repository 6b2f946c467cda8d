"""Subscriptions to subjects: those of all sessions of one leader. Pure, no clock.

A subject has a route: the sessions that get a message, each once, and the queue groups in which one
subscription does. Routes are cached until a subscription changes, and equal receiver sets of cached
routes are the same object, so that a message is encoded once for them. Inboxes are beside the trie:
no wildcard matches one, and their changes invalidate no routes.
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
    """A queue group: one member gets each message, in turn."""

    name: str
    member_count: int = 0
    turn: int = 0  # number of messages so far


@dataclass(slots=True, eq=False)
class SessionSubscription:
    """One session's subscription to a pattern."""

    session: int
    number: int  # chosen by the session
    pattern: str  # normalised
    group: QueueGroup | None
    left: int = 0  # messages until it ends; 0: no such bound


@dataclass(slots=True, eq=False)
class Route:
    """The receivers of a subject.

    Attributes:
        subject: Normalised.
        receivers: Sessions with a subscription outside queue groups.
        groups: The members of each queue group, which take turns.
        count: The number of subscriptions that get a message: one of each group.
        counted: Subscriptions that end after some more messages.
        is_job_event: Whether only the worker of the job may publish there.
        topic: The topic of the subject; empty: none.
    """

    subject: str
    receivers: Receivers = ()
    groups: list[tuple[QueueGroup, list[tuple[Receivers, SessionSubscription]]]] = field(
        default_factory=list
    )
    count: int = 0
    counted: list[SessionSubscription] = field(default_factory=list)
    is_job_event: bool = False
    topic: str = ""


class ListenedJobs:
    """The jobs whose events have subscribers: some by their ids, or all by a wildcard."""

    __slots__ = ("_by_id", "_wide")

    def __init__(self) -> None:
        self._by_id: dict[JobId, int] = {}  # number of subscriptions to one job
        self._wide = 0  # number of wildcard subscriptions to job events

    def __bool__(self) -> bool:
        return bool(self._wide or self._by_id)

    def has(self, job_id: JobId) -> bool:
        """Whether events of a job have a subscriber."""
        return self._wide > 0 or job_id in self._by_id

    def has_any(self, job_ids: Iterable[JobId]) -> bool:
        """Whether events of one of these jobs have a subscriber."""
        return self._wide > 0 or not self._by_id.keys().isdisjoint(job_ids)

    def add(self, tokens: Tokens, count: int) -> None:
        """Count added or (below 0) removed subscriptions with this pattern."""
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
        listened: The jobs whose events have subscribers.
    """

    def __init__(
        self,
        topic_of: Callable[[str], str] = lambda _: "",
        *,
        count_max: int = SUBSCRIPTIONS_MAX,
        of_session_max: int = SUBSCRIPTIONS_PER_SESSION_MAX,
        routes_max: int = ROUTES_KEPT_MAX,
    ) -> None:
        self._topic_of = topic_of  # the topic of a subject
        self._count_max = count_max
        self._of_session_max = of_session_max
        self._routes_max = routes_max
        self.listened = ListenedJobs()
        self._trie: Trie[SessionSubscription] = Trie()
        self._of_session: dict[int, dict[int, SessionSubscription]] = {}
        self._groups: dict[str, QueueGroup] = {}
        # By token: the session that owns the inbox, and the number of its subscriptions in it.
        self._inboxes: dict[str, tuple[int, int]] = {}
        self._count = 0  # of `_of_session`, inboxes included
        self._routes: dict[str, Route] = {}  # by subject as published; at most `_routes_max`
        self._sets: dict[Receivers, Receivers] = {}  # the distinct receiver sets of `_routes`

    def __len__(self) -> int:
        return self._count

    def add(self, session: int, number: int, pattern: str, queue_group: str = "") -> None:
        """Subscribe a session; replaces its subscription with the same number.

        Raises:
            RemoteError: BAD_SUBJECT if the pattern is not valid.
            StateError: ACCESS_DENIED if it is in the inbox of another session; OVERLOADED.
        """
        tokens = parse_pattern(pattern)
        token = self._inbox_of(tokens, session) if is_inbox(tokens) else ""
        self.remove(session, number)
        own = self._of_session.get(session, {})
        if len(own) >= self._of_session_max or self._count >= self._count_max:
            raise StateError(
                ErrorCode.OVERLOADED,
                f"{len(own)} subscriptions of this session, {self._count} in all",
                f"at most {self._of_session_max} and {self._count_max}; use wildcards",
            )
        group = None
        if queue_group and not token:
            group = self._groups.setdefault(queue_group, QueueGroup(queue_group))
            group.member_count += 1
        subscription = SessionSubscription(session, number, SEPARATOR.join(tokens), group)
        self._of_session.setdefault(session, own)[number] = subscription
        self._count += 1
        if token:
            self._inboxes[token] = session, self._inboxes.get(token, (session, 0))[1] + 1
        else:
            self._trie.insert(subscription.pattern, subscription)
            self.listened.add(tokens, 1)
            self.forget_routes()

    def patterns_of(self, session: int) -> list[str]:
        """The patterns of a session's subscriptions."""
        return [one.pattern for one in self._of_session.get(session, {}).values()]

    def end_after(self, session: int, number: int, message_count: int) -> None:
        """End a subscription after so many more messages."""
        subscription = self._of_session.get(session, {}).get(number)
        if subscription is not None:
            subscription.left = message_count
            self.forget_routes()

    def remove(self, session: int, number: int) -> None:
        """End a subscription."""
        own = self._of_session.get(session, {})
        subscription = own.pop(number, None)
        if subscription is None:
            return
        if not own:
            del self._of_session[session]
        self._drop(subscription)

    def remove_session(self, session: int) -> None:
        """End all subscriptions of a session."""
        own = self._of_session.pop(session, None)
        if own is not None:
            for subscription in own.values():
                self._drop(subscription)

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
        """The route of a subject, given as published and as tokens. It is cached, except for
        inboxes, which are used once."""
        if is_inbox(tokens):
            inbox = self._inboxes.get(tokens[1]) if len(tokens) > 1 else None
            found = () if inbox is None else inbox[:1]
            return Route(SEPARATOR.join(tokens), found, count=len(found))
        route = self._routes.get(subject)
        if route is None:
            if len(self._routes) >= self._routes_max:
                self.forget_routes()
            route = self._routes[subject] = self._find(tokens)
        return route

    def known_route(self, subject: str) -> Route | None:
        """The cached route of a subject."""
        return self._routes.get(subject)

    def take_turn(
        self, group: QueueGroup, taking: list[tuple[Receivers, SessionSubscription]]
    ) -> int:
        """The position of the member of a queue group that gets the next message."""
        place = group.turn % len(taking)
        group.turn += 1
        return place

    def count_down(self, subscription: SessionSubscription) -> None:
        """Count a message to a subscription that ends after some more."""
        subscription.left -= 1
        if subscription.left <= 0:
            self.remove(subscription.session, subscription.number)

    # --- helpers

    def _inbox_of(self, tokens: Tokens, session: int) -> str:
        """The token of an inbox that this session may use."""
        token = inbox_token(tokens)
        if not token or self._inboxes.get(token, (session, 0))[0] != session:
            raise StateError(
                ErrorCode.ACCESS_DENIED,
                "the inbox belongs to another session",
                "subscribe to _inbox.TOKEN.> with a random token of your own",
            )
        return token

    def _drop(self, subscription: SessionSubscription) -> None:
        """Remove a subscription from all tables but that of its session. Routes do not change with
        inboxes."""
        self._count -= 1
        tokens = parse_pattern(subscription.pattern)
        if is_inbox(tokens):
            token = inbox_token(tokens)
            session, count = self._inboxes.pop(token)
            if count > 1:
                self._inboxes[token] = session, count - 1
            return
        self._trie.remove(subscription.pattern, subscription)
        self.forget_routes()
        self.listened.add(tokens, -1)
        group = subscription.group
        if group is not None:
            group.member_count -= 1
            if not group.member_count:
                del self._groups[group.name]

    def forget_routes(self) -> None:
        """Drop all cached routes: subscriptions or topics have changed."""
        if self._routes:
            self._routes = {}
            self._sets = {}

    def _find(self, tokens: Tokens) -> Route:
        subject = SEPARATOR.join(tokens)
        plain: dict[int, None] = {}
        groups: dict[QueueGroup, list[tuple[Receivers, SessionSubscription]]] = {}
        counted = []
        count = 0
        for subscription in self._trie.match(subject):
            if subscription.group is None:
                plain[subscription.session] = None
                count += 1
                if subscription.left:
                    counted.append(subscription)
            else:
                alone = self._shared((subscription.session,))
                groups.setdefault(subscription.group, []).append((alone, subscription))
        return Route(
            subject,
            self._shared(tuple(plain)),
            groups=list(groups.items()),
            count=count + len(groups),
            counted=counted,
            is_job_event=is_job_event(tokens),
            topic=self._topic_of(subject),
        )

    def _shared(self, receivers: Receivers) -> Receivers:
        return self._sets.setdefault(receivers, receivers)
