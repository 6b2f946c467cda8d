"""What a message asks for, in the terms of an access check: a principal, an action on resources.

Names only. Which message asks for what is in the tables of messages (`wire.registry`), of admin
verbs and of views; who may do what is decided where a message comes in.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class LinkRole(enum.StrEnum):
    """What a link is for, as its first message says."""

    CLIENT = "client"
    WORKER = "worker"
    MEMBER = "member"
    BLOBS = "blobs"
    READER = "reader"


class Principal(NamedTuple):
    """Who speaks on a link. Account and method are what the link has proved; role and name are as
    the peer says of itself.

    Attributes:
        role: What the link is for.
        name: A client id, the name or id of a worker, the id of a member; empty: it has none.
        address: Where it connected from.
        account: Who it is; `anonymous` if it proves nothing where that is allowed, empty where
            nobody is asked.
        method: How that was proved: `certificate`, or the method of its login; empty: not at all.
        certificate_role: What its certificate says that it is, if that is how; the built-in role
            of this name counts where the group knows no such account.
    """

    role: LinkRole
    name: str
    address: str
    account: str = ""
    method: str = ""
    certificate_role: str = ""


class Action(enum.StrEnum):
    """What a principal wants to do. A value is a promise: access rules are written with it."""

    # sessions
    CLIENT_CONNECT = "client.connect"
    WORKER_CONNECT = "worker.connect"
    READER_CONNECT = "reader.connect"
    BLOBS_CONNECT = "blobs.connect"
    SESSION_PING = "session.ping"
    SESSION_LOGIN = "session.login"  # before there is an account: no rule is asked
    ANSWER = "answer"  # the answer to a request: its sender takes it
    # jobs
    JOBS_SUBMIT = "jobs.submit"
    JOBS_CANCEL = "jobs.cancel"
    JOBS_RUN = "jobs.run"  # what a worker says of its attempts and of itself
    JOBS_ASSIGN = "jobs.assign"  # what a leader tells a worker
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
    BLOBS_TRANSFER = "blobs.transfer"  # goes on with a transfer that was admitted
    CACHES_READ = "caches.read"
    CACHES_WRITE = "caches.write"
    # subjects
    SUBJECTS_PUBLISH = "subjects.publish"
    SUBJECTS_SUBSCRIBE = "subjects.subscribe"
    SUBJECTS_HOLD = "subjects.hold"  # goes on with a subscription that was admitted, or ends it
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
    CLUSTER_BACKUP = "cluster.backup"  # all of the state, of all clients
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"  # whoever has it can give themselves everything
    # a request whose action is in another table: that of its verb or view
    ADMIN = "admin"
    QUERY = "query"
    # between members
    GROUP_JOIN = "group.join"
    GROUP_REPLICATE = "group.replicate"


class ResourceKind(enum.StrEnum):
    """What an action is on."""

    GRID = "grid"  # all of it: nothing smaller is named
    GROUP = "group"
    SESSION = "session"  # that on which the message came
    CLIENT = "client"
    WORKER = "worker"
    MEMBER = "member"
    QUEUE = "queue"  # by a subject or a name
    PATTERN = "pattern"  # of queues
    SUBJECT = "subject"  # to publish to, or a pattern of such
    TOPIC = "topic"
    SCHEDULE = "schedule"
    EXEC = "exec"
    JOB = "job"  # a job or an array, by its id
    BATCH = "batch"
    SECRET = "secret"  # by its name in the vaults of workers
    BLOB = "blob"
    CACHE = "cache"
    READER = "reader"  # of the history, by the name of its hold
    TABLE = "table"
    ACCOUNT = "account"
    ROLE = "role"
    VERB = "verb"
    VIEW = "view"


class Resource(NamedTuple):
    """What of a message names a resource.

    Attributes:
        kind: What it is.
        field: Where the message names it: a field, or a path of fields through structs and tuples
            of structs (`groups.queue`). Empty: the message names none, and all of the kind is
            meant.
        action: What is done with it, if that is not the action of the row. Such a resource is asked
            for only if the message names one.
    """

    kind: ResourceKind
    field: str = ""
    action: Action | None = None

    def names_in(self, message: object) -> tuple[Any, ...]:
        """The names that a message gives: subjects, ids, digests. Empty: all of the kind, or of a
        resource with an action of its own none."""
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
