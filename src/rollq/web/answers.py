"""The response types, for the OpenAPI document. Nested documents have the form that the command
line prints."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
Document: TypeAlias = dict[str, Any]


class Me(msgspec.Struct, frozen=True):
    """The user and the user's rights."""

    account: str  # empty without logins
    actions: list[str]  # allowed on at least one resource
    auth: str  # require or off
    group: str
    version: str
    unsafe: bool


class Overview(msgspec.Struct, frozen=True):
    """The state of the group. Fields that only the leader knows are null without a leader."""

    counts: dict[str, int]
    rates: dict[str, float]  # per second
    history: list[dict[str, float]]  # of the last two minutes
    oldest_wait_ms: int
    workers: dict[str, int]
    member: str  # the member whose state this is
    applied: int
    cluster: Document | None
    alarms: list[Document]
    unserved: list[Document]


class JobList(msgspec.Struct, frozen=True):
    """Jobs."""

    jobs: list[Document]
    after: str | None


class ArrayList(msgspec.Struct, frozen=True):
    """Arrays."""

    arrays: list[Document]
    after: str | None


class BatchList(msgspec.Struct, frozen=True):
    """Batches."""

    batches: list[Document]
    after: str | None


class QueueList(msgspec.Struct, frozen=True):
    """Queues."""

    queues: list[Document]
    after: str | None


class WorkerList(msgspec.Struct, frozen=True):
    """Workers."""

    workers: list[Document]
    after: str | None


class MemberDisk(msgspec.Struct, frozen=True):
    """What the state directory of a member takes, and its file system."""

    used_bytes: int  # the sum of the next five
    log_bytes: int
    snapshot_bytes: int
    history_bytes: int
    blob_bytes: int  # 0 with a shared store
    other_bytes: int
    free_bytes: int
    total_bytes: int


class ClusterMember(msgspec.Struct, frozen=True):
    """A member. What is not known of it is null, as is the lag of one that is not active."""

    id: str
    address: str
    role: str  # leader, follower or learner
    match: int | None
    lag: int | None
    active: bool | None
    state: str
    clock_skew_ms: int | None
    disk: MemberDisk | None


class Cluster(msgspec.Struct, frozen=True):
    """The group."""

    leader: str
    leader_id: str
    term: int
    commit: int
    applied: int
    last_index: int
    log_hash: str
    state_hash: str
    members: list[ClusterMember]
    alarms: list[Document]


class TopicList(msgspec.Struct, frozen=True):
    """Topics."""

    topics: list[Document]
    after: str | None


class FileList(msgspec.Struct, frozen=True):
    """Caches."""

    files: list[Document]
    after: str | None


class Timeline(msgspec.Struct, frozen=True):
    """The events of a job."""

    events: list[Document]
    whole: bool  # whether they begin with its submission


class Explained(msgspec.Struct, frozen=True):
    """Why a job waits or failed."""

    id: str
    state: str
    code: str
    why: str
    todo: list[str]
    since: str
    since_ms: int
    attempts: list[Document] = []
    groups: list[Document] = []


class JobFiles(msgspec.Struct, frozen=True):
    """Files of a job."""

    inputs: list[Document]
    outputs: list[Document]


class FailureList(msgspec.Struct, frozen=True):
    """Failed and dead jobs, grouped by cause."""

    groups: list[Document]
    whole: bool  # whether all jobs were examined


class Acts(msgspec.Struct, frozen=True):
    """Changes and refused requests."""

    acts: list[Document]
    after: str | None


class Tables(msgspec.Struct, frozen=True):
    """Tables of the history."""

    tables: list[dict[str, str]]
    readable: bool
    todo: list[str]


class Table(msgspec.Struct, frozen=True):
    """Rows of a table."""

    table: str
    columns: list[str]
    rows: list[list[Any]]
    after: str | None
