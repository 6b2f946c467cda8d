"""Explanations: why a job or array waits, or how it ended. Made by `policy` on the leader."""

from __future__ import annotations

import msgspec

from rollq.base.ids import JobId


class AttemptTold(msgspec.Struct, frozen=True):
    """An attempt that gave no result, for people."""

    attempt: int
    worker: str  # its name or id
    what: str
    stamp_ms: int


class TaskGroup(msgspec.Struct, frozen=True):
    """Tasks of an array that are in one state for the same reason."""

    count: int
    state: str
    code: str
    why: str  # of one of them
    job_id: JobId = b""  # that task; empty if none of them has started


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
