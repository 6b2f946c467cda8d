"""The grid in Prefect: `RollqTaskRunner` runs the tasks of a flow as jobs.

A task goes to a worker by cloudpickle, as in `rollq.pickled`, with its arguments and what Prefect
calls the context of the flow run. There Prefect's own engine runs it: retries, states, hooks and
caching are as in any runner. What comes back is values of rollq, never a pickle.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import pickle
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from time import monotonic
from typing import Any, Final, Unpack
from uuid import UUID, uuid4

import cloudpickle
import msgspec
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateDetails
from prefect.context import FlowRunContext, hydrated_context, serialize_context
from prefect.events.worker import EventsWorker
from prefect.futures import PrefectConcurrentFuture, PrefectFuture, resolve_futures_to_states
from prefect.logging.handlers import APILogWorker
from prefect.results import ResultRecord, ResultRecordMetadata
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Crashed, Failed
from prefect.task_engine import run_task_async, run_task_sync
from prefect.task_runners import TaskRunner
from prefect.tasks import Task
from prefect.utilities.annotations import BaseAnnotation, quote
from prefect.utilities.collections import StopVisiting, visit_collection

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RollqError
from rollq.base.reasons import Reason
from rollq.roles.client.blocking.bridge import result_soon
from rollq.roles.client.blocking.clients import BlockingClient, BlockingJob
from rollq.roles.client.blocking.current import given_servers
from rollq.roles.client.functions.calls import as_task
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.results.result import JobError, Result
from rollq.values.codec import CannotTravelError, pack

PICKLE: Final = 5  # the first protocol that leaves buffers apart
APART_BYTES_MIN: Final = 1024 * 1024  # larger arrays are sent once for all tasks that use them
NOT_FOUND: Final = 404  # of a task run that had not begun, or could not say so any more
LOOK_S: Final = 1.0  # between two looks at a job that no worker takes
REPORT_S: Final = 10.0  # how long a task waits at its end until Prefect was told of it
TRAVEL: Final = (
    "return plain data, dataclasses of a module, arrays or tables, or set persist_result=True"
)


class RollqTaskRunner(TaskRunner):
    """A task runner: `@flow(task_runner=RollqTaskRunner("host:5000"))`.

    Workers need `--app rollq.pickled`, and Prefect. What a flow has submitted and not waited for
    is cancelled at its end.

    Args:
        address: Members of the grid, `host:port,…`; default: ROLLQ_SERVERS.
        credentials: The directory of credentials, for a grid that requires a login.
        timeout: How many seconds to wait for a response of the grid, and for a worker that takes
            pickled functions where there are only others.
        options: Options of every job: `queue`, `priority`, `resources`, ….
    """

    def __init__(
        self,
        address: str = "",
        *,
        credentials: str = "",
        timeout: float = 30.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        self.address = address
        self.credentials = credentials
        self.timeout = timeout
        self.options = options
        self._calls: _Calls | None = None  # in a flow run

    def duplicate(self) -> RollqTaskRunner:
        """A runner with the same settings: each flow run has one of its own."""
        return type(self)(
            self.address, credentials=self.credentials, timeout=self.timeout, **self.options
        )

    def submit(
        self,
        task: Task[..., Any],
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[Any]] | None = None,
    ) -> PrefectConcurrentFuture[Any]:
        """Submit a task run; called by `task.submit` and `task.map`.

        Cancelling the `wrapped_future` of what is returned cancels the job.

        Raises:
            RollqError: the grid cannot be reached, or refuses the job; BAD_SETUP, if its workers
                take no pickled functions.
            TypeError: the task or an argument cannot be pickled.
        """
        if self._calls is None:
            raise RuntimeError("the task runner is not started: submit within a flow")
        run_id = uuid4()
        call = self._calls.submit(
            task=task,
            task_run_id=run_id,
            parameters=parameters,
            wait_for=list(wait_for or ()),
            dependencies=dependencies,
            return_type="state",
            **_context(),
        )
        return PrefectConcurrentFuture(task_run_id=run_id, wrapped_future=call)

    def cancel_all(self) -> None:
        """Cancel all task runs that have not ended."""
        if self._calls is not None:
            self._calls.cancel()

    def __enter__(self) -> RollqTaskRunner:
        super().__enter__()
        # It connects with the first task: Prefect also enters the runner where a task runs.
        self._calls = _Calls(self)
        return self

    def __exit__(self, *exc: object) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.close()
        super().__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RollqTaskRunner) and self._settings == other._settings

    __hash__ = None  # type: ignore[assignment] # as the other task runners

    @property
    def _settings(self) -> tuple[Any, ...]:
        return self.address, self.credentials, self.timeout, self.options


class _Call(Future[Any]):
    """A task run that was submitted. Its value is the state in which it ended, however it did."""

    def __init__(self, calls: _Calls, run_id: UUID, name: str) -> None:
        super().__init__()
        self.run_id = run_id
        self.name = name
        self.job: BlockingJob | None = None  # once it is accepted
        self._calls = calls

    def cancel(self) -> bool:
        """Cancel the job; the task run ends as Cancelled. False if it had ended."""
        if not self.done():
            self._calls.cancel([self])
            return True
        return False

    def lost(self, error: BaseException) -> Any:
        """The state of a run that ended outside of Prefect's engine."""
        details = StateDetails(task_run_id=self.run_id)
        if isinstance(error, JobError) and error.code == ErrorCode.CANCELLED:
            return Cancelled(message=str(error), state_details=details)
        why = str(error)
        if isinstance(error, ModuleNotFoundError):
            why += "; workers must be able to import it: install it there, or set their PYTHONPATH"
        where = f"rollq job {self.job.id}: " if self.job is not None else ""
        # Without data, Prefect raises CrashedRun: a JobError has a connection, and cannot be sent
        # to what comes after.
        data = None if isinstance(error, JobError) else error
        return Crashed(message=f"{where}{why}", data=data, state_details=details)


