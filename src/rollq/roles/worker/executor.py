"""Runs attempts: at most `slots` at once, as a program, in a warm process, or in the loop.

Whoever runs, the executor hears of its end once and tells the machine. What it is handed beyond
its slots (jobs fetched ahead) waits here, oldest first.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from rollq.base.errors import ErrorCode, LocalError, RemoteError, StateError
from rollq.base.jobs import DEFAULT_OPTIONS, AttemptRef, Status
from rollq.base.limits import DETAIL_BYTES_MAX
from rollq.roles.worker.ahead import AHEAD_MS, GIVE_BACK_MS, Lookahead
from rollq.roles.worker.app import load_apps
from rollq.roles.worker.calls import LoopCall, LoopCalls, PooledCall
from rollq.roles.worker.directories import Directories
from rollq.roles.worker.execs import ExecDir
from rollq.roles.worker.exits import leave_exits_to_others
from rollq.roles.worker.family import Family
from rollq.roles.worker.outputs import Ending, encode_result, refusal
from rollq.roles.worker.paths import remove_tree
from rollq.roles.worker.programs import ProgramRun, Programs
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.signals import Finished, StartFailed
from rollq.roles.worker.warm import WarmPool
from rollq.roles.worker.warm_main import Call
from rollq.roles.worker.watch import Watch
from rollq.tasks import Task
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest, decode_if_marked

# How long an end may wait to be told with others, while at least as many jobs wait for a slot: a
# sync, a message and a commit for each would take the processors from the programs themselves.
TELL_MS: Final = 10


class Run(Protocol):
    """An execution under way."""

    def kill(self) -> None:
        """End it; its ending says CANCELLED."""


class Executor:
    """Executions of one worker. `emit` gets `Finished` or `StartFailed`, once for each `run`."""

    def __init__(
        self, setup: NodeSetup, jobs_dir: str, emit: Callable[[Finished | StartFailed], None]
    ) -> None:
        self._setup = setup
        self._jobs_dir = jobs_dir
        self._emit = emit
        self.lookahead = Lookahead(setup.slots, setup.ahead)
        self._family = Family()
        self._tasks: dict[str, Task] = {}
        self._running: dict[AttemptRef, Run | None] = {}
        self._begun_s: dict[AttemptRef, float] = {}  # of those that run
        self._waiting: dict[AttemptRef, tuple[AssignJob, float]] = {}  # with when it came
        self._filling = False
        self._ends: list[Finished] = []  # not told yet
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
        jobs_dir = await loop.run_in_executor(self._thread, _make_empty, self._jobs_dir)
        self._family.open()
        self._loop_calls = LoopCalls(loop)
        self._watch = Watch(loop)
        execs = ExecDir(self._setup.exec_dir)
        directories = Directories(self._thread, jobs_dir)
        self._programs = Programs(loop, self._watch, self._family, execs, directories)
        if any(not task.in_loop for task in self._tasks.values()):
            self._pool = WarmPool(self._watch, self._family, self._setup.apps, self._setup.slots)
            await self._pool.start()

    async def close(self) -> None:
        """End everything that runs and wait for it; nothing is emitted any more."""
        self._emit = _nobody
        self._waiting.clear()
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
        """Attempts that run or wait here."""
        return len(self._running) + len(self._waiting)

    def run(self, job: AssignJob, ref: AttemptRef) -> None:
        """Run an attempt, now or when a slot is free."""
        if self._waiting or len(self._running) >= self._setup.slots:
            self._waiting[ref] = (job, time.perf_counter())
        else:
            self._begin(job, ref)

    def kill(self, ref: AttemptRef) -> None:
        """End an attempt; it is emitted as CANCELLED unless it ended by itself just before."""
        if self._waiting.pop(ref, None) is not None:
            self._emit(Finished(ref, Status.CANCELLED))
        elif (run := self._running.get(ref)) is not None:
            run.kill()

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

    def _give_back(self, before_s: float) -> None:
        """Let others have what was fetched ahead and waits behind something long.

        Giving back costs the job an attempt, so each is given back once, and never one that was
        allowed a single attempt.
        """
        late = [
            ref
            for ref, (job, came_s) in self._waiting.items()
            if came_s < before_s
            and job.attempt == 1
            and (job.options is None or job.options.max_attempts != 1)
        ]
        for ref in late:
            del self._waiting[ref]
            self._emit(StartFailed(ref, "fetched ahead, and no slot came free"))

    def _begin(self, job: AssignJob, ref: AttemptRef) -> None:
        self._running[ref] = None
        self._begun_s[ref] = time.perf_counter()
        on_end = partial(self._ended, job, ref)
        try:
            request = decode_if_marked(job.body, JobRequest, "JobId")
            task = self._tasks.get(job.exec_name)
            if task is not None:
                run = self._call(task, job, request, on_end)
            else:
                assert self._programs is not None, "started"
                run = ProgramRun(self._programs, job, request, on_end)
                run.start()
        except RemoteError as error:
            on_end(refusal(str(error)))
        except StateError as error:
            self._not_started(ref, str(error))
        except OSError as error:
            self._not_started(ref, f"no room to run it: {error}")
        else:
            if ref in self._running:
                self._running[ref] = run

    def _call(
        self,
        task: Task,
        job: AssignJob,
        request: JobRequest | None,
        on_end: Callable[[Ending], None],
    ) -> Run:
        if request is not None and request.files:
            raise _no_files(job.exec_name)
        args = None if request is None else request.args or ()
        call = Call(task.name, args, job.body)
        options = job.options or DEFAULT_OPTIONS
        if task.in_loop:
            assert self._loop_calls is not None, "started"
            return LoopCall(self._loop_calls, task, call, options, on_end)
        assert self._pool is not None, "started"
        return PooledCall(self._pool, call, options, on_end)

    def _ended(self, job: AssignJob, ref: AttemptRef, ending: Ending) -> None:
        run = self._running.pop(ref)
        self.lookahead.ran((time.perf_counter() - self._begun_s.pop(ref)) * 1000)
        self._fill()  # first: the next one runs while we write down how this one ended
        self._ends.append(
            Finished(
                ref,
                ending.status,
                encode_result(job, ending),
                ending.exit_code,
                ending.signal,
                ending.run_ms,
                ending.peak_bytes,
            )
        )
        if len(self._waiting) < len(self._ends) or not isinstance(run, ProgramRun | PooledCall):
            self._tell_ends()
        elif self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(TELL_MS / 1000, self._tell_ends)

    def _tell_ends(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        ends, self._ends = self._ends, []
        for event in ends:
            self._emit(event)

    def _not_started(self, ref: AttemptRef, detail: str) -> None:
        del self._running[ref]
        del self._begun_s[ref]
        self._emit(StartFailed(ref, detail[:DETAIL_BYTES_MAX]))
        self._fill()

    def _fill(self) -> None:
        if self._filling:
            return  # one that could not be started: the loop below goes on
        self._filling = True
        while self._waiting and len(self._running) < self._setup.slots:
            ref = next(iter(self._waiting))
            self._begin(self._waiting.pop(ref)[0], ref)
        self._filling = False


def _make_empty(directory: str) -> str:
    """Make a directory, without what an earlier life left in it; returns its absolute path."""
    try:
        if os.path.lexists(directory):
            remove_tree(directory)
        os.makedirs(directory, mode=0o700)
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"the jobs directory {directory} cannot be made: {error.strerror or error}",
            "give the user that runs rollq the right to write there, or name another",
        ) from None
    return os.path.abspath(directory)


def _no_files(exec_name: str) -> RemoteError:
    return RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"{exec_name[:64]!a} is a function, which takes no files",
        "pass what it needs as arguments or as the payload",
    )


def _nobody(event: Finished | StartFailed) -> None:
    """The worker stops: nobody asks how an execution ended."""
