"""What the client's machine hears (events) and asks of its shell (instructions). Only records.

Nobody changes a record after it was made. They are not frozen, because that makes each three
times as dear to make, and every job takes half a dozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rollq.base.ids import JobId, MessageId
from rollq.wire.messages import (
    Accepted,
    Admin,
    Answer,
    Cancel,
    Error,
    Query,
    Result,
    SessionMessage,
    SubmitArray,
    SubmitBulk,
    SubmitJob,
)

Request: TypeAlias = SubmitJob | SubmitBulk | SubmitArray | Cancel | Query | Admin


# --- events


@dataclass(slots=True)
class Started:
    """The process is up and wants a leader."""


@dataclass(slots=True)
class Connected:
    """The connection that the last `Connect` asked for is open."""


@dataclass(slots=True)
class Disconnected:
    """That connection broke, or could not be made. Never told after a `Disconnect`."""


@dataclass(slots=True)
class Received:
    """A message came on the open connection."""

    message: SessionMessage


@dataclass(slots=True)
class Asked:
    """The application asks for something; its ids are drawn already and must be new."""

    request: Request


@dataclass(slots=True)
class GivenUp:
    """The application waits no longer for an answer. What was sent may still come about."""

    request_id: MessageId


@dataclass(slots=True)
class Taken:
    """The application has the result that `Deliver` gave it."""

    job_id: JobId


@dataclass(slots=True)
class Tick:
    """Time passes. `now_ms` is monotonic."""

    now_ms: int


Event: TypeAlias = Started | Connected | Disconnected | Received | Asked | GivenUp | Taken | Tick


# --- instructions


@dataclass(slots=True)
class Send:
    """Send this on the open connection."""

    message: SessionMessage


@dataclass(slots=True)
class Deliver:
    """Hand a result to the application; answer with `Taken`."""

    result: Result


@dataclass(slots=True)
class Tell:
    """Tell the application how its request went."""

    request_id: MessageId
    answer: Accepted | Answer | Error


@dataclass(slots=True)
class Connect:
    """Dial this member after so long; answer with `Connected` or `Disconnected`."""

    address: str
    delay_ms: int


@dataclass(slots=True)
class Disconnect:
    """Close the connection; say nothing more of it."""


Instruction: TypeAlias = Send | Deliver | Tell | Connect | Disconnect
