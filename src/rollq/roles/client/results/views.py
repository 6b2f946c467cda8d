"""Views for applications: ids as text, states and causes as words.

They are converted, by `of`, from the views of `rollq.grid.views`, whose form is part of the wire
protocol.
"""

from __future__ import annotations

from typing import Any, Final, Self

import msgspec

from rollq.base.edges import CONDITION_WORDS
from rollq.base.ids import guid_to_text
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.needs import WorkerLoad, resource_texts
from rollq.base.outcomes import cause_word, exit_code_of, state_word
from rollq.base.requests import Request, RequestFile
from rollq.gossip.map import FederationView, GroupView, NodeView
from rollq.grid import views
from rollq.grid.batches import BatchView
from rollq.grid.commands import NOBODY, Cause, Settings
from rollq.grid.edge_records import Ending
from rollq.grid.explanations import AttemptTold, RawExplanation
from rollq.grid.rule_views import LimitView, PolicyView, WeightView
from rollq.grid.state import AttemptOutcome
from rollq.grid.views import CacheView, ClientView

__all__ = [
    "ArrayView",
    "AttemptTold",
    "AttemptView",
    "BatchView",
    "CacheView",
    "ClientView",
    "DrainView",
    "EndView",
    "Explanation",
    "FederationView",
    "GroupView",
    "HolderView",
    "JobView",
    "LimitView",
    "NodeView",
    "ParentView",
    "PolicyView",
    "QueueView",
    "Request",
    "RequestFile",
    "Settings",
    "TaskGroupView",
    "WeightView",
    "WorkerLoad",
    "WorkerView",
    "cause_text",
    "cause_word",
]

