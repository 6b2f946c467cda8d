"""The last phase of a run: the leader stops responding for good, and the others must continue
without it; then a worker receives nothing for a while.

Its process is suspended with all its sockets open, or the network drops what it sends, what is sent
to it, or both, without an error. Invariant: a job submitted afterwards has a result within a bound,
and a job that was running is not run again. A worker that had left a silent member in vain before
is excepted: it waits longer for a silent leader, perhaps longer than the new leader waits for it. A
worker that receives nothing can still send: it keeps its attempts until its lease ends, however
short its grace is.

Starts are counted and not attempts: a worker may give back a prefetched job that it has not
started, and the next attempt is then the first that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rollq.base.ids import JobId
from rollq.base.limits import LOOK_MS, PING_MS
from rollq.grid.state import ASSIGNED
from rollq.testing.checkers.base import Violation
from rollq.testing.clock import MS

if TYPE_CHECKING:
    from rollq.testing.cluster import SimCluster
    from rollq.testing.sim_worker import SimWorker

KINDS: Final = ("paused", "cut", "mute", "deaf")
BEFORE_MS: Final = 400  # jobs submitted this long before the fault are running by then
STEP_MS: Final = 100
# With a shorter grace or lease a worker may be given up while it still waits for an answer.
PATIENT_MS: Final = 3_000
BACK_MS: Final = 2_500  # beyond the grace: a deaf worker disconnects, is healed and reconnects
DEAF_RUN_MS: Final = 4_000  # run time of the jobs of a deaf worker


def silence_leader(cluster: SimCluster) -> None:
    """Silence the leader, and wait for the results of jobs submitted before and after.

    Raises:
        Violation: they do not come in time, or a job was run again.
    """
    timeline, chance = cluster.timeline, cluster.streams.schedule
    running = [
        application.submit_one(chance.draw(500, 1_500)) for application in cluster.applications
    ]
    timeline.run_until(timeline.now_us + BEFORE_MS * MS)
    leader = cluster.leader()
    if leader is None:
        raise Violation("silence", "no member leads a healed cluster")
    excepted = {job_id for worker in cluster.workers for job_id in _excepted_jobs(worker)}
    kind = chance.pick(KINDS)
    cluster.count(f"silent_{kind}")
    cluster.trace.note(leader.name, "falls silent", kind)
    if kind == "paused":
        leader.pause()
    else:
        names = [one.address for one in cluster.members if one is not leader]
        names += [*(one.name for one in cluster.workers), *cluster.clients]
        out = [(leader.address, name) for name in names if kind != "deaf"]
        back = [(name, leader.address) for name in names if kind != "mute"]
        cluster.network.blackholes.update(dict.fromkeys(out + back))
    later = [application.submit_one(chance.draw(1, 300)) for application in cluster.applications]
    _wait(cluster, running + later, f"{kind} leader")
    settings = cluster.swarm.settings
    if settings.worker_grace_ms >= PATIENT_MS and settings.lease_ms >= PATIENT_MS:
        strict = [job_id for job_id in running if job_id not in excepted]
        _check_reruns(cluster, strict, f"{kind} leader")


def can_deafen_worker(cluster: SimCluster) -> bool:
    """Whether a worker can be deaf for longer than its grace and return before its lease ends."""
    settings = cluster.swarm.settings
    return settings.lease_ms >= settings.worker_grace_ms + BACK_MS


def deafen_worker(cluster: SimCluster) -> None:
    """Drop all messages to a worker that runs a job, for longer than its grace.

    Raises:
        Violation: its job was run again, or has no result in time.
    """
    timeline, chance = cluster.timeline, cluster.streams.schedule
    submitted = [application.submit_one(DEAF_RUN_MS) for application in cluster.applications]
    timeline.run_until(timeline.now_us + BEFORE_MS * MS)
    leader = cluster.leader()
    if leader is None or leader.driver is None:
        raise Violation("silence", "no member leads a healed cluster")
    jobs = leader.driver.state.jobs
    holders = {jobs[one].worker_id for one in submitted if jobs[one].state is ASSIGNED}
    worker = next((one for one in cluster.workers if one.worker_id in holders), None)
    if worker is None:
        return  # none of the jobs is running
    cluster.count("deaf_worker")
    cluster.trace.note(worker.name, "receives nothing")
    ways = [(member.address, worker.name) for member in cluster.members]
    cluster.network.blackholes.update(dict.fromkeys(ways))
    deaf_ms = 2 * PING_MS + LOOK_MS + cluster.swarm.settings.worker_grace_ms
    timeline.run_until(timeline.now_us + (deaf_ms + chance.draw(50, 250)) * MS)
    for way in ways:
        del cluster.network.blackholes[way]
    _wait(cluster, submitted, "deaf worker")
    _check_reruns(cluster, submitted, "deaf worker")


def _excepted_jobs(worker: SimWorker) -> list[JobId]:
    """Jobs that a worker holds if it will not leave a silent leader at once."""
    return worker.held_jobs if worker.is_patient else []


def _wait(cluster: SimCluster, job_ids: list[JobId], kind: str) -> None:
    def missing() -> list[str]:
        return [one.hex() for one in job_ids if not _has_result(cluster, one)]

    left, waited = cluster.run_until_met(missing, STEP_MS, cluster.swarm.silent_ms_max)
    if left:
        raise Violation("silence", f"no result after {waited} of a {kind}: {', '.join(left)}")


def _has_result(cluster: SimCluster, job_id: JobId) -> bool:
    return any(job_id in client.results for client in cluster.clients.values())


def _check_reruns(cluster: SimCluster, job_ids: list[JobId], kind: str) -> None:
    rerun = [job_id.hex() for job_id in job_ids if cluster.runs.start_count(job_id) > 1]
    if rerun:
        raise Violation("silence", f"{', '.join(rerun)} ran again for a {kind}")
