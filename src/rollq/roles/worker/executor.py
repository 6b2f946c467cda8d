"""Executes attempts: as a program, in a warm process, or in the event loop.

Slots and order are up to the machine: an execution begins at once. Each ends once, and its result
is passed to the machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from rollq.base.errors import ErrorCode, LocalError, RemoteError, RollqError, StateError
from rollq.base.jobs import DEFAULT_OPTIONS, AttemptRef, Status
from rollq.roles.worker.app import load_apps
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.roles.worker.calls import (
    LoopCall,
    LoopCalls,
    PooledCall,
    call_of,
    request_of,
)
from rollq.roles.worker.capture import Tail
from rollq.roles.worker.child_processes import ChildProcesses
from rollq.roles.worker.directories import Directories, make_empty
from rollq.roles.worker.environment import INTERPRETER, clean_environ, env_of
from rollq.roles.worker.execs import ExecDir, NoProgramError
from rollq.roles.worker.exits import leave_exits_to_others
from rollq.roles.worker.fd_poller import FdPoller
from rollq.roles.worker.fitting import fitted_result
from rollq.roles.worker.given_secrets import end_masked, find_secrets, no_file_for_function
from rollq.roles.worker.output_uploads import LargeOutputs, OutputUploads
from rollq.roles.worker.outputs import ExecutionEnd, refusal
from rollq.roles.worker.preparations import Preparations
from rollq.roles.worker.programs import ProgramRun, Programs
from rollq.roles.worker.progress import ProgressBook
from rollq.roles.worker.sandbox.launcher import NotLayeredError
from rollq.roles.worker.sandbox.layers import Layer
from rollq.roles.worker.sandbox.sandbox import Sandbox
from rollq.roles.worker.sealed_execs import SealedExecs
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.signals import (
    CallWaits,
    Event,
    InputsFailed,
    InputsReady,
    ProgramsFound,
    SlotsFreed,
    StartFailed,
    StoredResult,
)
from rollq.roles.worker.warm import WarmPool
from rollq.security.vault import NoSecretError, open_vault
from rollq.tasks import Task, report_to
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest, decode_if_marked

# How long a result may wait for others while at least as many jobs wait for a slot: a sync, a
# message and a commit for each would take CPU time from the programs.
REPORT_MS: Final = 20


class Execution(Protocol):
    """An execution under way."""

    def kill(self) -> None:
        """End it; its result is CANCELLED."""


class JobExecutor:
    """The executions of one worker.

    Args:
        setup: The worker's options.
        jobs_dir: Where programs run; it is emptied.
        on_end: Called with results of attempts.
        on_calls: Called with results of calls that never waited, and their mean run time.
        feed: Handles the machine's other events: inputs, free slots, failed starts.
        waiting_count: The number of attempts that wait for a slot.
        blobs: Files of jobs; opened and closed by the caller.
        publish: Publishes progress of jobs.
    """

    def __init__(
        self,
        setup: NodeSetup,
        jobs_dir: str,
        *,
        on_end: Callable[[list[StoredResult]], None],
        on_calls: Callable[[list[StoredResult], float], None],
        feed: Callable[[Event], None],
        waiting_count: Callable[[], int],
        blobs: WorkerBlobs,
        traceparent_of: Callable[[AttemptRef], str],
        publish: Callable[[str, bytes], None],
    ) -> None:
        self._setup = setup
        self._progress = ProgressBook(publish)
        self._traceparent_of = traceparent_of
        self._preparing = Preparations(
            blobs,
            allow_shipped_execs=setup.allow_shipped_execs,
            on_ready=self._prepared,
            on_failed=self._not_prepared,
        )
        self._blobs = blobs
        self._uploads = OutputUploads(blobs, self._uploaded, self._refuse)
        self._jobs_dir = jobs_dir
        self._on_end = on_end
        self._on_calls: Callable[[list[StoredResult], float], None] | None = on_calls
        self._feed = feed
        self._waiting_count = waiting_count
        self._vault = open_vault(setup.vault, setup.vault_env, os.environ)
        environ = clean_environ(os.environ, setup.pass_env)
        run = () if setup.exec_dir is None else (setup.exec_dir,)
        self.sandbox = Sandbox(
            setup.sandbox,
            clean_environ(os.environ, INTERPRETER),
            hidden=setup.hidden(),
            closed=(setup.state_dir,),
            run=run,
            through=(setup.jobs_dir, *run, *((Path(sys.executable),) if setup.apps else ())),
            name=os.path.basename(jobs_dir),
        )
        self._children = ChildProcesses(environ, self.sandbox)
        self._tasks: dict[str, Task[..., Any]] = {}
        self._running: dict[AttemptRef, Execution | None] = {}  # None: being started
        self._begun_s: dict[AttemptRef, float] = {}  # start times, for `_running`
        self._ends: list[StoredResult] = []  # not passed on yet
        self._report_due = False
        self._report_timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "worker-files", leave_exits_to_others)
        self._measuring = ThreadPoolExecutor(1, "worker-room", leave_exits_to_others)
        self._poller: FdPoller | None = None
        self._programs: Programs | None = None
        self._sealed: SealedExecs | None = None
        self._pool: WarmPool | None = None
        self._loop_calls: LoopCalls | None = None

    async def start(self) -> None:
        """Load the application, remove old directories, start the warm processes.

        Raises:
            LocalError: the application cannot be loaded, there is nothing to run, or the jobs
                directory cannot be used.
        """
        loop = asyncio.get_running_loop()
        self._tasks = load_apps(self._setup.apps)
        self._progress.open()
        report_to(self._progress.report)
        if self._setup.apps and not self._tasks and self._setup.exec_dir is None:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"there is no @task function in {', '.join(self._setup.apps)}",
                "decorate functions with rollq.task, or give a directory of programs",
            )
        # A job with a user of its own must be able to enter the directory.
        mode = 0o700 if self._setup.sandbox.users is None else 0o711
        jobs_dir = await loop.run_in_executor(self._thread, make_empty, self._jobs_dir, mode)
        self._children.open()
        self._check_calls()
        self._loop_calls = LoopCalls(loop, self, self._tasks, self._blobs.path)
        self._poller = FdPoller(loop)
        execs = ExecDir(self._setup.exec_dir)
        self._sealed = self._setup.open_execs()
        reuse = not self.sandbox.has(Layer.USER)
        directories = Directories(self._thread, jobs_dir, by_job=self._setup.own_execs, reuse=reuse)
        self._programs = Programs(
            *(loop, self._poller, self._children, execs, directories),
            sandbox=self.sandbox,
            measuring=self._measuring,
            allow_shipped_execs=self._setup.allow_shipped_execs,
            own_execs=self._setup.own_execs,
            sealed=self._sealed,
            vault=self._vault,
        )
        self._preparing.open(directories)
        self._uploads.open(directories)
        if any(not task.in_loop for task in self._tasks.values()):
            self._pool = WarmPool(
                *(self._poller, self._children, self._setup.apps, self._setup.slots),
                directories=directories,
                sandbox=self.sandbox,
                measuring=self._measuring,
            )
            await self._pool.start()

    def _check_calls(self) -> None:
        """Raise LocalError if layers are required and there are functions for this process."""
        needed = self._setup.sandbox.needed()
        names = sorted(name for name, task in self._tasks.items() if task.in_loop)
        if needed and names:
            raise LocalError(
                ErrorCode.NO_SANDBOX,
                f"{names[0]!r} is a coroutine function: it runs in the worker itself, and has none "
                f"of the layers that are needed ({', '.join(needed)})",
                "make it a plain function, or run a worker without such layers for it",
            )

    async def look_for_programs(self) -> ProgramsFound:
        """The programs and functions available now. Reads the exec directory on a thread."""
        assert self._programs is not None, "started"
        loop = asyncio.get_running_loop()
        names = await loop.run_in_executor(self._thread, self._programs.execs.names)
        if self._sealed is not None:
            names = self._sealed.listed(names)
        return ProgramsFound(frozenset(names.union(self._tasks)), self._setup.allow_shipped_execs)

    def take_unreported(self) -> list[StoredResult]:
        """Remove and return the results that are not passed on yet."""
        ends, self._ends = self._ends, []
        return ends

    async def close(self) -> None:
        """End all executions and wait for them; no event is emitted any more."""
        self._on_end = self._feed = _ignore
        self._on_calls = None
        self._progress.close()
        self.stop_calls()
        await self._preparing.close()
        for run in list(self._running.values()):
            if run is not None:
                run.kill()
        if self._pool is not None:
            self._pool.close()
        await self._children.wait_empty()
        await self._uploads.close()  # also those of programs that were just killed
        self._children.close()
        if self._programs is not None:
            self._programs.close()
        if self._poller is not None:
            self._poller.close()
        self._thread.shutdown(wait=False)
        self._measuring.shutdown(wait=False)

    def prepare(self, jobs: Sequence[tuple[AssignJob, AttemptRef]]) -> None:
        """Fetch the inputs of attempts."""
        ready = [
            ref
            for job, ref in jobs
            if not self._preparing.begin(job, ref, is_call=job.exec_name in self._tasks)
        ]
        if ready:
            self._feed(InputsReady(ready))

    def drop_inputs(self, refs: Sequence[AttemptRef]) -> None:
        """These attempts do not start: drop their inputs."""
        for ref in refs:
            self._preparing.drop(ref)

    @property
    def calls(self) -> frozenset[str]:
        """The functions that run in the loop."""
        return frozenset(name for name, task in self._tasks.items() if task.in_loop)

    def run(self, jobs: Sequence[tuple[AssignJob, AttemptRef]]) -> None:
        """Start attempts now."""
        for job, ref in jobs:
            task = None if self._preparing.is_ready(ref) else self._tasks.get(job.exec_name)
            self._begin(task, self._preparing.resolved(job, ref), ref)

    def call(self, jobs: Sequence[tuple[AssignJob, AttemptRef]]) -> None:
        """Queue calls for the event loop."""
        assert self._loop_calls is not None, "started"
        calls = jobs
        if self._preparing.has_ready:  # a job may ship a program with the name of a function
            jobs = [(self._preparing.resolved(job, ref), ref) for job, ref in jobs]
            programs = [place for place in jobs if self._preparing.is_ready(place[1])]
            calls = [place for place in jobs if not self._preparing.is_ready(place[1])]
            for job, ref in programs:
                self._feed(CallWaits(ref, ()))
                self._begin(None, job, ref)
        self._loop_calls.add(calls)

    def stop_calls(self) -> None:
        """Start no more calls in the loop."""
        if self._loop_calls is not None:
            self._loop_calls.clear()

    def fail(self, job: AssignJob, ref: AttemptRef, detail: str) -> None:
        """End an attempt that has not started as FAILED, with this cause in its result."""
        self._note_end(job, ref, refusal(detail))
        self._report_soon()

    def kill(self, ref: AttemptRef) -> None:
        """End an attempt as CANCELLED, unless it has just ended by itself."""
        run = self._running.get(ref)
        if run is not None:
            run.kill()
            return
        job = self._uploads.cancel(ref)
        if job is None and self._loop_calls is not None:
            job = self._loop_calls.remove(ref)
        if job is not None:
            self._preparing.over(ref)
            self._ends.append(StoredResult(ref, job.lease_ms, Status.CANCELLED))
            self._report_soon()

    def tails(self, ref: AttemptRef) -> tuple[Tail, Tail] | None:
        """The output of a running program so far; None if it is no program, or does not run."""
        run = self._running.get(ref)
        return run.tails if isinstance(run, ProgramRun) else None

    def sample(self) -> None:
        """Sample running programs; called a few times a second."""
        if self._programs is not None:
            self._programs.sample()
        if self._pool is not None:
            self._pool.sample()
        for run in self._running.values():
            if isinstance(run, ProgramRun):
                run.sample()

    # --- start of attempts

    def _prepared(self, ref: AttemptRef) -> None:
        self._feed(InputsReady((ref,)))

    def _not_prepared(self, ref: AttemptRef, error: RollqError) -> None:
        self._feed(InputsFailed(ref, error))

    def _begin(self, task: Task[..., Any] | None, job: AssignJob, ref: AttemptRef) -> None:
        self._running[ref] = None
        self._begun_s[ref] = time.perf_counter()
        on_end = partial(self._ended, job, ref)
        on_progress = partial(self._progress.note, ref)
        run: Execution
        try:
            if task is not None:
                assert self._pool is not None, "started"
                request = request_of(job)
                options = job.options or DEFAULT_OPTIONS
                may_load = self._setup.allow_shipped_execs
                traceparent = self._traceparent_of(ref)
                env = env_of(request, may_load=may_load, traceparent=traceparent)
                found = find_secrets(job, self._vault, env, may_load=may_load)
                if found:
                    env = env | found.variables(no_file_for_function)
                    on_end = partial(end_masked, found.masker(), on_end)
                self._preparing.take(ref)
                call = call_of(job, request, ref, env)
                blobs = [self._blobs.path(blob.digest) for blob in job.blobs if call.files]
                run = PooledCall(self._pool, call, options, on_end, on_progress, blobs=blobs)
            else:
                assert self._programs is not None, "started"
                prepared = self._preparing.take(ref)
                if prepared is None:
                    request = decode_if_marked(job.body, JobRequest, "JobId")
                else:
                    request = prepared.request
                on_left = partial(self._left, job, ref)
                run = ProgramRun(
                    *(self._programs, job, request, on_end),
                    on_left=on_left,
                    prepared=prepared,
                    on_progress=on_progress,
                    traceparent=self._traceparent_of(ref),
                )
                run.start()
        except RemoteError as error:
            on_end(refusal(str(error)))
        except StateError as error:
            not_started = isinstance(error, NoProgramError | NoSecretError | NotLayeredError)
            self._not_begun(ref, str(error), not_started=not_started)
        except OSError as error:
            self._not_begun(ref, f"no room to run it: {error}")
        else:
            if ref in self._running:
                self._running[ref] = run

    # --- end of attempts

    def result_of(
        self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd
    ) -> StoredResult | None:
        """The result of a call in the loop. None: its outputs are uploaded first, and its result
        follows separately."""
        self._preparing.over(ref)
        result = self._result_of(job, ref, ending)
        if result is None:
            self._feed(SlotsFreed(((ref, ending.run_ms),)))
        return result

    def calls_ended(self, results: list[StoredResult], ran_s: float) -> None:
        """Calls in the loop ended. A call that never waits blocks all slots."""
        if self._on_calls is not None:
            self._on_calls(results, ran_s * 1000 * self._setup.slots)

    def call_waits(self, call: LoopCall, rest: list[AttemptRef]) -> None:
        """A call in the loop waits."""
        self._running[call.ref] = call
        self._begun_s[call.ref] = call.begun_s
        self._feed(CallWaits(call.ref, rest))

    def call_ended(self, call: LoopCall, ending: ExecutionEnd) -> None:
        """A call in the loop that had waited ended."""
        self._note_end(call.job, call.ref, ending)
        self._report_soon()  # before the turn ends: credit is sent with the acks
        self._free_slot(call.ref)

    def _left(
        self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd, outputs: LargeOutputs
    ) -> None:
        """A program ended, with outputs that must be uploaded."""
        self._free_slot(ref)
        self._uploads.begin(job, ref, ending, outputs)

    def _uploaded(self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd) -> None:
        self._note_end(job, ref, ending)
        self._report_soon()

    def _ended(self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd) -> None:
        run = self._free_slot(ref)
        self._note_end(job, ref, ending)
        waiting_count = self._waiting_count()
        if waiting_count < len(self._ends) or not isinstance(run, ProgramRun | PooledCall):
            self._report_ends()
        elif self._report_timer is None:
            loop = asyncio.get_running_loop()
            self._report_timer = loop.call_later(REPORT_MS / 1000, self._report_ends)

    def _free_slot(self, ref: AttemptRef) -> Execution | None:
        """Free the slot of an attempt: the next may start before this result is ready."""
        self._progress.over(ref)
        run = self._running.pop(ref)
        run_ms = (time.perf_counter() - self._begun_s.pop(ref)) * 1000
        self._preparing.over(ref)
        self._feed(SlotsFreed(((ref, run_ms),)))
        return run

    def _note_end(self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd) -> None:
        """Make the result of an attempt, to be passed on."""
        result = self._result_of(job, ref, ending)
        if result is not None:
            self._ends.append(result)

    def _result_of(
        self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd
    ) -> StoredResult | None:
        """The result of an attempt. None: parts of it are uploaded first; it follows."""
        result = fitted_result(job, ref, ending)
        if result is None:
            self._uploads.begin(job, ref, ending)
        return result

    def _report_soon(self) -> None:
        """Pass results on after this turn of the loop, together."""
        if not self._report_due:
            self._report_due = True
            asyncio.get_running_loop().call_soon(self._report_ends)

    def _report_ends(self) -> None:
        self._report_due = False
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None
        if self._ends:
            self._on_end(self.take_unreported())

    def _not_begun(self, ref: AttemptRef, detail: str, *, not_started: bool = False) -> None:
        del self._running[ref]
        del self._begun_s[ref]
        self._preparing.over(ref)
        self._refuse(ref, detail, not_started=not_started)

    def _refuse(self, ref: AttemptRef, detail: str, *, not_started: bool = False) -> None:
        self._feed(StartFailed(ref, detail, not_started))


def _ignore(event: object) -> None:
    """Used after `close`: the machine has stopped."""
