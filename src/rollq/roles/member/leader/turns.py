"""Fair queueing of client requests: sessions take turns by the weight of their requests.

Each session has a queue of its own, in which its requests keep their order. A queue may proceed
when its saved quanta reach the weight of its first request (deficit round robin). So a light client
is served in the next entry, however much others have requested before, and a single client is never
delayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from rollq.base.limits import SESSION_QUANTUM, SESSION_REQUESTS_PAUSE, SESSION_WEIGHT_PAUSE

Request = TypeVar("Request")


class _Queue(Generic[Request]):
    """The requests of one session."""

    __slots__ = ("saved", "waiting", "waiting_weight")

    def __init__(self) -> None:
        self.waiting: deque[tuple[Request, int]] = deque()  # with their weights
        self.waiting_weight = 0  # the sum of these
        self.saved = 0  # less than the weight of the first request plus a quantum


class ClientTurns(Generic[Request]):
    """Waiting requests by session. Only sessions with waiting requests have a queue."""

    __slots__ = ("_count", "_queues", "_weight")

    def __init__(self) -> None:
        self._queues: dict[int, _Queue[Request]] = {}  # next in turn first
        self._count = 0  # of all requests in them
        self._weight = 0  # the sum of their weights

    def add(self, session: int, request: Request, weight: int) -> None:
        """Queue a request of a session."""
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
        """Whether the queue of a session exceeds the bound (divided by `share`) for reading it."""
        queue = self._queues.get(session)
        return queue is not None and (
            len(queue.waiting) > SESSION_REQUESTS_PAUSE // share
            or queue.waiting_weight > SESSION_WEIGHT_PAUSE // share
        )

    def take(self, count_max: int, weight_max: int, each: range) -> list[Request]:
        """Remove and return the next requests. Sessions without a turn go first next time.

        Args:
            count_max: At most so many.
            weight_max: Of all together, unless it is only one.
            each: The weights to take; queues whose first request has another weight are skipped.
        """
        is_free = not each.start and self._weight < each.stop  # then none is too heavy
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
            quantum = max(SESSION_QUANTUM, min(lacking))  # at least one can proceed
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
                        # It keeps its turn: the first of the next call, without another quantum.
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
