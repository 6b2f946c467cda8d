"""What all parts of a client share: requests and their answers, results and whom they are for.

Where a request goes, to one group or to one of several, is the subclass's business.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from rollq.base.errors import DeadlineError, DialError, ErrorCode, LocalError, RollqError
from rollq.base.ids import ClientId, JobId, MessageId, guid_to_text
from rollq.base.job_events import JobEvent
from rollq.base.jobs import BlobRef
from rollq.base.limits import CONFIRM_JOBS_MAX
from rollq.roles.client.answers import error_of
from rollq.roles.client.deadlines import Deadlines
from rollq.roles.client.forks import Home
from rollq.roles.client.inputs import Inputs
from rollq.roles.client.naming import made_up_id
from rollq.roles.client.session import Answer, GroupSession, OnAnswer
from rollq.roles.client.signals import Request, id_of
from rollq.roles.client.supply import NOTHING, BytesMoved, SubmitMaker, Supply
from rollq.security.credentials import NONE, Credentials
from rollq.wire import messages as wire
from rollq.wire.subject_messages import Publish, Subscribe

PREFIX_BYTES: Final = 12  # what the ids of one batch or array have in common
ACCEPTED_PERHAPS: Final = (
    "; a job may have been accepted all the same, and may be submitted again under the same id"
)
# Requests that submit nothing, in the words of errors.
SUBMITS_NOTHING: Final[Mapping[type, str]] = {
    wire.Query: "a query",
    wire.Admin: "an admin request",
    wire.Cancel: "a cancellation",
    Publish: "a publish",
    Subscribe: "a subscription",
}


class ResultTarget(Protocol):
    """Whoever a result is for."""

    def deliver(self, results: Sequence[wire.Result]) -> bool:
        """Take results, at least one; true if no others are to come for now."""

    def fail(self, error: RollqError) -> None:
        """No result will come here: the client stops."""


class Awaiting:
    """A block that asks for results which a target is to get."""

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
    """One client, as its calls see it.

    Attributes:
        client_id: The name that results are owed to.
        timeout_s: How long a call waits for an answer, unless it says otherwise.
        inputs: Reads the files of jobs.
        allow_pickle: Whether functions may be sent that no module registers.
        keeps_parents: Whether jobs can wait for each other, because one group has all of them.
        request_for: Makes the message that submits a job whose files are read.
        targets: Whom results are for, by job id or by the prefix that the ids of a batch share. An
            entry is there from before the submit is sent until its last result is delivered, or
            nobody wants it any more.
    """

    keeps_parents: ClassVar = True

    def __init__(
        self, client_id: ClientId, timeout_s: float, credentials: Credentials = NONE
    ) -> None:
        own_id = made_up_id(credentials, secrets.token_hex(8))  # also to see what is damaged
        self.client_id = client_id or own_id
        self.timeout_s = timeout_s
        self.inputs = Inputs()
        self.allow_pickle = False
        self.request_for = SubmitMaker(self.client_id).make
        self.targets: dict[bytes, ResultTarget] = {}
        self._deadlines = Deadlines()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home = Home()  # where it was started

    async def call(
        self, request: Request, timeout: float | None = None, supply: Supply = NOTHING
    ) -> Any:
        """Ask, and wait for the answer. Raises what a refusal means, and DeadlineError."""
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
            if answer is None:  # out of time, or cancelled
                self.give_up(id_of(request))
        if answer is None:
            kind = type(request)
            what = SUBMITS_NOTHING.get(kind, kind.__name__)
            if isinstance(request, wire.SubmitJob):
                what = f"job {guid_to_text(request.job_id)}"
            raise self.overdue(what, wait_s, submits=kind not in SUBMITS_NOTHING)
        if type(answer) is wire.Error:
            raise error_of(answer)
        return answer

    async def uploaded(self, answered: asyncio.Future[Any], wait_s: float) -> bool:
        """Wait for an answer; there is time from when no files are on their way any more. False:
        there is none."""
        asked_at = self.loop.time()
        while not answered.done():
            left_s = max(asked_at, self.uploaded_at()) + wait_s - self.loop.time()
            if left_s <= 0:
                return False
            await asyncio.wait((answered,), timeout=left_s)
        return True

    def awaiting(self, key: bytes, target: ResultTarget) -> Awaiting:
        """Results under this id or prefix are for the target, unless asking for them, within the
        block, fails.

        Raises:
            LocalError: ID_CONFLICT, if they are for another.
        """
        if self.targets.setdefault(key, target) is not target:
            raise LocalError(
                ErrorCode.ID_CONFLICT,
                f"job {guid_to_text(key)} was submitted here and has not ended",
                "use the handle of the first submit",
            )
        return Awaiting(self, key, target)

    def forget(self, key: bytes, target: ResultTarget) -> None:
        """No more results under this id or prefix for the target; another's stay its own."""
        if self.targets.get(key) is target:
            del self.targets[key]

    async def cancel(self, job_ids: Sequence[JobId]) -> int:
        """End jobs and arrays; how many there were to end."""
        count = 0
        for first in range(0, len(job_ids), CONFIRM_JOBS_MAX):
            count += await self._cancel(tuple(job_ids[first : first + CONFIRM_JOBS_MAX]))
        return count

    def leave(self, job_ids: Iterable[JobId]) -> None:
        """Nobody wants these results any more: end the jobs, take their results unseen."""
        ids = list(job_ids)
        for job_id in ids:
            self.targets.pop(job_id, None)
            self.give_up(job_id)
        for first in range(0, len(ids), CONFIRM_JOBS_MAX):
            self._leave(tuple(ids[first : first + CONFIRM_JOBS_MAX]))

    def overdue(
        self, what: str, wait_s: float | None = None, *, submits: bool = True
    ) -> RollqError:
        """The error for a request that was not answered in time."""
        trouble = self._trouble()
        return DeadlineError(
            ErrorCode.TIMED_OUT,
            f"no answer within {self.timeout_s if wait_s is None else wait_s:g} s: {what}"
            + (f" ({trouble})" if trouble else ""),
            "check that a majority of the members runs"
            + (ACCEPTED_PERHAPS if submits and self._was_sent() else ""),
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that this client lives in. Raises LocalError BAD_SETUP in a forked child."""
        self._home.check()
        if self._loop is None:
            raise LocalError(
                ErrorCode.BAD_SETUP, "the client is not started", "use `async with`, or start it"
            )
        return self._loop

    # --- what a subclass must do

    @abstractmethod
    async def start(self) -> None:
        """Begin to look for leaders."""

    @abstractmethod
    async def stop(self) -> None:
        """Hang up. Jobs go on. In a forked child the connections are the parent's, and stay."""

    def events(self, job_id: JobId) -> AsyncGenerator[JobEvent, None]:
        """What happens to a job, from now on."""
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "a client of several groups cannot follow events",
            "use a `Client` of the group that has the job",
        )

    @abstractmethod
    def session_of(self, job_id: JobId) -> GroupSession:
        """The way to the group that has a job."""

    @abstractmethod
    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Send a request, after its files; the callback gets its answer."""

    def ask_jobs(self, jobs: Sequence[wire.SubmitJob], on_answer: OnAnswer) -> None:
        """The same for jobs without files, each answered by itself."""
        for job in jobs:
            self.ask(job, on_answer)

    @abstractmethod
    def give_up(self, request_id: MessageId) -> None:
        """Nobody waits for the answer any more: do not send this again."""

    @abstractmethod
    def uploaded_at(self) -> float:
        """When files were on their way last, by the loop's clock."""

    @abstractmethod
    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        """Bring a blob into a file, verified."""

    @abstractmethod
    async def is_array_over(self, array_id: JobId) -> bool:
        """Whether no task of an array waits or runs."""

    @abstractmethod
    async def _cancel(self, job_ids: tuple[JobId, ...]) -> int:
        """End jobs, as many as a message holds; how many there were to end."""

    @abstractmethod
    def _leave(self, job_ids: tuple[JobId, ...]) -> None:
        """End jobs that were given up, and confirm their results unseen."""

    @abstractmethod
    def _trouble(self) -> str:
        """Why nobody answers, if that is known."""

    @abstractmethod
    def _was_sent(self) -> bool:
        """Whether anything was ever sent, so that it may have been accepted."""

    # --- for subclasses

    def _fail_all(self) -> None:
        """Nobody will be told a result any more."""
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
        """Hand results to whoever waits for them; those that nobody waits for."""
        targets = self.targets
        strangers: list[wire.Result] = []
        wanted: dict[ResultTarget, list[wire.Result]] = {}
        prefixes: dict[ResultTarget, bytes] = {}
        last: bytes = b""  # the prefix of the result before, and whose that was
        run: list[wire.Result] = strangers
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
                    run = strangers
                else:
                    run = wanted.setdefault(target, [])
                    prefixes[target] = prefix
            run.append(result)
        for target, run in wanted.items():
            if target.deliver(run) and target in prefixes:
                self.forget(prefixes[target], target)
        return strangers