class _Calls:
    """The calls of one flow run, and its connection."""

    def __init__(self, runner: RollqTaskRunner) -> None:
        self._runner = runner
        self._client: BlockingClient | None = None
        self._open: set[_Call] = set()
        self._are_taken = False  # there is a worker for them
        self._lock = threading.Lock()
        # What blocks: sending calls that waited for others, fetching values, telling Prefect.
        self._pool = ThreadPoolExecutor(thread_name_prefix="rollq-prefect")

    def submit(self, **run: Any) -> _Call:
        """Send a call, or have it sent when all that it waits for has ended."""
        call = _Call(self, run["task_run_id"], run["task"].name)
        with self._lock:
            self._open.add(call)
        before = _futures_in((run["parameters"], run["wait_for"]))
        if before:
            self._send_after(before, call, run)
            return call
        try:
            self._send(call, run)
        except BaseException:
            with self._lock:
                self._open.discard(call)
            raise
        return call

    def cancel(self, calls: list[_Call] | None = None) -> None:
        """Cancel calls; default: all. Those that were sent end when the grid says so."""
        sent, unsent = [], []
        with self._lock:
            for call in list(self._open) if calls is None else calls:
                if call.job is not None:
                    sent.append(call.job.id)
                elif call in self._open:
                    self._open.remove(call)
                    unsent.append(call)
        for call in unsent:
            details = StateDetails(task_run_id=call.run_id)
            call.set_result(Cancelled(message="cancelled", state_details=details))
        if sent and self._client is not None:
            with contextlib.suppress(RollqError):  # the grid is gone
                self._client.cancel(*sent)

    def close(self) -> None:
        """Cancel what is left, wait for its end, and close the connection."""
        self.cancel()
        with self._lock:
            left = list(self._open)
        wait(left, self._runner.timeout)
        for call in left:
            if not call.done():
                late = TimeoutError("the grid did not confirm the cancel in time")
                self._end(call, call.lost(late))
        self._pool.shutdown()
        if self._client is not None:
            self._client.stop()

    def _send_after(
        self, before: set[PrefectFuture[Any]], call: _Call, run: dict[str, Any]
    ) -> None:
        left = set(before)
        context = copy_context()

        def send() -> None:
            try:
                self._send(call, run)
            except Exception as error:
                self._end(call, call.lost(error))

        def on_end(future: PrefectFuture[Any]) -> None:
            with self._lock:
                left.discard(future)
                is_last = not left
            if is_last and not call.done():
                self._pool.submit(context.run, send)

        for future in before:
            future.add_done_callback(on_end)

    def _send(self, call: _Call, run: dict[str, Any]) -> None:
        if call.done():
            return
        # States tell the engine how those before have ended, which futures cannot do elsewhere.
        states = {name: resolve_futures_to_states(run[name]) for name in ("parameters", "wait_for")}
        task, function = as_task(run_task)
        arguments = (*function, *_packed({**run, **states}))
        job = self._connected().submit_call(task, arguments, {}, **self._runner.options)
        with self._lock:
            call.job = job
            is_open = call in self._open
        if not is_open:  # it was cancelled meanwhile
            job.cancel()
            return
        try:
            self._see_taken(job)
        except BaseException:
            with contextlib.suppress(RollqError):
                job.cancel()
            raise
        context = copy_context()
        ended = result_soon(job)

        def on_end(_: object) -> None:
            if not call.done():
                self._pool.submit(context.run, self._finish, call, ended)

        ended.add_done_callback(on_end)

    def _connected(self) -> BlockingClient:
        with self._lock:
            if self._client is None:
                runner = self._runner
                client = BlockingClient(
                    given_servers(runner.address),
                    timeout=runner.timeout,
                    credentials=runner.credentials,
                    allow_pickle=True,
                )
                client.start()
                self._client = client
            return self._client

    def _see_taken(self, job: BlockingJob) -> None:
        """See of the first job whether there are workers that take it.

        Raises:
            LocalError: BAD_SETUP, if in the time of the runner there are only others.
        """
        until = monotonic() + self._runner.timeout
        while not self._are_taken and not job.is_done:
            try:
                why = self._connected().explain(job.id)
            except RollqError as error:
                if error.code != ErrorCode.ACCESS_DENIED:
                    raise
                break  # who may submit may not look
            if why is None or why.code != Reason.PROGRAM_MISSING:
                if why is not None and why.code == Reason.NO_WORKER:
                    self._runner.logger.warning("%s. %s", why.why, " or ".join(why.todo))
                break
            if monotonic() >= until:
                raise LocalError(ErrorCode.BAD_SETUP, why.why, " or ".join(why.todo))
            with contextlib.suppress(DeadlineError):
                job.result(LOOK_S)
        self._are_taken = True

    def _finish(self, call: _Call, ended: Future[Result]) -> None:
        """The job has ended: so does the call."""
        try:
            state = _state_of(ended.result().get(), call.name)
        except Exception as error:
            state = call.lost(error)
            self._report(call, state)
        self._end(call, state)

    def _report(self, call: _Call, state: Any) -> None:
        """Tell Prefect how a run ended, which its worker could not."""
        try:
            with get_client(sync_client=True) as api:
                api.set_task_run_state(call.run_id, state, force=True)
        except Exception as error:
            if getattr(getattr(error, "response", None), "status_code", 0) != NOT_FOUND:
                self._runner.logger.warning("Prefect is not told of %s: %s", state.message, error)

    def _end(self, call: _Call, state: Any) -> None:
        with self._lock:
            if call not in self._open:
                return
            self._open.remove(call)
        call.set_result(state)


