"""Webhooks: a function that posts the outcome of jobs to a URL, as a job that waits for them.

A worker posts only if it is started with `--app rollq.webhook`: every client that may submit to it
can make it post to any host that it can reach, or only to those in its variable WEBHOOK_HOSTS
(`hooks.example.com,*.example.org`, with `--pass-env WEBHOOK_HOSTS`). The document is composed here,
and only the status of the response is returned, so that clients cannot read internal pages through
it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final

import msgspec

from rollq.base.outcomes import CANCELLED, DEAD, FAILED, OK
from rollq.base.parents import Parent
from rollq.base.webhooks import (
    KEY_VARIABLE,
    SECRET_URL,
    URL_VARIABLE,
    WEBHOOK_EXEC,
    Target,
    target_of,
)
from rollq.tasks import Context, context, task

TIMEOUT_S: Final = 10.0  # of each step: connect, send, receive
BODY_BYTES_MAX: Final = 64 * 1024
JOBS_LISTED_MAX: Final = 100
RETRIED_STATUSES: Final = (408, 425, 429)  # retried, like all 5xx
# Read on import, before a job can set the variable.
HOSTS: Final = tuple(
    one.strip().lower() for one in os.environ.get("WEBHOOK_HOSTS", "").split(",") if one.strip()
)


class NotNowError(OSError):
    """The receiver refused it with a temporary error."""


class NeverError(ValueError):
    """The receiver refused it with a permanent error."""


@task(WEBHOOK_EXEC, autoretry_for=(OSError, HTTPException))
def post(url: str, name: str = "") -> str:
    """Post the outcome of the jobs that this job waited for. Returns when the receiver responds
    with 2xx; on a temporary error the job is retried.

    Args:
        url: The URL; `secret:NAME`: a secret of the worker's vault that has it.
        name: Part of the document, unchanged.

    Raises:
        NeverError: it cannot be posted, or is refused permanently.
        OSError: a temporary error.
        HTTPException: the response is not HTTP.
    """
    target = target_of(os.environ.get(URL_VARIABLE, "") if url.startswith(SECRET_URL) else url)
    if target is None:
        raise NeverError("not a URL that is posted to: http(s)://HOST[:PORT]/PATH")
    if HOSTS and not any(fnmatchcase(target.host.lower(), one) for one in HOSTS):
        raise NeverError(f"this worker does not post to {target.host}: see its WEBHOOK_HOSTS")
    job = context()
    body = body_of(document_of(name, job))
    status = _send(target, body, headers_of(job, body, os.environ.get(KEY_VARIABLE, "")))
    if status in RETRIED_STATUSES or status >= 500:
        raise NotNowError(f"{target.host} answered {status}")
    if not 200 <= status < 300:
        raise NeverError(f"{target.host} answered {status}")
    return f"{target.host} answered {status}"


def document_of(name: str, job: Context) -> dict[str, Any]:
    """The document to post.

    Raises:
        NeverError: the job has no parents.
    """
    parents = job.parents
    if not parents:
        raise NeverError("this job has no parent to report: submit it with --after ID:ended")
    return {
        "id": job.job_id,
        "attempt": job.attempt,
        "name": name,
        "state": state_of_all(parents),
        "counts": counts_of(parents),
        "job_count": len(parents),
        "jobs": sorted(parents, key=lambda one: one.state == OK)[:JOBS_LISTED_MAX],
    }


def state_of_all(parents: Sequence[Parent]) -> str:
    """The combined state: of one job its own; of several the worst."""
    states = dict.fromkeys(one.state for one in parents)
    if len(parents) > 1 and not states.keys().isdisjoint((FAILED, DEAD)):
        return FAILED
    if CANCELLED in states:
        return CANCELLED
    return next((one for one in states if one != OK), OK)


def counts_of(parents: Sequence[Parent]) -> dict[str, int]:
    """How many are in each state; an array counts as its tasks."""
    counts: dict[str, int] = {}
    for one in parents:
        for state, count in (one.tasks or {one.state: 1}).items():
            if count:
                counts[state] = counts.get(state, 0) + count
    return counts


def body_of(document: dict[str, Any]) -> bytes:
    """Encode as JSON; lists fewer jobs if it is too large."""
    while len(body := msgspec.json.encode(document)) > BODY_BYTES_MAX and document["jobs"]:
        document = document | {"jobs": document["jobs"][: len(document["jobs"]) // 2]}
    return body


def headers_of(job: Context, body: bytes, key: str) -> dict[str, str]:
    """The headers. All attempts of a job have one idempotency key; `key` signs the body."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "rollq-webhook",
        "Idempotency-Key": job.job_id,
    }
    if key:
        made = hmac.new(key.encode("utf-8", "surrogateescape"), body, hashlib.sha256)
        headers["X-Rollq-Signature"] = f"sha256={made.hexdigest()}"
    return headers


def _send(target: Target, body: bytes, headers: dict[str, str]) -> int:
    """Send the request; returns the status of the response, whose body is not read."""
    kind = HTTPSConnection if target.is_tls else HTTPConnection
    connection = kind(target.host, target.port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", target.path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
