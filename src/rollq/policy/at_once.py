"""Jobs that are assigned by the entry that accepts them.

If a worker is free when a job is submitted, the job need not wait for two commits. The leader
decides on it before it exists. If the job is refused, is a duplicate or may not start, its
assignment is refused as stale when the entry is applied.

Only credit that is left after `decide` is used here, so no waiting job is overtaken. Jobs that need
more checks (a delay, a named worker, caches, limits, labels, resources, programs that only some
workers have) are dispatched in the usual way.
"""

from __future__ import annotations

from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.grid.commands import AssignRun, SubmitRun
from rollq.grid.limits import limits_of
from rollq.grid.runs import ids_in
from rollq.grid.state import QUEUED, ClientRecord, GridState, JobRecord
from rollq.policy.backlog import Backlog
from rollq.policy.hints import lease_ms_of
from rollq.policy.holds import Holds
from rollq.policy.lanes import QueueLanes
from rollq.policy.needs import Need, need_of
from rollq.policy.pools import Pool


def start_at_once(
    state: GridState, backlog: Backlog, holds: Holds, command: SubmitRun
) -> list[AssignRun]:
    """Assignments for jobs of this command, to follow it in the same entry. Call after `decide`."""
    client = state.clients.get(command.client_id)
    queue = backlog.idle_queue(command.queue)
    if (
        client is None
        or queue is None
        or command.caches
        or backlog.ready_pools
        or backlog.ready_pinned_pools
    ):
        return []
    pools = [pool for pool in queue.pools if pool.candidates.count]
    if not pools:
        return []
    job = _first_of(command, client)
    if limits_of(state, job.queue, client.client_id, job.exec_name, job.options):
        return []
    pool = _pool_for(job, queue, pools)
    job_ids = ids_in(command.job_ids)
    room = min(len(job_ids), holds.room(client))
    if pool is None or room <= 0 or len(dict.fromkeys(job_ids)) != len(job_ids):
        return []
    if not all(_is_new(state, holds, job_id) for job_id in job_ids):
        return []
    lease_ms = job.options.lease_ms or lease_ms_of(state, job.exec_name)
    runs: list[AssignRun] = []
    given = 0
    while given < room and pool.candidates.count:
        session = pool.pick(job, queue.preference)
        count = min(-(-(room - given) // pool.candidates.count), session.credit)
        part = job_ids[given : given + count]
        holds.reserve_new(part, client, session)
        session.credit -= count
        session.running += count
        session.reserved += count
        session.update_load()
        where = session.worker_id, session.incarnation
        runs.append(AssignRun(*where, 1, lease_ms, b"".join(part)))
        given += count
    return runs


def _first_of(command: SubmitRun, client: ClientRecord) -> JobRecord:
    """A record of its first job, to choose a worker with."""
    options = command.options or DEFAULT_OPTIONS
    job_id = command.job_ids[:GUID_BYTES]
    return JobRecord(job_id, client, command.queue, command.exec_name, b"", options, QUEUED, 0, 0)


def _pool_for(job: JobRecord, queue: QueueLanes, pools: list[Pool]) -> Pool | None:
    """A pool with credit all of whose workers can run the job now."""
    if job.options.delay_ms or job.options.worker_name:
        return None
    need = need_of(job)
    if isinstance(need, Need) or need in queue.split:
        return None
    for pool in pools:
        if not pool.limited_count or pool.all_can_run(need):
            return pool
    return None


def _is_new(state: GridState, holds: Holds, job_id: JobId) -> bool:
    return job_id not in state.jobs and job_id not in holds.jobs and job_id not in state.reserved
