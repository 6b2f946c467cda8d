"""Workflows of function calls, with Celery's names: chain, group, chord.

    (add.s(1, 2) | add.s(3)).delay().get()                       # 6
    chord(group(add.s(i, i) for i in range(3)), total.s()).delay().get()

Building a step submits nothing. On submit every call becomes a job whose arguments refer to the
jobs before it; all of them are accepted, or none.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from rollq.base.celery_names import options_of
from rollq.base.errors import DeadlineError, ErrorCode, LocalError
from rollq.roles.client.calls.batches import BatchCalls
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.functions.calls import call_spec, jobs_in
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import JobSpec, draw_id
from rollq.roles.client.results.handles import Job
from rollq.tasks import Task


class JobGroup:
    """The jobs of a submitted group, in order; a nested group is a nested JobGroup."""

    def __init__(self, members: Sequence[Job | JobGroup]) -> None:
        self._members = members

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_done(self) -> bool:
        """Whether all results have arrived."""
        return all(one.is_done for one in self._members)

    async def get(self, timeout: float | None = None) -> list[Any]:
        """Wait for all jobs and return their values in order. Raises the exception of the first
        job, in this order, that failed.

        Raises:
            DeadlineError: TIMED_OUT. The jobs go on.
        """
        try:
            async with asyncio.timeout(timeout) as limit:
                return [await one.get() for one in self._members]
        except DeadlineError:
            raise
        except TimeoutError:
            if not limit.expired():
                raise  # the exception of a job
            raise DeadlineError(
                ErrorCode.TIMED_OUT,
                f"the jobs of a group have not all ended within {timeout} s",
                "they are still in the grid: wait again, or cancel them",
            ) from None

    async def cancel(self) -> int:
        """Cancel the jobs that have not ended; returns how many."""
        return sum([int(await one.cancel()) for one in self._members])

    def __repr__(self) -> str:
        return f"<JobGroup of {len(self)}{' done' if self.is_done else ''}>"


class Step(ABC):
    """A part of a workflow: can be joined by `|` and submitted."""

    def __or__(self, after: Step) -> Chain:
        return Chain(self, after)

    def delay(self, *args: Any) -> Any:
        """Submit it with the client of `rollq.connect`; `args` come before those of the first call.
        Returns a handle: `get` waits for the last value, or for the list of values of a group.

        Raises:
            TypeError: the arguments do not match a function, or cannot be serialized.
            RollqError: it was refused, and nothing is accepted; or TIMED_OUT: it may be accepted
                yet, as a whole.
        """
        return self.apply_async(args)

    def apply_async(self, args: Sequence[Any] = ()) -> Any:
        """The same as `delay`, with the arguments as a sequence."""
        return (
            import_module("rollq.roles.client.blocking.current").current().submit_steps(self, args)
        )

    @abstractmethod
    def lay(self, plan: Plan, given: tuple[Any, ...]) -> Laid:
        """Add the jobs of this step to a plan; `given` comes before the arguments of its first
        call."""


class Signature(Step):
    """A function call to be submitted later: `add.s(1, 2)`.

    Attributes:
        task: The function.
        args, kwargs: Its arguments, after the value of the step before.
        options: The options of its job.
        immutable: Wait for the step before without receiving its value.
    """

    def __init__(
        self,
        task: Task[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
    ) -> None:
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.options = dict(options or {})
        self.immutable = immutable

    def set(self, **options: Any) -> Signature:
        """Return a copy with options for its job: `add.s(1).set(queue="slow", countdown=10)`."""
        more = {**self.options, **options_of(options)}
        return Signature(self.task, self.args, self.kwargs, more, immutable=self.immutable)

    def __call__(self, *args: Any) -> Any:
        """Call the function locally."""
        return self.task(*args, *self.args, **self.kwargs)

    def lay(self, plan: Plan, given: tuple[Any, ...]) -> Job:
        """Add one job."""
        args, options = (*given, *self.args), self.options
        if self.immutable:
            args = self.args
            if waited := tuple(jobs_in(given)):
                options = {**options, "after": (*options.get("after", ()), *waited)}
        return plan.add(self.task, args, self.kwargs, options)

    def __repr__(self) -> str:
        return f"{self.task.name}.{'si' if self.immutable else 's'}{self.args}"


class Chain(Step):
    """Steps that run one after another; each receives the value of the one before."""

    def __init__(self, *steps: Step) -> None:
        self.steps = tuple(one for step in steps for one in _steps_of(_checked(step)))
        if not self.steps:
            raise LocalError(ErrorCode.BAD_OPTIONS, "a chain of no steps", "give it one or more")

    def __call__(self, *args: Any) -> Any:
        """The same as `delay`."""
        return self.delay(*args)

    def lay(self, plan: Plan, given: tuple[Any, ...]) -> Laid:
        """Add the jobs of all steps; returns those of the last."""
        laid: Laid | None = None
        for step in self.steps:
            laid = step.lay(plan, given)
            given = (laid,)
        assert laid is not None, "a chain has at least one step"
        return laid

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.steps))


class Group(Step):
    """Steps that run in parallel. The next step of a chain receives the list of their values."""

    def __init__(self, *steps: Step | Iterable[Step]) -> None:
        self.steps = tuple(
            _checked(one)
            for given in steps
            for one in (given if isinstance(given, Iterable) else (given,))
        )
        if not self.steps:
            raise LocalError(ErrorCode.BAD_OPTIONS, "a group of no steps", "give it one or more")

    def __call__(self, *args: Any) -> Any:
        """The same as `delay`."""
        return self.delay(*args)

    def lay(self, plan: Plan, given: tuple[Any, ...]) -> list[Any]:
        """Add the jobs of all steps."""
        return [one.lay(plan, given) for one in self.steps]

    def __repr__(self) -> str:
        return f"group{self.steps}"


class Chord(Chain):
    """A group, and a callback that receives the list of its values: `chord(group, total.s())`, or
    `chord(group)(total.s())`, which submits it."""

    def __init__(self, header: Group | Iterable[Step], body: Step | None = None) -> None:
        group = header if isinstance(header, Group) else Group(header)
        super().__init__(group, *(() if body is None else (body,)))

    def __call__(self, body: Any = None) -> Any:
        """Submit it with this callback."""
        return self.delay() if body is None else (self | body).delay()


Laid: TypeAlias = Job | list[Any]  # the job of a call, or the jobs of a group


class Plan:
    """The jobs of a workflow, before they are submitted."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.specs: list[JobSpec] = []
        self.jobs: list[Job] = []

    def add(
        self,
        task: Task[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Job:
        """Add the job of a call and return its handle."""
        parents = tuple(jobs_in((*args, *kwargs.values())))
        job = Job(self._engine, draw_id(), parents)
        spec = call_spec(task, args, kwargs, options=cast("Options", options), results={})
        self.specs.append(replace(spec, job_id=job.job_id))
        self.jobs.append(job)
        return job


class ChainCalls(BatchCalls):
    """Submits workflows."""

    async def submit_steps(
        self, step: Step, args: Sequence[Any] = (), *, timeout: float | None = None
    ) -> Job | JobGroup:
        """Submit a chain, a group or a chord; returns when all of its jobs are accepted. The handle
        is that of the last call, or of the last group. `args` come before those of the first call.

        Raises:
            TypeError: the arguments do not match a function, or cannot be serialized.
            RollqError: it was refused, and nothing is accepted; or TIMED_OUT: it may be accepted
                yet, as a whole.
        """
        engine = self._engine
        plan = Plan(engine)
        laid = step.lay(plan, tuple(args))
        key = secrets.token_hex(8)
        for job in plan.jobs:
            engine.targets[job.job_id] = job
        try:
            part = await self.stage(key, key, plan.specs, timeout=timeout)
            await self.commit(key, (part,), timeout=timeout)
        except BaseException:
            for job in plan.jobs:
                engine.forget(job.job_id, job)
            raise
        return _handle(laid)


def _handle(laid: Laid) -> Job | JobGroup:
    return laid if isinstance(laid, Job) else JobGroup([_handle(one) for one in laid])


def _checked(step: Any) -> Step:
    """Raises TypeError for anything but a step, such as the function `add` instead of `add.s()`."""
    if isinstance(step, Step):
        return step
    name = step.name if isinstance(step, Task) else ""
    hint = f"write {name}.s(…)" if name else "write f.s(…) of a function with @task"
    raise TypeError(f"{step!r} is no step: {hint}")


def _steps_of(step: Step) -> tuple[Step, ...]:
    return step.steps if isinstance(step, Chain) else (step,)


chain = Chain
group = Group
chord = Chord
