"""Common part of all clients: sends requests, matches responses, and delivers results.

The subclasses implement routing, to one group or to several.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from rollq.base.errors import DeadlineError, DialError, ErrorCode, LocalError, RollqError
from rollq.base.ids import ClientId, JobId, MessageId, guid_to_text
from rollq.base.job_events import JobEvent
from rollq.base.jobs import BlobRef
from rollq.base.limits import CONFIRM_JOBS_MAX
from rollq.base.texts import check_utf8
from rollq.roles.client.answers import error_of
from rollq.roles.client.forks import OwnerProcess
from rollq.roles.client.jobs.inputs import Inputs
from rollq.roles.client.jobs.supply import NOTHING, BytesMoved, SubmitMaker, Supply
from rollq.roles.client.session.group_session import Answer, GroupSession, OnAnswer
from rollq.roles.client.session.signals import SUBMITS, Request, id_of
from rollq.security.accounts import account_of, own_client_id
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials
from rollq.wire import messages as wire
from rollq.wire.staging_messages import CommitBatch, DropBatch
from rollq.wire.subject_messages import Publish, Subscribe

PREFIX_BYTES: Final = 12  # common id prefix of the jobs of a batch or array
ACCEPTED_PERHAPS: Final = (
    "; a job may have been accepted all the same, and may be submitted again under the same id"
)
# Requests as error messages name them.
REQUEST_NAMES: Final[Mapping[type, str]] = {
    wire.Query: "a query",
    wire.Admin: "an admin request",
    wire.Cancel: "a cancellation",
    Publish: "a publish",
    Subscribe: "a subscription",
    wire.SubmitArray: "an array",
    wire.SubmitBulk: "jobs",
    CommitBatch: "the commit of a batch",
    DropBatch: "the removal of a batch",
}


class ResultTarget(Protocol):
    """A receiver of results: a handle, a batch or a run."""

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Take one or more results; true if the target expects no more."""

    def fail(self, error: RollqError) -> None:
        """The client was stopped: no more results will be delivered."""


class TargetRegistration:
    """Context manager of `Engine.register_target`: unregisters the target if the block raises."""

    __slots__ = ("_engine", "_key", "_target")

    def __init__(self, engine: Engine, key: bytes, target: ResultTarget) -> None:
        self._engine = engine
        self._key = key
        self._target = target

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._engine.forget(self._key, self._target)


