"""Runs: similar jobs of one loop turn are sent in one message, and so are their results. Pure.

A run exists only between its message and the response. What is pending is each single job, so after
a fail-over the unanswered jobs are sent again, in new runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final

from msgspec import structs

from rollq.base.ids import JobId, MessageId
from rollq.base.limits import INLINE_BYTES_MAX, RUN_BYTES_MAX
from rollq.base.staged import KEY_END, ids_of, join_keys
from rollq.wire.messages import Accepted, Error, Result, SubmitJob
from rollq.wire.run_messages import ResultRun, RunAccepted, SubmitRun

NUMBER_BYTES: Final = 6
# A run is answered when all of it is on disk: it holds what a leader takes in one turn.
SUBMIT_RUN_JOBS: Final = 256


class SentRuns:
    """The runs of a client that have no response yet.

    Args:
        drawn: A random id, whose prefix the ids of runs share.
    """

    __slots__ = ("_jobs", "_number", "_prefix")

    def __init__(self, drawn: MessageId) -> None:
        self._jobs: dict[MessageId, list[JobId]] = {}  # sent, without a response
        self._prefix = drawn[:-NUMBER_BYTES]
        self._number = 0  # of the last run

    def messages(self, jobs: Iterable[SubmitJob]) -> Iterator[SubmitJob | SubmitRun]:
        """The messages that submit these jobs; a job with a large body is not part of a run."""
        for run in alike(jobs):
            if len(run[0].body) > INLINE_BYTES_MAX:
                yield run[0]
                continue
            self._number += 1
            request_id = self._prefix + self._number.to_bytes(NUMBER_BYTES, "big")
            job_ids = [job.job_id for job in run]
            self._jobs[request_id] = job_ids
            first = run[0]
            yield SubmitRun(
                request_id=request_id,
                client_id=first.client_id,
                subject=first.subject,
                exec_name=first.exec_name,
                job_ids=b"".join(job_ids),
                bodies=tuple([job.body for job in run]),
                options=first.options,
                caches=first.caches,
                keys=join_keys([job.job_key for job in run]),
                blobs=tuple([job.blobs for job in run]) if any(job.blobs for job in run) else (),
            )

    def refusals(self, message: Error) -> list[Error]:
        """Errors for each job of a run that was refused as a whole; empty for any other request."""
        job_ids = self._jobs.pop(message.request_id, ())
        return [structs.replace(message, request_id=job_id) for job_id in job_ids]

    def answers(self, message: RunAccepted) -> list[Accepted | Error]:
        """The response for each job of a run; empty for an unknown run. Positions that the run does
        not have are ignored."""
        job_ids = self._jobs.pop(message.request_id, [])
        answers: list[Accepted | Error] = list(map(Accepted, job_ids))
        ended = frozenset(message.ended)
        for position in message.known:
            if position < len(job_ids):
                answers[position] = Accepted(job_ids[position], known=True, ended=position in ended)
        for one in message.refused:
            if one.position < len(job_ids):
                answers[one.position] = Error(
                    job_ids[one.position],
                    one.code,
                    one.message,
                    hint=one.hint,
                    retryable=one.retryable,
                )
        return answers

    def clear(self) -> None:
        """The session ended: there will be no responses."""
        self._jobs.clear()


def alike(jobs: Iterable[SubmitJob]) -> list[list[SubmitJob]]:
    """Group jobs by program and options, in order, up to the size of a message."""
    done: list[list[SubmitJob]] = []
    growing: dict[tuple[object, ...], list[SubmitJob]] = {}
    sizes: dict[tuple[object, ...], int] = {}  # of the growing groups, in bytes
    last: SubmitJob | None = None
    run: list[SubmitJob] = []
    size_bytes = 0
    key: tuple[object, ...] = ()
    for job in jobs:
        body_bytes = len(job.body)
        if body_bytes > INLINE_BYTES_MAX:
            done.append([job])
            continue
        if (
            last is None
            or job.options is not last.options
            or job.subject != last.subject
            or job.exec_name != last.exec_name
            or job.caches != last.caches
        ):
            sizes[key] = size_bytes
            key = (job.subject, job.exec_name, job.options, job.caches)
            run, size_bytes = growing.setdefault(key, []), sizes.get(key, 0)
        if len(run) >= SUBMIT_RUN_JOBS or size_bytes + body_bytes > RUN_BYTES_MAX:
            done.append(run)
            run = growing[key] = []
            size_bytes = 0
        run.append(job)
        size_bytes += body_bytes
        last = job
    return [*done, *growing.values()]


def results_of(run: ResultRun) -> list[Result]:
    """The results of the jobs of a run."""
    shared = (run.attempt, run.cause, run.detail, run.client_id, 1)
    outcome, status, exec_name = run.outcome, run.status, run.exec_name
    exit_code, signal, worker = run.exit_code, run.signal, run.worker
    columns = zip(
        ids_of(run.job_ids),
        run.results,
        run.run_ms or repeat(0),
        run.blobs or repeat(()),
        run.keys.split(KEY_END) if run.keys else repeat(""),
        strict=False,
    )
    return [
        Result(
            *(job_id, outcome, status, result, exec_name, exit_code, signal, run_ms),
            *shared,
            *(blobs, key, worker),
        )
        for job_id, result, run_ms, blobs, key in columns
    ]
