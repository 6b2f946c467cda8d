"""The engine of a client of several groups, given or discovered. It runs `MultiMachine`, with one
session per group."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId, MessageId
from rollq.base.jobs import BlobRef
from rollq.base.limits import CLIENT_FETCH_TRIES, LOOK_MS, REDIAL_GROUP_MAX_MS
from rollq.gossip.following import GroupChanges
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.answers import is_array_over
from rollq.roles.client.engine.base import PREFIX_BYTES, Engine
from rollq.roles.client.engine.supplier import Supplier
from rollq.roles.client.forks import OwnerProcess
from rollq.roles.client.jobs.supply import NOTHING, BytesMoved, Supply
from rollq.roles.client.results.handles import Batch
from rollq.roles.client.results.result import CANCELLED
from rollq.roles.client.session.group_session import Answer, GroupSession, OnAnswer
from rollq.roles.client.session.signals import Request, id_of
from rollq.roles.client.several_groups import machine, signals
from rollq.roles.client.several_groups.discovery import Discovery, Federation
from rollq.roles.client.several_groups.machine import MultiMachine
from rollq.roles.client.several_groups.routes import (
    GroupTable,
    Policy,
    check_group_names,
    parse_route,
    parse_weight,
)
from rollq.security.credentials import NONE, Credentials
from rollq.wire import messages as wire

ELSEWHERE: Final = (ErrorCode.BLOB_MISSING, ErrorCode.UNREACHABLE)  # try the next group


class MultiEngine(Engine):
    """One session per group; the machine assigns jobs to groups.

    Attributes:
        machine: Assigns jobs to groups.
        table: The groups and the routes.
        sessions: The sessions by group number.
    """

    keeps_parents = False

    def __init__(
        self,
        groups: Sequence[str] | Mapping[str, str] | Federation,
        client_id: str,
        *,
        desired_parallelism: int,
        policy: str,
        weights: Mapping[str, int],
        routes: Sequence[str],
        timeout_s: float,
        credentials: Credentials = NONE,
    ) -> None:
        super().__init__(client_id, timeout_s, credentials)
        if not groups or isinstance(groups, str):
            raise LocalError(
                ErrorCode.BAD_SETUP, "no groups", "give a list with the addresses of each group"
            )
        if policy not in list(Policy):
            raise LocalError(
                ErrorCode.BAD_SETUP, f"policy {policy!r}", f"use one of: {', '.join(Policy)}"
            )
        self.table = GroupTable(map(parse_route, routes), Policy(policy))
        self._weights = {name: parse_weight(str(weight)) for name, weight in weights.items()}
        self._discovery: Discovery | None = None
        named: Mapping[str, str] = {}
        if isinstance(groups, Federation):
            self._discovery = Discovery(groups, credentials, timeout_s)
        else:
            named = groups if isinstance(groups, Mapping) else _named(groups)
            check_group_names(named, weights, self.table.routes)
        self.machine = MultiMachine(self.table)
        self.sessions: dict[int, GroupSession] = {}
        self._credentials = credentials
        self._desired_parallelism = desired_parallelism
        self._parallelism = machine.share(desired_parallelism, max(1, len(named)))
        self._suppliers: dict[int, Supplier] = {}
        self._supplies: dict[JobId, Supply] = {}  # files of unfinished jobs
        self._requests: dict[JobId, wire.SubmitJob | wire.SubmitArray] = {}  # of unfinished jobs
        self._arrays: dict[bytes, JobId] = {}  # unfinished arrays, by the id prefix of their tasks
        self._on_answers: dict[JobId, OnAnswer] = {}  # callbacks of jobs that no group has accepted
        self._refusal: wire.Error | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()  # tasks that close removed groups
        for name, addresses in named.items():
            self.add_group(name, addresses, self._weights.get(name, 1))

    def add_group(self, name: str, addresses: str, weight: int) -> None:
        """Add a group. Raises LocalError: BAD_OPTIONS or BAD_ADDRESS."""
        members = as_addresses(addresses)
        number = self.table.add(name, weight)
        session = GroupSession(
            members,
            self.client_id,
            desired_parallelism=self._parallelism,
            redial_ms_max=REDIAL_GROUP_MAX_MS,
            credentials=self._credentials,
            on_results=partial(self._on_results, number),
            is_awaiting=lambda: bool(self.targets),
            on_session_change=partial(self._on_session_change, number),
        )
        supplier = Supplier(session, members, credentials=self._credentials)
        self.sessions[number], self._suppliers[number] = session, supplier
        self._feed(signals.GroupAdded(number))
        if self._ticker is not None:
            supplier.start()

    async def remove_group(self, name: str) -> None:
        """Remove a group. Raises LocalError: BAD_OPTIONS."""
        found = [number for number, one in self.table.names.items() if one == name]
        if not found:
            known = ", ".join(self.table.names.values())
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"no group is named {name[:64]!r}", f"there are: {known}"
            )
        self.table.remove(found[0])
        self._feed(signals.GroupRemoved(found[0]))
        await asyncio.gather(*self._leaving)

    async def start(self) -> None:
        """Discover the groups if necessary, and connect to their leaders in the background."""
        if self._ticker is None:
            await self._discover()
            self._process = OwnerProcess()
            self._loop = asyncio.get_running_loop()
            self._feed(signals.GroupStarted(self._now_ms()))
            for supplier in self._suppliers.values():
                supplier.start()
            self._tick()
            if self._discovery is not None:
                self._discovery.follow(self.sessions.values, self._go_along)
        await asyncio.sleep(0)

    async def stop(self) -> None:
        """Close all connections; jobs go on. Does nothing in a forked child: they are the
        parent's."""
        if self._ticker is None or self._process.is_fork:
            return
        if self._discovery is not None:
            await self._discovery.stop()
        self._ticker.cancel()
        self._ticker = None
        self.machine.discard()
        self.machine = MultiMachine(self.table)  # events of closing sessions must not reach the old
        links = [session.link for session in self.sessions.values()]
        for supplier in list(self._suppliers.values()):
            await supplier.stop()
        self._fail_all()
        waiting, self._on_answers = self._on_answers, {}
        for job_id, on_answer in waiting.items():
            on_answer(wire.Error(job_id, int(ErrorCode.DISCONNECTED), "the client was stopped"))
        self._loop = None  # last, because the callbacks above may use it
        await asyncio.gather(*(link.close_within("the client stops") for link in links if link))

    def session_of(self, job_id: JobId) -> GroupSession:
        owner = self.machine.owner_of(job_id)
        return self.sessions[next(iter(self.sessions)) if owner is None else owner]

    def uploaded_at(self) -> float:
        """When an upload to any group was last in progress, by the loop's clock."""
        return max(supplier.uploaded_at() for supplier in self._suppliers.values())

    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        """Download a blob to a file, from the first group that has it."""
        lacking: RollqError | None = None
        # The first round asks each group once; only the second retries.
        for tries in (1, CLIENT_FETCH_TRIES):
            for supplier in list(self._suppliers.values()):
                try:
                    return await supplier.fetch(ref, path, progress, tries)
                except RollqError as error:
                    if error.code not in ELSEWHERE:
                        raise
                    lacking = error
        assert lacking is not None
        raise lacking

    def ask(self, request: Request, on_answer: OnAnswer, supply: Supply = NOTHING) -> None:
        """Assign a job to a group; the callback is called when one has accepted it."""
        self._process.check()
        if self._ticker is None:
            raise LocalError(
                ErrorCode.BAD_SETUP, "the client is not started", "use `async with`, or start it"
            )
        assert isinstance(request, wire.SubmitJob | wire.SubmitArray)
        if request.options is not None and request.options.after:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "a client of several groups cannot submit jobs that wait for others",
                "a group knows only its own jobs: use a client of the group that has them",
            )
        job_id = id_of(request)
        if isinstance(request, wire.SubmitArray):
            self._arrays[job_id[:PREFIX_BYTES]] = job_id
        self._requests[job_id] = request
        if supply is not NOTHING:
            self._supplies[job_id] = supply
        self._on_answers[job_id] = on_answer
        self._feed(signals.JobsSubmitted((job_id,), request.subject))

    def give_up(self, request_id: MessageId) -> None:
        """Abandon a job."""
        self._on_answers.pop(request_id, None)
        self._arrays.pop(request_id[:PREFIX_BYTES], None)
        self._feed(signals.JobAbandoned(request_id))
        self._requests.pop(request_id, None)
        self._supplies.pop(request_id, None)

    async def _cancel(self, job_ids: tuple[JobId, ...]) -> int:
        """Cancel jobs. One that no reachable group has is over at once; a copy of it, if there is
        one, is cancelled when its group is reachable again."""
        asked: list[JobId] = []
        ended = 0
        for job_id in job_ids:
            if not self.machine.is_open(job_id) or self.machine.group_of(job_id) is not None:
                asked.append(job_id)
                continue
            self._feed(signals.JobAbandoned(job_id))
            ended += self._end_unplaced(job_id)
        return ended + (await self._cancel_in_groups(tuple(asked)) if asked else 0)

    async def _cancel_in_groups(self, job_ids: tuple[JobId, ...]) -> int:
        answers = [
            session.call(wire.Cancel(secrets.token_bytes(16), job_ids))
            for session in self.sessions.values()
            if session.is_open
        ]
        try:
            async with asyncio.timeout(self.timeout_s):
                got = await asyncio.gather(*answers)
        except TimeoutError:
            raise self.timeout_error("a cancellation", submits=False) from None
        return sum(answer.count for answer in got if isinstance(answer, wire.Accepted))

    async def is_array_over(self, array_id: JobId) -> bool:
        """Whether an array has no waiting or running tasks in its group."""
        number = self.machine.owner_of(array_id)
        if number is None or not self.sessions[number].is_open:
            return False
        query = wire.Query(secrets.token_bytes(16), "array", array_id)
        answer = await self.sessions[number].call(query)
        return isinstance(answer, wire.Answer) and is_array_over(answer.value)

    def _leave(self, job_ids: tuple[JobId, ...]) -> None:
        """Nothing to do: `give_up` has cancelled them, or will when their group is reachable."""

    def _session_error(self) -> str:
        return "; ".join(filter(None, [one.last_error for one in self.sessions.values()]))

    def _has_submitted(self) -> bool:
        return any(session.has_submitted for session in self.sessions.values())

    # --- discovery

    async def _discover(self) -> None:
        if self._discovery is None or self.sessions:  # discovered by an earlier start
            return
        steps = await self._discovery.first()
        self._parallelism = machine.share(self._desired_parallelism, len(steps.found))
        await self._go_along(steps)

    async def _go_along(self, steps: GroupChanges) -> None:
        """Apply all changes: each is told once, so one that fails must not hold up the others.

        Raises:
            RollqError: the first failure.
        """
        failures: list[RollqError] = []
        for name in steps.gone:
            try:
                await self.remove_group(name)
            except RollqError as error:
                failures.append(error)
        for one in steps.found:
            try:
                self.add_group(one.name, ",".join(one.addresses), self._weights.get(one.name, 1))
            except RollqError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    # --- events of the sessions

    def _on_session_change(self, number: int, is_open: bool) -> None:
        now_ms = self._now_ms()
        self._feed(signals.GroupUp(number) if is_open else signals.GroupDown(number, now_ms))

    def _on_results(self, number: int, results: list[wire.Result]) -> list[JobId]:
        """Deliver the first result of each job. Duplicates are confirmed too, and dropped."""
        for result in results:
            is_cancelled = result.outcome == CANCELLED
            array_id = self._arrays.get(result.job_id[:PREFIX_BYTES])
            if array_id is not None:
                self._on_task(number, array_id, result, is_cancelled=is_cancelled)
            elif self._feed(signals.GroupEnded(number, result.job_id, is_cancelled)):
                self._end(result)
        return [result.job_id for result in results]

    def _on_task(
        self, number: int, array_id: JobId, result: wire.Result, *, is_cancelled: bool
    ) -> None:
        """Deliver the first result of a task, from whichever group; the last task ends the array,
        and cancels a copy of it in another group."""
        if is_cancelled and self.machine.owner_of(array_id) != number:
            return  # from a copy that this client cancelled
        self._accepted(array_id)
        self._deliver_all([result])
        if array_id[:PREFIX_BYTES] not in self.targets:
            self._forget(array_id)
            self._feed(signals.GroupEnded(number, array_id))

    def _end(self, result: wire.Result) -> None:
        self._accepted(result.job_id)  # the result may precede the response to the submit
        self._forget(result.job_id)
        self._deliver_all([result])

    def _end_unplaced(self, job_id: JobId) -> int:
        """End a job that no reachable group has; returns how many jobs it was."""
        request = self._requests.get(job_id)
        if not isinstance(request, wire.SubmitArray):
            self._end(wire.Result(job_id, CANCELLED))
            return 1
        return self._cut(job_id)

    def _cut(self, array_id: JobId) -> int:
        """End an array without further results; returns how many were missing."""
        self._accepted(array_id)
        self._forget(array_id)
        batch = self.targets.pop(array_id[:PREFIX_BYTES], None)
        if not isinstance(batch, Batch):
            return 0
        left = len(batch) - batch.counts.ended
        batch.cut(0, len(batch))
        batch.complete()
        return left

    def _accepted(self, job_id: JobId) -> None:
        on_answer = self._on_answers.pop(job_id, None)
        if on_answer is not None:
            on_answer(wire.Accepted(job_id))

    def _forget(self, job_id: JobId) -> None:
        self._requests.pop(job_id, None)
        self._supplies.pop(job_id, None)
        self._arrays.pop(job_id[:PREFIX_BYTES], None)

    def _when_answered(self, number: int, job_id: JobId) -> OnAnswer:
        def on_answer(answer: Answer) -> None:
            if isinstance(answer, wire.Error):
                self._refusal = answer
                self._feed(signals.GroupRefused(number, job_id))
                self._refusal = None
                return
            waiting = self._on_answers.pop(job_id, None)
            if waiting is not None:
                waiting(answer)
            self._feed(signals.GroupAccepted(number, (job_id,)))

        return on_answer

    # --- runs the machine

    def _tick(self) -> None:
        self._ticker = self.loop.call_later(LOOK_MS / 1000, self._tick)
        self._feed(signals.MultiTick(self._now_ms()))

    def _now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def _feed(self, event: signals.Event) -> bool:
        """Execute the instructions for an event; true if its result is to be delivered."""
        counts = False
        for instruction in self.machine.handle(event):
            if isinstance(instruction, signals.DeliverResult):
                counts = True
            else:
                DO[type(instruction)](self, instruction)
        return counts

    def _do_place(self, instruction: signals.AssignToGroup) -> None:
        number = instruction.group
        for job_id in instruction.job_ids:
            supply = self._supplies.get(job_id, NOTHING)
            on_answer = self._when_answered(number, job_id)
            self._suppliers[number].ask(self._requests[job_id], on_answer, supply)

    def _do_take_back(self, instruction: signals.StopSending) -> None:
        for job_id in instruction.job_ids:
            self._suppliers[instruction.group].give_up(job_id)

    def _do_cancel(self, instruction: signals.CancelCopies) -> None:
        self.sessions[instruction.group].ask(
            wire.Cancel(secrets.token_bytes(16), instruction.job_ids), lambda answer: None
        )

    def _do_leave(self, instruction: signals.CloseGroupSession) -> None:
        del self.sessions[instruction.group]
        supplier = self._suppliers.pop(instruction.group)
        if self._ticker is not None:
            task = self.loop.create_task(supplier.stop())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def _do_reject(self, instruction: signals.DeliverRefusal) -> None:
        job_id = instruction.job_id
        request = self._requests.get(job_id)
        on_answer = self._on_answers.pop(job_id, None)
        refusal = self._refusal
        if refusal is not None and on_answer is None and isinstance(request, wire.SubmitArray):
            self._cut(job_id)
            return
        self._forget(job_id)
        if refusal is None:
            return
        if on_answer is not None:
            on_answer(refusal)
        else:  # accepted by a group that was lost, and refused by the next
            self._deliver_all([wire.Result(instruction.job_id, "dead", detail=refusal.message)])


DO: dict[type, Callable[[MultiEngine, Any], None]] = {
    signals.AssignToGroup: MultiEngine._do_place,
    signals.StopSending: MultiEngine._do_take_back,
    signals.CancelCopies: MultiEngine._do_cancel,
    signals.DeliverRefusal: MultiEngine._do_reject,
    signals.CloseGroupSession: MultiEngine._do_leave,
}


def _named(groups: Sequence[str]) -> dict[str, str]:
    """Name each group by its addresses."""
    if len(set(groups)) < len(groups):
        raise LocalError(
            ErrorCode.BAD_SETUP, "a group is given twice", "give the addresses of each group once"
        )
    return {addresses: addresses for addresses in groups}
