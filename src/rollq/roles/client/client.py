"""The asyncio client of one group.

    async with Client("127.0.0.1:5000") as client:
        job = await client.submit("calcA", ["1", "2"])
        print((await job.result()).raise_for_status().stdout)

It finds the leader, follows it, and comes back after a broken connection without the caller
noticing: what was asked is asked again under the same ids, and results that came meanwhile are
sent by whoever leads then.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Self
from weakref import WeakSet

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import JobId, MessageId, guid_to_text
from rollq.base.jobs import BlobRef
from rollq.base.limits import CLIENT_DELIVERED_MAX, UNCLAIMED_BYTES_MAX, UNCLAIMED_RESULT_BYTES
from rollq.roles.client.caching import Caching
from rollq.roles.client.forks import Home
from rollq.roles.client.handles import Job
from rollq.roles.client.keyed import KeyedRun, OnMade
from rollq.roles.client.many import ManySubmitter
from rollq.roles.client.results import Result, result_message
from rollq.roles.client.session import OnAnswer, Session, as_addresses
from rollq.roles.client.signals import Request
from rollq.roles.client.specs import as_id
from rollq.roles.client.staging import Staging
from rollq.roles.client.supplier import Supplier
from rollq.roles.client.supply import NOTHING, BytesMoved, Supply
from rollq.roles.client.views import state_of
from rollq.wire import messages as wire


class Client(Caching, Staging, ManySubmitter):
    """A client of one group.

    Args:
        addresses: Members of the group, `host:port,host:port…`; one is enough to find the rest.
        client_id: The name that results are owed to. A process that comes back under its name
            gets what ended meanwhile. Left out, a new name is drawn.
        desired_parallelism: How many of this client's jobs may run at once; 0: no wish.
        timeout: How many seconds a call waits for an answer, unless it says otherwise.
        shares_id: Others work under this client id at the same time, and results of jobs that one
            of them submits are for it alone. Otherwise every one is sent all results.
    """

    takes_bulks = True

    def __init__(
        self,
        addresses: str,
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        timeout: float = 30.0,
        shares_id: bool = False,
    ) -> None:
        super().__init__(client_id, timeout)
        self._session = Session(
            addresses,
            self.client_id,
            desired_parallelism=desired_parallelism,
            shares_id=shares_id,
            on_results=self._on_results,
            is_awaiting=lambda: bool(self._routes),
            on_standing=self._on_standing,
        )
        self._supplier = Supplier(self._session, as_addresses(addresses))
        # Results of jobs that this process has not asked for: of an earlier one of the same name.
        self._unclaimed: dict[JobId, wire.Result] = {}
        self._unclaimed_bytes = 0
        self._unwanted: dict[JobId, None] = {}  # left early; their results are confirmed unseen
        self._keyed_runs: WeakSet[KeyedRun] = WeakSet()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to look for the leader. Calls wait until there is one, or for their timeout."""
        if self._loop is None:
            self._home = Home()
        self._home.check()
        self._loop = asyncio.get_running_loop()
        self._session.start()
        self._supplier.start()
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """Hang up. Jobs go on; their results wait for whoever comes back under this client id. In a
        forked child the connection is the parent's, and stays."""
        if self._home.is_elsewhere:
            return
        await self._supplier.stop()
        await self._session.stop()
        self._fail_all()
        self._loop = None

    @property
    def is_connected(self) -> bool:
        """Whether a leader has welcomed us."""
        return self._session.is_open

    @property
    def leader(self) -> str:
        """The address of the member that welcomed us; empty if none has."""
        return self._session.leader

    async def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> Job:
        """A handle on a job that another process submitted under this client id.

        Raises:
            StateError: UNKNOWN_JOB; or WRONG_STATE if it runs for another client, whom its result
                will go to.
        """
        wanted = as_id(job_id)
        job = self._routes.get(wanted)
        if isinstance(job, Job):
            return job
        view = await self.job_view(wanted, timeout=timeout)
        if view is None:
            raise StateError(ErrorCode.UNKNOWN_JOB, f"no job {guid_to_text(wanted)} is known")
        job = Job(self, wanted)
        if view.end is not None:
            job.deliver((result_message(view),))
            self._claim(wanted)
        elif view.state in ENDS:
            raise StateError(
                ErrorCode.UNKNOWN_JOB,
                f"job {job.id} is {state_of(view)}, and its result is not kept any more",
                "attach sooner, or keep results for longer: result_ttl",
            )
        elif view.client_id != self.client_id:
            raise StateError(
                ErrorCode.WRONG_STATE,
                f"job {job.id} belongs to the client {view.client_id!r}",
                "attach under that client id, or ask for its status",
            )
        else:
            self._routes[wanted] = job
        return job

    async def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """How a job ended, whoever submitted it; its result stays owed to that client.

        Raises:
            StateError: UNKNOWN_JOB, also if its result is not kept any more; WRONG_STATE if it has
                not ended.
        """
        wanted = as_id(job_id)
        view = await self.job_view(wanted, timeout=timeout)
        if view is not None and view.end is not None:
            return Result(result_message(view), self)
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
        held = list(self._unclaimed.values())
        for one in held:
            self._claim(one.job_id)
        return [Result(one, self) for one in held]

    def keyed_run(self, *, on_made: OnMade | None = None) -> KeyedRun:
        """For jobs with ids of their own, some of which may have been submitted before."""
        run = KeyedRun(self, patience_s=self._timeout_s, on_made=on_made)
        self._keyed_runs.add(run)
        return run

    async def is_array_over(self, array_id: JobId) -> bool:
        """Whether no task of an array waits or runs."""
        view = await self.array(array_id)
        return view is None or not (view.waiting or view.open)

    # --- for the submitter and its helpers

    def _session_of(self, job_id: JobId) -> Session:
        return self._session

    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Send a request, after its files; the callback gets its answer."""
        if self._unclaimed and type(request) is wire.SubmitJob:
            self._drop_unclaimed(request.job_id)  # it will be sent again
        if supply is not NOTHING:
            self._supplier.ask(request, on_answer, supply)
        else:
            self._session.ask(request, on_answer)

    def uploaded_at(self) -> float:
        """When files were on their way last, by the loop's clock."""
        return self._supplier.uploaded_at()

    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        """Bring a blob of the group into a file, verified."""
        await self._supplier.fetch(ref, path, progress)

    def give_up(self, request_id: MessageId) -> None:
        """Wait no longer for an answer, and do not send this again."""
        self._supplier.give_up(request_id)
        self._session.give_up(request_id)

    async def _cancel(self, job_ids: tuple[JobId, ...]) -> int:
        answer = await self._call(wire.Cancel(secrets.token_bytes(16), job_ids))
        return int(answer.count)

    def _leave(self, job_ids: tuple[JobId, ...]) -> None:
        self._unwanted.update(dict.fromkeys(job_ids))
        while len(self._unwanted) > CLIENT_DELIVERED_MAX:
            del self._unwanted[next(iter(self._unwanted))]
        self._session.ask(wire.Cancel(secrets.token_bytes(16), job_ids), lambda answer: None)

    def _trouble(self) -> str:
        return "" if self._session.is_open else self._session.last_trouble

    def _was_sent(self) -> bool:
        return self._session.was_open

    def _on_standing(self, is_open: bool) -> None:
        if is_open:
            for run in self._keyed_runs:
                run.welcomed()

    def _on_results(self, results: list[wire.Result]) -> list[JobId]:
        unclaimed: set[JobId] = set()
        for result in self._deliver_all(results):
            if self._unwanted.pop(result.job_id, ABSENT) is not None:
                self._keep_unclaimed(result)
                unclaimed.add(result.job_id)
        return [result.job_id for result in results if result.job_id not in unclaimed]

    def _keep_unclaimed(self, result: wire.Result) -> None:
        self._drop_unclaimed(result.job_id)
        self._unclaimed[result.job_id] = result
        self._unclaimed_bytes += len(result.result) + UNCLAIMED_RESULT_BYTES
        while self._unclaimed_bytes > UNCLAIMED_BYTES_MAX:
            # Not lost: it is not confirmed, and `attach` asks the grid for it.
            self._drop_unclaimed(next(iter(self._unclaimed)))

    def _drop_unclaimed(self, job_id: JobId) -> None:
        dropped = self._unclaimed.pop(job_id, None)
        if dropped is not None:
            self._unclaimed_bytes -= len(dropped.result) + UNCLAIMED_RESULT_BYTES

    def _claim(self, job_id: JobId) -> None:
        self._drop_unclaimed(job_id)
        self._session.taken(job_id)


ABSENT = object()
ENDS = ("done", "dead", "cancelled")
