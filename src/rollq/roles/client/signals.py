"""What the client's machine hears (events) and asks of its shell (instructions). Only records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rollq.base.ids import TASK_INDEX_BYTES, JobId, MessageId
from rollq.roles.dialogue import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Received,
    Send,
    Started,
)
from rollq.wire import subject_messages as subjects
from rollq.wire.messages import (
    Accepted,
    Admin,
    Answer,
    Cancel,
    Error,
    MemberMessage,
    Query,
    Result,
    SubmitArray,
    SubmitBulk,
    SubmitJob,
)
from rollq.wire.output_messages import OutputChunk, WatchOutput
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

__all__ = [
    "Asked",
    "ClientTick",
    "Connect",
    "Connected",
    "Deliver",
    "Disconnect",
    "Disconnected",
    "Event",
    "GivenUp",
    "Heard",
    "Instruction",
    "Publications",
    "Reachable",
    "Received",
    "Request",
    "Resumed",
    "Send",
    "Show",
    "Started",
    "Taken",
    "Tell",
    "Unsubscribed",
    "Watched",
    "id_of",
    "jobs_of",
]

Request: TypeAlias = (
    SubmitJob
    | SubmitBulk
    | SubmitArray
    | Cancel
    | Query
    | Admin
    | StageJobs
    | CommitBatch
    | DropBatch
    | subjects.Publish
    | subjects.Subscribe
)


def id_of(request: Request) -> MessageId:
    """The id that the answer to a request carries."""
    if isinstance(request, SubmitJob):
        return request.job_id
    if isinstance(request, SubmitArray):
        return request.array_id
    return request.request_id


def jobs_of(request: Request) -> Sequence[bytes]:
    """The jobs that a request asks for, as results name them; of an array what its tasks share."""
    if type(request) is SubmitJob:
        return (request.job_id,)
    if type(request) is SubmitBulk:
        return [item.job_id for item in request.items]
    if type(request) is SubmitArray:
        return (request.array_id[:-TASK_INDEX_BYTES],)
    return ()


# --- events


@dataclass(slots=True)
class Asked:
    """The application asks for this in one turn; ids are drawn already and must be new."""

    requests: Sequence[Request]


@dataclass(slots=True)
class GivenUp:
    """The application waits no longer for an answer. What was sent may still come about."""

    request_id: MessageId


@dataclass(slots=True)
class Heard:
    """All that one read brought on the open connection, in this order."""

    messages: Sequence[MemberMessage]


@dataclass(slots=True)
class Taken:
    """The application has results of these jobs that `Deliver` gave it."""

    job_ids: Sequence[JobId]


@dataclass(slots=True)
class Watched:
    """The application watches the output of a job, is further now, or (`on` false) watches no
    longer. Every leader is asked for what was asked last."""

    request: WatchOutput


@dataclass(slots=True)
class Resumed:
    """A subscription is to be asked for in this way from now on, by the same id."""

    request: subjects.Subscribe


@dataclass(slots=True)
class Unsubscribed:
    """The application wants no more of a subscription, by the id under which it asked for it."""

    request_id: MessageId


@dataclass(slots=True)
class Reachable:
    """While a `Connect` waits: this member takes connections again."""

    address: str


@dataclass(slots=True)
class ClientTick:
    """Time passes; told every LOOK_MS."""

    now_ms: int  # monotonic
    is_awaiting: bool = True  # results or output are still to come, so silence matters
    asked_bytes: int = 0  # the size of the requests that wait for answers


Event: TypeAlias = (
    Started
    | Connected
    | Disconnected
    | Reachable
    | Received
    | Heard
    | Asked
    | GivenUp
    | Taken
    | Watched
    | Unsubscribed
    | Resumed
    | ClientTick
)


# --- instructions


@dataclass(slots=True)
class Deliver:
    """Hand results to the application; answer with `Taken`."""

    results: list[Result]


@dataclass(slots=True)
class Tell:
    """Tell the application how its requests went: each answer names one."""

    answers: list[Accepted | Answer | Error]


@dataclass(slots=True)
class Show:
    """Hand output to the application, or the reason why there is none. After a leader was lost
    some of it comes again."""

    request_id: MessageId
    output: OutputChunk | Error


@dataclass(slots=True)
class Publications:
    """Hand to the application what was published, how much it missed, or (under the id of a
    subscription) why that has ended."""

    messages: list[subjects.Deliver | subjects.Missed | Error]


Instruction: TypeAlias = Publications | Send | Deliver | Tell | Show | Connect | Disconnect
