"""Subjects that are not for everybody: inboxes, and what is said of jobs.

`_inbox.<token>.<n>` is where the answers to a session's requests go: only the session that drew
the token may subscribe, by `_inbox.<token>.>`, and no wildcard of others reaches there.
`job.event.<job id>` is what happens to a job: only its worker and the leader publish there.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import RemoteError
from rollq.base.ids import JobId, guid_from_text, guid_to_text
from rollq.subjects.grammar import ANY_ONE, ANY_REST, Tokens

INBOX: Final = "_inbox"
ALL_INBOXES: Final = "_inbox.>"
JOB_EVENT: Final = ("job", "event")
JOB_EVENTS: Final = "job.event.>"


def is_inbox(tokens: Tokens) -> bool:
    """Whether a subject or pattern is of inboxes."""
    return tokens[:1] == (INBOX,)


def inbox_token(tokens: Tokens) -> str:
    """The token of the inbox that a pattern subscribes to as a whole; empty: it is no such."""
    if len(tokens) != 3 or tokens[0] != INBOX or tokens[2] != ANY_REST:
        return ""
    return "" if tokens[1] == ANY_ONE else tokens[1]


def is_job_event(tokens: Tokens) -> bool:
    """Whether a subject is one of those on which the turns of a job are told."""
    return tokens[:2] == JOB_EVENT


def job_of_event(tokens: Tokens) -> JobId | None:
    """The one job that a subject or pattern is about; None: none, or many."""
    if len(tokens) != 3 or tokens[:2] != JOB_EVENT or ANY_ONE in tokens or ANY_REST in tokens:
        return None
    try:
        return guid_from_text(tokens[2])
    except RemoteError:
        return None


def job_event_subject(job_id: JobId) -> str:
    """Where the turns of a job are told."""
    return f"job.event.{guid_to_text(job_id)}"
