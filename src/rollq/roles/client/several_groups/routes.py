"""The groups of a multi-group client, their weights, and the routes of jobs. Pure.

A route is a pattern of queue names, with groups and their weights: `render.>=gpu:3,cpu:1`. The most
specific pattern that matches the queue of a job applies; a job that matches none may go to every
group. A `RouteState` has the groups of a route that exist, and their round-robin counters. Several
machines may share a table, and so also the counters.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.router_limits import GROUPS_MAX, ROUTES_KEPT_MAX, ROUTES_MAX, WEIGHT_MAX
from rollq.subjects.grammar import ANY_ONE, ANY_REST, SEPARATOR, parse_pattern
from rollq.subjects.matcher import matches
from rollq.subjects.queues import queue_of

ROUTE_HINT: Final = "write PATTERN=GROUP:WEIGHT,GROUP…, as in 'render.>=gpu:3,cpu:1'"


class Policy(enum.StrEnum):
    """How to choose among the groups that are up."""

    ROUND_ROBIN = "round-robin"
    LEAST_INFLIGHT = "least-inflight"


class GroupRoute(NamedTuple):
    """A pattern, and the weights of its groups by name."""

    pattern: str
    weights: tuple[tuple[str, int], ...]


def parse_route(text: str) -> GroupRoute:
    """Parse a route: `PATTERN=GROUP:WEIGHT,GROUP…`; the default weight is 1.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    pattern, equals, rest = text.partition("=")
    names = [part.strip() for part in rest.split(",") if part.strip()]
    try:
        tokens = parse_pattern(pattern.strip())
    except RemoteError as error:
        raise LocalError(ErrorCode.BAD_OPTIONS, error.message, ROUTE_HINT) from None
    if not equals or not tokens or not names:
        raise _bad(f"{text[:128]!r} is not a route")
    weights: dict[str, int] = {}
    for name in names:
        group, colon, weight = name.partition(":")
        if not group or group in weights:
            raise _bad(f"route {text[:128]!r}: a group without a name, or named twice")
        weights[group] = parse_weight(weight) if colon else 1
    return GroupRoute(SEPARATOR.join(tokens), tuple(weights.items()))


def parse_weight(text: str) -> int:
    """Parse a weight.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    if not text.isdecimal() or not 0 < int(text) <= WEIGHT_MAX:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"weight {text[:32]!r} is not a number from 1 to {WEIGHT_MAX}",
            "write NAME=NUMBER, or NAME:NUMBER in a route",
        )
    return int(text)


def check_group_names(
    groups: Collection[str], weights: Iterable[str], routes: Iterable[GroupRoute]
) -> None:
    """Check that weights and routes name only these groups.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    for name in (*weights, *(one for route in routes for one, _ in route.weights)):
        if name not in groups:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"no group is named {name[:64]!r}",
                f"there are: {', '.join(groups)}",
            )


