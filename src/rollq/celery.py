"""An adapter for code written for Celery: `from rollq.celery import Celery`.

`app.task` registers a function like `rollq.task`; `delay` and `apply_async` return an
`AsyncResult`. The grid is that of `rollq.connect` or ROLLQ_SERVERS: `broker` and `backend` are
ignored. Start workers with `rollq worker … --app module`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.blocking.clients import BlockingJob, BlockingJobGroup
from rollq.roles.client.functions import chains
from rollq.tasks import Task, task

STATES = {"OK": "SUCCESS", "CANCELLED": "REVOKED"}  # any other end is FAILURE


class Celery:
    """An application, on which tasks are registered. `conf` accepts any setting and ignores it."""

    def __init__(self, main: str | None = None, **settings: Any) -> None:
        self.main = main
        self.conf = CelerySettings(**settings)

    def task(self, *args: Any, **options: Any) -> Any:
        """Register a function: `@app.task` or `@app.task(max_retries=3)`."""
        if options.pop("bind", False):
            raise LocalError(
                ErrorCode.BAD_SETUP, "bind=True is not known", "use rollq.context() in the function"
            )
        options.pop("ignore_result", None)
        if args and callable(args[0]):
            return CeleryTask(task(args[0]))
        register: Callable[[Any], Task[..., Any]] = task(*args, **options)
        return lambda function: CeleryTask(register(function))

    def config_from_object(self, settings: Any) -> None:
        """Accepted and ignored."""
        self.conf.update(given=settings)


class CelerySettings(SimpleNamespace):
    """Any settings, as attributes."""

    def update(self, *given: Mapping[str, Any], **settings: Any) -> None:
        """Set several."""
        for one in (*given, settings):
            self.__dict__.update(one)


class CeleryTask:
    """A task whose calls return an `AsyncResult`."""

    def __init__(self, own: Task[..., Any]) -> None:
        self.own = own
        self.name = own.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.own(*args, **kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Submit a call."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """The same, with options for this call."""
        return AsyncResult(self.own.apply_async(args, kwargs, **options))

    def s(self, *args: Any, **kwargs: Any) -> CeleryStep:
        """A signature, for chains, groups and chords: `add.s(1, 2) | add.s(3)`."""
        return CeleryStep(self.own.s(*args, **kwargs))

    def si(self, *args: Any, **kwargs: Any) -> CeleryStep:
        """An immutable signature, which does not receive the value of the step before."""
        return CeleryStep(self.own.si(*args, **kwargs))


class CeleryStep:
    """A step of a chain, group or chord, whose submit returns an `AsyncResult` or `GroupResult`."""

    def __init__(self, own: chains.Step) -> None:
        self.own = own

    def __or__(self, after: CeleryStep) -> CeleryStep:
        return CeleryStep(self.own | after.own)

    def __call__(self, *args: Any) -> Any:
        """Call a signature locally; submit anything else. A chord takes its callback."""
        if isinstance(self.own, chains.Signature):
            return self.own(*args)
        if isinstance(self.own, chains.Chord) and args:
            return (self | args[0]).delay()
        return self.delay(*args)

    def delay(self, *args: Any) -> AsyncResult | GroupResult:
        """Submit it; `args` come before those of the first call."""
        return self.apply_async(args)

    def apply_async(self, args: Sequence[Any] = ()) -> AsyncResult | GroupResult:
        """The same as `delay`, with the arguments as a sequence."""
        job = self.own.apply_async(args)
        return AsyncResult(job) if isinstance(job, BlockingJob) else GroupResult(job)

    def set(self, **options: Any) -> CeleryStep:
        """Set options for the job of a signature."""
        if not isinstance(self.own, chains.Signature):
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"{self.own!r} has no options", "set those of its calls"
            )
        return CeleryStep(self.own.set(**options))


def chain(*steps: CeleryStep) -> CeleryStep:
    """Steps that run one after another; each receives the value of the one before."""
    return CeleryStep(chains.Chain(*_own(steps)))


def group(*steps: CeleryStep | Iterable[CeleryStep]) -> CeleryStep:
    """Steps that run in parallel."""
    return CeleryStep(chains.Group(*_own(steps)))


def chord(header: CeleryStep | Iterable[CeleryStep], body: CeleryStep | None = None) -> CeleryStep:
    """Steps that run in parallel, and a callback that receives the list of their values."""
    members = header.own if isinstance(header, CeleryStep) else chains.Group(*_own(header))
    assert isinstance(members, chains.Group), "a header is a group or a list"
    return CeleryStep(chains.Chord(members, None if body is None else body.own))


def _own(steps: Iterable[CeleryStep | Iterable[CeleryStep]]) -> list[chains.Step]:
    found: list[chains.Step] = []
    for one in steps:
        found += [one.own] if isinstance(one, CeleryStep) else _own(one)
    return found


class GroupResult:
    """The result of a group, with Celery's names."""

    def __init__(self, jobs: BlockingJobGroup) -> None:
        self.jobs = jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def get(self, timeout: float | None = None) -> list[Any]:
        """Wait for all, and return their values in order; raises the exception of the first that
        failed.
        """
        return self.jobs.get(timeout)

    join = get

    def ready(self) -> bool:
        """Whether all have ended."""
        return self.jobs.is_done

    def revoke(self, **_: Any) -> None:
        """Cancel them."""
        self.jobs.cancel()


class AsyncResult:
    """The result of a call, with Celery's names."""

    def __init__(self, job: BlockingJob) -> None:
        self.job = job
        self.id = job.id

    def get(self, timeout: float | None = None, *, propagate: bool = True) -> Any:
        """Wait, and return the value; an exception is raised, or returned without `propagate`."""
        if propagate:
            return self.job.get(timeout)
        try:
            return self.job.get(timeout)
        except Exception as error:
            if not self.ready():
                raise
            return error

    def ready(self) -> bool:
        """Whether it has ended."""
        return self.job.is_done

    def successful(self) -> bool:
        """Whether it succeeded."""
        return self.ready() and self.job.result().ok

    def failed(self) -> bool:
        """Whether it ended and did not succeed."""
        return self.ready() and not self.job.result().ok

    def revoke(self, **_: Any) -> None:
        """Cancel it."""
        self.job.cancel()

    def forget(self) -> None:
        """Does nothing: results expire by themselves."""

    @property
    def state(self) -> str:
        """PENDING, SUCCESS, FAILURE or REVOKED."""
        return STATES.get(self.job.result().status, "FAILURE") if self.ready() else "PENDING"

    status = state

    @property
    def result(self) -> Any:
        """The value or the exception; None while it has not ended."""
        return self.get(propagate=False) if self.ready() else None

    @property
    def traceback(self) -> str | None:
        """The traceback, if the function raised."""
        return self.job.result().stderr if self.failed() else None
