"""`client.jobs`: submit, wait for, inspect and cancel jobs."""

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
from rollq.roles.client.calls.facades import PAGE, GroupCalls
from rollq.roles.client.calls.followers import (
    Notify,
    Then,
    followers_of,
    following,
    submit_followed,
)
from rollq.roles.client.calls.maps import MapCalls
from rollq.roles.client.engine.base import PREFIX_BYTES
from rollq.roles.client.functions.calls import call_spec, ends_elsewhere, jobs_in, task_of
from rollq.roles.client.jobs.options import FIELDS, Options
from rollq.roles.client.jobs.specs import (
    Input,
    JobSpec,
    Payload,
    args_given,
    as_id,
    as_specs,
    changes,
    checked_spec,
    draw_id,
)
from rollq.roles.client.jobs.supply import BytesMoved, supply_of
from rollq.roles.client.jobs.tracing import submit_span
from rollq.roles.client.many.bulk import BulkRun
from rollq.roles.client.many.keyed import KeyedRun, OnMade
from rollq.roles.client.results.handles import Batch, Job, Progress
from rollq.roles.client.results.result import Result, result_message
from rollq.roles.client.results.streams import StreamPart, output_of
from rollq.roles.client.results.views import ArrayView, Explanation, JobView, state_of
from rollq.tasks import Task
from rollq.wire import messages as wire

FIRST_TASK: Final = 1  # number 0 is the id of the array itself
ENDS: Final = ("done", "dead", "cancelled")


