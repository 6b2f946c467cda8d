"""Whose request is next: the sessions of clients take turns by the weight of what they ask for.

Each session has a queue of its own, in which its requests keep their order. A queue may go ahead
when it has saved up as much as its first request weighs; all of them save alike (deficit round
robin). So a client that asks for little is served with the next entry, however much others have
asked for before, and one that is alone is never held up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from rollq.base.limits import SESSION_QUANTUM, SESSION_REQUESTS_PAUSE, SESSION_WEIGHT_PAUSE

Request = TypeVar("Request")


class _Queue(Generic[Request]):
    """What one session asks for."""

    __slots__ = ("saved", "waiting", "waiting_weight")

    def __init__(self) -> None:
        self.waiting: deque[tuple[Request, int]] = deque()  # with their weights
        self.waiting_weight = 0  # the sum of these
        self.saved = 0  # less than the weight of the first request and a quantum


class ClientTurns(Generic[Request]):
    """Requests that wait, by session. A queue is there as long as something waits in it."""

    __slots__ = ("_count", "_queues", "_weight")

    def __init__(self) -> None:
        self._queues: dict[int, _Queue[Request]] = {}  # whose turn it is first
        self._count = 0  # of all requests in them
        self._weight = 0  # the sum of their weights

    def add(self, session: int, request: Request, weight: int) -> None:
        """A session asks for something."""
        queue = self._queues.get(session)
        if queue is None:
            queue = self._queues[session] = _Queue()
        queue.waiting.append((request, weight))
        queue.waiting_weight += weight
        self._count += 1
        self._weight += weight

    def __iter__(self) -> Iterator[Request]:
        return (request for queue in self._queues.values() for request, _ in queue.waiting)

    def is_long(self, session: int, share: int = 1) -> bool:
        """Whether more waits in the queue of a session than (a share of) what may while it is
        read."""
        queue = self._queues.get(session)
        return queue is not None and (
            len(queue.waiting) > SESSION_REQUESTS_PAUSE // share
            or queue.waiting_weight > SESSION_WEIGHT_PAUSE // share
        )

    def take(self, count_max: int, weight_max: int, each: range) -> list[Request]:
        """The next requests. Whoever had no turn has one first next time.

        Args:
            count_max: How many, at most.
            weight_max: Of all together, unless it is only one.
            each: The weights to choose from; queues that begin with another one are passed by.
        """
        is_free = not each.start and self._weight < each.stop  # none can be too heavy then
        if not self._count or (is_free and self._count <= count_max and self._weight <= weight_max):
            return self._take_all()
        taken = self._take_in_turns(count_max, weight_max, each)
        self._count -= len(taken)
        return taken

    def _take_all(self) -> list[Request]:
        taken = [request for queue in self._queues.values() for request, _ in queue.waiting]
        self._queues.clear()
        self._count = self._weight = 0
        return taken

    def _take_in_turns(self, count_max: int, weight_max: int, each: range) -> list[Request]:
        taken: list[Request] = []
        total = 0
        while True:
            lacking = [
                queue.waiting[0][1] - queue.saved
                for queue in self._queues.values()
                if queue.waiting[0][1] in each
            ]
            if not lacking:
                return taken
            quantum = max(SESSION_QUANTUM, min(lacking))  # at least one can go ahead
            for session in list(self._queues):
                queue = self._queues[session]
                if queue.waiting[0][1] not in each:
                    continue
                del self._queues[session]
                queue.saved += quantum
                while queue.waiting:
                    request, weight = queue.waiting[0]
                    if weight > queue.saved or weight not in each:
                        break
                    if len(taken) >= count_max or (taken and total + weight > weight_max):
                        # It has saved for this turn already, and is the first of the next one.
                        queue.saved -= quantum
                        self._queues = {session: queue, **self._queues}
                        return taken
                    taken.append(request)
                    total += weight
                    self._weight -= weight
                    queue.waiting.popleft()
                    queue.waiting_weight -= weight
                    queue.saved -= weight
                if queue.waiting:
                    self._queues[session] = queue
