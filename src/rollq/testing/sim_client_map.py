"""A `map` in the simulator: all free room of its window is used in one turn.

The ids of its jobs share a prefix, as in the client library. Its progress is persisted, so that it
continues after a crash.
"""

from __future__ import annotations

from collections.abc import Callable

from rollq.base.ids import JobId, task_id
from rollq.base.jobs import JobOptions
from rollq.testing.jitter import SeededJitter
from rollq.testing.sim_client import SimClient
from rollq.testing.workload import inputs_of
from rollq.wire.messages import Result, SubmitJob


class SimMap:
    """The jobs of one map, and its window.

    Args:
        client: Sends the requests.
        chance: Randomness for ids.
        queue: Of all jobs.
        options: Of all jobs.
        bodies: The jobs.
        window: The most jobs without a result.
        on_submit: Called with the id of each job.
    """

    def __init__(
        self,
        client: SimClient,
        chance: SeededJitter,
        *,
        queue: str,
        options: JobOptions | None,
        bodies: list[bytes],
        window: int,
        on_submit: Callable[[JobId], None],
    ) -> None:
        self._client = client
        self._queue = queue
        self._options = options
        self._bodies = bodies
        self._window = window
        self._on_submit = on_submit
        self._first_id = chance.draw_id()[:12] + bytes(4)
        self._entered = 0
        self._on_the_way: dict[JobId, None] = {}

    def start(self) -> None:
        """Submit the first jobs."""
        self._client.on_results.append(self._take)
        self._fill()

    def _take(self, results: list[Result]) -> None:
        for result in results:
            self._on_the_way.pop(result.job_id, None)
        self._fill()
        if not self._on_the_way:
            self._client.on_results.remove(self._take)

    def _fill(self) -> None:
        room = self._window - len(self._on_the_way)
        bodies = self._bodies[self._entered : self._entered + room]
        if not bodies:
            return
        client_id, queue, options = self._client.client_id, self._queue, self._options
        for body in bodies:
            job_id = task_id(self._first_id, self._entered)
            self._entered += 1
            self._on_the_way[job_id] = None
            self._on_submit(job_id)
            self._client.ask(
                SubmitJob(job_id, client_id, queue, "tool", body, options, inputs_of(body))
            )