class RouteState:
    """The groups of a route with their weights, and their round-robin state."""

    __slots__ = ("_counters", "weights")

    def __init__(self) -> None:
        self.weights: dict[int, int] = {}
        self._counters: dict[int, int] = {}  # round-robin counters; their sum is 0

    def enter(self, number: int, weight: int) -> None:
        """Add a group."""
        self.weights[number] = weight
        self._counters[number] = 0

    def leave(self, number: int) -> None:
        """Remove a group."""
        if self.weights.pop(number, None) is not None:
            del self._counters[number]

    def shares(
        self, rooms: dict[int, int], count: int, load: Callable[[int], int] | None = None
    ) -> dict[int, int]:
        """How many of `count` jobs each group gets; the same as if they were assigned one by one.

        Args:
            rooms: How many each group can take; all positive. It is consumed.
            count: The number of jobs.
            load: The number of jobs that a group has: the least loaded one, by weight, is next.
                None: weighted round-robin.
        """
        given: dict[int, int] = {}
        weights = self.weights
        while count > 0 and rooms:
            total = sum(weights[number] for number in rooms)
            cycles = 0
            if load is None:  # a whole cycle leaves the counters unchanged
                least = min(room // weights[number] for number, room in rooms.items())
                cycles = min(count // total, least)
            if cycles:
                for number in rooms:
                    rooms[number] -= cycles * weights[number]
                    given[number] = given.get(number, 0) + cycles * weights[number]
                count -= cycles * total
            else:
                chosen = self._next(rooms) if load is None else self._least(rooms, given, load)
                given[chosen] = given.get(chosen, 0) + 1
                rooms[chosen] -= 1
                count -= 1
            for number in [number for number, room in rooms.items() if room <= 0]:
                del rooms[number]
        return given

    def _next(self, fit: Iterable[int]) -> int:
        """Smooth weighted round-robin: every counter grows by its weight, and the group with the
        largest is chosen and pays the total."""
        total = 0
        for number in fit:
            total += self.weights[number]
            self._counters[number] += self.weights[number]
        chosen = max(fit, key=lambda number: (self._counters[number], -number))
        self._counters[chosen] -= total
        return chosen

    def _least(self, fit: Iterable[int], given: dict[int, int], load: Callable[[int], int]) -> int:
        def rank(number: int) -> tuple[int, int]:
            has = load(number) + given.get(number, 0)
            return (has * WEIGHT_MAX // self.weights[number], number)

        return min(fit, key=rank)


class GroupTable:
    """The groups by number, and their routes. Numbers are never reused.

    Args:
        routes: With different patterns.
        policy: How to choose among groups that have room.

    Attributes:
        names: The names of the groups.
        load: The number of jobs of each group, summed over the machines that share this table.
        ended: The number of results that each group delivered, likewise.

    Raises:
        LocalError: BAD_OPTIONS.
    """

    def __init__(
        self, routes: Iterable[GroupRoute] = (), policy: Policy = Policy.ROUND_ROBIN
    ) -> None:
        self.policy = policy
        self.names: dict[int, str] = {}
        self.load: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        self._next_number = 0
        self.default = RouteState()
        ordered = sorted(routes, key=lambda route: _rank(route.pattern))
        self._routes = [(route, RouteState()) for route in ordered]
        self._found: dict[str, RouteState] = {}  # cache by subject
        if len(ordered) > ROUTES_MAX:
            raise _bad(f"{len(ordered)} routes; at most {ROUTES_MAX}")
        for pattern, count in Counter([route.pattern for route in ordered]).items():
            if count > 1:
                raise _bad(f"{count} routes for {pattern!r}")

    @property
    def routes(self) -> list[GroupRoute]:
        """All routes, the most specific first."""
        return [route for route, _ in self._routes]

    def add(self, name: str, weight: int = 1) -> int:
        """Add a group; returns its number.

        Raises:
            LocalError: BAD_OPTIONS, if there are too many, or the name is in use.
        """
        if name in self.names.values():
            raise _bad(f"two groups are named {name[:64]!r}")
        if len(self.names) >= GROUPS_MAX:
            raise _bad(f"more than {GROUPS_MAX} groups")
        number, self._next_number = self._next_number, self._next_number + 1
        self.names[number] = name
        self.default.enter(number, weight)
        for route, state in self._routes:
            for group, routed in route.weights:
                if group == name:
                    state.enter(number, routed)
        return number

    def remove(self, number: int) -> None:
        """Remove a group."""
        del self.names[number]
        self.default.leave(number)
        for _, state in self._routes:
            state.leave(number)

    def route_for(self, subject: str) -> RouteState:
        """The groups for jobs with this subject."""
        state = self._found.get(subject)
        if state is None:
            state = self._find(subject)
            if len(self._found) >= ROUTES_KEPT_MAX:
                del self._found[next(iter(self._found))]
            self._found[subject] = state
        return state

    def _find(self, subject: str) -> RouteState:
        if not self._routes:
            return self.default
        try:
            queue = queue_of(subject)
        except RemoteError:
            return self.default  # every group refuses it with the same error
        for route, state in self._routes:
            if matches(route.pattern, queue):
                return state
        return self.default


def _rank(pattern: str) -> tuple[int, ...]:
    """Sort key: of two patterns that match a subject, the more specific one is smaller."""
    return tuple({ANY_ONE: 1, ANY_REST: 2}.get(token, 0) for token in pattern.split(SEPARATOR))


def _bad(what: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, what, ROUTE_HINT)
