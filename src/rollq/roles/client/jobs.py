"""`client.jobs`: submit jobs, wait for their results, ask how they stand, end them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Final, Unpack, cast

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError, StateError
from rollq.base.ids import JobId, guid_to_text, task_id
from rollq.base.limits import ARRAY_TASKS_MAX
from rollq.grid import views
from rollq.grid.commands import RedriveItem
from rollq.grid.explanations import RawExplanation
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.asking import PAGE, GroupCalls
from rollq.roles.client.bulk import BulkRun
from rollq.roles.client.engine import PREFIX_BYTES
from rollq.roles.client.followers import (
    Notify,
    Then,
    followers_of,
    following,
    submit_followed,
)
from rollq.roles.client.function_calls import call_spec, ends_elsewhere, jobs_in, task_of
from rollq.roles.client.handles import Batch, Job, Progress
from rollq.roles.client.keyed import KeyedRun, OnMade
from rollq.roles.client.maps import MapCalls
from rollq.roles.client.results import Result, result_message
from rollq.roles.client.specs import (
    FIELDS,
    Input,
    JobSpec,
    Options,
    Payload,
    args_given,
    as_id,
    as_specs,
    changes,
    checked_spec,
    draw_id,
)
from rollq.roles.client.streams import StreamPart, output_of
from rollq.roles.client.supply import BytesMoved, supply_of
from rollq.roles.client.tracing import submit_span
from rollq.roles.client.views import ArrayView, Explanation, JobView, state_of
from rollq.tasks import Task
from rollq.wire import messages as wire

FIRST_TASK: Final = 1  # tasks are numbered behind the array's id, so that none has it
ENDS: Final = ("done", "dead", "cancelled")


class SubmitCalls(MapCalls):
    """What clients of one group and of several can do alike."""

    async def submit(
        self,
        job: str | JobSpec | Task[..., Any],
        *args: Any,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Any,
    ) -> Job:
        """Submit one job; returns when it is accepted: on the disks of a majority.

        `submit("program", ["1", "2"])` is one of a program or function by its name, with arguments
        that are text. `submit(function, 1, b=2)` calls a function that is decorated with `@task`
        with Python values; keywords that are options of jobs (`rollq.Options`) are not the
        function's (`submit_call` has them apart).

        `files` are its inputs by name: bytes, the path of a file, the path of a folder (with all
        that is in it), or what the grid has already. Small ones ride in the job; others go up
        first, as far as the grid lacks them, and `progress` is told how much of them it has.
        `outputs` are patterns of the files to bring back; all that are new if there are none.
        `timeout` counts from when the files are there.

        A job with an id or a `key` of your own may be submitted again, also by another process
        under the same client id: it runs once, and its result comes to whoever asked last. While
        this client waits for its result, the handle of the first submit is the way to it, and
        another submit is refused. The key is told with its result and in the history.

        `then` are jobs that run when this one has ended, in whichever way, and `notify` URLs that
        are told then (`Webhook`). They are accepted with it, or nothing is; `progress` is not told.

        Raises:
            DeadlineError: nobody accepted it in time. It may have been accepted all the same.
            RollqError: it was refused; the code and the hint say why.
        """
        if callable(job):
            job = task_of(job)
            own = {name: options.pop(name) for name in list(options) if name not in FIELDS}
            if files or outputs or payload is not None:
                raise LocalError(
                    ErrorCode.BAD_OPTIONS,
                    "a call with values has no files, outputs or payload beside its arguments",
                    "pass a pathlib.Path, or the output of another job, as an argument",
                )
            options |= {"job_id": job_id, "key": key, "timeout": timeout, "progress": progress}
            options |= {"then": then, "notify": notify}
            return await self.submit_call(job, args, own, **options)
        name = job if isinstance(job, str) else ""
        spec = JobSpec(
            exec_name=name,
            args=args_given(args, options),
            files=files or {},
            payload=payload,
            job_id=job_id,
            options=cast("Options", options),
            outputs=outputs,
            key=key,
        )
        if not isinstance(job, str):
            if spec != JobSpec(""):
                raise LocalError(
                    ErrorCode.BAD_OPTIONS, "a spec carries its own arguments and options"
                )
            spec = checked_spec(job, "job")
        return await self._submit_all(spec, then, notify, timeout, progress)

    async def submit_call(
        self,
        function: Task[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        job_id: JobId | str | None = None,
        key: str = "",
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> Job:
        """Submit a call of a function with Python values; returns when it is accepted. For a job
        among the arguments, which need not have ended, the function gets what that returns, from
        worker to worker: the call waits for it in the grid. The rest as for `submit`.

        Raises:
            TypeError: it cannot be called so, or an argument cannot be serialized.
            RollqError: it was refused, or not accepted in time.
        """
        task, named = task_of(function), kwargs or {}
        results = await ends_elsewhere(self._engine, args, named)
        spec = call_spec(task, args, named, options, results)
        spec = msgspec.structs.replace(spec, job_id=job_id, key=key)
        parents = jobs_in((*args, *named.values()))
        return await self._submit_all(spec, then, notify, timeout, progress, *parents)

    async def _submit_all(
        self,
        spec: JobSpec,
        then: Then,
        notify: Notify,
        timeout: float | None,
        progress: BytesMoved | None,
        *parents: Job,
    ) -> Job:
        """A job, and what follows it."""
        followers = followers_of(self._engine, then, notify)
        if followers:
            return await submit_followed(self._engine, spec, followers, timeout, *parents)
        return await self._submit(spec, timeout, progress, *parents)

    async def _submit(
        self, spec: JobSpec, timeout: float | None, progress: BytesMoved | None, *parents: Job
    ) -> Job:
        engine = self._engine
        with submit_span(spec.exec_name, spec.options):
            spec = await engine.inputs.settle(spec) if spec.files else spec
            request = engine.request_for(spec)
            handle = Job(engine, request.job_id, parents)
            with engine.awaiting(request.job_id, handle):
                await engine.call(request, timeout, supply_of(spec, progress))
        return handle

    async def submit_many(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Batch:
        """Submit many jobs; returns when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings,
        or bytes for a payload). Each job is accepted for itself: if one is refused, those that were
        accepted before stay so, and the error says how many. `timeout` is how long nothing may be
        accepted; `progress` is told how many were.

        Raises:
            RollqError: a job was refused, or not accepted in time.
        """
        engine = self._engine
        batch = Batch(engine, new_first_id(), keeps=keep_results)
        prefix = batch.first_id[:PREFIX_BYTES]
        engine.targets[prefix] = batch
        run = BulkRun(engine, batch, engine.timeout_s if timeout is None else timeout, progress)
        try:
            with submit_span(jobs if isinstance(jobs, str) else "", options):
                await run.submit(as_specs(jobs, arguments, options))
        except RollqError as error:
            error.add_note(f"{run.accepted} jobs had been accepted before")
            raise
        finally:
            run.close()
            batch.complete()
            if batch.is_done:
                engine.forget(prefix, batch)
        return batch

    async def submit_array(
        self,
        exec_name: str,
        count: int,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        running_max: int = 0,
        keep_results: bool = True,
        then: Then = (),
        notify: Notify = (),
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> Batch:
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        `then` and `notify` follow the array as a whole. They are submitted when it is accepted: if
        this raises then, it says so.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
        if not 0 < count <= ARRAY_TASKS_MAX:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"an array of {count} tasks",
                f"use 1 to {ARRAY_TASKS_MAX}, and several arrays for more",
            )
        engine, followers = self._engine, followers_of(self._engine, then, notify)
        array_id = new_first_id()
        first_id = task_id(array_id, FIRST_TASK)
        spec = JobSpec(exec_name, args, files or {}, payload, options=options, outputs=outputs)
        with submit_span(exec_name, options, count):
            spec = await engine.inputs.settle(spec) if files else spec
            task = engine.request_for(spec, array_id)
            request = wire.SubmitArray(
                array_id=array_id,
                client_id=task.client_id,
                subject=task.subject,
                exec_name=exec_name,
                body=task.body,
                task_count=count,
                options=task.options,
                running_max=running_max,
                blobs=task.blobs,
                caches=task.caches,
                first_task=FIRST_TASK,
            )
            batch = Batch(engine, first_id, keeps=keep_results, array_id=array_id)
            batch.extend(count)
            batch.complete()
            with engine.awaiting(first_id[:PREFIX_BYTES], batch):
                await engine.call(request, timeout, supply_of(spec, progress))
        try:
            for follower in following(followers, (array_id,)):
                await self._submit(follower, timeout, None)
        except RollqError as error:
            error.add_note(f"array {batch.id} was accepted, and what follows it was not")
            raise
        return batch

    async def cancel(self, *job_ids: JobId | str) -> int:
        """End jobs and arrays: what waits at once, what runs as soon as its worker obeys. Returns
        how many there were to end."""
        return await self._engine.cancel([as_id(one) for one in job_ids])

    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
        whole: bool = False,
    ) -> AsyncGenerator[StreamPart, None]:
        """What a job writes: while it runs as it comes, after its end from the result.

        Args:
            job_id: Any job, also one of another client.
            follow: Whether to go on until it is over; else only what it has written by now.
            stream: `stdout` or `stderr`; empty: both, each in its order.
            tail: Of what it has written by now, only the last lines of each stream.
            whole: Nothing may be left out, also if it was written before this call or faster than
                it can be shown. What does not come while it runs comes at its end.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if nobody answered.
        """
        return output_of(
            self._engine, as_id(job_id), follow=follow, stream=stream, tail=tail, whole=whole
        )


class JobCalls(SubmitCalls, GroupCalls):
    """The jobs of one group."""

    async def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> Job:
        """A handle on a job that another process submitted under this client id.

        Raises:
            StateError: UNKNOWN_JOB; or WRONG_STATE if it runs for another client, whom its result
                will go to.
        """
        engine, wanted = self._engine, as_id(job_id)
        known = engine.targets.get(wanted)
        if isinstance(known, Job):
            return known
        view = await self._view(wanted, timeout)
        if view is None:
            raise StateError(ErrorCode.UNKNOWN_JOB, f"no job {guid_to_text(wanted)} is known")
        job = Job(engine, wanted)
        if view.end is not None:
            job.deliver((result_message(view),))
            engine.claim(wanted)
        elif view.state in ENDS:
            raise StateError(
                ErrorCode.UNKNOWN_JOB,
                f"job {job.id} is {state_of(view)}, and its result is not kept any more",
                "attach sooner, or keep results for longer: result_ttl",
            )
        elif view.client_id != engine.client_id:
            raise StateError(
                ErrorCode.WRONG_STATE,
                f"job {job.id} belongs to the client {view.client_id!r}",
                "attach under that client id, or ask for its status",
            )
        else:
            engine.targets[wanted] = job
        return job

    async def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """How a job ended, whoever submitted it; its result stays owed to that client.

        Raises:
            StateError: UNKNOWN_JOB, also if its result is not kept any more; WRONG_STATE if it has
                not ended.
        """
        wanted = as_id(job_id)
        view = await self._view(wanted, timeout)
        if view is not None and view.end is not None:
            return Result(result_message(view), self._engine)
        text = guid_to_text(wanted)
        if view is None or view.state in ENDS:
            raise StateError(ErrorCode.UNKNOWN_JOB, f"no result of job {text} is kept")
        raise StateError(
            ErrorCode.WRONG_STATE,
            f"job {text} has not ended: it is {state_of(view)}",
            "wait for its end",
        )

    def unclaimed(self) -> list[Result]:
        """Results that have come so far of jobs that this process has not submitted: those of an
        earlier one under this client id. They are confirmed by this call."""
        return [Result(one, self._engine) for one in self._engine.take_unclaimed()]

    def keyed_run(self, *, on_made: OnMade | None = None) -> KeyedRun:
        """For jobs with ids of their own, some of which may have been submitted before. `on_made`
        is told of those that the grid had not had before, in the client's thread."""
        run = KeyedRun(self._engine, on_made)
        self._engine.keyed_runs.add(run)
        return run

    async def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """One job or task; None if it is not known (any more)."""
        view = await self._view(as_id(job_id), timeout)
        return None if view is None else JobView.of(view)

    async def array(self, array_id: JobId | str) -> ArrayView | None:
        """One array, by what its tasks do."""
        view = decode_known(await self._query("array", as_id(array_id)), views.RawArrayView)
        return None if view is None else ArrayView.of(view)

    async def explain(self, job_id: JobId | str) -> Explanation | None:
        """Why a job or array waits, or how it ended, and what would help; None if it is not known
        (any more)."""
        told = decode_known(await self._query("explanation", as_id(job_id)), RawExplanation)
        return None if told is None else Explanation.of(told)

    async def dead(self) -> AsyncGenerator[JobView, None]:
        """Every dead job, oldest first."""
        after = 0
        while True:
            key = after.to_bytes(8, "big")
            page = decode_as(await self._query("dead", key, PAGE), views.DeadPage)
            for view in page.jobs:
                yield JobView.of(view)
            if not page.jobs:
                return
            after = page.after

    async def redrive(
        self,
        *job_ids: JobId | str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
    ) -> int:
        """Give dead jobs as many starts as a new job has; their attempt numbers go on. They keep
        id, key, owner, options and files. A job that failed has ended, and its client has the
        result: `submit_like` runs it again. Returns how many were dead.

        Args:
            job_ids: Dead jobs; all or none are redriven.
            args: Other arguments for each of them.
            env: Variables to set; None removes one. The others stay.
            queue: Another queue for each of them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, also if a request is too large to be changed.
            RollqError: a request cannot be changed so, or you may not submit it so.
        """
        if args is None and not env and not queue:
            items = tuple(RedriveItem(as_id(one)) for one in job_ids)
            return await self._change("redrive", items=items)
        ids = tuple(as_id(one) for one in job_ids)
        return await self._change("redrive_changed", job_ids=ids, **changes(args, env, queue))

    async def submit_like(
        self,
        job_id: JobId | str,
        args: Sequence[str] | None = None,
        *,
        env: Mapping[str, str | None] | None = None,
        queue: str = "",
        timeout: float | None = None,
    ) -> Job:
        """Submit a new job with the program, options, files and variables of another one, whatever
        became of that, and with other arguments if they are given. Of a job that has ended the grid
        keeps a request of up to 1 KiB without variables, and files only as long as something else
        refers to them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, if its request is not kept any more.
            RollqError: it was refused, or not accepted in time.
        """
        engine = self._engine
        new_id = draw_id()
        wanted = {"job_id": as_id(job_id)} | changes(args, env, queue)
        request = wire.Admin(new_id, "again", msgspec.msgpack.encode(wanted))
        handle = Job(engine, new_id)
        with engine.awaiting(new_id, handle):
            await engine.call(request, timeout)
        return handle

    async def purge(self, *job_ids: JobId | str) -> int:
        """Forget dead jobs for good; returns how many there were."""
        return await self._change("purge", job_ids=tuple(as_id(one) for one in job_ids))

    async def _view(self, job_id: JobId, timeout: float | None) -> views.RawJobView | None:
        return decode_known(await self._query("job", job_id, timeout=timeout), views.RawJobView)


class Jobs(JobCalls):
    """The same, and what tools need."""

    async def view(
        self, job_id: JobId | str, *, timeout: float | None = None
    ) -> views.RawJobView | None:
        """One job or task as a member tells it; None if it is not known (any more)."""
        return await self._view(as_id(job_id), timeout)


def new_first_id() -> JobId:
    """The id of an array, or of the first of many jobs: the last bytes count."""
    return secrets.token_bytes(PREFIX_BYTES) + bytes(4)
