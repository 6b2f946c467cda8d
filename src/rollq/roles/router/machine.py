"""One client of a router, as a pure machine: forwards its requests to groups and their messages
back to it. No IO, no clock.

Laws kept here:
- jobs are placed in groups by `MultiMachine`, as in a client of several groups;
- nothing is accepted here: the answer to a submit is a group's answer, or is merged from the
  answers of several groups to its parts;
- jobs keep their ids, bodies are not parsed, and runs are forwarded as runs;
- a submit that was unanswered when the session with its group broke is sent again on reconnect,
  except for jobs whose result has come meanwhile;
- a result is confirmed to its group only when the client confirms it. If a job was moved to another
  group its first result counts; later ones are confirmed here;
- bodies of accepted jobs are kept in memory, within a limit, to move them when a group fails. Jobs
  beyond the limit, and those with blobs, wait for their group.

A client of the legacy protocol gets results as the only answers, and confirms none. All its
unfinished jobs are sent again to a group that reconnects, which deduplicates them by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import JobId, MessageId
from rollq.base.limits import CONFIRM_JOBS_MAX
from rollq.base.staged import ids_of
from rollq.roles.client.several_groups import signals
from rollq.roles.client.several_groups.machine import MultiMachine
from rollq.roles.client.several_groups.routes import GroupTable
from rollq.roles.router.owners import GivenResults, JobOwners, KeptBytes
from rollq.roles.router.pending_requests import PendingRequests
from rollq.roles.router.requests import (
    PendingSubmit,
    Submit,
    SubmitPart,
    already_pending,
    answer_of,
    has_files,
    part_of_results,
    part_of_run,
    record_refused,
    request_of,
)
from rollq.roles.router.work import PendingJobs
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.output_messages import OutputChunk
from rollq.wire.run_messages import ResultRun, RunAccepted, SubmitRun

CANCELLED: Final = "cancelled"
NUMBER_BYTES: Final = 6
AGAIN: Final = (int(ErrorCode.GRID_FULL), int(ErrorCode.OVERLOADED))  # retried on each tick


class RouterMachine:
    """The requests of one client that are in progress.

    Args:
        table: The groups and routes of the router.
        owners: Owning groups of jobs, shared by all clients.
        kept: The memory budget for bodies, shared by all clients.
        base_id: A unique id; ids made here share its prefix.
        is_legacy: The client speaks the legacy protocol.

    Attributes:
        to_client: Messages to the client; the shell takes them after every call.
        to_groups: Messages to groups, likewise.
        left: Groups whose sessions are to be ended.
        unanswered_bytes: Size of the submits that no group has answered.
        work: The unfinished jobs.
    """

    def __init__(
        self,
        table: GroupTable,
        owners: JobOwners,
        kept: KeptBytes,
        *,
        base_id: MessageId,
        is_legacy: bool = False,
    ) -> None:
        self.multi = MultiMachine(table)
        self.to_client: list[Message] = []
        self.to_groups: dict[int, list[Message]] = {}
        self.left: list[int] = []
        self.unanswered_bytes = 0
        self.pending_requests: PendingRequests = PendingRequests(self, table, owners)
        self._table = table
        self._owners = owners
        self._kept = kept
        self._is_legacy = is_legacy
        self._prefix = base_id[:-NUMBER_BYTES]
        self._number = 0
        self.work = PendingJobs()
        self._parts: dict[MessageId, SubmitPart] = {}  # unanswered parts, by request id
        self._again: dict[JobId, int] = {}  # moved jobs that their new group has no room for
        self._given = GivenResults()

    @property
    def is_busy(self) -> bool:
        """Whether a message from a group is expected, so that a silent session is a failed one."""
        return bool(self.work or self.pending_requests.is_pending)

    # --- messages of the client

    def on_client_messages(self, messages: Iterable[Message]) -> None:
        """Handle messages of the client, in order."""
        for message in messages:
            handler = ON_CLIENT.get(type(message))
            if handler is None:
                self.pending_requests.ask(message)
            else:
                handler(self, message)

    def _submit(self, message: Submit) -> None:
        request = request_of(message)
        unit = request.unit
        units: Sequence[JobId] = request.job_ids
        if unit is None:
            known = self.work.add_jobs(request)
            if known:
                units = self._new_units(request, known)
        elif self.work.has_whole(unit):
            if unit not in self.work.waiting:
                self.to_client.append(wire.Accepted(unit, len(units), known=True))
            return
        else:
            self.work.add_whole(request, unit)
            units = (unit,)
        self.unanswered_bytes += request.size_bytes
        if not units:
            self._maybe_answer(request)
            return
        self.work.waiting.update(dict.fromkeys(units))
        self._place(signals.JobsSubmitted(units, message.subject))

    def _new_units(self, request: PendingSubmit, known: Sequence[int]) -> Sequence[JobId]:
        """The jobs of a request that are not in progress already; the others are answered as known,
        or when their first submit is."""
        request.left -= len(known)
        request.unanswered -= len(known)
        for position in known:
            job_id = request.job_ids[position]
            if job_id not in self.work.waiting:
                request.count += 1
                request.known.append(position)
            elif type(request.message) is SubmitRun:
                record_refused(request, (position,), already_pending(job_id))
            else:  # the answer to the first submit answers this one too
                request.is_answered, request.size_bytes = True, 0
        passed = frozenset(known)
        return [one for at, one in enumerate(request.job_ids) if at not in passed]

    def _confirm(self, message: wire.Confirm) -> None:
        by_group, unknown = self._given.confirmed(message.job_ids)
        for group, job_ids in by_group.items():
            self.send(group, wire.Confirm(tuple(job_ids)))
        for number, state in self.multi.groups.items() if unknown else ():
            if state.is_up:
                self.send(number, wire.Confirm(tuple(unknown)))

    def withdraw(self, job_id: JobId) -> bool:
        """Cancel a job whose group is unreachable: the client gets its result now, and the copy is
        cancelled when the group reconnects. False: the group must be asked."""
        request = self.work.find(job_id)
        if request is None or request.unit is not None:
            return False
        if self.work.waiting.pop(job_id, False) is None:
            request.unanswered -= 1
            request.count += 1
            self._maybe_answer(request)
        self._place(signals.JobAbandoned(job_id))
        self._end_job(job_id, request)
        self.to_client.append(wire.Result(job_id, CANCELLED))
        return True

    # --- sessions and groups

    def group_up(self, group: int) -> None:
        """The session with a group is open: send it what is unanswered."""
        state = self.multi.groups.get(group)
        if state is None:
            return
        again = state.inflight if self._is_legacy else state.unanswered
        if again:
            self._send_units(tuple(again), group)
        self._place(signals.GroupUp(group))
        self.pending_requests.group_up(group)

    def group_down(self, group: int, now_ms: int) -> None:
        """The session with a group is lost."""
        self._drop_parts(group)
        self._place(signals.GroupDown(group, now_ms))
        self.pending_requests.group_down(group)

    def group_added(self, group: int) -> None:
        """A group was added to the table."""
        self._place(signals.GroupAdded(group))

    def group_removed(self, group: int) -> None:
        """A group was removed from the table."""
        self._drop_parts(group)
        self._place(signals.GroupRemoved(group))
        self.pending_requests.group_down(group)

    def tick(self, now_ms: int) -> None:
        """Retry refused jobs, and run the timers of the placement."""
        again, self._again = self._again, {}
        for job_id, group in again.items():
            state = self.multi.groups.get(group)
            if state is not None and state.is_up and self.multi.owner_of(job_id) == group:
                self._send_units((job_id,), group)
        self._place(signals.MultiTick(now_ms))

    def close(self) -> None:
        """Discard all state after the client has gone; its jobs continue in the groups."""
        self.multi.discard()
        for request in self.work.requests():
            self._release(request)
        self.work = PendingJobs()

    # --- messages of groups

    def on_group_messages(self, group: int, messages: Iterable[Message]) -> None:
        """Handle messages of a group, in order."""
        if group in self.multi.groups:
            for message in messages:
                handler = ON_GROUP.get(type(message))
                if handler is not None:
                    handler(self, group, message)

    def _part(self, group: int, request_id: MessageId) -> SubmitPart | None:
        part = self._parts.get(request_id)
        return self._parts.pop(request_id) if part is not None and part.group == group else None

    def _on_accepted(self, group: int, message: wire.Accepted) -> None:
        part = self._part(group, message.request_id)
        if part is None:
            self.pending_requests.on_answer(group, message)
            return
        request = part.request
        unit = request.unit or request.job_ids[0]
        was_waiting = self.work.waiting.pop(unit, False) is None
        self._note_owner(request, request.job_ids, group)
        self._place(signals.GroupAccepted(group, (unit,)))
        if was_waiting:
            request.unanswered = 0
            self._answer(request, message)

    def _on_run_accepted(self, group: int, message: RunAccepted) -> None:
        part = self._part(group, message.request_id)
        if part is None:
            return
        request = part.request
        refused = {one.position: one for one in message.refused}
        known, ended = frozenset(message.known), frozenset(message.ended)
        taken: list[JobId] = []
        for at, position in enumerate(part.positions):
            job_id = request.job_ids[position]
            if at in refused:
                one = refused[at]
                error = wire.Error(job_id, one.code, one.message, one.hint, one.retryable)
                self._refuse(group, request, position, error)
                continue
            taken.append(job_id)
            if self.work.waiting.pop(job_id, False) is None:
                request.unanswered -= 1
                request.count += 1
                if at in known:
                    request.known.append(position)
                    if at in ended:
                        request.ended.append(position)
        self._note_owner(request, taken, group)
        self._place(signals.GroupAccepted(group, taken))
        self._maybe_answer(request)

    def _on_error(self, group: int, message: wire.Error) -> None:
        part = self._part(group, message.request_id)
        if part is None:
            self.pending_requests.on_answer(group, message)
            return
        request = part.request
        if type(request.message) is SubmitRun:
            for position in part.positions:
                self._refuse(group, request, position, message)
            self._maybe_answer(request)
            return
        unit = request.unit or request.job_ids[0]
        if unit in self.work.waiting:
            self._refuse(group, request, 0, message)
            if not request.is_answered:
                self._answer(request, message)
        else:
            self._refuse(group, request, 0, message)

    def _refuse(self, group: int, request: PendingSubmit, position: int, error: wire.Error) -> None:
        """Record that a group has refused a unit."""
        unit = request.unit or request.job_ids[position]
        if self.multi.owner_of(unit) != group:
            return
        was_waiting = self.work.waiting.pop(unit, False) is None
        if not was_waiting and error.code in AGAIN:
            self._again[unit] = group
            return
        if was_waiting:
            request.unanswered -= 1
            record_refused(request, (position,), error)
        self._place(signals.GroupRefused(group, unit))
        for job_id in (unit,) if request.unit is None else request.job_ids:
            self._end_job(job_id, request)
            if not was_waiting:  # accepted by an earlier group, refused by the one it was moved to
                self.to_client.append(wire.Result(job_id, "dead", detail=error.message))

    def _on_result(self, group: int, message: wire.Result) -> None:
        is_cancelled = message.outcome == CANCELLED
        if self._accept_result(group, message.job_id, is_cancelled, message.count):
            self.to_client.append(message)
            self._given.add((message.job_id,), group)

    def _on_result_run(self, group: int, message: ResultRun) -> None:
        is_cancelled = message.outcome == CANCELLED
        job_ids = list(ids_of(message.job_ids))
        taken = [
            at
            for at, job_id in enumerate(job_ids)
            if self._accept_result(group, job_id, is_cancelled, 1)
        ]
        if not taken:
            return
        if len(taken) < len(job_ids):
            message = part_of_results(message, taken)
            job_ids = [job_ids[at] for at in taken]
        self.to_client.append(message)
        self._given.add(job_ids, group)

    # --- results

    def _accept_result(self, group: int, job_id: JobId, is_cancelled: bool, count: int) -> bool:
        """Whether the result of a job is to be forwarded. One that is not is confirmed here."""
        request = self.work.find(job_id)
        if request is None:
            if self.work.is_over(job_id):
                self._confirm_here(group, job_id)
                return False
            return True  # a result from before this session, or of another session of this client
        unit = request.unit or job_id
        if is_cancelled and self.multi.owner_of(unit) != group:
            self._confirm_here(group, job_id)  # the result of our own cancellation of a copy
            return False
        if self.work.waiting.pop(unit, False) is None:
            self._accept_implicitly(request, group, unit)
        if request.unit is None:
            self._place(signals.GroupEnded(group, job_id, is_cancelled))
            self._end_job(job_id, request)
            return True
        self._end_job(job_id, request, count)
        if request.left <= 0:
            self._place(signals.GroupEnded(group, unit))
        return True

    def _accept_implicitly(self, request: PendingSubmit, group: int, unit: JobId) -> None:
        """A job with a result was accepted, even if the answer to its submit was lost."""
        position = self.work.unit(unit)[1]
        request.unanswered -= 1
        request.count += 1
        request.known.append(position)
        self._place(signals.GroupAccepted(group, (unit,)))
        self._maybe_answer(request)

    def _end_job(self, job_id: JobId, request: PendingSubmit, count: int = 1) -> None:
        if self.work.end(job_id, request, count):
            self._release(request)

    def _confirm_here(self, group: int, job_id: JobId) -> None:
        if not self._is_legacy:
            self.send(group, wire.Confirm((job_id,)))

    # --- answers

    def _maybe_answer(self, request: PendingSubmit) -> None:
        if request.unanswered <= 0 and not request.is_answered:
            self._answer(request, answer_of(request))

    def _answer(self, request: PendingSubmit, answer: Message) -> None:
        """Answer a request, then keep its message if its jobs may have to move."""
        request.is_answered = True
        self.unanswered_bytes -= request.size_bytes
        if not self._is_legacy:
            self.to_client.append(answer)
        if request.left <= 0 or self._is_legacy:
            return
        if not has_files(request.message) and self._kept.take(request.size_bytes):
            request.is_kept = True
            return
        request.message = None
        units = request.job_ids if request.unit is None else (request.unit,)
        self._place(signals.Pin(units))

    def _release(self, request: PendingSubmit) -> None:
        if request.is_kept:
            request.is_kept = False
            self._kept.give_back(request.size_bytes)

    def _note_owner(self, request: PendingSubmit, job_ids: Iterable[JobId], group: int) -> None:
        if isinstance(request.message, wire.SubmitArray):
            self._owners.add_array(request.job_ids[0], group)
        else:
            self._owners.add(job_ids, group)

    # --- instructions of the placement machine

    def _place(self, event: signals.Event) -> None:
        for instruction in self.multi.handle(event):
            do = DO.get(type(instruction))
            if do is not None:
                do(self, instruction)

    def _do_place(self, instruction: signals.AssignToGroup) -> None:
        self._send_units(instruction.job_ids, instruction.group)

    def _do_take_back(self, instruction: signals.StopSending) -> None:
        self.work.mark_moved(instruction.job_ids)

    def _do_cancel(self, instruction: signals.CancelCopies) -> None:
        job_ids = self.work.copies_of(instruction.job_ids)
        for first in range(0, len(job_ids), CONFIRM_JOBS_MAX):
            ids = tuple(job_ids[first : first + CONFIRM_JOBS_MAX])
            self.send(instruction.group, wire.Cancel(self.draw(), ids))

    def _do_leave(self, instruction: signals.CloseGroupSession) -> None:
        self.left.append(instruction.group)
        self.pending_requests.group_left(instruction.group)

    def _send_units(self, units: Sequence[JobId], group: int) -> None:
        """Submit units to a group."""
        parts: dict[int, tuple[PendingSubmit, list[int]]] = {}
        for unit in units:
            request, position = self.work.unit(unit)
            parts.setdefault(id(request), (request, []))[1].append(position)
        for request, positions in parts.values():
            message = request.message
            assert message is not None, "a unit whose message is not kept is never moved"
            request_id = request.request_id
            if type(message) is SubmitRun:
                request_id = self.draw()
                message = part_of_run(message, request_id, positions)
            self._parts[request_id] = SubmitPart(request, positions, group)
            self.send(group, message)
        if self._is_legacy:  # a legacy submit has no answer
            for request, _ in parts.values():
                self._parts.pop(request.request_id, None)
                self.work.waiting.pop(request.job_ids[0], None)
                request.unanswered = 0
                self._note_owner(request, request.job_ids, group)
                self._maybe_answer(request)
            self._place(signals.GroupAccepted(group, units))

    def _drop_parts(self, group: int) -> None:
        for request_id in [one for one, part in self._parts.items() if part.group == group]:
            del self._parts[request_id]

    def send(self, group: int, message: Message) -> None:
        """Queue a message to a group."""
        self.to_groups.setdefault(group, []).append(message)

    def draw(self) -> MessageId:
        """A new request id."""
        self._number += 1
        return self._prefix + self._number.to_bytes(NUMBER_BYTES, "big")


ON_CLIENT: Final[dict[type, Callable[[RouterMachine, Any], None]]] = {
    wire.SubmitJob: RouterMachine._submit,
    SubmitRun: RouterMachine._submit,
    wire.SubmitBulk: RouterMachine._submit,
    wire.SubmitArray: RouterMachine._submit,
    wire.Confirm: RouterMachine._confirm,
    wire.Ping: lambda machine, _: machine.to_client.append(wire.Pong()),
}

ON_GROUP: Final[dict[type, Callable[[RouterMachine, int, Any], None]]] = {
    wire.Accepted: RouterMachine._on_accepted,
    RunAccepted: RouterMachine._on_run_accepted,
    wire.Error: RouterMachine._on_error,
    wire.Result: RouterMachine._on_result,
    ResultRun: RouterMachine._on_result_run,
    wire.Answer: lambda machine, group, answer: machine.pending_requests.on_answer(group, answer),
    OutputChunk: lambda machine, group, chunk: machine.pending_requests.on_output(group, chunk),
    wire.CacheAck: lambda machine, _, ack: machine.to_client.append(ack),
}

DO: Final[dict[type, Callable[[RouterMachine, Any], None]]] = {
    signals.AssignToGroup: RouterMachine._do_place,
    signals.StopSending: RouterMachine._do_take_back,
    signals.CancelCopies: RouterMachine._do_cancel,
    signals.CloseGroupSession: RouterMachine._do_leave,
}
