"""The forms of answers, for the OpenAPI document. What a document holds in turn is as the command
line prints it."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"
Document: TypeAlias = dict[str, Any]


class Me(msgspec.Struct, frozen=True):
    """Who asks."""

    account: str  # empty: nobody is asked
    actions: list[str]  # that are allowed on something at least
    auth: str  # require or off
    group: str
    version: str
    unsafe: bool


class Overview(msgspec.Struct, frozen=True):
    """How the group stands. What the leader alone knows is null while nobody leads."""

    counts: dict[str, int]
    rates: dict[str, float]  # a second
    history: list[dict[str, float]]  # of the last two minutes
    oldest_wait_ms: int
    workers: dict[str, int]
    member: str  # that was read from
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


class TopicList(msgspec.Struct, frozen=True):
    """Topics."""

    topics: list[Document]
    after: str | None


class FileList(msgspec.Struct, frozen=True):
    """Caches."""

    files: list[Document]
    after: str | None


class Timeline(msgspec.Struct, frozen=True):
    """What became of a job."""

    events: list[Document]
    whole: bool  # from its beginning on


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


class Files(msgspec.Struct, frozen=True):
    """Files of a job."""

    inputs: list[Document]
    outputs: list[Document]


class Groups(msgspec.Struct, frozen=True):
    """Jobs that ended badly in the same way."""

    groups: list[Document]
    whole: bool  # all were looked at


class Acts(msgspec.Struct, frozen=True):
    """What was changed and refused."""

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
