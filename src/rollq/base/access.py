"""Terms of access checks: the principal of a link, and the action and resources of a message.

Names only. The action of each message is in the tables of messages (`wire.registry`), of admin
verbs and of views; the check is made where a message is received.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class LinkRole(enum.StrEnum):
    """The role of a link, as its first message declares it."""

    CLIENT = "client"
    WORKER = "worker"
    MEMBER = "member"
    BLOBS = "blobs"
    READER = "reader"


class Principal(NamedTuple):
    """The peer of a link. Account and method are authenticated; role and name are claims of the
    peer.

    Attributes:
        role: The role of the link.
        name: A client id, the name or id of a worker, the id of a member; empty: it has none.
        address: The address it connected from.
        account: Its account; `anonymous` without proof where that is allowed, empty where
            authentication is off.
        method: The proof of the account: `certificate`, or the method of its login; empty: none.
        certificate_role: The role in its certificate, if that is the method; the built-in role of
            this name applies if the group has no such account.
    """

    role: LinkRole
    name: str
    address: str
    account: str = ""
    method: str = ""
    certificate_role: str = ""


class Action(enum.StrEnum):
    """An action of a principal. Values are stable: access rules contain them."""

    # sessions
    CLIENT_CONNECT = "client.connect"
    WORKER_CONNECT = "worker.connect"
    READER_CONNECT = "reader.connect"
    BLOBS_CONNECT = "blobs.connect"
    SESSION_PING = "session.ping"
    SESSION_LOGIN = "session.login"  # before there is an account: no rule applies
    ANSWER = "answer"  # the answer to a request: always allowed
    # jobs
    JOBS_SUBMIT = "jobs.submit"
    JOBS_CANCEL = "jobs.cancel"
    JOBS_RUN = "jobs.run"  # a worker's messages about its attempts and itself
    JOBS_ASSIGN = "jobs.assign"  # a leader's messages to a worker
    JOBS_READ = "jobs.read"
    JOBS_REDRIVE = "jobs.redrive"
    JOBS_PURGE = "jobs.purge"
    SECRETS_USE = "secrets.use"  # by a job that is submitted
    RESULTS_READ = "results.read"
    RESULTS_CONFIRM = "results.confirm"
    OUTPUT_READ = "output.read"
    # files
    BLOBS_READ = "blobs.read"
    BLOBS_WRITE = "blobs.write"
    BLOBS_TRANSFER = "blobs.transfer"  # continues a transfer that was admitted
    CACHES_READ = "caches.read"
    CACHES_WRITE = "caches.write"
    # subjects
    SUBJECTS_PUBLISH = "subjects.publish"
    SUBJECTS_SUBSCRIBE = "subjects.subscribe"
    SUBJECTS_HOLD = "subjects.hold"  # continues or ends a subscription that was admitted
    TOPICS_READ = "topics.read"
    TOPICS_WRITE = "topics.write"
    # schedules
    SCHEDULES_READ = "schedules.read"
    SCHEDULES_WRITE = "schedules.write"
    # the grid
    QUEUES_READ = "queues.read"
    QUEUES_PAUSE = "queues.pause"
    CLIENTS_READ = "clients.read"
    WORKERS_READ = "workers.read"
    WORKERS_DISMISS = "workers.dismiss"
    WORKERS_DRAIN = "workers.drain"
    SETTINGS_READ = "settings.read"
    SETTINGS_WRITE = "settings.write"
    HISTORY_READ = "history.read"
    HISTORY_HOLD = "history.hold"
    TABLES_READ = "tables.read"
    CLUSTER_READ = "cluster.read"
    CLUSTER_CHANGE = "cluster.change"
    CLUSTER_BACKUP = "cluster.backup"  # the complete state, of all clients
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"  # implies every right
    # a request whose action is that of its verb or view
    ADMIN = "admin"
    QUERY = "query"
    # between members
    GROUP_JOIN = "group.join"
    GROUP_REPLICATE = "group.replicate"


class ResourceKind(enum.StrEnum):
    """The kind of a resource."""

    GRID = "grid"  # the whole grid
    GROUP = "group"
    SESSION = "session"  # the session of the message
    CLIENT = "client"
    WORKER = "worker"
    MEMBER = "member"
    QUEUE = "queue"  # by a subject or a name
    PATTERN = "pattern"  # of queues
    SUBJECT = "subject"  # a subject to publish to, or a pattern
    TOPIC = "topic"
    SCHEDULE = "schedule"
    EXEC = "exec"
    JOB = "job"  # a job or an array, by its id
    BATCH = "batch"
    SECRET = "secret"  # by its name in workers' vaults
    BLOB = "blob"
    CACHE = "cache"
    READER = "reader"  # a history reader, by the name of its hold
    TABLE = "table"
    ACCOUNT = "account"
    ROLE = "role"
    VERB = "verb"
    VIEW = "view"


class Resource(NamedTuple):
    """The field of a message that names a resource.

    Attributes:
        kind: The kind of the resource.
        field: Where the message names it: a field, or a path of fields through structs and tuples
            of structs (`groups.queue`). Empty: the message names none, and all of the kind is
            meant.
        action: Its action, if not that of the row. Such a resource is checked only if the message
            names one.
    """

    kind: ResourceKind
    field: str = ""
    action: Action | None = None

    def names_in(self, message: object) -> tuple[Any, ...]:
        """The names in a message: subjects, ids, digests. Empty: all of the kind, or none for a
        resource with an action of its own."""
        values: tuple[Any, ...] = (message,) if self.field else ()
        for name in self.field.split(".") if self.field else ():
            values = _flat(tuple(getattr(value, name) for value in values if value is not None))
        return values


def _flat(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not any(isinstance(value, tuple) for value in values):
        return values
    flat: list[Any] = []
    for value in values:
        flat.extend(_flat(value) if isinstance(value, tuple) else (value,))
    return tuple(flat)