class Engine(ABC):
    """The part of a client that all of its calls share.

    Attributes:
        client_id: The client id; it owns the jobs and receives their results.
        timeout_s: Default timeout of calls.
        inputs: Reads the input files of jobs.
        allow_pickle: Whether functions that no module registers may be sent.
        keeps_parents: Whether jobs can depend on each other, because one group has all of them.
        request_for: Encodes the submit message of a job whose files have been read.
        targets: Receivers of results, by job id or by the id prefix of a batch. An entry exists
            from before the submit is sent until the last result is delivered or abandoned.
    """

    keeps_parents: ClassVar = True

    def __init__(
        self, client_id: ClientId, timeout_s: float, credentials: Credentials = NONE
    ) -> None:
        own_id = default_id(credentials, secrets.token_hex(8))  # also checks credentials
        check_utf8("client_id", client_id)
        self.client_id = client_id or own_id
        self.timeout_s = timeout_s
        self.inputs = Inputs()
        self.allow_pickle = False
        self.request_for = SubmitMaker(self.client_id).make
        self.targets: dict[bytes, ResultTarget] = {}
        self._deadlines = Deadlines()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = OwnerProcess()  # the process that started it

    async def call(
        self, request: Request, timeout: float | None = None, supply: Supply = NOTHING
    ) -> Any:
        """Send a request and return its response. Raises the error of an error response, and
        DeadlineError on timeout."""
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        wait_s = self.timeout_s if timeout is None else timeout
        self.ask(request, on_answer, supply)
        answer = None
        try:
            if supply is not NOTHING:
                answer = answered.result() if await self.uploaded(answered, wait_s) else None
            else:
                self._deadlines.add(answered, wait_s)
                try:
                    answer = await answered
                finally:
                    self._deadlines.remove(answered)
        finally:
            if answer is None:  # timeout or cancellation
                self.give_up(id_of(request))
        if answer is None:
            kind = type(request)
            what = REQUEST_NAMES.get(kind, "a request")
            if isinstance(request, wire.SubmitJob):
                what = f"job {guid_to_text(request.job_id)}"
            raise self.timeout_error(what, wait_s, submits=kind in SUBMITS)
        if type(answer) is wire.Error:
            raise error_of(answer)
        return answer

    async def uploaded(self, answered: asyncio.Future[Any], wait_s: float) -> bool:
        """Wait for a response. The timeout starts when no upload is in progress; false on
        timeout."""
        asked_at = self.loop.time()
        while not answered.done():
            left_s = max(asked_at, self.uploaded_at()) + wait_s - self.loop.time()
            if left_s <= 0:
                return False
            await asyncio.wait((answered,), timeout=left_s)
        return True

    def register_target(self, key: bytes, target: ResultTarget) -> TargetRegistration:
        """Register a target for the results of an id or prefix. It is unregistered if the `with`
        block, which sends the submit, raises.

        Raises:
            LocalError: ID_CONFLICT, if another target is registered.
        """
        if self.targets.setdefault(key, target) is not target:
            raise LocalError(
                ErrorCode.ID_CONFLICT,
                f"job {guid_to_text(key)} was submitted here and has not ended",
                "use the handle of the first submit",
            )
        return TargetRegistration(self, key, target)

    def forget(self, key: bytes, target: ResultTarget) -> None:
        """Unregister a target, unless another one is registered instead."""
        if self.targets.get(key) is target:
            del self.targets[key]

    async def cancel(self, job_ids: Sequence[JobId]) -> int:
        """Cancel jobs and arrays; returns how many had not ended."""
        count = 0
        for first in range(0, len(job_ids), CONFIRM_JOBS_MAX):
            count += await self._cancel(tuple(job_ids[first : first + CONFIRM_JOBS_MAX]))
        return count

    def leave(self, job_ids: Iterable[JobId]) -> None:
        """Abandon jobs: cancel them, and confirm their results without delivering them."""
        ids = list(job_ids)
        for job_id in ids:
            self.targets.pop(job_id, None)
            self.give_up(job_id)
        for first in range(0, len(ids), CONFIRM_JOBS_MAX):
            self._leave(tuple(ids[first : first + CONFIRM_JOBS_MAX]))

    def timeout_error(
        self, what: str, wait_s: float | None = None, *, submits: bool = True
    ) -> RollqError:
        """The exception for a request that timed out."""
        trouble = self._session_error()
        return DeadlineError(
            ErrorCode.TIMED_OUT,
            f"no answer within {self.timeout_s if wait_s is None else wait_s:g} s: {what}"
            + (f" ({trouble})" if trouble else ""),
            "check the address, and that a majority of the members runs: `rollq doctor` says more"
            + (ACCEPTED_PERHAPS if submits and self._has_submitted() else ""),
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this client. Raises LocalError BAD_SETUP in a forked child."""
        self._process.check()
        if self._loop is None:
            raise LocalError(
                ErrorCode.BAD_SETUP, "the client is not started", "use `async with`, or start it"
            )
        return self._loop

    # --- implemented by subclasses

    @abstractmethod
    async def start(self) -> None:
        """Connect to the leaders, in the background."""

    @abstractmethod
    async def stop(self) -> None:
        """Close the connections; jobs go on. Does nothing in a forked child: they are the
        parent's."""

    def events(self, job_id: JobId) -> AsyncGenerator[JobEvent, None]:
        """Iterate over the events of a job from now on."""
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "a client of several groups cannot follow events",
            "use a `Client` of the group that has the job",
        )

    @abstractmethod
    def session_of(self, job_id: JobId) -> GroupSession:
        """The session with the group that has a job."""

    @abstractmethod
    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Upload the files of a request, then send it; the callback gets the response."""

    def ask_jobs(self, jobs: Sequence[wire.SubmitJob], on_answer: OnAnswer) -> None:
        """The same for jobs without files; the callback gets a response for each."""
        for job in jobs:
            self.ask(job, on_answer)

    @abstractmethod
    def give_up(self, request_id: MessageId) -> None:
        """Abandon a request: do not send it again."""

    @abstractmethod
    def uploaded_at(self) -> float:
        """When an upload was last in progress, by the loop's clock."""

    @abstractmethod
    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        """Download a blob to a file and verify it."""

    @abstractmethod
    async def is_array_over(self, array_id: JobId) -> bool:
        """Whether an array has no waiting or running tasks."""

    @abstractmethod
    async def _cancel(self, job_ids: tuple[JobId, ...]) -> int:
        """Cancel jobs, as many as fit one message; returns how many had not ended."""

    @abstractmethod
    def _leave(self, job_ids: tuple[JobId, ...]) -> None:
        """Cancel abandoned jobs, and confirm their results without delivering them."""

    @abstractmethod
    def _session_error(self) -> str:
        """Why there is no session, if that is known; for error messages."""

    @abstractmethod
    def _has_submitted(self) -> bool:
        """Whether any jobs were sent, and so may have been accepted."""

    # --- for subclasses

    def _fail_all(self) -> None:
        """Fail all targets, because the client stops."""
        self._deadlines.stop()
        targets, self.targets = self.targets, {}
        error = DialError(
            ErrorCode.DISCONNECTED,
            "the client was stopped",
            "its jobs are still in the grid; reconnect with the same client id for their results",
        )
        for target in dict.fromkeys(targets.values()):
            target.fail(error)

    def _deliver_all(self, results: list[wire.Result]) -> list[wire.Result]:
        """Deliver results to their targets; returns those without a target."""
        targets = self.targets
        unclaimed: list[wire.Result] = []
        wanted: dict[ResultTarget, list[wire.Result]] = {}
        prefixes: dict[ResultTarget, bytes] = {}
        last: bytes = b""  # the prefix of the result before, whose target is in `run`
        run: list[wire.Result] = unclaimed
        for result in results:
            job_id = result.job_id
            target = targets.pop(job_id, None)
            if target is not None:
                wanted.setdefault(target, []).append(result)
                continue
            prefix = job_id[:PREFIX_BYTES]
            if prefix != last:
                last = prefix
                target = targets.get(prefix)
                if target is None:
                    run = unclaimed
                else:
                    run = wanted.setdefault(target, [])
                    prefixes[target] = prefix
            run.append(result)
        for target, run in wanted.items():
            if target.deliver(run) and target in prefixes:
                self.forget(prefixes[target], target)
        return unclaimed