# --- where a task runs


class TaskRunEnd(msgspec.Struct, frozen=True):
    """How a task run ended, as it comes back from a worker."""

    state: str  # JSON, without its data
    data: Any = None  # the value, or the exception
    record: str = ""  # JSON of what Prefect notes about the result
    is_kept: bool = False  # in Prefect's result storage
    lacking: str = ""  # why the data does not come back


def run_task(packed: bytes, /, *buffers: bytearray) -> TaskRunEnd:
    """Run a task by Prefect's engine; called on a worker."""
    run = pickle.loads(packed, buffers=buffers)
    server, is_of_flow = run.pop("server"), run.pop("is_of_flow")
    if server != _Reporting.server:  # the last task was of another flow
        EventsWorker.drain_all(timeout=REPORT_S)
        _Reporting.server = server
    with hydrated_context(run.pop("context")):
        try:
            if run["task"].isasync:
                state = asyncio.run(run_task_async(**run))
            else:
                state = run_task_sync(**run)
        finally:
            _report(is_of_flow)
    return _told(state, is_asked=bool(run["task"].persist_result))


class _Reporting:
    server = ""  # to which the events of this process go: Prefect would not change it


def _report(is_of_flow: bool) -> None:
    """Wait until Prefect has been sent the states, and the logs if the server ends with the flow:
    this process may be killed as soon as it returns."""
    waits: list[Callable[[], Any]] = [EventsWorker.instance().wait_until_empty]
    if is_of_flow:
        waits.append(APILogWorker.instance().drain)

    def send() -> None:
        for one in waits:
            one()

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    sending.join(REPORT_S)  # it would be for ever, if the server cannot be reached


