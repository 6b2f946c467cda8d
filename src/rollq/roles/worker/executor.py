"""Runs attempts: at most `slots` at once, as a program, in a warm process, or in the loop.

Whoever runs, the executor hears of its end once and tells the machine. What it is handed beyond
its slots (jobs fetched ahead) waits here, oldest first.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from rollq.base.errors import ErrorCode, LocalError, RemoteError, StateError
from rollq.base.jobs import DEFAULT_OPTIONS, AttemptRef, Status
from rollq.base.limits import DETAIL_BYTES_MAX, INLINE_BYTES_MAX
from rollq.roles.worker.ahead import AHEAD_MS, GIVE_BACK_MS, Lookahead, may_run_again
from rollq.roles.worker.app import load_apps
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.roles.worker.calls import (
    LoopCall,
    LoopCalls,
    PooledCall,
    args_of,
    no_env_in_loop,
    request_of,
)
from rollq.roles.worker.capture import Tail
from rollq.roles.worker.directories import Directories, make_empty
from rollq.roles.worker.environment import clean_environ, env_of
from rollq.roles.worker.execs import ExecDir, NoProgramError
from rollq.roles.worker.exits import leave_exits_to_others
from rollq.roles.worker.family import Family
from rollq.roles.worker.fitting import fit
from rollq.roles.worker.handovers import Handovers, Leavings
from rollq.roles.worker.outputs import Ending, encode_result, refusal
from rollq.roles.worker.preparations import Preparations
from rollq.roles.worker.programs import ProgramRun, Programs
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.signals import ProgramsFound, StartFailed, StoredResult
from rollq.roles.worker.warm import WarmPool
from rollq.roles.worker.warm_main import Call
from rollq.roles.worker.watch import Watch
from rollq.tasks import Task
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest, decode_if_marked

# How long an end may wait to be told with others, while at least as many jobs wait for a slot: a
# sync, a message and a commit for each would take the processors from the programs themselves.
TELL_MS: Final = 20


class Run(Protocol):
    """An execution under way."""

    def kill(self) -> None:
        """End it; its ending says CANCELLED."""


class Executor:
    """Executions of one worker.

    Args:
        setup: What it may run, and how many at once.
        jobs_dir: Where programs run; it is emptied.
        on_end: Told how attempts ended. Either this or `on_fail`, once for each that is run.
        on_fail: Told that one could not be started.
        blobs: Files that jobs refer to; opened and closed by others.
    """

    def __init__(
        self,
        setup: NodeSetup,
        jobs_dir: str,
        on_end: Callable[[list[StoredResult]], None],
        on_fail: Callable[[StartFailed], None],
        blobs: WorkerBlobs,
    ) -> None:
        self._setup = setup
        self._preparing = Preparations(
            blobs,
            allow_shipped_execs=setup.allow_shipped_execs,
            on_ready=self._prepared,
            on_failed=self._not_prepared,
        )
        self._handing = Handovers(blobs, self._handed_over, self._refuse)
        self._jobs_dir = jobs_dir
        self._on_end = on_end
        self._on_fail = on_fail
        self.lookahead = Lookahead(setup.slots, setup.ahead)
        # Whether a job that is given back unstarted keeps its attempt: older members count it.
        self.returns_are_free = False
        self._family = Family(clean_environ(os.environ, setup.pass_env))
        self._tasks: dict[str, Task] = {}
        self._running: dict[AttemptRef, Run | None] = {}
        self._begun_s: dict[AttemptRef, float] = {}  # of those that run
        self._waiting: deque[tuple[AssignJob, AttemptRef, float]] = deque()  # with when it came
        self._filling = False
        self._ends: list[StoredResult] = []  # not told yet
        self._tell_due = False
        self._telling: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "worker-files", leave_exits_to_others)
        self._watch: Watch | None = None
        self._programs: Programs | None = None
        self._pool: WarmPool | None = None
        self._loop_calls: LoopCalls | None = None

    async def start(self) -> None:
        """Load the application, clear old directories away, start the warm processes.

        Raises:
            LocalError: the application cannot be loaded, there is nothing to run, or the jobs
                directory cannot be used.
        """
        loop = asyncio.get_running_loop()
        self._tasks = load_apps(self._setup.apps)
        if self._setup.apps and not self._tasks and self._setup.exec_dir is None:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"there is no @task function in {', '.join(self._setup.apps)}",
                "decorate functions with rollq.task, or give a directory of programs",
            )
        jobs_dir = await loop.run_in_executor(self._thread, make_empty, self._jobs_dir)
        self._family.open()
        self._loop_calls = LoopCalls(loop, self._next_call)
        self._watch = Watch(loop)
        execs = ExecDir(self._setup.exec_dir)
        directories = Directories(self._thread, jobs_dir, by_job=self._setup.own_execs)
        self._programs = Programs(
            *(loop, self._watch, self._family, execs, directories),
            allow_shipped_execs=self._setup.allow_shipped_execs,
            own_execs=self._setup.own_execs,
        )
        self._preparing.open(directories)
        self._handing.open(directories)
        if any(not task.in_loop for task in self._tasks.values()):
            self._pool = WarmPool(
                self._watch, self._family, self._setup.apps, self._setup.slots, folder=jobs_dir
            )
            await self._pool.start()

    async def look_for_programs(self) -> ProgramsFound:
        """What can be run here now. Reads the exec directory on a thread."""
        assert self._programs is not None, "started"
        loop = asyncio.get_running_loop()
        names = await loop.run_in_executor(self._thread, self._programs.execs.names)
        return ProgramsFound(frozenset(names.union(self._tasks)), self._setup.allow_shipped_execs)

    def take_untold(self) -> list[StoredResult]:
        """What ended and waits to be told with others; it is told to nobody else."""
        ends, self._ends = self._ends, []
        return ends

    async def close(self) -> None:
        """End everything that runs and wait for it; nothing is emitted any more."""
        self._on_end = self._on_fail = _nobody
        self._waiting.clear()
        await self._preparing.close()
        await self._handing.close()
        for run in list(self._running.values()):
            if run is not None:
                run.kill()
        if self._pool is not None:
            self._pool.close()
        await self._family.wait_empty()
        self._family.close()
        if self._programs is not None:
            self._programs.close()
        if self._watch is not None:
            self._watch.close()
        self._thread.shutdown(wait=False)

    @property
    def load(self) -> int:
        """Attempts that run or wait here, or whose files are on their way."""
        moving = len(self._preparing) + len(self._handing)
        return len(self._running) + len(self._waiting) + moving

    def run(self, jobs: Sequence[tuple[AssignJob, AttemptRef]]) -> None:
        """Run attempts, now or when a slot is free."""
        came_s = time.perf_counter()
        for job, ref in jobs:
            if job.expect_ms:
                self.lookahead.ran(job.expect_ms)  # as if it had been seen already
            if not job.blobs or not self._preparing.begin(
                job, ref, is_call=job.exec_name in self._tasks
            ):
                self._waiting.append((job, ref, came_s))
        self._fill()

    def _prepared(self, job: AssignJob, ref: AttemptRef) -> None:
        self._waiting.append((job, ref, time.perf_counter()))
        self._fill()

    def _not_prepared(self, job: AssignJob, ref: AttemptRef, error: Exception) -> None:
        if isinstance(error, RemoteError):
            self._note_end(job, ref, refusal(str(error)))
            self._tell_soon()
        else:
            self._refuse(ref, str(error), not_started=isinstance(error, NoProgramError))

    def kill(self, ref: AttemptRef) -> None:
        """End an attempt; it ends as CANCELLED unless it ended by itself just before."""
        run = self._running.get(ref)
        if run is not None:
            run.kill()
            return
        job = self._preparing.cancel(ref) or self._handing.cancel(ref)
        for waiting in self._waiting:
            if waiting[1] == ref:
                self._waiting.remove(waiting)
                self._preparing.over(ref)
                job = waiting[0]
                break
        if job is not None:
            self._ends.append(StoredResult(ref, job.lease_ms, Status.CANCELLED))
            self._tell_soon()

    def tails(self, ref: AttemptRef) -> tuple[Tail, Tail] | None:
        """What a program that runs has written so far; None if it is none, or does not run."""
        run = self._running.get(ref)
        return run.tails if isinstance(run, ProgramRun) else None

    def sample(self) -> None:
        """Look at what runs: a few times a second."""
        if self._programs is not None:
            self._programs.sample()
        for run in self._running.values():
            if isinstance(run, ProgramRun):
                run.sample()
        now_s = time.perf_counter()
        oldest_s = min(self._begun_s.values(), default=now_s)
        self.lookahead.stuck = now_s - oldest_s > AHEAD_MS / 1000
        self._give_back(now_s - GIVE_BACK_MS / 1000)

    def give_back_all(self) -> None:
        """Let others have all that waits here: nothing of it has begun."""
        waiting, self._waiting = self._waiting, deque()
        for _, ref, _ in waiting:
            self._preparing.over(ref)
            self._refuse(ref, "draining", not_started=True)

    def take_waiting(self) -> list[AttemptRef]:
        """What waits here, for good: it will not begin, and nothing is told of it."""
        waiting, self._waiting = self._waiting, deque()
        return [ref for _, ref, _ in waiting]

    def _give_back(self, before_s: float) -> None:
        """Let others have what was fetched ahead and waits behind something long. Where that costs
        the job an attempt it is done once, and never if the job has a single one."""
        late = [
            waiting
            for waiting in self._waiting
            if waiting[2] < before_s and (self.returns_are_free or may_run_again(waiting[0]))
        ]
        for waiting in late:
            self._waiting.remove(waiting)
            self._preparing.over(waiting[1])
            self._refuse(waiting[1], "fetched ahead, and no slot came free", not_started=True)

    def _fill(self) -> None:
        """Begin what waits while a slot is free."""
        if self._filling:
            return  # one that could not be started: the loop below goes on
        self._filling = True
        while self._waiting and len(self._running) < self._setup.slots:
            job, ref, _ = self._waiting[0]
            task = self._task_of(job, ref)
            if task is not None and task.in_loop:
                self._loop_calls.wake()  # type: ignore[union-attr]
                break
            self._waiting.popleft()
            self._begin(task, job, ref)
        self._filling = False

    def _next_call(self) -> LoopCall | None:
        """The next that runs in the loop, if it is the oldest that waits and a slot is free."""
        while self._waiting and len(self._running) < self._setup.slots:
            job, ref, _ = self._waiting[0]
            task = self._task_of(job, ref)
            if task is None or not task.in_loop:
                self._fill()
                continue
            self._waiting.popleft()
            try:
                request = request_of(job)
                if request is not None and request.env:
                    raise no_env_in_loop(job)
                args = args_of(request)
            except RemoteError as error:
                self._note_end(job, ref, refusal(str(error)))
                self._tell_soon()
                continue
            return LoopCall(self, task, job, ref, args)
        return None

    def _task_of(self, job: AssignJob, ref: AttemptRef) -> Task | None:
        """The function that a job calls; None: it is a program."""
        if job.blobs and self._preparing.is_ready(ref):
            return None
        return self._tasks.get(job.exec_name)

    def call_waits(self, call: LoopCall) -> None:
        """A call in the loop did not end at once: it has a slot from now on."""
        self._running[call.ref] = call
        self._begun_s[call.ref] = call.begun_s
        self._fill()

    def call_ended(self, call: LoopCall, ending: Ending, ran_s: float) -> None:
        """A call in the loop ended. One that never waited has kept every slot from working."""
        if call.waits:
            del self._running[call.ref]
            del self._begun_s[call.ref]
            self._fill()
        else:
            ran_s *= self._setup.slots
        self.lookahead.ran(ran_s * 1000)
        self._note_end(call.job, call.ref, ending)
        if not self._tell_due:
            self._tell_soon()

    def _begin(self, task: Task | None, job: AssignJob, ref: AttemptRef) -> None:
        self._running[ref] = None
        self._begun_s[ref] = time.perf_counter()
        on_end = partial(self._ended, job, ref)
        run: Run
        try:
            if task is not None:
                assert self._pool is not None, "started"
                request = request_of(job)
                env = env_of(request, may_load=self._setup.allow_shipped_execs)
                call = Call(task.name, args_of(request), job.body, env or None)
                run = PooledCall(self._pool, call, job.options or DEFAULT_OPTIONS, on_end)
            else:
                assert self._programs is not None, "started"
                prepared = self._preparing.take(ref) if job.blobs else None
                if prepared is None:
                    request = decode_if_marked(job.body, JobRequest, "JobId")
                else:
                    request = prepared.request
                on_left = partial(self._left, job, ref)
                run = ProgramRun(
                    self._programs, job, request, on_end, on_left=on_left, prepared=prepared
                )
                run.start()
        except RemoteError as error:
            on_end(refusal(str(error)))
        except StateError as error:
            self._not_begun(ref, str(error), not_started=isinstance(error, NoProgramError))
        except OSError as error:
            self._not_begun(ref, f"no room to run it: {error}")
        else:
            if ref in self._running:
                self._running[ref] = run

    def _left(self, job: AssignJob, ref: AttemptRef, ending: Ending, leavings: Leavings) -> None:
        """A program ended, and left what goes as blobs."""
        self._free_slot(job, ref)
        self._handing.begin(job, ref, ending, leavings)

    def _handed_over(self, job: AssignJob, ref: AttemptRef, ending: Ending) -> None:
        self._note_end(job, ref, ending)
        self._tell_soon()

    def _ended(self, job: AssignJob, ref: AttemptRef, ending: Ending) -> None:
        run = self._free_slot(job, ref)
        self._note_end(job, ref, ending)
        if len(self._waiting) < len(self._ends) or not isinstance(run, ProgramRun | PooledCall):
            self._tell_ends()
        elif self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(TELL_MS / 1000, self._tell_ends)

    def _free_slot(self, job: AssignJob, ref: AttemptRef) -> Run | None:
        """Begin the next: it runs while we write down how this one ended."""
        run = self._running.pop(ref)
        self.lookahead.ran((time.perf_counter() - self._begun_s.pop(ref)) * 1000)
        if job.blobs:
            self._preparing.over(ref)
        self._fill()
        return run

    def _note_end(self, job: AssignJob, ref: AttemptRef, ending: Ending) -> None:
        """How it ended, told to the grid and in the report alike: nothing changes the status once
        the report is made. What does not fit is handed over first, and then this is called again.
        """
        encoded = encode_result(job, ending)
        if len(encoded) > INLINE_BYTES_MAX or ending.apart:
            # A legacy grid takes inline results alone; its attempts have no fence.
            encoded = fit(job, ending, as_blobs=job.fence > 0)
        if ending.apart:
            self._handing.begin(job, ref, ending)
            return
        self._ends.append(
            StoredResult(
                ref,
                job.lease_ms,
                ending.status,
                encoded,
                ending.exit_code,
                ending.signal,
                ending.run_ms,
                ending.peak_bytes,
                ending.blobs,
                ending.fetched_bytes,
                ending.held_bytes,
            )
        )

    def _tell_soon(self) -> None:
        """Tell after this turn of the loop, with all that ends in it."""
        if not self._tell_due:
            self._tell_due = True
            asyncio.get_running_loop().call_soon(self._tell_ends)

    def _tell_ends(self) -> None:
        self._tell_due = False
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._ends:
            self._on_end(self.take_untold())

    def _not_begun(self, ref: AttemptRef, detail: str, *, not_started: bool = False) -> None:
        del self._running[ref]
        del self._begun_s[ref]
        self._preparing.over(ref)
        self._refuse(ref, detail, not_started=not_started)
        self._fill()

    def _refuse(self, ref: AttemptRef, detail: str, *, not_started: bool = False) -> None:
        self._on_fail(StartFailed(ref, detail[:DETAIL_BYTES_MAX], not_started))


def _nobody(event: object) -> None:
    """The worker stops: nobody asks how an execution ended."""
