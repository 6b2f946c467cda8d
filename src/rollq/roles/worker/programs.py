"""Programs: one execution, from its directory to its result.

A program runs in a directory and a process group of its own. When it exits, the rest of its group
is killed, its outputs are collected and the directory is emptied. All of it runs in the loop; only
removing a deep tree runs on a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any, Final

from msgspec import UNSET

from rollq.base.amounts import size_text
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import guid_to_text
from rollq.base.job_events import (
    PROGRESS_BYTES_MAX,
    PROGRESS_FILE_ENV,
    JobProgress,
    last_progress,
)
from rollq.base.jobs import DEFAULT_OPTIONS, Status
from rollq.base.limits import JOB_ARGS_MAX
from rollq.base.outcomes import SIGNAL_BASE
from rollq.base.parents import PARENTS_FILE_ENV, parent_lines
from rollq.roles.worker.capture import SpooledTail, Tail
from rollq.roles.worker.child_processes import ChildProcesses
from rollq.roles.worker.directories import Directories
from rollq.roles.worker.environment import env_of
from rollq.roles.worker.execs import ExecDir, is_shipped, no_function, not_allowed, why_not_started
from rollq.roles.worker.exits import watch_exit
from rollq.roles.worker.fd_poller import FdPoller
from rollq.roles.worker.given_secrets import NONE_GIVEN, GivenSecrets, find_secrets
from rollq.roles.worker.inputs import PAYLOAD, Input, Stamps, checked_inputs, place_input
from rollq.roles.worker.output_uploads import LargeOutputs
from rollq.roles.worker.outputs import ExecutionEnd, Terms
from rollq.roles.worker.preparations import Prepared
from rollq.roles.worker.program_streams import ProgramStreams
from rollq.roles.worker.sandbox.launcher import NotLayeredError
from rollq.roles.worker.sandbox.sandbox import NO_PLACE, Place, Sandbox
from rollq.roles.worker.sealed_execs import SealedExecs
from rollq.security.vault import Vault
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest

log = logging.getLogger("rollq.worker")

PROGRESS_FILE: Final = "rollq-progress"
PARENTS_FILE: Final = "rollq-parents"
PROGRESS_IGNORED: Final = 'ignored progress that is not as {"done": 3, "total": 10, "note": "…"}'
RSS_UNIT_BYTES: Final = 1024  # of ru_maxrss on Linux


class Programs:
    """Shared parts of all executions of programs."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        poller: FdPoller,
        children: ChildProcesses,
        execs: ExecDir,
        directories: Directories,
        *,
        sandbox: Sandbox,
        measuring: Executor,
        allow_shipped_execs: bool = False,
        own_execs: bool = False,
        sealed: SealedExecs | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.loop = loop
        self.poller = poller
        self.children = children
        self.execs = execs
        self.directories = directories
        self.sandbox = sandbox
        self.measuring = measuring  # a thread that measures directories
        self.allow_shipped_execs = allow_shipped_execs
        self.own_execs = own_execs
        self.sealed = sealed  # None: any file with the name of a program may run
        self.vault = vault
        # A checked program must not load code of the job.
        self.may_load = allow_shipped_execs and sealed is None
        self.null_fd = os.open(os.devnull, os.O_RDONLY)
        self.own_rss = 0  # the peak memory of this process, in the kernel's unit

    def tail(self) -> Tail:
        """The capture of one stream, with all of a long one."""
        return SpooledTail(self.directories.path)

    def sample(self) -> None:
        """Sample running programs; called a few times a second."""
        self.own_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.children.end_over_limits()
        self.children.sweep()

    def close(self) -> None:
        """Release shared resources after the last execution."""
        if self.null_fd >= 0:
            os.close(self.null_fd)
            self.null_fd = -1
            self.directories.close()
            if self.sealed is not None:
                self.sealed.close()


