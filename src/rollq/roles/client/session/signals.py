"""The setup, the events and the instructions of the client's machine. Only records."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rollq.base.ids import TASK_INDEX_BYTES, ClientId, JobId, MessageId
from rollq.base.limits import (
    CLIENT_DELIVERED_MAX,
    CLIENT_PENDING_MAX,
    CLIENT_UNTAKEN_MAX,
    REDIAL_MAX_MS,
)
from rollq.roles.dialogue import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Received,
    SendToLeader,
    Started,
)
from rollq.wire import features as f
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
from rollq.wire.run_messages import SubmitRun
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

__all__ = [
    "FEATURES",
    "SPOKEN",
    "SUBMITS",
    "Abandoned",
    "ClientSetup",
    "ClientTick",
    "Connect",
    "Connected",
    "DeliverOutput",
    "DeliverPublications",
    "DeliverResponses",
    "DeliverResults",
    "Disconnect",
    "Disconnected",
    "Event",
    "Instruction",
    "MessagesReceived",
    "Reachable",
    "Received",
    "Request",
    "Requested",
    "ResultsTaken",
    "SendToLeader",
    "SessionState",
    "Started",
    "Stopped",
    "SubscribeChanged",
    "Unsubscribed",
    "WatchChanged",
    "id_of",
    "jobs_of",
    "request_bytes",
]

SPOKEN = (f.COMPACT, f.ACCEPTED, f.BATCH, f.OUTPUT, f.ALIVE, f.TASKS, f.RUNS, f.SUBJECTS)
# Features that every client offers.
FEATURES = (*SPOKEN, *f.PACKED)


@dataclass(slots=True, frozen=True)
class ClientSetup:
    """The settings of a client."""

    client_id: ClientId
    addresses: tuple[str, ...]
    desired_parallelism: int = 0
    features: tuple[str, ...] = ()
    redial_ms_max: int = REDIAL_MAX_MS  # the maximum delay between attempts to find the leader
    pending_max: int = CLIENT_PENDING_MAX  # requests without an answer
    taken_max: int = CLIENT_DELIVERED_MAX  # results that the application has, remembered
    untaken_max: int = CLIENT_UNTAKEN_MAX  # results that it has not taken, remembered


class SessionState(enum.IntEnum):
    """The state of a session."""

    DOWN = 0
    GREETING = 1
    OPEN = 2


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

# What a leader accepts jobs by, as it is sent.
SUBMITS: Final = (SubmitJob, SubmitRun, SubmitBulk, SubmitArray, CommitBatch)


def id_of(request: Request) -> MessageId:
    """The id that the response to a request carries."""
    if isinstance(request, SubmitJob):
        return request.job_id
    if isinstance(request, SubmitArray):
        return request.array_id
    return request.request_id


def jobs_of(request: Request) -> Sequence[bytes]:
    """The jobs of a request, by the id in their results; for an array, the id prefix of its
    tasks."""
    if type(request) is SubmitJob:
        return (request.job_id,)
    if type(request) is SubmitBulk:
        return [item.job_id for item in request.items]
    if type(request) is SubmitArray:
        return (request.array_id[:-TASK_INDEX_BYTES],)
    return ()


def request_bytes(request: Request) -> int:
    """The approximate size of a request on the wire."""
    if type(request) is SubmitJob:
        return len(request.body) + 128
    if type(request) is StageJobs:
        return sum(len(group.bodies) + len(group.job_ids) + 128 for group in request.groups)
    if type(request) is subjects.Publish:
        return len(request.payload) + 128
    return len(getattr(request, "body", b"")) + 128


# --- events


@dataclass(slots=True)
class Requested:
    """The requests of one loop turn. Their ids are set and unique."""

    requests: Sequence[Request]


@dataclass(slots=True)
class Abandoned:
    """The application abandons a request. One that was sent may still take effect."""

    request_id: MessageId


@dataclass(slots=True)
class Stopped:
    """The application stops the client. Its requests and watches are over; it may start again."""


@dataclass(slots=True)
class MessagesReceived:
    """The messages of one read of the open connection, in order."""

    messages: Sequence[MemberMessage]


@dataclass(slots=True)
class ResultsTaken:
    """The application has taken the results of these jobs."""

    job_ids: Sequence[JobId]


@dataclass(slots=True)
class WatchChanged:
    """The application starts, moves or (`on` false) ends a watch of output. A new leader gets the
    last request."""

    request: WatchOutput


@dataclass(slots=True)
class SubscribeChanged:
    """A subscription is requested in this form from the next leader, under the same id."""

    request: subjects.Subscribe


@dataclass(slots=True)
class Unsubscribed:
    """The application ends a subscription, by the id of its request."""

    request_id: MessageId


@dataclass(slots=True)
class Reachable:
    """This member takes connections again, while a `Connect` is delayed."""

    address: str


@dataclass(slots=True)
class ClientTick:
    """Sent every LOOK_MS."""

    now_ms: int  # monotonic
    is_awaiting: bool = True  # results or output are expected, so silence must be detected
    asked_bytes: int = 0  # the size of the requests without a response


Event: TypeAlias = (
    Started
    | Connected
    | Disconnected
    | Reachable
    | Received
    | MessagesReceived
    | Requested
    | Abandoned
    | Stopped
    | ResultsTaken
    | WatchChanged
    | Unsubscribed
    | SubscribeChanged
    | ClientTick
)


# --- instructions


@dataclass(slots=True)
class DeliverResults:
    """Deliver results to the application; the shell responds with `ResultsTaken`."""

    results: list[Result]


@dataclass(slots=True)
class DeliverResponses:
    """Deliver responses to the application, by request id."""

    answers: list[Accepted | Answer | Error]


@dataclass(slots=True)
class DeliverOutput:
    """Deliver output to the application, or the error that ends the watch. After a fail-over some
    output is repeated."""

    request_id: MessageId
    output: OutputChunk | Error


@dataclass(slots=True)
class DeliverPublications:
    """Deliver messages of subscriptions to the application, counts of missed ones, and (by request
    id) errors that end a subscription."""

    messages: list[subjects.Deliver | subjects.Missed | Error]


Instruction: TypeAlias = (
    DeliverPublications
    | SendToLeader
    | DeliverResults
    | DeliverResponses
    | DeliverOutput
    | Connect
    | Disconnect
)