class Deadlines:
    """Resolves futures to `None` at their deadlines. Adding and removing one is cheap."""

    __slots__ = ("_at", "_next", "_timer")

    def __init__(self) -> None:
        self._at: dict[asyncio.Future[Any], float] = {}
        self._next = inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, future: asyncio.Future[Any], seconds: float) -> None:
        """Set a timeout for a future."""
        loop = future.get_loop()
        at = loop.time() + seconds
        self._at[future] = at
        if at < self._next:
            self._arm(loop, at)

    def remove(self, future: asyncio.Future[Any]) -> None:
        """Remove a future that is done or abandoned."""
        del self._at[future]

    def stop(self) -> None:
        """Cancel the timer. Futures that are still pending are not resolved."""
        if self._timer is not None:
            self._timer.cancel()
        self._next = inf

    def _arm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = at
        self._timer = loop.call_at(at, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._next = inf
        left = inf
        for future, at in self._at.items():
            if at > now:
                left = min(left, at)
            elif not future.done():
                future.set_result(None)
        if left < inf:
            self._arm(loop, left)


def default_id(credentials: Credentials | str | Path, name: str) -> str:
    """The default client id for the account of these credentials.

    Raises:
        LocalError: BAD_CREDENTIALS or BAD_CERTIFICATE.
    """
    return own_client_id(account_of(as_credentials(credentials)), name)