class ProgramRun:
    """One execution. After `start`, `on_end` or (with large outputs) `on_left` is called once."""

    def __init__(
        self,
        programs: Programs,
        job: AssignJob,
        request: JobRequest | None,
        on_end: Callable[[ExecutionEnd], None],
        *,
        on_left: Callable[[ExecutionEnd, LargeOutputs], None],
        prepared: Prepared | None = None,
        on_progress: Callable[[JobProgress], None],
        traceparent: str = "",
    ) -> None:
        self._programs = programs
        self._loop = programs.loop
        self._job = job
        self._request = request
        self._on_end = on_end
        self._on_left = on_left
        self._on_progress = on_progress
        self._progress_seen = b""  # the last progress of the program
        self._traceparent = traceparent
        self._prepared = prepared  # the directory with inputs, if they were prepared
        self._inputs: Stamps = {} if prepared is None else prepared.stamps
        # A legacy grid accepts inline results only; its attempts have no fence.
        self._as_blobs = job.fence > 0
        tails = (programs.tail(), programs.tail()) if self._as_blobs else (Tail(), Tail())
        self._streams = ProgramStreams(programs.poller, tails)
        self._timers: list[asyncio.TimerHandle] = []
        self._notes: list[str] = []
        self._pid = 0
        self._started_s = 0.0
        self._seen_bytes = 0
        self._cancelled = False
        self._is_over = False
        self._comes_with_job = False  # the program is shipped with the job
        self._measure: Future[int] | None = None  # of the directory, under way

    @property
    def tails(self) -> tuple[Tail, Tail]:
        """The captured stdout and stderr so far."""
        return self._streams.tails

    def start(self) -> None:
        """Make the directory and start the program.

        Raises:
            StateError: this worker cannot run it; another may.
            RemoteError: no worker can run it as requested.
        """
        directories = self._programs.directories
        directory = None if self._prepared is None else self._prepared.directory
        try:
            argv = [self._program(), *self._arguments()]
            self._comes_with_job = not os.path.isabs(argv[0])
            may_load = self._programs.may_load
            own = env_of(self._request, may_load=may_load, traceparent=self._traceparent)
            secrets = NONE_GIVEN
            if self._job.options is not None and self._job.options.secrets:
                secrets = self._find_secrets(own)
            inputs = self._checked_inputs()
            self._directory = directory = directory or directories.take(self._job.job_id)
            stdin = self._place(inputs)
            if self._programs.own_execs and os.path.isabs(argv[0]):
                argv[0] = self._own_copy(argv[0])
            try:
                if secrets:
                    own = own | secrets.variables(self._directory.create_private)
                self._spawn(argv, stdin, own)
            finally:
                if stdin != self._programs.null_fd:
                    os.close(stdin)
        except BaseException:
            self._streams.close()
            if directory is not None:
                directories.drop(directory)
            raise
        self._set_limits()

    def kill(self) -> None:
        """Kill it; its result is CANCELLED."""
        self._cancelled = True
        self._programs.children.kill(self._pid)

    def sample(self) -> None:
        """Sample its memory (see `_peak_bytes`), progress and disk usage."""
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{self._pid}/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    self._seen_bytes = max(self._seen_bytes, int(line.split()[1]) * 1024)
        if self._pid:
            self._look_for_progress()
        limit_bytes = self._programs.sandbox.setup.disk_bytes
        if limit_bytes and self._pid and self._measure is None:
            self._measure = self._programs.measuring.submit(self._directory.used_bytes, limit_bytes)
            self._measure.add_done_callback(self._measured)

    def _look_for_progress(self) -> None:
        """Report new progress of the program."""
        if not self._directory.is_tmp_touched():
            return
        progress_bytes = self._directory.read_tmp(PROGRESS_FILE, PROGRESS_BYTES_MAX)
        if progress_bytes and progress_bytes != self._progress_seen:
            self._progress_seen = progress_bytes
            progress = last_progress(self._streams.masked(progress_bytes))
            if progress is not None:
                self._on_progress(progress)

    # --- start

    def _program(self) -> bytes:
        if self._prepared is not None and self._prepared.program is not None:
            return self._prepared.program
        name = self._job.exec_name
        if self._request is not None and self._request.call is not UNSET:
            raise no_function(name)
        try:
            return os.fsencode(self._programs.execs.find(name))
        except StateError as error:
            files = (self._request.files if self._request is not None else None) or ()
            if not is_shipped(name, files):
                raise
            if not self._programs.allow_shipped_execs:
                raise not_allowed(name) from error
            return os.fsencode(f"./{name}")

    def _arguments(self) -> list[bytes]:
        args = (self._request.args or ()) if self._request is not None else ()
        if len(args) > JOB_ARGS_MAX:
            raise _bad(f"{len(args)} arguments, more than {JOB_ARGS_MAX}")
        try:
            encoded = [arg.encode() for arg in args]
        except UnicodeEncodeError:
            raise _bad("an argument is not text") from None
        if any(b"\0" in arg for arg in encoded):
            raise _bad("an argument holds a NUL")
        return encoded

    def _find_secrets(self, own: Mapping[str, str]) -> GivenSecrets:
        programs = self._programs
        found = find_secrets(self._job, programs.vault, own, may_load=programs.may_load)
        self._streams.mask(found)
        return found

    def _checked_inputs(self) -> list[Input]:
        if self._prepared is not None or self._request is None or not self._request.files:
            return []
        inputs = checked_inputs(self._request.files)
        for one in inputs:
            if one.content is None:
                raise _bad(f"the blob of {'/'.join(one.parts)!a} is not one that the job refers to")
        return inputs

    def _place(self, inputs: list[Input]) -> int:
        """Create the inputs; returns the descriptor for stdin."""
        if self._prepared is not None:
            return self._programs.null_fd
        files = self._directory.files
        if self._request is None:
            place_input(files, PAYLOAD, self._job.body, self._inputs)
            return files.open_read(PAYLOAD)
        if not inputs:
            self._directory.remember_empty()
        for one in inputs:
            assert one.content is not None, "checked"
            mode = 0o755 if one.is_program else 0o644
            place_input(files, one.parts, one.content, self._inputs, mode)
        return self._programs.null_fd

    def _own_copy(self, program: bytes) -> bytes:
        """Copy the program beside the inputs, as a legacy worker does; it is no output of the
        job."""
        name = os.path.basename(os.fsdecode(program))
        with open(program, "rb") as file:
            content = file.read()
        place_input(self._directory.files, (name,), content, self._inputs, 0o755)
        return os.fsencode(f"./{name}")

    def _task_number(self) -> int:
        """The number of the array task that it is, or is a copy of; -1: none."""
        if self._job.task_number >= 0 or self._request is None or self._request.task is UNSET:
            return self._job.task_number
        return self._request.task

    def _spawn(self, argv: list[bytes], stdin: int, own: Mapping[str, str]) -> None:
        job = self._job
        create = self._directory.create_private
        ends = create(PARENTS_FILE, parent_lines(job.ends)) if job.ends else ""
        env = [
            b"ROLLQ_JOB_ID=%b" % guid_to_text(job.job_id).encode(),
            b"ROLLQ_ATTEMPT=%d" % job.attempt,
            self._directory.tmp_env,
            os.fsencode(f"{PROGRESS_FILE_ENV}={self._directory.path_of_tmp(PROGRESS_FILE)}"),
        ]
        if (task := self._task_number()) >= 0:
            env.append(b"ROLLQ_TASK=%d" % task)
        if ends:
            env.append(os.fsencode(f"{PARENTS_FILE_ENV}={ends}"))
        directory_fd = self._directory.files.fd
        sealed, program, sandbox = self._programs.sealed, None, self._programs.sandbox
        self._started_s = time.perf_counter()
        user = 0
        pipes = self._streams.open()
        try:
            if sealed is not None:
                program = sealed.get(job.exec_name, argv[0], directory_fd).program
            user = sandbox.take_user()
            if user:
                self._directory.hand_over(user)
                env.append(b"HOME=" + self._directory.tmp_env.partition(b"=")[2])
            own_place = NO_PLACE
            if sandbox.is_launching:
                own_place = Place(self._directory.folders, user=user)
            self._pid = self._programs.children.spawn(
                *(argv, env, directory_fd, (stdin, *pipes), own),
                program=program,
                place=own_place,
            )
        except NotLayeredError:
            sandbox.give_user(user)
            raise
        except OSError as error:
            sandbox.give_user(user)
            if error.errno == errno.E2BIG:
                raise _bad("the arguments are too long for this system") from None
            why = why_not_started(argv[0], self._directory.files.fd, error)
            message = f"cannot start {job.exec_name[:64]!a}: {why.text}"
            if why.is_of_file and self._comes_with_job:
                raise _bad(message) from None
            raise StateError(ErrorCode.NO_PROGRAM, message) from None
        finally:
            for end in pipes:
                os.close(end)
        watch_exit(self._programs.poller, self._pid, self._exited)
        self._streams.watch()

    def _set_limits(self) -> None:
        options = self._job.options or DEFAULT_OPTIONS
        for limit_ms, act in (
            (options.run_ms_soft, self._end_softly),
            (options.run_ms_max, self._end_hard),
        ):
            if limit_ms:
                self._timers.append(self._loop.call_later(limit_ms / 1000, act, limit_ms))

    # --- while it runs

    def _end_softly(self, limit_ms: int) -> None:
        self._notes.append(f"told to end, soft run limit of {limit_ms / 1000:g} s exceeded")
        self._programs.children.signal_group(self._pid, signal.SIGTERM)

    def _measured(self, measure: Future[int]) -> None:
        """The directory was measured; on a thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._check_room, measure.result())

    def _check_room(self, used_bytes: int) -> None:
        self._measure = None
        limit_bytes = self._programs.sandbox.setup.disk_bytes
        if used_bytes > limit_bytes and not self._is_over:
            limit, used = size_text(limit_bytes), size_text(used_bytes)
            self._notes.append(f"killed, disk limit of {limit} exceeded: it wrote {used} or more")
            self._programs.children.kill(self._pid)

    def _end_hard(self, limit_ms: int) -> None:
        self._notes.append(f"killed, run limit of {limit_ms / 1000:g} s exceeded")
        self._programs.children.kill(self._pid)

    # --- end

    def _exited(self) -> None:
        run_ms = int((time.perf_counter() - self._started_s) * 1000)
        for timer in self._timers:
            timer.cancel()
        self._is_over = True
        reaped = self._programs.children.reap(self._pid)
        self._look_for_progress()
        self._streams.drain()
        self._directory.clear_private()
        ending = self._ending(reaped.status, reaped.usage, run_ms)
        if self._progress_seen:
            self._directory.remove_tmp(PROGRESS_FILE)
            if last_progress(self._progress_seen) is None:
                ending.notes.append(PROGRESS_IGNORED)
        ending.notes.extend(reaped.causes)
        if reaped.box is not None and ending.status == Status.FAILED and not ending.notes:
            ending.notes.extend(reaped.box.why_failed(ending.stderr))
        left = self._programs.directories.give(self._directory, self._inputs, ending, self._terms())
        if left is None and not any(tail.is_spooled for tail in self._streams.tails):
            self._on_end(ending)
        else:
            self._on_left(ending, LargeOutputs(self._directory, left, self._streams.tails))

    def _terms(self) -> Terms:
        request, prepared = self._request, self._prepared
        wanted = () if request is None or request.outputs is UNSET else request.outputs
        links = () if prepared is None else tuple(link.inode for link in prepared.links)
        return Terms(links, wanted, self._as_blobs)

    def _ending(self, status: int, usage: Any, run_ms: int) -> ExecutionEnd:
        code = os.waitstatus_to_exitcode(status)
        failed = bool(code or self._notes)
        ending = ExecutionEnd(
            Status.CANCELLED if self._cancelled else Status.FAILED if failed else Status.OK,
            exit_code=code if code >= 0 else SIGNAL_BASE - code,
            signal=max(-code, 0),
            run_ms=run_ms,
            user_ms=int(usage.ru_utime * 1000),
            system_ms=int(usage.ru_stime * 1000),
            peak_bytes=self._peak_bytes(usage.ru_maxrss),
        )
        self._streams.put_into(ending, as_blobs=self._as_blobs)
        ending.notes.extend(self._notes)
        if self._prepared is not None:
            ending.fetched_bytes = self._prepared.fetched_bytes
            ending.held_bytes = self._prepared.held_bytes
        return ending

    def _peak_bytes(self, max_rss: int) -> int:
        """Until the program is loaded the kernel counts our own memory as the program's: its figure
        is meaningful only if it is larger than ours; else the sampled one is used."""
        return max_rss * RSS_UNIT_BYTES if max_rss > self._programs.own_rss else self._seen_bytes


def _bad(why: str) -> RemoteError:
    return RemoteError(ErrorCode.BAD_PAYLOAD, why)
