"""How many jobs one turn of a decision takes, and the runs that a decision is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rollq.base.ids import ClientId, JobId
from rollq.base.limits import RUN_JOBS_MAX
from rollq.grid.commands import AssignRun, AssignTasks
from rollq.grid.state import ArrayRecord, JobRecord
from rollq.policy.lanes import Item, QueueLanes
from rollq.policy.pools import DispatchSession, Pool


def share_of(
    item: Item,
    queue: QueueLanes,
    pool: Pool,
    session: DispatchSession,
    left: int,
    *,
    weights: Mapping[ClientId, int],
) -> int:
    """How many jobs like this one may be assigned to a session in one step, `left` at most, so that
    round-robin stays as fair as with turns of one job.

    A session gets no more than its part of what waits, while others have credit; a queue no more
    than its part of the credit at the start of the pool's round, and a client no more than its part
    of the queue's, by weight. A queue keeps its turn until each client has had its part.
    """
    credit = min(session.credit, left, RUN_JOBS_MAX)
    if credit <= 1 or len(session.serving) + len(session.measured) > 1:
        queue.turn_left = 0
        return 1
    if pool.resources:
        credit = session.room.count(pool.resources, credit)
    if queue.turn_left <= 0:
        level = queue.levels[item.options.priority]
        assert level is not None  # the item was taken from it
        clients = level.visits(weights) + (item.client not in level.lanes)
        if pool.round_left <= 0:
            pool.round_left, pool.part_size = len(pool.ring), max(1, credit // len(pool.ring))
        pool.round_left -= 1
        part = min(credit, pool.part_size)
        queue.turn_left = min(part, clients)
        queue.turn_share = max(1, part // clients)
    waiting = queue.size + (1 if isinstance(item, JobRecord) else item.tasks_waiting)
    spread = -(-waiting // pool.candidates.count)
    return min(credit, queue.turn_share, spread)


class AssignmentBatch:
    """The assignments of one call of `decide`: `count_max` at most. Those of a session stay in the
    order in which they were decided, merged into runs where possible."""

    __slots__ = ("_last", "_runs", "left")

    def __init__(self, count_max: int) -> None:
        self.left = count_max
        # Session, lease, attempt number or array id, and the job ids; for an array its id once per
        # task in this run.
        self._runs: list[tuple[DispatchSession, int, int | JobId, list[JobId]]] = []
        self._last: dict[DispatchSession, tuple[int, int | JobId, list[JobId]]] = {}

    def add_jobs(self, session: DispatchSession, lease_ms: int, jobs: Sequence[JobRecord]) -> None:
        """Assign jobs with equal attempt numbers to a session."""
        self._add(session, lease_ms, jobs[0].attempt + 1, [job.job_id for job in jobs])

    def add_tasks(
        self, session: DispatchSession, lease_ms: int, array: ArrayRecord, count: int
    ) -> None:
        """Assign the next tasks of an array to a session."""
        self._add(session, lease_ms, array.array_id, [array.array_id] * count)

    def _add(
        self, session: DispatchSession, lease_ms: int, which: int | JobId, job_ids: list[JobId]
    ) -> None:
        self.left -= len(job_ids)
        last = self._last.get(session)
        if (
            last is not None
            and last[0] == lease_ms
            and last[1] == which
            and len(last[2]) + len(job_ids) <= RUN_JOBS_MAX
        ):
            last[2].extend(job_ids)
        else:
            self._last[session] = lease_ms, which, job_ids
            self._runs.append((session, lease_ms, which, job_ids))

    def commands(self) -> list[AssignRun | AssignTasks]:
        """The commands for the group."""
        made: list[AssignRun | AssignTasks] = []
        for session, lease_ms, which, job_ids in self._runs:
            where = session.worker_id, session.incarnation
            if isinstance(which, int):
                made.append(AssignRun(*where, which, lease_ms, b"".join(job_ids)))
            else:
                made.append(AssignTasks(which, *where, lease_ms, len(job_ids)))
        return made