CAUSES: Final = {
    "lease_lost": "its worker fell silent, and the lease ran out",
    "worker_down": "its worker is gone",
    "nacked": "no worker could run it",
    "exit_code": "its retry rule names the exit code, and attempts ran out",
    "expired": "it waited longer than it may",
    "worker_restarted": "its worker was restarted",
    "id_taken": "an older job has its id",
    "parent": "a job that it waited for did not meet its condition",
}


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A view of a member, with some fields converted."""

    @classmethod
    def made(cls, view: msgspec.Struct, **fields: Any) -> Self:
        """Copy the fields of a view, except the given ones."""
        names = (name for name in cls.__struct_fields__ if name not in fields)
        return cls(**{name: getattr(view, name) for name in names}, **fields)


class EndView(View, frozen=True, kw_only=True):
    """The end of a job.

    Attributes:
        exit_code: 128 + n if signal n killed the program; None if no program ran to its end.
        signal: The signal that killed the program; 0 if none did.
        cause: Why it is dead, as a word; empty if it is not.
        result: The undecoded result; `client.result_of` decodes it.
        confirmed: Whether its client has the result.
        blobs: The outputs that are not embedded in `result`.
    """

    exit_code: int | None
    signal: int
    cause: str
    detail: str
    run_ms: int
    peak_bytes: int
    result: bytes
    confirmed: bool
    blobs: tuple[BlobRef, ...] = ()


class AttemptView(View, frozen=True, kw_only=True):
    """An attempt without a result, and why."""

    attempt: int
    worker_id: str
    cause: str
    exit_code: int | None  # only if the job is retried because of it
    detail: str
    stamp_ms: int


class ParentView(View, frozen=True, kw_only=True):
    """A job or array that another job depends on.

    Attributes:
        condition: How it must end: ok, ended or failed.
        state: open, ok, failed or cancelled; unknown: it has expired.
        is_met: Whether it has ended as required.
    """

    job_id: str
    condition: str
    state: str
    is_met: bool

    @classmethod
    def of(cls, view: views.RawParentView) -> Self:
        """Convert the view of a member."""
        return cls(
            job_id=guid_to_text(view.job_id),
            condition=CONDITION_WORDS[view.condition],
            state=Ending(view.ending).name.lower(),
            is_met=view.is_met,
        )


class JobView(View, frozen=True, kw_only=True):
    """A job, or a task of an array.

    Attributes:
        state: blocked, waiting, delayed, running; ok, failed, dead or cancelled.
        stamp_ms: When the state changed last, in milliseconds since 1970.
        worker_id: The worker that runs it, or ran it last; empty if there is none.
        blobs, caches: The blobs and caches that it needs.
        key: The key that its client gave it.
        parents: The jobs that it depends on.
    """

    job_id: str
    client_id: str
    queue: str
    exec_name: str
    state: str
    attempt: int
    options: JobOptions
    body_bytes: int
    stamp_ms: int
    delay_ms: int
    worker_id: str
    fence: int
    lease_ms: int
    cancel_requested: bool
    array_id: str
    end: EndView | None
    attempts: tuple[AttemptView, ...]
    blobs: tuple[BlobRef, ...]
    caches: tuple[str, ...]
    key: str
    request: Request | None  # what it runs; None: the member does not include it
    is_changed: bool  # by a redrive; the history has the original request
    parents: tuple[ParentView, ...] = ()

    @classmethod
    def of(cls, view: views.RawJobView) -> Self:
        """Convert the view of a member."""
        return cls.made(
            view,
            job_id=guid_to_text(view.job_id),
            state=state_of(view),
            worker_id=id_text(view.worker_id),
            array_id=id_text(view.array_id),
            end=None if view.end is None else _end(view.state, view.end),
            attempts=tuple(map(_attempt, view.attempts)),
            parents=tuple(map(ParentView.of, view.parents)),
        )


class ArrayView(View, frozen=True, kw_only=True):
    """An array, with the number of its tasks by state."""

    array_id: str
    client_id: str
    queue: str
    exec_name: str
    task_count: int
    running_max: int
    delayed: bool
    waiting: int
    open: int  # started at least once and not ended
    running: int
    ok: int
    failed: int
    dead: int
    cancelled: int

    @classmethod
    def of(cls, view: views.RawArrayView) -> Self:
        """Convert the view of a member."""
        return cls.made(view, array_id=guid_to_text(view.array_id), ok=view.done - view.failed)


class QueueView(View, frozen=True, kw_only=True):
    """The number of jobs by state, of one queue, or of all queues (without a name)."""

    name: str
    paused: bool
    waiting: int
    delayed: int
    running: int
    ok: int
    failed: int
    dead: int
    cancelled: int
    blocked: int = 0

    @classmethod
    def of(cls, view: views.RawQueueView) -> Self:
        """Convert the view of a member."""
        return cls.made(
            view, waiting=view.queued, running=view.assigned, ok=view.done - view.failed
        )


class WorkerView(View, frozen=True, kw_only=True):
    """A worker, and the ids of its jobs."""

    worker_id: str
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    slots: int
    held: tuple[str, ...]
    is_capped: bool = False  # its machine is above the CPU cap: it takes one job at a time
    layers: tuple[str, ...] = ()  # of the sandbox of its jobs
    is_drained: bool = False  # it gets no new jobs
    labels: tuple[str, ...] = ()
    resources: dict[str, str]  # its capacity for jobs: {"cpu": "4", "memory": "8G"}
    in_use: dict[str, str]  # the part of it that jobs have reserved
    load: WorkerLoad | None = None  # of its machine; None: not reported

    @classmethod
    def of(cls, view: views.RawWorkerView) -> Self:
        """Convert the view of a member."""
        return cls.made(
            view,
            worker_id=guid_to_text(view.worker_id),
            held=tuple(map(guid_to_text, view.held)),
            resources=resource_texts(view.resources),
            in_use=resource_texts(view.in_use),
        )


class DrainView(View, frozen=True, kw_only=True):
    """A worker that gets no new jobs.

    Attributes:
        stamp_ms, by: When it was drained, in milliseconds since 1970, and by which account.
        is_known: It is connected, or lost its connection less than its grace period ago.
        held: The number of jobs that it still has.
    """

    worker_id: str
    name: str
    stamp_ms: int
    by: str
    is_known: bool
    held: int

    @classmethod
    def of(cls, view: views.RawDrainView) -> Self:
        """Convert the view of a member."""
        return cls.made(view, worker_id=guid_to_text(view.worker_id))


class HolderView(View, frozen=True, kw_only=True):
    """The state of a cache on one worker."""

    worker_id: str
    name: str
    patterns: tuple[str, ...]
    status: str  # WAITING, MOVING, OK, SKIPPED or FAILED
    message: str
    done_bytes: int

    @classmethod
    def of(cls, view: views.RawHolderView) -> Self:
        """Convert the view of a member."""
        return cls.made(view, worker_id=guid_to_text(view.worker_id))


class TaskGroupView(View, frozen=True, kw_only=True):
    """Tasks of an array with the same state and reason; `job_id` is one of them."""

    count: int
    state: str
    code: str
    why: str
    job_id: str


class Explanation(View, frozen=True, kw_only=True):
    """Why a job or array waits, runs, or ended as it did. `str` is the sentence.

    Attributes:
        state: As in `JobView`; for an array, the most significant one.
        code: The reason as a stable word: `paused`, `no_worker`, `exit_code`, `oom`.
        why: The reason as a sentence, with figures.
        todo: Commands that would help.
        since_ms: When the state changed last.
        attempts: The last attempts without a result, and why.
        groups: For an array, its tasks by reason, the most frequent first.
    """

    job_id: str
    state: str
    code: str
    why: str
    todo: tuple[str, ...]
    since_ms: int
    attempts: tuple[AttemptTold, ...]
    groups: tuple[TaskGroupView, ...]

    def __str__(self) -> str:
        return self.why

    @classmethod
    def of(cls, view: RawExplanation) -> Self:
        """Convert the view of a member."""
        groups = [TaskGroupView.made(one, job_id=id_text(one.job_id)) for one in view.groups]
        return cls.made(view, job_id=guid_to_text(view.job_id), groups=tuple(groups))


def state_of(view: views.RawJobView) -> str:
    """The state of a job, as a word for users."""
    return state_word(view.state, 0 if view.end is None else view.end.status)


def cause_text(word: str) -> str:
    """The cause as a phrase."""
    return CAUSES.get(word, word)


def id_text(guid: bytes) -> str:
    """An id as text; empty for none."""
    return guid_to_text(guid) if guid and guid != NOBODY else ""


def _end(state: str, end: views.RawEndView) -> EndView:
    exit_code = exit_code_of(state, end.exit_code, end.signal, end.run_ms)
    return EndView.made(end, exit_code=exit_code, cause=cause_word(end.cause))


def _attempt(lost: AttemptOutcome) -> AttemptView:
    return AttemptView.made(
        lost,
        worker_id=id_text(lost.worker_id),
        cause=cause_word(lost.cause),
        exit_code=lost.exit_code if lost.cause == Cause.EXIT_CODE else None,
    )
