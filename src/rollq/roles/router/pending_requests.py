"""Requests of a client other than submits: queries, commands, cancellations, batches. Pure.

A query goes to the group that has the job, or to all reachable groups, and is answered when each of
them has answered; a group that is lost meanwhile counts as having no answer. "No such job" is not
answered while an unreachable group may have the job. A batch belongs to the group that its key
hashes to, whatever the client and the router. Commands about jobs go to the owning groups; others
are refused, because they are meant for one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, NIL_ID, JobId, MessageId
from rollq.base.router_limits import ROUTER_ASKED_MAX, ROUTER_WATCHES_MAX
from rollq.roles.client.several_groups.machine import MultiMachine
from rollq.roles.client.several_groups.routes import GroupTable
from rollq.roles.router import merging
from rollq.roles.router.owners import JobOwners
from rollq.roles.router.work import PendingJobs
from rollq.wire import messages as wire
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.output_messages import JOB_ENDED, OutputChunk, WatchOutput
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

Reply: TypeAlias = wire.Accepted | wire.Answer | wire.Error
# Commands about jobs, and the argument that holds the job ids.
JOB_VERBS: Final = {
    "redrive": "items",
    "redrive_changed": "job_id",
    "again": "job_id",
    "purge": "job_ids",
}
# A job must find its caches in whichever group it goes to: done in every group, or refused.
EVERYWHERE: Final = ("put_cache", "remove_cache")
# What a group answers that does not have what was named: another one may.
NOT_HERE: Final = (ErrorCode.UNKNOWN_JOB, ErrorCode.UNKNOWN_CACHE)
BATCH_MESSAGES: Final = (StageJobs, CommitBatch, DropBatch)


class ClientState(Protocol):
    """The part of the router machine that requests use."""

    multi: MultiMachine
    to_client: list[Message]
    work: PendingJobs

    def send(self, group: int, message: Message) -> None:
        """Queue a message to a group."""

    def withdraw(self, job_id: JobId) -> bool:
        """Cancel a job whose group is unreachable."""


@dataclass(slots=True)
class PendingRequest:
    """A request that is pending in some groups."""

    request_id: MessageId
    merge: Callable[[list[tuple[int, Reply]]], Message | None]
    is_order: bool  # it changes state: if a group is lost, its outcome there is unknown
    left: dict[int, None]
    replies: list[tuple[int, Reply]] = field(default_factory=list)


class PendingRequests:
    """The pending requests of one client.

    Args:
        session: The machine of the client.
        table: The groups.
        owners: Owning groups of jobs.
    """

    def __init__(self, session: ClientState, table: GroupTable, owners: JobOwners) -> None:
        self._session = session
        self._table = table
        self._owners = owners
        self._pending: dict[MessageId, PendingRequest] = {}
        self._watches: dict[MessageId, tuple[WatchOutput, dict[int, None]]] = {}
        self._puts: dict[MessageId, None] = {}  # of legacy clients: only errors are forwarded

    @property
    def is_pending(self) -> bool:
        """Whether replies are pending."""
        return bool(self._pending or self._watches)

    def ask(self, message: Message) -> None:
        """Handle a request of the client."""
        if isinstance(message, WatchOutput):
            self._watch(message)
        elif isinstance(message, wire.CachePut):
            self._put_cache(message)
        elif len(self._pending) >= ROUTER_ASKED_MAX:
            self._refuse(
                message, ErrorCode.OVERLOADED, "too many requests are pending", retryable=True
            )
        elif isinstance(message, wire.Query):
            self._query(message)
        elif isinstance(message, wire.Cancel):
            self._cancel(message)
        elif isinstance(message, wire.Admin):
            self._order(message)
        elif isinstance(message, BATCH_MESSAGES):
            self._batch(message)
        else:
            self._refuse(
                message, ErrorCode.UNKNOWN_MESSAGE, "a router does not support this request"
            )

    def on_answer(self, group: int, reply: Reply) -> None:
        """Handle the answer of a group to anything but a submit."""
        request = self._pending.get(reply.request_id)
        if request is not None:
            if request.left.pop(group, False) is None:
                request.replies.append((group, reply))
                self._maybe_answer(request)
            return
        watch = self._watches.get(reply.request_id)
        if watch is not None and isinstance(reply, wire.Error):
            watch[1].pop(group, None)
            if not watch[1]:
                del self._watches[reply.request_id]
                self._session.to_client.append(reply)
        elif reply.request_id in self._puts:
            self._session.to_client.append(reply)

    def on_output(self, group: int, chunk: OutputChunk) -> None:
        """Forward a chunk of watched output."""
        watch = self._watches.get(chunk.watch_id)
        if watch is None or group not in watch[1]:
            return
        if chunk.end == JOB_ENDED:
            del self._watches[chunk.watch_id]
        self._session.to_client.append(chunk)

    def group_up(self, group: int) -> None:
        """Subscribe again to watched outputs, at the group's new leader."""
        for watch, groups in self._watches.values():
            if group in groups:
                self._session.send(group, watch)

    def group_down(self, group: int) -> None:
        """Fail what is pending in a group."""
        name = self._table.names.get(group, "that was removed")
        for request in [one for one in self._pending.values() if group in one.left]:
            del request.left[group]
            code = ErrorCode.OUTCOME_UNKNOWN if request.is_order else ErrorCode.NOT_READY
            error = wire.Error(
                request.request_id,
                int(code),
                f"the session with group {name} broke",
                retryable=not request.is_order,
            )
            request.replies.append((group, error))
            self._maybe_answer(request)

    def group_left(self, group: int) -> None:
        """End the watches of a group that was removed."""
        for request_id, (_, groups) in list(self._watches.items()):
            if groups.pop(group, False) is None and not groups:
                del self._watches[request_id]
                self._refuse_unreachable(request_id)

    # --- requests by kind

    def _query(self, query: wire.Query) -> None:
        what = query.what
        up = self._up()
        if what in merging.ONE_JOB:
            owners = self._groups_of(query.key[:GUID_BYTES])
            merge = _merge_views(self, query) if owners else _merge_for_unknown_owner(self, query)
            self._send(query, owners or up, merge)
        elif what in merging.PAGED and len(self._table.names) > 1:
            self._query_page(query)
        elif what in merging.MERGED or len(self._table.names) == 1:
            self._send(query, up, _merge_views(self, query))
        else:
            self._refuse(query, ErrorCode.BAD_OPTIONS, f"the view {what!r} belongs to one group")

    def _query_page(self, query: wire.Query) -> None:
        paged = merging.PAGED[query.what]
        numbers = sorted(self._table.names)
        try:
            place, inner = merging.position_in(paged, query.key)
        except msgspec.MsgspecError as error:
            self._refuse(query, ErrorCode.BAD_PAYLOAD, f"the key of {query.what!r}: {error}")
            return
        up = self._up()
        while place < len(numbers) and numbers[place] not in up:
            place, inner = place + 1, 0  # an unreachable group is skipped, as in other views
        if place >= len(numbers):
            self._refuse_unreachable(query.request_id)
            return

        def merge(replies: list[tuple[int, Reply]]) -> Message | None:
            reply = replies[0][1]
            if not isinstance(reply, wire.Answer):
                return reply
            value = merging.decode(reply.value)
            has_more = any(number in self._up() for number in numbers[place + 1 :])
            if has_more and paged.rows and merging.is_last(paged, value):
                after = (place + 1) << merging.GROUP_SHIFT_BITS  # an empty page would be the end
                self._query_page(replace(query, key=merging.key_at(paged, query.key, after)))
                return None
            page = merging.with_position(paged, value, place, has_more=has_more)
            return replace(reply, value=merging.encode(page))

        key = merging.key_at(paged, query.key, inner)
        self._send(replace(query, key=key), [numbers[place]], merge)

    def _cancel(self, cancel: wire.Cancel) -> None:
        """Jobs of unreachable groups are cancelled here, and their copies when the group
        reconnects. Arrays, bulks and jobs of earlier sessions are not: their group must be asked,
        so the cancellation is refused while it cannot be."""
        session = self._session
        by_group: dict[int, list[JobId]] = {}
        ended = 0
        has_unknown = False  # a job of unknown owner: a group that is away may have it
        for job_id in cancel.job_ids:
            unit = session.work.unit_of(job_id)
            owner = self._owners.find(job_id) if unit is None else session.multi.owner_of(unit)
            group = None if owner is None else session.multi.groups.get(owner)
            is_up = group is not None and group.is_up
            if unit is not None and not is_up and session.withdraw(job_id):
                ended += 1
                continue
            if owner is not None and group is not None:  # it was not removed
                groups = [owner]
            elif unit is not None and owner is None:  # it waits for a group of its route
                groups = self.away() or self._up()
            else:
                groups = self._up()
                has_unknown = True
            for number in groups:
                by_group.setdefault(number, []).append(job_id)
        if not by_group and ended:
            session.to_client.append(wire.Accepted(cancel.request_id, ended))
            return
        parts: dict[int, Message] = {
            group: wire.Cancel(cancel.request_id, tuple(ids)) for group, ids in by_group.items()
        }

        def merge(replies: list[tuple[int, Reply]]) -> Message:
            answer = _sum_counts(replies, ended)
            is_none = isinstance(answer, wire.Accepted) and not answer.count
            away = self.away() if has_unknown and is_none else []
            return self.unreachable(cancel.request_id, away) if away else answer

        self._send_parts(cancel.request_id, parts, merge)

    def _order(self, order: wire.Admin) -> None:
        verb = order.action
        if verb in EVERYWHERE or len(self._table.names) == 1:
            self._send(order, self._table.names, self._sum_changes, is_order=True)
            return
        place = JOB_VERBS.get(verb)
        if place is None:
            self._refuse(order, ErrorCode.BAD_OPTIONS, f"{verb!r} is a command for one group")
            return
        try:
            parts = self._order_parts(order, merging.decode(order.arguments), place)
        except (msgspec.MsgspecError, RecursionError, TypeError, KeyError, IndexError) as error:
            self._refuse(order, ErrorCode.BAD_PAYLOAD, f"the arguments of {verb!r}: {error}")
            return
        self._send_parts(order.request_id, parts, self._sum_changes, is_order=True)

    def _order_parts(
        self, order: wire.Admin, arguments: dict[str, Any], place: str
    ) -> dict[int, Message]:
        """The command for each group: of a list the jobs it owns, and those of unknown owner."""
        named = arguments[place]
        if place == "job_id":
            return dict.fromkeys(self._groups_of(named) or self._up(), order)
        by_group: dict[int, list[Any]] = {}
        for item in named:
            job_id = item if isinstance(item, bytes) else item[0]
            for group in self._groups_of(job_id) or self._up():
                by_group.setdefault(group, []).append(item)
        return {
            group: replace(order, arguments=merging.encode({**arguments, place: items}))
            for group, items in by_group.items()
        }

    def _batch(self, message: StageJobs | CommitBatch | DropBatch) -> None:
        names = self._table.names
        group = max(names, key=lambda number: _rank(message.batch_key, names[number]))
        self._send(message, [group], lambda replies: replies[0][1])

    def _watch(self, watch: WatchOutput) -> None:
        known = self._watches.get(watch.request_id)
        if not watch.on:
            self._watches.pop(watch.request_id, None)
        elif known is None and len(self._watches) >= ROUTER_WATCHES_MAX:
            self._refuse(watch, ErrorCode.OVERLOADED, "too many outputs are watched")
            return
        groups = known[1] if known else dict.fromkeys(self._groups_of(watch.job_id) or self._up())
        if not groups:
            self._refuse_unreachable(watch.request_id)
            return
        if watch.on:
            self._watches[watch.request_id] = (watch, groups)
        for group in groups:
            self._session.send(group, watch)

    def _put_cache(self, put: wire.CachePut) -> None:
        self._puts[put.request_id] = None
        if len(self._puts) > ROUTER_ASKED_MAX:
            del self._puts[next(iter(self._puts))]
        for group in self._up():
            self._session.send(group, put)

    # --- helpers

    def _sum_changes(self, replies: list[tuple[int, Reply]]) -> Message:
        """As `_sum_counts`, unless a group refused, or may not have done, its part: then the whole
        is not done. An unknown outcome comes first, since it is the one that must be looked at."""
        failed = [
            (group, one)
            for group, one in replies
            if isinstance(one, wire.Error) and one.code not in NOT_HERE
        ]
        for _, error in failed:
            if error.code == ErrorCode.OUTCOME_UNKNOWN:
                return error
        if not failed:
            return _sum_counts(replies)
        group, error = failed[0]
        return replace(error, message=f"group {self.name_of(group)}: {error.message}")

    def _up(self) -> list[int]:
        groups = self._session.multi.groups
        return [number for number in sorted(groups) if groups[number].is_up]

    def _groups_of(self, job_id: JobId) -> list[int]:
        """The group that owns a job; empty if unknown."""
        unit = self._session.work.unit_of(job_id)
        owner = None if unit is None else self._session.multi.owner_of(unit)
        owner = self._owners.find(job_id) if owner is None else owner
        return [owner] if owner is not None and owner in self._session.multi.groups else []

    def _send(
        self,
        message: wire.Query | wire.Admin | StageJobs | CommitBatch | DropBatch,
        groups: Iterable[int],
        merge: Callable[[list[tuple[int, Reply]]], Message | None],
        *,
        is_order: bool = False,
    ) -> None:
        parts: dict[int, Message] = dict.fromkeys(groups, message)
        self._send_parts(message.request_id, parts, merge, is_order=is_order)

    def _send_parts(
        self,
        request_id: MessageId,
        parts: dict[int, Message],
        merge: Callable[[list[tuple[int, Reply]]], Message | None],
        *,
        is_order: bool = False,
    ) -> None:
        """Send parts to their groups; refused if any of these groups is unreachable."""
        states = self._session.multi.groups
        away = [group for group in parts if group not in states or not states[group].is_up]
        if away or not parts:
            self._refuse_unreachable(request_id, away)
            return
        self._pending[request_id] = PendingRequest(
            request_id, merge, is_order, dict.fromkeys(parts)
        )
        for group, part in parts.items():
            self._session.send(group, part)

    def _maybe_answer(self, request: PendingRequest) -> None:
        if not request.left:
            del self._pending[request.request_id]
            answer = request.merge(sorted(request.replies, key=_group))
            if answer is not None:  # None: a further request was sent
                self._session.to_client.append(answer)

    def name_of(self, group: int) -> str:
        """The name of a group."""
        return self._table.names.get(group, "")

    def away(self) -> list[int]:
        """The groups that this client has no session with."""
        groups = self._session.multi.groups
        return [
            number
            for number in sorted(groups)
            if not groups[number].is_up and not groups[number].is_leaving
        ]

    def unreachable(self, request_id: MessageId, away: Sequence[int] = ()) -> wire.Error:
        """The error that these groups are unreachable; without any: that all are."""
        names = ", ".join(map(self.name_of, away))
        what = f"group {names} cannot be reached" if away else "no group can be reached"
        hint = "try again; see `rollq groups`"
        return wire.Error(request_id, int(ErrorCode.NOT_READY), what, hint, retryable=True)

    def _refuse(
        self, message: Message, code: ErrorCode, text: str, *, retryable: bool = False
    ) -> None:
        request_id = request_id_of(message)
        hint = f"ask a member of one group: {', '.join(self._table.names.values())}"
        if request_id != NIL_ID:
            error = wire.Error(request_id, int(code), text, hint, retryable)
            self._session.to_client.append(error)

    def _refuse_unreachable(self, request_id: MessageId, away: Sequence[int] = ()) -> None:
        self._session.to_client.append(self.unreachable(request_id, away))


