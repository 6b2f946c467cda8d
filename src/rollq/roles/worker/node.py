"""The worker process: the pure machine with a socket, a disk, a clock and an executor around it.

Everything runs on one loop. Events go through one queue: the machine is never entered twice. The
results of a turn of the loop are sent together: acks and credit in one write, results in one sync.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rollq.base import log_events as lines
from rollq.base.counters import Family
from rollq.base.errors import ErrorCode, RollqError
from rollq.base.ids import guid_to_text
from rollq.base.jobs import AttemptRef
from rollq.base.limits import LOOK_MS
from rollq.base.log_events import tell
from rollq.base.needs import MEMORY
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.roles.refusals import is_refusal, refusal_of
from rollq.roles.service import SystemJitter
from rollq.roles.worker import signals
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.roles.worker.caches import WorkerCaches
from rollq.roles.worker.capacity import LOAD_MS, LoadSampler, capacity
from rollq.roles.worker.counted import FAILED_STEPS, WorkerCounters, worker_families
from rollq.roles.worker.cpu import SAMPLE_MS, CpuCap
from rollq.roles.worker.executor import JobExecutor
from rollq.roles.worker.live_output_sender import LiveOutputSender
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.pending_uploads import PendingUploads
from rollq.roles.worker.results import ResultTable
from rollq.roles.worker.session import FEATURES, WorkerSetup
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.worker_log import WorkerLog
from rollq.roles.worker.writer import ResultWriter
from rollq.security.tls import reload_all
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.output_messages import TellOutput
from rollq.wire.run_messages import AcksTaken, AssignRun
from rollq.wire.subject_messages import Publish

if TYPE_CHECKING:
    from rollq.roles.worker.tracing import JobTraces

log = logging.getLogger("rollq.worker")

# Our own records have no cycles, so collecting this seldom is enough for users' functions.
GC_THRESHOLDS: Final = (20_000, 50, 100)
PROGRAMS_MS: Final = 2_000  # between scans of the exec directory
# Messages that are not logged.
SILENT: Final = frozenset({AssignRun, AcksTaken, wire.AssignJob, wire.AckTaken, wire.Pong})


class WorkerNode:
    """One running worker.

    `start` returns when it serves (it may still be looking for the leader), `stop` ends executions
    and returns when all is closed, `drain` waits for executions first; each is idempotent.

    Args:
        setup: Its options.
        traces: Creates spans of traced jobs; None: tracing is off.

    Attributes:
        failure: The error that made it stop.
    """

    def __init__(self, setup: NodeSetup, traces: JobTraces | None = None) -> None:
        setup.check()
        self.setup = setup
        self.failure: RollqError | None = None
        self._writer = ResultWriter(ResultTable(setup.state_dir), self._stored, self._fail)
        self._blobs = WorkerBlobs(
            setup.state_dir,
            setup.addresses,
            setup.blob_bytes_max,
            setup.blob_age_ms,
            credentials=setup.credentials,
            unsafe_no_auth=setup.unsafe_no_auth,
        )
        self._caches = WorkerCaches(setup, self._blobs, self._send)
        self._uploads = PendingUploads(self._blobs, self._feed)
        self._machine: WorkerMachine | None = None  # set by `start`
        self._executor: JobExecutor  # set by `start`
        self._cpu = CpuCap(setup.cpu_cap)
        self._resources = capacity(dict(setup.resources))
        self._load = LoadSampler(dict(self._resources)[MEMORY] // 1_000, setup.state_dir)
        self._events: deque[signals.Event] = deque()
        self._handling = False
        self._link: Link | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._looking: asyncio.Task[None] | None = None  # scans for programs
        self._turn_due = False  # whether `_end_turn` is scheduled
        self._counted = WorkerCounters()
        self._log = WorkerLog(self._counted)
        self._traces = traces
        self._draining = False
        self._stopping: asyncio.Task[None] | None = None
        self._has_left = False  # `_stop` has begun: events are ignored
        self._stopped = asyncio.Event()

    @property
    def machine(self) -> WorkerMachine:
        """The machine, once started; for reading."""
        assert self._machine is not None, "not started"
        return self._machine

    @property
    def layers(self) -> tuple[str, ...]:
        """The sandbox layers of its jobs, once started."""
        return self._executor.sandbox.layers

    def families(self) -> list[Family]:
        """All metrics, once started. On the loop."""
        return worker_families(
            self._counted,
            self.machine,
            self._writer,
            self._blobs,
            self._live_output,
            slots=self.setup.slots,
            layers=self.layers,
            is_capped=self._cpu.busy,
        )

    async def start(self) -> None:
        """Recover, start the executor and look for the leader.

        Raises:
            RollqError: it cannot start.
        """
        if self._machine is not None:
            return
        self._loop = asyncio.get_running_loop()
        worker_id, incarnation, stored = await self._writer.open()
        setup = self.setup
        jobs_dir = str(setup.jobs_dir / guid_to_text(worker_id))
        executor = JobExecutor(
            setup,
            jobs_dir,
            on_end=self._ended,
            on_calls=self._calls_ended,
            feed=self._feed,
            waiting_count=lambda: self.machine.waiting_count,
            blobs=self._blobs,
            traceparent_of=self._traceparent_of,
            publish=self.publish,
        )
        try:
            pending = self._uploads.load(stored)
            await self._blobs.start((*pending, *await self._caches.load()))
            await self._caches.take_files()
            await executor.start()
        except (RollqError, OSError):
            await executor.close()
            await self._blobs.stop()
            await self._writer.close()
            raise
        self._executor = executor
        ident = worker_id, setup.addresses, setup.patterns, setup.name, incarnation
        more = setup.ahead, self._blobs.address, executor.calls, executor.sandbox.layers
        who = WorkerSetup(*ident, setup.slots, FEATURES, *more, setup.labels, self._resources)
        self._machine = WorkerMachine(who, SystemJitter(), stored)
        self._live_output = LiveOutputSender(executor.tails, self._machine.is_open)
        self._feed(await executor.look_for_programs())
        self._log.started(setup, guid_to_text(worker_id), len(stored))
        self._tick()
        self._sample()
        self._measure()
        self._feed(signals.Started())
        self._looking = self._loop.create_task(self._look_for_programs())

    async def stop(self) -> None:
        """End everything now. Attempts under way are lost; the grid runs them again."""
        if self._machine is None:
            return
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop())
        await asyncio.shield(self._stopping)

    def drain(self) -> None:
        """Accept no new jobs, finish running ones (up to `drain_ms`), then stop."""
        if not self._draining and self._machine is not None:
            self._draining = True
            wait_s, running = f"{self.setup.drain_ms / 1000:g}", self._machine.running_count
            tell(log, lines.DRAINING, wait_s=wait_s, running=running)
            self._later("drain", self.setup.drain_ms, self._drain_overdue)
            self._feed(signals.DrainRequested())

    def publish(self, subject: str, payload: bytes) -> None:
        """Publish a message; without a leader it is lost."""
        if self._machine is not None:
            self._feed(signals.PublishRequested(Publish(subject, payload)))

    async def wait(self) -> None:
        """Wait until it has stopped; raises the error that made it stop."""
        await self._stopped.wait()
        if self.failure is not None:
            raise self.failure

    async def run(self) -> None:
        """Serve until stopped: the first SIGTERM or SIGINT drains, the second stops. SIGHUP reloads
        certificates."""
        await self.start()
        gc.collect()
        gc.freeze()  # loaded modules live on: later collections skip them
        gc.set_threshold(*GC_THRESHOLDS)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signalled)
        self._loop.add_signal_handler(signal.SIGHUP, reload_all)
        try:
            await self.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self._loop.remove_signal_handler(number)

    # --- events in, instructions out

    def _feed(self, event: signals.Event) -> None:
        """Pass an event to the machine and carry out its instructions, with all events that
        follow."""
        events = self._events
        if self._handling or self._has_left:
            events.append(event)
            return
        self._handling = True
        handle = self.machine.handle
        try:
            while True:
                if (step := FAILED_STEPS.get(type(event))) is not None:
                    self._counted.failed[step] += 1
                for instruction in handle(event):
                    DO[type(instruction)](self, instruction)
                if not events:
                    break
                event = events.popleft()
        finally:
            self._handling = False
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """End a turn of the loop: write its results, then let the machine grant credit."""
        if self._stopping is not None:
            return
        self._writer.flush()
        self._feed(signals.TurnOver())  # the last event of the turn
        self._turn_due = False

    def _do_send(self, instruction: signals.SendToMember) -> None:
        self._send(instruction.messages)

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if type(message) is wire.Nack:
                self._counted.given_back += 1
                job = guid_to_text(message.job_id)
                self._log.seldom(
                    lines.JOB_GIVEN_BACK, message.detail, job=job, cause=message.detail
                )
                if self._traces is not None:
                    ref = AttemptRef(message.job_id, message.attempt, message.fence)
                    self._traces.given_back(ref, message.detail)
        if self._link is not None:
            self._link.send_all(messages)

    def _do_prepare(self, instruction: signals.PrepareInputs) -> None:
        if self._traces is not None:
            self._traces.prepares(instruction.jobs)
        self._executor.prepare(self._caches.resolved(instruction.jobs, self._feed))

    def _do_drop_inputs(self, instruction: signals.DropInputs) -> None:
        self._executor.drop_inputs(instruction.refs)

    def _do_start(self, instruction: signals.StartJobs) -> None:
        self._counted.started["program"] += len(instruction.jobs)
        self._jobs_start(instruction.jobs)
        self._executor.run(instruction.jobs)

    def _do_call(self, instruction: signals.StartCalls) -> None:
        self._counted.started["function"] += len(instruction.jobs)
        self._jobs_start(instruction.jobs)
        self._executor.call(instruction.jobs)

    def _jobs_start(self, jobs: list[tuple[wire.AssignJob, AttemptRef]]) -> None:
        self._log.jobs_start(jobs)
        if self._traces is not None:
            self._traces.starts(jobs)

    def _traceparent_of(self, ref: AttemptRef) -> str:
        return "" if self._traces is None else self._traces.traceparent_of(ref)

    def _do_fail(self, instruction: signals.FailJob) -> None:
        self._executor.fail(instruction.job, instruction.ref, instruction.detail)

    def _do_kill(self, instruction: signals.KillJob) -> None:
        self._executor.kill(instruction.ref)

    def _do_store(self, instruction: signals.StoreResults) -> None:
        self._uploads.keep(instruction.results)
        self._writer.store(instruction.results)

    def _do_forget(self, instruction: signals.ForgetResults) -> None:
        if self._traces is not None:
            self._traces.taken(instruction.refs)
        self._uploads.release(instruction.refs)
        self._writer.forget(instruction.refs)

    def _do_upload(self, instruction: signals.UploadOutputs) -> None:
        self._uploads.upload(instruction.result)

    def _do_connect(self, instruction: signals.Connect) -> None:
        self._later("dial", instruction.delay_ms, self._dial, instruction.address)

    def _do_disconnect(self, instruction: signals.Disconnect) -> None:
        link, self._link = self._link, None
        if link is not None and instruction.stuck:
            self._log.disconnected(link.address, "no answer")
            link.hang_up("no answer")
        elif link is not None:
            link.close("told to")

    def _do_exit(self, instruction: signals.Exit) -> None:
        if self._stopping is None:
            tell(log, lines.DRAINED)
            self._stop_soon()

    # --- the connection

    def _dial(self, address: str) -> None:
        self._dialing = self._loop.create_task(self._open(address))

    async def _open(self, address: str) -> None:
        try:
            link = await dial(
                address, "", self._messages, self._closed, credentials=self.setup.credentials
            )
        except RollqError as error:
            self._log.seldom(lines.UNREACHABLE, error.message, cause=error.message, todo=error.hint)
            self._feed(signals.Disconnected(refusal_of(error)))
            return
        if not link.is_open:
            self._feed(signals.Disconnected())
            return
        self._link = link
        self._feed(signals.Connected())
        if self.machine.is_legacy:
            tell(log, lines.LEGACY, address=link.address)

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if link is not self._link:
            return
        if not SILENT.issuperset(map(type, messages)):
            for message in messages:
                if type(message) is wire.Welcome:
                    self._log.connected(link.address)
                    self._loop.call_soon(self._caches.greet)
                elif type(message) is wire.CachePut:
                    self._caches.take(message)
                elif type(message) is TellOutput:
                    self._live_output.take(link, message)
                elif type(message) is wire.Error and message.code == ErrorCode.DISMISSED:
                    tell(log, lines.DISMISSED, cause=message.message)
                    self._stop_soon()
                elif type(message) is wire.Error and is_refusal(message):
                    self._log.not_let_in(link.address, message)
                elif type(message) is wire.Error:
                    tell(log, lines.LEADER_ERROR, address=link.address, cause=str(message))
        machine_messages = [one for one in messages if isinstance(one, wire.MemberMessage)]
        self._feed(signals.MessageReceived(machine_messages))

    def _closed(self, link: Link, reason: str) -> None:
        if link is self._link:
            self._log.disconnected(link.address, reason)
            self._link = None
            self._feed(signals.Disconnected())

    # --- results

    def _ended(self, results: list[signals.StoredResult]) -> None:
        self._jobs_ended(results)
        self._feed(signals.Finished(results))

    def _calls_ended(self, results: list[signals.StoredResult], ran_ms: float) -> None:
        self._jobs_ended(results)
        self._feed(signals.CallsEnded(results, ran_ms))

    def _jobs_ended(self, results: list[signals.StoredResult]) -> None:
        self._log.ended(results)
        self._counted.ended(results)
        if self._traces is not None:
            self._traces.ended(results)

    def _stored(self, refs: list[AttemptRef]) -> None:
        self._feed(signals.ResultStored(refs))

    def _fail(self, error: RollqError) -> None:
        tell(log, lines.FAILED, cause=str(error))
        self.failure = error
        self._stop_soon()

    # --- time

    def _tick(self) -> None:
        self._later("tick", LOOK_MS, self._tick)
        self._feed(signals.Tick(time.monotonic_ns() // 1_000_000))

    def _sample(self) -> None:
        self._later("sample", SAMPLE_MS, self._sample)
        self._executor.sample()
        self._blobs.tick()
        if (change := self._cpu.sample()) is not None:
            self._counted.capped += self._cpu.busy
            self._feed(change)

    def _measure(self) -> None:
        self._later("load", LOAD_MS, self._measure)
        self._feed(signals.LoadMeasured(self._load.sample(self._blobs.bytes_stored)))

    def _later(self, what: str, delay_ms: int, act: Callable[..., None], *args: Any) -> None:
        """Set a timer; only one of each kind is active."""
        timer = self._timers.get(what)
        if timer is not None:
            timer.cancel()
        self._timers[what] = self._loop.call_later(delay_ms / 1000, act, *args)

    async def _look_for_programs(self) -> None:
        """Scan for programs and report changes to the machine, until it stops."""
        while True:
            await asyncio.sleep(PROGRAMS_MS / 1000)
            self._feed(await self._executor.look_for_programs())

    # --- stop

    def _signalled(self) -> None:
        if self._draining:
            self._stop_soon()
        else:
            self.drain()

    def _drain_overdue(self) -> None:
        tell(log, lines.DRAIN_OVERDUE, running=self.machine.running_count)
        self._stop_soon()

    def _stop_soon(self) -> None:
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop())

    async def _stop(self) -> None:
        began_s = self._loop.time()
        self._has_left = True
        for timer in self._timers.values():
            timer.cancel()
        for task in (self._dialing, self._looking):
            if task is not None:
                task.cancel()
        self._live_output.stop()
        self._executor.stop_calls()  # calls that have not started are returned
        for instruction in self.machine.handle(signals.StopRequested()):
            DO[type(instruction)](self, instruction)
        self._writer.store(self._executor.take_unreported())  # offered at the next start
        await self._executor.close()
        await self._caches.stop()
        await self._uploads.stop()
        await self._blobs.stop()
        await self._writer.close()
        if self._traces is not None:
            self._traces.close()
        tell(log, lines.STOPPED, took_ms=int((self._loop.time() - began_s) * 1000))
        self._stopped.set()


DO: dict[type, Callable[[WorkerNode, Any], None]] = {
    signals.SendToMember: WorkerNode._do_send,
    signals.PrepareInputs: WorkerNode._do_prepare,
    signals.DropInputs: WorkerNode._do_drop_inputs,
    signals.StartJobs: WorkerNode._do_start,
    signals.StartCalls: WorkerNode._do_call,
    signals.FailJob: WorkerNode._do_fail,
    signals.KillJob: WorkerNode._do_kill,
    signals.StoreResults: WorkerNode._do_store,
    signals.ForgetResults: WorkerNode._do_forget,
    signals.UploadOutputs: WorkerNode._do_upload,
    signals.Connect: WorkerNode._do_connect,
    signals.Disconnect: WorkerNode._do_disconnect,
    signals.Exit: WorkerNode._do_exit,
}
