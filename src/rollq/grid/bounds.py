"""How much of each kind a grid may hold, and one entry may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rollq.base import flow_limits, need_limits, schedule_limits, topic_limits
from rollq.base import limits as most


@dataclass(frozen=True, slots=True)
class Bounds:
    """The same on all members, or one would refuse what another accepts: only tests have others
    than `BOUNDS`. No part of snapshots."""

    accounts: int = most.ACCOUNTS_MAX
    arrays: int = most.ARRAYS_MAX
    batch_jobs: int = most.BATCH_JOBS_MAX
    batches_kept: int = most.BATCHES_KEPT_MAX
    bulk_jobs: int = most.BULK_JOBS_MAX
    caches: int = most.CACHES_MAX
    children_per_entry: int = flow_limits.CHILDREN_PER_ENTRY_MAX
    clients: int = most.CLIENTS_MAX
    cursors_per_topic: int = topic_limits.CURSORS_PER_TOPIC_MAX
    jobs: int = most.JOBS_MAX
    limits: int = need_limits.LIMITS_MAX
    policies: int = need_limits.POLICIES_MAX
    queues: int = most.QUEUES_MAX
    roles: int = most.ROLES_MAX
    schedules: int = schedule_limits.SCHEDULES_MAX
    staged_batches: int = most.STAGED_BATCHES_MAX
    staged_bytes: int = most.STAGED_BYTES_MAX
    staged_jobs: int = most.STAGED_JOBS_MAX
    staged_parts: int = most.STAGED_PARTS_MAX
    topics: int = topic_limits.TOPICS_MAX
    topics_trimmed: int = topic_limits.TOPICS_TRIM_MAX
    weights: int = need_limits.WEIGHTS_MAX
    workers: int = most.WORKERS_MAX


BOUNDS: Final = Bounds()