def _merge_for_unknown_owner(pending: PendingRequests, query: wire.Query) -> Callable[..., Message]:
    """Merge replies about a job of unknown owner: an unreachable group may have it."""
    merge = _merge_views(pending, query)

    def answer(replies: list[tuple[int, Reply]]) -> Message:
        merged = merge(replies)
        away = pending.away() if query.what in merging.EMPTY_IF_UNKNOWN else []
        if away and isinstance(merged, wire.Answer) and merging.is_unknown(merged.value):
            return pending.unreachable(query.request_id, away)
        return merged

    return answer


def _merge_views(pending: PendingRequests, query: wire.Query) -> Callable[..., Message]:
    merge = merging.MERGED.get(query.what, merging.first_found)

    def answer(replies: list[tuple[int, Reply]]) -> Message:
        answers = [(group, one) for group, one in replies if isinstance(one, wire.Answer)]
        if not answers:
            return replies[0][1]
        away = pending.away() if query.what == merging.CLUSTER else []
        if len(answers) == 1 and not away:
            return answers[0][1]
        index = max(one.index for _, one in answers)
        values = [(pending.name_of(group), merging.decode(one.value)) for group, one in answers]
        merged = merge(values, query.limit)
        if away:
            merged["alarms"] += map(merging.away_alarm, map(pending.name_of, away))
        return wire.Answer(query.request_id, index, merging.encode(merged))

    return answer


def _sum_counts(replies: list[tuple[int, Reply]], more: int = 0) -> Message:
    """The total of what the groups changed; if none changed anything, the first answer."""
    done = [one for _, one in replies if isinstance(one, wire.Accepted)]
    if not done and more:
        return wire.Accepted(replies[0][1].request_id, more)
    if not done:
        return replies[0][1]
    return replace(done[0], count=sum(one.count for one in done) + more)


def _group(replies: tuple[int, Reply]) -> int:
    return replies[0]


def _rank(batch_key: str, name: str) -> bytes:
    """Rendezvous hashing: the highest rank owns the batch, so few batches move when groups
    change."""
    return blake2b(f"{batch_key}\0{name}".encode(), digest_size=16).digest()
