"""Queues and their subjects.

A client may name a queue in several ways; all of them come to one canonical queue name. A worker
asks for queues by patterns over `job.assign.<queue>`. A queue name may have several tokens, which
is how one worker is addressed: the queue `a.worker-1` has the subject `job.assign.a.worker-1`.

| what a client says | queue     |   | what a worker says | its pattern      |
|--------------------|-----------|---|--------------------|------------------|
| `job.submit.X`     | `x`       |   | nothing, blanks    | `job.assign.>`   |
| `job.assign.X`     | `x`       |   | `X`, `job.submit.X`| `job.assign.x`   |
| `X`                | `x`       |   | `job.assign.X.*`   | `job.assign.x.*` |
| nothing            | `default` |   | `>`, `job.>`       | as it is         |

rollq's own clients say something always: who names no queue means that of the program
(`subject_for`), so that there is a queue a program and a worker may ask for one of them.
"""

from __future__ import annotations

import re
from typing import Final

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.limits import QUEUE_NAME_BYTES_MAX, SUBJECT_TOKENS_MAX
from rollq.subjects.grammar import ANY_REST, SEPARATOR, Tokens, parse_pattern, parse_subject
from rollq.subjects.overlap import overlaps

DEFAULT_QUEUE: Final = "default"
ASSIGN_PREFIX: Final = ("job", "assign")
SUBMIT_PREFIX: Final = ("job", "submit")
EVERY_QUEUE: Final = "job.assign.>"
SOME_QUEUE: Final = "job.assign.*.>"  # the subject of any one queue: it has a name
# Room for the prefix and for the name of one worker behind the queue's.
QUEUE_TOKENS_MAX: Final = SUBJECT_TOKENS_MAX - 3
_NO_TOKEN: Final = re.compile(r"[^\w-]")


def queue_of(subject: str) -> str:
    """The queue that a submit subject names; naming it again by the answer changes nothing.

    Raises:
        RemoteError: BAD_SUBJECT, if the subject is not valid or too long for a queue name.
    """
    tokens = _without_prefix(parse_subject(subject))
    name = SEPARATOR.join(tokens)
    if len(tokens) > QUEUE_TOKENS_MAX or len(name.encode()) > QUEUE_NAME_BYTES_MAX:
        raise RemoteError(
            ErrorCode.BAD_SUBJECT,
            f"queue name of {len(tokens)} tokens and {len(name.encode())} bytes",
            f"at most {QUEUE_TOKENS_MAX} tokens and {QUEUE_NAME_BYTES_MAX} bytes",
        )
    return name or DEFAULT_QUEUE


def subject_for(exec_name: str) -> str:
    """The submit subject of a job that names no queue: one queue of a single token per program.
    Characters that no token may have, and the dot, become `_`: `render.py` and `render_py` share a
    queue."""
    return f"job.submit.{_NO_TOKEN.sub('_', exec_name)}"


def assign_subject(queue: str) -> str:
    """The subject on which workers are matched for the jobs of a queue (as `queue_of` names it)."""
    return f"job.assign.{queue}"


def check_typed(text: str) -> None:
    """Refuse a subject or pattern with an empty token. Peers may send one, which is ignored as in
    the legacy protocol; in the input of a person it is an error.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    if text.strip() and "" in text.split(SEPARATOR):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{text[:64]!r} has an empty part between, before or after its dots",
            "write render.fast, or render.* for any one part and render.> for all that follow",
        )


def worker_pattern(text: str) -> str:
    """The canonical pattern that a worker means by what it says in its Hello.

    A pattern that can match the subject of a queue as it stands is taken at its word, as in
    the legacy protocol; anything else is the name of a group, wildcards allowed.

    Raises:
        RemoteError: BAD_SUBJECT, if the pattern is not valid.
    """
    if not text.strip():
        return EVERY_QUEUE
    tokens = parse_pattern(text)
    pattern = SEPARATOR.join(tokens)
    if tokens[:2] == ASSIGN_PREFIX or overlaps(pattern, SOME_QUEUE):
        return pattern
    group = _without_prefix(tokens)
    if not group:
        return EVERY_QUEUE
    return SEPARATOR.join(parse_pattern(assign_subject(SEPARATOR.join(group))))


def queue_pattern(text: str) -> str:
    """The canonical pattern of names of queues that somebody means: `job.assign.render.*` and
    `Render.*` are `render.*`; nothing is all of them.

    Raises:
        RemoteError: BAD_SUBJECT, if the pattern is not valid.
    """
    return SEPARATOR.join(_without_prefix(parse_pattern(text))) or ANY_REST


def _without_prefix(tokens: Tokens) -> Tokens:
    # Repeated, so that no queue name means another queue when parsed again.
    while tokens[:2] in (SUBMIT_PREFIX, ASSIGN_PREFIX):
        tokens = tokens[2:]
    return tokens
