"""The built-in roles: what clients, workers, readers, operators and admins may do. They are
constants, the same on all members of a build: own roles and rules of accounts add to them, and a
deny subtracts.

A job is checked as its client and its queue, a batch as its client, a blob as the clients that
refer to it. Secrets are granted by name and are in no role. Messages between members (`group.*`)
need the cluster key, and no role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rollq.base.access import Action
from rollq.base.access_rules import ANY, OWN, AccessRole, Rule

A = Action
OWN_CLIENTS: Final = (f"client:{OWN}", f"client:{OWN}/*")  # the ids that belong to an account


def _allow(resources: tuple[str, ...], *actions: Action) -> tuple[Rule, ...]:
    return tuple(
        Rule("allow", action.value, resource) for action in actions for resource in resources
    )


# Every session: connect under an own id, and read its own jobs and the state of the grid.
_SESSION: Final = (
    *_allow(OWN_CLIENTS, A.CLIENT_CONNECT, A.CLIENTS_READ),
    *_allow((f"account:{OWN}",), A.ACCESS_READ),
    *_allow(("grid:*",), A.CLUSTER_READ, A.SETTINGS_READ),
    *_allow(("queue:*",), A.QUEUES_READ),
    *_allow(("worker:*",), A.WORKERS_READ),
    *_allow(("topic:*",), A.TOPICS_READ),
)

_ON_JOBS: Final = (
    *(A.JOBS_READ, A.JOBS_CANCEL, A.JOBS_REDRIVE, A.JOBS_PURGE),
    *(A.RESULTS_READ, A.RESULTS_CONFIRM, A.OUTPUT_READ),
)

# A pattern that matches job events needs `jobs.read` as well, an inbox nothing.
_SUBJECTS: Final = _allow(("subject:*",), A.SUBJECTS_PUBLISH, A.SUBJECTS_SUBSCRIBE)

# Submit to any queue, full access to its own jobs, results and files, and publish.
_CLIENT: Final = (
    *_SESSION,
    *_allow((*OWN_CLIENTS, "queue:*", "exec:*"), A.JOBS_SUBMIT),
    *_allow((*OWN_CLIENTS, "queue:*"), *_ON_JOBS),
    *_allow(("group:*",), A.BLOBS_CONNECT, A.READER_CONNECT),
    *_allow(OWN_CLIENTS, A.BLOBS_READ),
    *_allow(OWN_CLIENTS, A.BLOBS_WRITE),
    *_allow(("cache:*",), A.CACHES_READ),
    *_allow((f"cache:{OWN}/*",), A.CACHES_WRITE),
    *_allow((f"schedule:{OWN}/*",), A.SCHEDULES_READ, A.SCHEDULES_WRITE),
    *_SUBJECTS,
)

# Run what it is assigned, under the fences of its attempts, with the files that those need.
_WORKER: Final = (
    *_allow(
        (ANY,),
        *(A.WORKER_CONNECT, A.JOBS_RUN, A.BLOBS_CONNECT, A.BLOBS_READ, A.BLOBS_WRITE),
    ),
    *_SUBJECTS,
    *_allow(("topic:*",), A.TOPICS_READ),
)

# Read everything but the access lists, change nothing; a hold retains history for a reader.
_READER: Final = (
    *_SESSION,
    *_allow(
        (ANY,),
        *(A.READER_CONNECT, A.HISTORY_READ, A.HISTORY_HOLD, A.TABLES_READ),
        *(A.JOBS_READ, A.RESULTS_READ, A.OUTPUT_READ),
        *(A.BLOBS_CONNECT, A.BLOBS_READ),
        *(A.CACHES_READ, A.QUEUES_READ, A.CLIENTS_READ, A.WORKERS_READ, A.SCHEDULES_READ),
        A.SUBJECTS_SUBSCRIBE,
    ),
)

# Operate the grid: all jobs, queues, workers, settings, caches. Membership and access are for
# admins.
_OPERATOR: Final = (
    *_CLIENT,
    *_READER,
    *_allow(
        (ANY,),
        *(A.JOBS_CANCEL, A.JOBS_REDRIVE, A.JOBS_PURGE, A.RESULTS_CONFIRM),
        *(A.QUEUES_PAUSE, A.WORKERS_DISMISS, A.WORKERS_DRAIN),
        *(A.SETTINGS_WRITE, A.CACHES_WRITE, A.TOPICS_WRITE, A.SCHEDULES_WRITE, A.ACCESS_READ),
    ),
)

BUILT_IN: Final[Mapping[str, AccessRole]] = {
    role.name: role
    for role in (
        AccessRole("admin", (Rule("allow", ANY, ANY),)),
        AccessRole("operator", tuple(dict.fromkeys(_OPERATOR))),
        AccessRole("client", _CLIENT),
        AccessRole("worker", _WORKER),
        AccessRole("reader", _READER),
    )
}