def _told(state: Any, *, is_asked: bool) -> TaskRunEnd:
    """`is_asked`: the task is to keep its result in Prefect's storage."""
    record, data = state.data, state.data
    told = state.model_dump_json(exclude={"data"})
    noted, is_kept = "", False
    if isinstance(record, ResultRecord):
        data = record.result
        is_kept = getattr(record, "is_persisted", is_asked)  # older versions do not know
        noted = record.metadata.model_dump_json()
    try:
        pack(data)
    except CannotTravelError as error:
        return TaskRunEnd(told, None, noted, is_kept, str(error))
    return TaskRunEnd(told, data, noted)


def _state_of(told: TaskRunEnd, name: str) -> Any:
    state = State.model_validate_json(told.state)
    if told.lacking and not told.is_kept:
        why = f"what {name} returned does not come back: {told.lacking}; {TRAVEL}"
        details = state.state_details
        return Failed(message=why, data=TypeError(why), state_details=details)
    record = ResultRecordMetadata.model_validate_json(told.record) if told.record else None
    if told.lacking:
        state.data = record
    else:
        state.data = (
            told.data if record is None else ResultRecord(metadata=record, result=told.data)
        )
    return state


# --- what is sent


def _context() -> dict[str, Any]:
    """The context of the flow run, and the address of Prefect's server. One that Prefect started
    for the flow is named too, lest every worker starts another one."""
    server, flow_run = PREFECT_API_URL.value(), FlowRunContext.get()
    if server or flow_run is None:
        return {"context": serialize_context(), "server": server or "", "is_of_flow": False}
    server = str(flow_run.client.api_url)
    with temporary_settings({PREFECT_API_URL: server}):
        return {"context": serialize_context(), "server": server, "is_of_flow": True}


def _packed(run: dict[str, Any]) -> list[bytes | bytearray]:
    """A call as arguments: its pickle, and the large buffers of arrays and tables, which may be
    those of other calls."""
    buffers: list[bytearray] = []

    def is_within(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < APART_BYTES_MIN:
            return True
        buffers.append(bytearray(view))  # a task may write to its arguments
        return False

    packed = io.BytesIO()
    try:
        _Pickler(packed, protocol=PICKLE, buffer_callback=is_within).dump(run)
    except Exception as error:  # any error of a __reduce__ method
        raise TypeError(f"task {run['task'].name} cannot be pickled: {error}") from error
    return [packed.getvalue(), *buffers]


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, BaseAnnotation):  # by itself it would be read as one within another
            return type(value), (value.unwrap(),)
        return super().reducer_override(value)


def _futures_in(values: Any) -> set[PrefectFuture[Any]]:
    """The futures in arguments."""
    found: set[PrefectFuture[Any]] = set()

    def visit(value: Any, context: dict[str, Any]) -> Any:
        if isinstance(context.get("annotation"), quote):
            raise StopVisiting
        if isinstance(value, PrefectFuture):
            found.add(value)
        return value

    visit_collection(values, visit_fn=visit, return_data=False, context={})
    return found
