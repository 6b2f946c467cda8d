"""Which groups there are, what each weighs, and which jobs may go where. Pure.

A route is a pattern over names of queues with groups and their weights: `render.>=gpu:3,cpu:1`. The
most specific pattern that matches the queue of a job counts; a job that no route matches may go to
every group. A *way* is a route as it is used: the groups of it that there are now, and whose turn
it is. Several machines may share a table, so that they take turns together.
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
    """How a group is chosen among those that are up."""

    ROUND_ROBIN = "round-robin"
    LEAST_INFLIGHT = "least-inflight"


class Route(NamedTuple):
    """A pattern, and the weights of its groups by their names."""

    pattern: str
    weights: tuple[tuple[str, int], ...]


def parse_route(text: str) -> Route:
    """A route as it is written: `PATTERN=GROUP:WEIGHT,GROUP…`; a group without a weight has 1.

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
        raise _bad(f"{text[:128]!r} is no route")
    weights: dict[str, int] = {}
    for name in names:
        group, colon, weight = name.partition(":")
        if not group or group in weights:
            raise _bad(f"route {text[:128]!r}: a group without a name, or named twice")
        weights[group] = must_weigh(weight) if colon else 1
    return Route(SEPARATOR.join(tokens), tuple(weights.items()))


def must_weigh(text: str) -> int:
    """A weight as it is written.

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


def must_be_named(groups: Collection[str], weights: Iterable[str], routes: Iterable[Route]) -> None:
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


class Way:
    """The groups that jobs of a route may go to, with their weights, and whose turn it is."""

    __slots__ = ("_due", "weights")

    def __init__(self) -> None:
        self.weights: dict[int, int] = {}
        self._due: dict[int, int] = {}  # what each is ahead of its turn; their sum is 0

    def enter(self, number: int, weight: int) -> None:
        """A group has come."""
        self.weights[number] = weight
        self._due[number] = 0

    def leave(self, number: int) -> None:
        """A group has gone."""
        if self.weights.pop(number, None) is not None:
            del self._due[number]

    def shares(
        self, rooms: dict[int, int], count: int, load: Callable[[int], int] | None = None
    ) -> dict[int, int]:
        """How many of so many jobs each group gets, the same as if they came one by one.

        Args:
            rooms: How many each group may be given; those with none are not in it. It is used up.
            count: How many jobs there are.
            load: What each group has: the one with the least for its weight is next. None: they
                take turns by their weights.
        """
        given: dict[int, int] = {}
        weights = self.weights
        while count > 0 and rooms:
            total = sum(weights[number] for number in rooms)
            cycles = 0
            if load is None:  # after a whole cycle every turn is as it was before
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
        """Smooth weighted round-robin: each is due by its weight, and whoever is due most is next
        and pays for all."""
        total = 0
        for number in fit:
            total += self.weights[number]
            self._due[number] += self.weights[number]
        chosen = max(fit, key=lambda number: (self._due[number], -number))
        self._due[chosen] -= total
        return chosen

    def _least(self, fit: Iterable[int], given: dict[int, int], load: Callable[[int], int]) -> int:
        def rank(number: int) -> tuple[int, int]:
            has = load(number) + given.get(number, 0)
            return (has * WEIGHT_MAX // self.weights[number], number)

        return min(fit, key=rank)


class GroupTable:
    """The groups by number, and the ways to them. A number is never used twice.

    Args:
        routes: Their patterns must differ.
        policy: How a group is chosen among those that have room.

    Attributes:
        names: Of the groups that there are.
        load: How many jobs each group has, of all machines that share this table.
        ended: How many results of each counted, of all of them.

    Raises:
        LocalError: BAD_OPTIONS.
    """

    def __init__(self, routes: Iterable[Route] = (), policy: Policy = Policy.ROUND_ROBIN) -> None:
        self.policy = policy
        self.names: dict[int, str] = {}
        self.load: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        self._next_number = 0
        self.default = Way()
        ordered = sorted(routes, key=lambda route: _rank(route.pattern))
        self._routes = [(route, Way()) for route in ordered]
        self._found: dict[str, Way] = {}  # by subject, as they were asked for
        if len(ordered) > ROUTES_MAX:
            raise _bad(f"{len(ordered)} routes; at most {ROUTES_MAX}")
        for pattern, count in Counter([route.pattern for route in ordered]).items():
            if count > 1:
                raise _bad(f"{count} routes for {pattern!r}")

    @property
    def routes(self) -> list[Route]:
        """The most specific first."""
        return [route for route, _ in self._routes]

    def add(self, name: str, weight: int = 1) -> int:
        """A group has come; its number.

        Raises:
            LocalError: BAD_OPTIONS, if there are too many, or one of this name.
        """
        if name in self.names.values():
            raise _bad(f"two groups are named {name[:64]!r}")
        if len(self.names) >= GROUPS_MAX:
            raise _bad(f"more than {GROUPS_MAX} groups")
        number, self._next_number = self._next_number, self._next_number + 1
        self.names[number] = name
        self.default.enter(number, weight)
        for route, way in self._routes:
            for group, routed in route.weights:
                if group == name:
                    way.enter(number, routed)
        return number

    def remove(self, number: int) -> None:
        """A group has gone."""
        del self.names[number]
        self.default.leave(number)
        for _, way in self._routes:
            way.leave(number)

    def way_of(self, subject: str) -> Way:
        """Where jobs with this subject may go."""
        way = self._found.get(subject)
        if way is None:
            way = self._look(subject)
            if len(self._found) >= ROUTES_KEPT_MAX:
                del self._found[next(iter(self._found))]
            self._found[subject] = way
        return way

    def _look(self, subject: str) -> Way:
        if not self._routes:
            return self.default
        try:
            queue = queue_of(subject)
        except RemoteError:
            return self.default  # any group says what is wrong with it
        for route, way in self._routes:
            if matches(route.pattern, queue):
                return way
        return self.default


def _rank(pattern: str) -> tuple[int, ...]:
    """Of two patterns that match the same subject the more specific one has the lower rank."""
    return tuple({ANY_ONE: 1, ANY_REST: 2}.get(token, 0) for token in pattern.split(SEPARATOR))


def _bad(what: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, what, ROUTE_HINT)
