"""What the client's machine hears (events) and asks of its shell (instructions). Only records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rollq.base.ids import JobId, MessageId
from rollq.roles.dialogue import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Received,
    Send,
    Started,
    Tick,
)
from rollq.wire.messages import (
    Accepted,
    Admin,
    Answer,
    Cancel,
    Error,
    Query,
    Result,
    SubmitArray,
    SubmitBulk,
    SubmitJob,
)

__all__ = [
    "Asked",
    "Connect",
    "Connected",
    "Deliver",
    "Disconnect",
    "Disconnected",
    "Event",
    "GivenUp",
    "Instruction",
    "Received",
    "Request",
    "Send",
    "Started",
    "Taken",
    "Tell",
    "Tick",
]

Request: TypeAlias = SubmitJob | SubmitBulk | SubmitArray | Cancel | Query | Admin


# --- events


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


Event: TypeAlias = Started | Connected | Disconnected | Received | Asked | GivenUp | Taken | Tick


# --- instructions


@dataclass(slots=True)
class Deliver:
    """Hand a result to the application; answer with `Taken`."""

    result: Result


@dataclass(slots=True)
class Tell:
    """Tell the application how its request went."""

    request_id: MessageId
    answer: Accepted | Answer | Error


Instruction: TypeAlias = Send | Deliver | Tell | Connect | Disconnect
