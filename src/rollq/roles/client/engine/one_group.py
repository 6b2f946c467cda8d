"""The engine of a client of one group. It also keeps unclaimed results of earlier processes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from weakref import WeakSet

from rollq.base.ids import JobId, MessageId
from rollq.base.job_events import JobEvent
from rollq.base.jobs import BlobRef
from rollq.base.limits import CLIENT_DELIVERED_MAX, UNCLAIMED_BYTES_MAX, UNCLAIMED_RESULT_BYTES
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.answers import is_array_over
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.engine.supplier import Supplier
from rollq.roles.client.forks import OwnerProcess
from rollq.roles.client.jobs.supply import NOTHING, BytesMoved, Supply
from rollq.roles.client.many.keyed import KeyedRun
from rollq.roles.client.session.group_session import GroupSession, OnAnswer
from rollq.roles.client.session.signals import FEATURES, Request
from rollq.roles.client.topics.job_events import events_of
from rollq.roles.client.topics.subjects import Subjects
from rollq.security.credentials import NONE, Credentials
from rollq.wire import messages as wire
from rollq.wire.features import OWN


class GroupEngine(Engine):
    """One session with one group.

    Attributes:
        session: The session with the group.
        supplier: Sends requests with files.
        subjects: Publishes and subscriptions.
        keyed_runs: Runs that are notified of every new session.
        unclaimed: Results of jobs that this process did not submit, but an earlier one with the
            same client id; up to UNCLAIMED_BYTES_MAX. They are unconfirmed, so none is lost.
    """

    def __init__(
        self,
        addresses: str,
        client_id: str,
        *,
        desired_parallelism: int = 0,
        timeout_s: float = 30.0,
        shares_id: bool = False,
        credentials: Credentials = NONE,
    ) -> None:
        super().__init__(client_id, timeout_s, credentials)
        members = as_addresses(addresses)
        self.session = GroupSession(
            members,
            self.client_id,
            desired_parallelism=desired_parallelism,
            features=(*FEATURES, OWN) if shares_id else FEATURES,
            credentials=credentials,
            on_results=self.take_results,
            is_awaiting=lambda: bool(self.targets),
            on_session_change=self._on_session_change,
        )
        self.subjects = Subjects(self)
        self.supplier = Supplier(self.session, members, credentials=credentials)
        self.keyed_runs: WeakSet[KeyedRun] = WeakSet()
        self.unclaimed: dict[JobId, wire.Result] = {}
        self.unclaimed_bytes = 0
        self._unwanted: dict[JobId, None] = {}  # abandoned jobs, whose results are confirmed unseen

    def events(self, job_id: JobId) -> AsyncGenerator[JobEvent, None]:
        """Iterate over the events of a job from now on."""
        return events_of(self, job_id)

    async def start(self) -> None:
        """Connect to the leader, in the background."""
        if self._loop is None:
            self._process = OwnerProcess()
        self._process.check()
        self._loop = asyncio.get_running_loop()
        self.supplier.start()
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """Close the connection. Does nothing in a forked child: it is the parent's."""
        if self._process.is_fork:
            return
        link = self.session.link
        await self.supplier.stop()
        self._fail_all()
        self.subjects.stop()
        self._loop = None
        if link is not None:  # flush it, because the loop may be about to end
            await link.close_within("the client stops")

    def session_of(self, job_id: JobId) -> GroupSession:
        """The only session."""
        return self.session

    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Upload the files of a request, then send it; the callback gets the response."""
        if self.unclaimed and type(request) is wire.SubmitJob:
            self._drop_unclaimed(request.job_id)  # the submit makes the grid send it again
        if supply is NOTHING:
            self.session.ask(request, on_answer)
        else:
            self.supplier.ask(request, on_answer, supply)

    def ask_jobs(self, jobs: Sequence[wire.SubmitJob], on_answer: OnAnswer) -> None:
        for job in jobs if self.unclaimed else ():
            self._drop_unclaimed(job.job_id)
        self.session.ask_all(jobs, on_answer)

    def give_up(self, request_id: MessageId) -> None:
        """Abandon a request: do not send it again."""
        self.supplier.give_up(request_id)

    def uploaded_at(self) -> float:
        """When an upload was last in progress, by the loop's clock."""
        return self.supplier.uploaded_at()

    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        """Download a blob of the group to a file and verify it."""
        await self.supplier.fetch(ref, path, progress)

    async def is_array_over(self, array_id: JobId) -> bool:
        """Whether an array has no waiting or running tasks."""
        answer = await self.call(wire.Query(secrets.token_bytes(16), "array", array_id))
        return is_array_over(answer.value)

    def take_results(self, results: list[wire.Result]) -> list[JobId]:
        """Deliver results of one read; returns the ids of those to confirm."""
        unclaimed: set[JobId] = set()
        for result in self._deliver_all(results):
            if result.job_id in self._unwanted:
                del self._unwanted[result.job_id]
            else:
                self._keep_unclaimed(result)
                unclaimed.add(result.job_id)
        return [result.job_id for result in results if result.job_id not in unclaimed]

    def take_unclaimed(self) -> list[wire.Result]:
        """Return and confirm the unclaimed results."""
        held = list(self.unclaimed.values())
        for one in held:
            self.claim(one.job_id)
        return held

    def claim(self, job_id: JobId) -> None:
        """Confirm a result that the application read without having submitted the job here."""
        self._drop_unclaimed(job_id)
        self.session.taken(job_id)

    async def _cancel(self, job_ids: tuple[JobId, ...]) -> int:
        answer = await self.call(wire.Cancel(secrets.token_bytes(16), job_ids))
        return int(answer.count)

    def _leave(self, job_ids: tuple[JobId, ...]) -> None:
        self._unwanted.update(dict.fromkeys(job_ids))
        while len(self._unwanted) > CLIENT_DELIVERED_MAX:
            del self._unwanted[next(iter(self._unwanted))]
        self.session.ask(wire.Cancel(secrets.token_bytes(16), job_ids), lambda answer: None)

    def _session_error(self) -> str:
        return self.session.last_error

    def _has_submitted(self) -> bool:
        return self.session.has_submitted

    def _on_session_change(self, is_open: bool) -> None:
        self.subjects.session_changed(is_open=is_open)
        if is_open:
            for run in self.keyed_runs:
                run.welcomed()

    def _keep_unclaimed(self, result: wire.Result) -> None:
        self._drop_unclaimed(result.job_id)
        self.unclaimed[result.job_id] = result
        self.unclaimed_bytes += len(result.result) + UNCLAIMED_RESULT_BYTES
        while self.unclaimed_bytes > UNCLAIMED_BYTES_MAX:
            # It is not lost: it is unconfirmed, and `attach` queries it.
            self._drop_unclaimed(next(iter(self.unclaimed)))

    def _drop_unclaimed(self, job_id: JobId) -> None:
        dropped = self.unclaimed.pop(job_id, None)
        if dropped is not None:
            self.unclaimed_bytes -= len(dropped.result) + UNCLAIMED_RESULT_BYTES
