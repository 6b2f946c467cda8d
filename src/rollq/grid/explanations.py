"""Explanations as members tell them: why a job or array waits, or how it came to its end. They are
made by `policy`, which knows what the leader knows."""

from __future__ import annotations

import msgspec

from rollq.base.ids import JobId


class AttemptTold(msgspec.Struct, frozen=True):
    """An attempt that gave no result, in words."""

    attempt: int
    worker: str  # as people call it
    what: str
    stamp_ms: int


class TaskGroup(msgspec.Struct, frozen=True):
    """Tasks of an array that stand where they do for the same reason."""

    count: int
    state: str
    code: str
    why: str  # of one of them
    job_id: JobId = b""  # that one; nothing if none of them has started


class RawExplanation(msgspec.Struct, frozen=True):
    """Why a job or array does not run, runs, or ended as it did."""

    job_id: JobId
    state: str  # in the words for people
    code: str  # Reason
    why: str  # a sentence
    todo: tuple[str, ...] = ()  # commands that would help
    since_ms: int = 0  # when its state last changed
    attempts: tuple[AttemptTold, ...] = ()  # the last ones
    groups: tuple[TaskGroup, ...] = ()  # of an array, the largest first
