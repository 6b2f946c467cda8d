"""Reserved subjects: inboxes, and job events.

`_inbox.<token>.<n>` receives the responses to a session's requests: only the session that drew the
token may subscribe, by `_inbox.<token>.>`, and no other wildcard matches it. `job.event.<job id>`
has the events of a job: only its worker and the leader publish there.
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
    """Whether a subject or pattern is about inboxes."""
    return tokens[:1] == (INBOX,)


def inbox_token(tokens: Tokens) -> str:
    """The token of the inbox that a pattern covers; empty: it covers none."""
    if len(tokens) != 3 or tokens[0] != INBOX or tokens[2] != ANY_REST:
        return ""
    return "" if tokens[1] == ANY_ONE else tokens[1]


def is_job_event(tokens: Tokens) -> bool:
    """Whether a subject is that of job events."""
    return tokens[:2] == JOB_EVENT


def job_of_event(tokens: Tokens) -> JobId | None:
    """The job of a subject or pattern of job events; None: none, or many."""
    if len(tokens) != 3 or tokens[:2] != JOB_EVENT or ANY_ONE in tokens or ANY_REST in tokens:
        return None
    try:
        return guid_from_text(tokens[2])
    except RemoteError:
        return None


def job_event_subject(job_id: JobId) -> str:
    """The subject of the events of a job."""
    return f"job.event.{guid_to_text(job_id)}"