class SubmitCalls(MapCalls):
    """Calls that clients of one group and of several share."""

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
        """Submit a job; returns its handle when a majority of the group has stored it.

        `submit("program", ["1", "2"])` runs a program or function by name, with text arguments.
        `submit(function, 1, b=2)` calls a function that is decorated with `@task` with Python
        values; job options (`rollq.Options`) are not passed to it. `submit_call` separates them.

        Args:
            job, args: A function and its arguments, a name and one list of strings, or a spec.
            files: Input files by name: bytes, a path of a file or folder, or a reference. Small
                ones are part of the job, others are uploaded unless the group has them.
            outputs: Patterns of the output files to keep; default: all new files.
            payload: Bytes or text instead of arguments.
            job_id, key: An id or text of your own, which makes the submit idempotent: the same one
                under the same client id runs once, and the latest submitter gets the result. While
                this client waits for it, a second submit is refused: use the first handle.
            then, notify: Jobs to run, and URLs to call (`Webhook`), after any end of this one. They
                are accepted together with it, or nothing is.
            timeout: How many seconds to wait for acceptance, from the end of the upload.
            progress: Called with the bytes uploaded and the total, unless there are followers.
            options: Job options, and keyword arguments of a function.

        Raises:
            DeadlineError: there was no response in time; the job may have been accepted.
            RollqError: it was refused; code and hint have the reason.
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
        """Submit a call of a function with Python values; returns when it is accepted. A job among
        the arguments is replaced by its value: the call waits for it in the grid, and the value
        goes directly from worker to worker. Otherwise like `submit`.

        Raises:
            TypeError: the arguments do not match, or one cannot be serialized.
            RollqError: it was refused, or not accepted in time.
        """
        task, named = task_of(function), kwargs or {}
        results = await ends_elsewhere(self._engine, args, named)
        spec = call_spec(task, args, named, options=options, results=results)
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
        """Submit a job and its followers."""
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
            with engine.register_target(request.job_id, handle):
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
        """Submit many jobs and return a handle for all, when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings, or
        bytes for a payload). Each job is accepted on its own: if one is refused, those before it
        stay accepted, and a note of the error has their number. `timeout` limits the time without
        any progress; `progress` is called with the number of accepted jobs.

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
        """Submit an array of `count` tasks. They share arguments and files, and get their number in
        the environment. An array of any size is one record in the grid until its tasks run. `files`
        and the other arguments are those of `submit`.

        `then` and `notify` run after the whole array. They are submitted after it was accepted; if
        that fails, a note of the error has the id of the array.

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
            with engine.register_target(first_id[:PREFIX_BYTES], batch):
                await engine.call(request, timeout, supply_of(spec, progress))
        try:
            for follower in following(followers, (array_id,)):
                await self._submit(follower, timeout, None)
        except RollqError as error:
            error.add_note(f"array {batch.id} was accepted, and what follows it was not")
            raise
        return batch

    async def cancel(self, *job_ids: JobId | str) -> int:
        """Cancel jobs and arrays: waiting ones at once, running ones when their worker has stopped
        them. Returns how many had not ended."""
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
        """Iterate over the output of a job: live while it runs, from the result after its end.

        Args:
            job_id: Any job, also of another client.
            follow: Whether to go on until the job ends; else only the output so far.
            stream: `stdout` or `stderr`; empty: both, each in order.
            tail: Begin with the last lines of each stream, instead of all output so far.
            whole: Whether to return the complete output, also if it was written before this call or
                faster than it can be streamed: missing parts are read from the result.

        Raises:
            RollqError: UNKNOWN_JOB; TIMED_OUT, if there was no response.
        """
        return output_of(
            self._engine, as_id(job_id), follow=follow, stream=stream, tail=tail, whole=whole
        )


class JobCalls(SubmitCalls, GroupCalls):
    """Jobs of one group."""

    async def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> Job:
        """Return a handle for a job that another process submitted with this client id.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE if it belongs to another client, which receives its
                result.
        """
        engine, wanted = self._engine, as_id(job_id)
        known = engine.targets.get(wanted)
        if isinstance(known, Job):
            return known
        view = await self._view(wanted, timeout)
        if view is None:
            raise StateError(ErrorCode.UNKNOWN_JOB, f"no job {guid_to_text(wanted)} is known")
        known = engine.targets.get(wanted)
        if isinstance(known, Job):  # another call has attached to it meanwhile
            return known
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
        elif wanted in engine.unclaimed:  # it ended since the view was read
            job.deliver((engine.unclaimed[wanted],))
            engine.claim(wanted)
        else:
            engine.targets[wanted] = job
        return job

    async def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """Return the result of a job of any client, without confirming it for that client.

        Raises:
            StateError: UNKNOWN_JOB, also if the result is not kept any more; WRONG_STATE if the job
                has not ended.
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
        """Return and confirm results that arrived for jobs that this process did not submit, but an
        earlier one with this client id."""
        return [Result(one, self._engine) for one in self._engine.take_unclaimed()]

    def keyed_run(self, *, on_made: OnMade | None = None) -> KeyedRun:
        """Create a run for jobs with ids of their own, some of which may have been submitted
        before. `on_made` is called, in the client's thread, with the ids of those that were new."""
        run = KeyedRun(self._engine, on_made)
        self._engine.keyed_runs.add(run)
        return run

    async def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """Return the state of a job or task; None if it is unknown or has expired."""
        view = await self._view(as_id(job_id), timeout)
        return None if view is None else JobView.of(view)

    async def array(self, array_id: JobId | str) -> ArrayView | None:
        """Return an array with its task counts; None if it is unknown or has expired."""
        view = decode_known(await self._query("array", as_id(array_id)), views.RawArrayView)
        return None if view is None else ArrayView.of(view)

    async def explain(self, job_id: JobId | str) -> Explanation | None:
        """Explain why a job or array waits, or how it ended, and what would help; None if it is
        unknown or has expired."""
        raw = decode_known(await self._query("explanation", as_id(job_id)), RawExplanation)
        return None if raw is None else Explanation.of(raw)

    async def dead(self) -> AsyncGenerator[JobView, None]:
        """Iterate over all dead jobs, oldest first."""
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
        """Run dead jobs again, with a new set of attempts; attempt numbers go on. They keep id,
        key, owner, options and files. A job that failed is not dead: its client has the result, and
        `submit_like` runs it again. Returns how many were redriven.

        Args:
            job_ids: Dead jobs; all or none are redriven.
            args: New arguments for each of them.
            env: Environment variables to set; None removes one. Others are kept.
            queue: A new queue for each of them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, also if a request is too large to be changed.
            RollqError: the change is invalid, or not permitted.
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
        its state; `args`, `env` and `queue` replace its own. After a job's end the grid keeps
        requests up to 1 KiB, without variables, and files only while something else refers to them.

        Raises:
            StateError: UNKNOWN_JOB; WRONG_STATE, if its request is not kept any more.
            RollqError: it was refused, or not accepted in time.
        """
        engine = self._engine
        new_id = draw_id()
        wanted = {"job_id": as_id(job_id)} | changes(args, env, queue)
        request = wire.Admin(new_id, "again", msgspec.msgpack.encode(wanted))
        handle = Job(engine, new_id)
        with engine.register_target(new_id, handle):
            await engine.call(request, timeout)
        return handle

    async def purge(self, *job_ids: JobId | str) -> int:
        """Delete dead jobs; returns how many."""
        return await self._change("purge", job_ids=tuple(as_id(one) for one in job_ids))

    async def _view(self, job_id: JobId, timeout: float | None) -> views.RawJobView | None:
        return decode_known(await self._query("job", job_id, timeout=timeout), views.RawJobView)


class Jobs(JobCalls):
    """Jobs, with low-level calls for tools."""

    async def view(
        self, job_id: JobId | str, *, timeout: float | None = None
    ) -> views.RawJobView | None:
        """Return the undecoded state of a job or task; None if it is unknown or has expired."""
        return await self._view(as_id(job_id), timeout)


def new_first_id() -> JobId:
    """A random id for an array or the first of many jobs; its last bytes are zero, for
    numbering."""
    return secrets.token_bytes(PREFIX_BYTES) + bytes(4)
