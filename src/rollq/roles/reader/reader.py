"""A reader of one group: reads from any member, and fails over to another."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

from rollq.base.errors import (
    DeadlineError,
    DialError,
    DiskError,
    ErrorCode,
    LocalError,
    RollqError,
    StateError,
)
from rollq.base.ids import JobId, guid_from_text
from rollq.base.limits import READER_AGAIN_MS
from rollq.history.tables import ResultRow
from rollq.net.dialer import split_address
from rollq.roles.reader.channel import Channel
from rollq.roles.reader.leader import change, query_view
from rollq.roles.reader.models import Holder, Piece, Span
from rollq.roles.reader.tables import (
    TableHandle,
    ask_results,
    ask_tables,
    stream_part,
)
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials
from rollq.wire.features import BACKUP, VIEWS
from rollq.wire.messages import Answer, Query
from rollq.wire.reader_messages import (
    FORMS,
    Cut,
    HelloReader,
    PiecesAsk,
    SpanAsk,
    SpanTold,
)

T = TypeVar("T")

FEATURES: Final = (BACKUP, VIEWS)


class Reader:
    """Reads the history of a group, tables of its state, and results. Not thread-safe.

    Args:
        servers: Addresses of members, `host:port`, as a sequence or separated by commas.
        group: The name that the group must have; empty: any.
        timeout_s: How long members that cannot serve are retried before an error is raised.
        prefer: The address of the member to try first. Otherwise the order is random, and the
            leader, which has the most load, is used only if no other member can serve.
        credentials: As for `Client`.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        group: str = "",
        timeout_s: float = 30.0,
        prefer: str = "",
        credentials: Credentials | str | Path = NONE,
    ) -> None:
        self._addresses = _ordered(addresses_in(servers), prefer)
        self._group = group
        self._timeout_s = timeout_s
        self._credentials = as_credentials(credentials)
        self._channel: Channel | None = None
        # Used even if it leads: the preferred member, and a leader that was skipped once.
        self._accept_leader = [prefer] if prefer else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Idempotent; a later call connects again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def span(self, *, fresh: bool = True) -> Span:
        """The range of the history, as one member has it.

        Args:
            fresh: The member must have applied everything committed before this call. Otherwise it
                may lag, and one that has just been started has applied nothing yet.

        Raises:
            DialError: no member answers; it names every address.
        """
        return self.ask(lambda channel: self._span(channel, SpanAsk(channel.new_request(), fresh)))

    def cuts(self, first: int, last: int) -> list[Cut]:
        """The sealed segments of a range at one member, in order: reading is cheapest along these.
        Entries that are not sealed yet are in none of them."""

        def ask(channel: Channel) -> list[Cut]:
            channel.send(SpanAsk(channel.new_request(), first=first, last=last))
            return list(channel.receive(SpanTold).cuts)

        return self.ask(ask)

    def pieces(self, first: int, last: int, *, forms: Sequence[str] = FORMS) -> Iterator[Piece]:
        """The history of all log indexes from `first` to `last`, in order, each once.

        Args:
            first: The first index.
            last: The last one, which the group must have applied (`span`).
            forms: The accepted forms; "lines" and "events" always are.

        Raises:
            StateError: HISTORY_GONE if no member has it any more.
            DialError: no member answers.
            DeadlineError: members answer, and none can serve.
        """
        budget = _RetryBudget(self._addresses, self._timeout_s)
        while first <= last:
            # The channel is taken out while streaming, and closed if the caller abandons the
            # iterator.
            channel = self._connect(budget)
            try:
                for piece in _stream(channel, first, last, tuple(forms)):
                    budget.succeeded()
                    first = piece.last + 1
                    yield piece
            except RollqError as error:
                channel.close()
                self._failed(budget, channel.address, error)
            except BaseException:
                channel.close()
                raise
            else:
                self.close()
                self._channel = channel

    def tables(
        self, *names: str, index_min: int = 0, fresh: bool = True
    ) -> tuple[TableHandle, ...]:
        """Tables of the state (`rollq.history.tables`), all as of one log index, in parts. Any
        process can read them with `part` while the member keeps the export: for an hour after the
        last read, disk space permitting.

        Args:
            names: Which: jobs, attempts, results, dlq, workers, queues, arrays.
            index_min: The member must have applied at least this index.
            fresh: The member must have applied everything committed before this call.

        Raises:
            StateError: there is no such table, or it is too large.
            DialError: no member answers.
            DeadlineError: members answer, and none can serve.
        """
        return self.ask(lambda channel: tuple(ask_tables(channel, names, index_min, fresh=fresh)))

    def table(self, name: str, *, index_min: int = 0, fresh: bool = True) -> TableHandle:
        """One of `tables`."""
        return self.tables(name, index_min=index_min, fresh=fresh)[0]

    def part(self, handle: TableHandle, number: int) -> Iterator[bytes]:
        """The rows of a part as JSON lines: blocks of whole lines, in order. They are read from the
        member that made the export, even if this reader was not given its address.

        Args:
            handle: The table.
            number: Index into `handle.parts`.

        Raises:
            StateError: EXPORT_GONE, if the member has deleted the export.
            DialError: the member does not answer.
        """
        part = handle.parts[number]
        offset = 0
        budget = _RetryBudget([handle.address], self._timeout_s)
        while offset < part.size_bytes:
            try:
                hello = HelloReader(handle.group)
                with Channel(handle.address, hello, self._timeout_s, self._credentials) as channel:
                    for piece in stream_part(channel, handle, part, offset):
                        budget.succeeded()
                        offset = piece.last
                        yield piece.data
            except RollqError as error:
                if not _is_retryable_elsewhere(error):
                    raise
                budget.failed(handle.address, error)

    def results(self, job_ids: Sequence[JobId | str], *, index_min: int = 0) -> list[ResultRow]:
        """The results of jobs, from the state of one member. Jobs that have not ended, or are
        forgotten, are left out.

        Args:
            job_ids: Any number of jobs; ids as bytes, or as text as in the tables.
            index_min: The member must have applied at least this index.

        Raises:
            DialError: no member answers.
            DeadlineError: members answer, and none can serve.
        """
        ids = [guid_from_text(one) if isinstance(one, str) else one for one in job_ids]
        return self.ask(lambda channel: ask_results(channel, ids, index_min))

    def view(self, what: str, key: bytes = b"", limit: int = 100) -> tuple[int, bytes]:
        """A view of the state or of the history of a job, as one member has it: the index that it
        was read at, and its value as msgpack.

        Args:
            what: The name of the view.
            key: Its key, depending on the view.
            limit: The most rows.

        Raises:
            StateError: the answer of the member.
            DialError: no member answers.
            DeadlineError: members answer, and none can serve.
        """

        def ask(channel: Channel) -> tuple[int, bytes]:
            if VIEWS not in channel.welcome.features:
                raise StateError(ErrorCode.NOT_READY, "a member of an older version")
            channel.send(Query(channel.new_request(), what, key, limit))
            answer = channel.receive(Answer)
            return answer.index, answer.value

        return self.ask(ask)

    def hold(self, name: str, index: int) -> None:
        """Retain history from `index` on, the first unread index, for a reader of this name; to be
        renewed at least once a week. It goes to the leader.

        Raises:
            StateError: GRID_FULL if there are too many names; BAD_OPTIONS.
            DialError: no leader answers.
        """
        self._change("hold_history", {"name": name, "index": index})

    def free(self, name: str) -> None:
        """Release the retention for this name.

        Raises:
            StateError: UNKNOWN_READER.
            DialError: no leader answers.
        """
        self._change("free_history", {"name": name})

    def holders(self) -> list[Holder]:
        """The readers that history is retained for, by name."""
        where = self._addresses, self._timeout_s
        return _decode_holders(query_view(*where, "readers", credentials=self._credentials))

    def ask(self, question: Callable[[Channel], T]) -> T:
        """Run a request against a member, and against another if one cannot serve it. It may be
        repeated, so it must not change anything."""
        budget = _RetryBudget(self._addresses, self._timeout_s)
        while True:
            channel = self._connect(budget)
            try:
                answer = question(channel)
            except RollqError as error:
                channel.close()
                self._failed(budget, channel.address, error)
            else:
                self._channel = channel
                return answer

    def _change(self, action: str, arguments: object) -> None:
        where = self._addresses, self._timeout_s
        change(*where, action, arguments, credentials=self._credentials)

    def _span(self, channel: Channel, ask: SpanAsk) -> Span:
        channel.send(ask)
        reply = channel.receive(SpanTold)
        return Span(channel.welcome.group, reply.floor, reply.applied)

    def _connect(self, budget: _RetryBudget) -> Channel:
        """The open channel, or one to the first member that answers."""
        channel, self._channel = self._channel, None
        while channel is None:
            address = self._addresses[0]
            try:
                channel = Channel(
                    address, HelloReader(self._group, FEATURES), self._timeout_s, self._credentials
                )
                if self._should_skip_leader(channel):
                    channel.close()
                    channel = None
                    self._addresses.append(self._addresses.pop(0))
            except RollqError as error:
                if channel is not None:
                    channel.close()
                    channel = None
                self._failed(budget, address, error)
        return channel

    def _should_skip_leader(self, channel: Channel) -> bool:
        """Whether this is the leader, and other members are to be tried first."""
        if len(self._addresses) == 1 or channel.address in self._accept_leader:
            return False
        channel.send(SpanAsk(channel.new_request()))
        leads = channel.receive(SpanTold).leads
        if leads:
            self._accept_leader.append(channel.address)
        return leads

    def _failed(self, budget: _RetryBudget, address: str, error: RollqError) -> None:
        """Move on to the next member, unless the error is final."""
        if not _is_retryable_elsewhere(error):
            raise error
        budget.failed(address, error)
        if self._addresses[0] == address:
            self._addresses.append(self._addresses.pop(0))


class _RetryBudget:
    """Decides when to give up: when all members have failed and the timeout is over."""

    def __init__(self, addresses: list[str], timeout_s: float) -> None:
        self._count = len(addresses)
        self._timeout_s = timeout_s
        self._errors: dict[str, RollqError] = {}
        self._deadline = time.monotonic() + timeout_s

    def succeeded(self) -> None:
        """Reset after progress."""
        self._errors.clear()
        self._deadline = time.monotonic() + self._timeout_s

    def failed(self, address: str, error: RollqError) -> None:
        """Record a failure; returns when the next member may be tried, or raises the final
        error."""
        self._errors.pop(address, None)
        self._errors[address] = error
        if len(self._errors) < self._count:
            return
        errors = list(self._errors.values())
        gone = next((one for one in errors if one.code is ErrorCode.HISTORY_GONE), None)
        is_hopeless = all(
            one.code in (ErrorCode.HISTORY_GONE, ErrorCode.UNREACHABLE) for one in errors
        )
        if is_hopeless or time.monotonic() >= self._deadline:
            raise gone or self._all_failed(errors)
        time.sleep(READER_AGAIN_MS / 1000)

    def _all_failed(self, errors: list[RollqError]) -> RollqError:
        reasons = "; ".join(f"{address}: {one}" for address, one in self._errors.items())
        if all(isinstance(one, DialError) for one in errors):
            return DialError(
                ErrorCode.UNREACHABLE,
                f"no member answers ({reasons})",
                "check the addresses, and that the members run",
            )
        return DeadlineError(
            ErrorCode.TIMED_OUT,
            f"no member could serve within {self._timeout_s:g} s ({reasons})",
            "see `rollq cluster`, or give it more time",
        )


def _is_retryable_elsewhere(error: RollqError) -> bool:
    """Whether another member may succeed: it has applied more, is intact, or retains more. A local
    disk error is not one of the member's."""
    is_ours = isinstance(error, DiskError)
    return not is_ours and (error.retryable or error.code is ErrorCode.HISTORY_GONE)


def addresses_in(servers: str | Sequence[str]) -> list[str]:
    """The distinct addresses of members.

    Raises:
        LocalError: BAD_ADDRESS.
    """
    listed = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = list(dict.fromkeys(one.strip() for one in listed if one.strip()))
    if not addresses:
        raise LocalError(ErrorCode.BAD_ADDRESS, "no member is named", "give one host:port or more")
    for address in addresses:
        split_address(address)
    return addresses


def _ordered(addresses: list[str], prefer: str) -> list[str]:
    random.shuffle(addresses)
    return [prefer, *(one for one in addresses if one != prefer)] if prefer else addresses


def _stream(channel: Channel, first: int, last: int, forms: tuple[str, ...]) -> Iterator[Piece]:
    """The pieces of a range from one member."""
    channel.send(PiecesAsk(channel.new_request(), first, last, forms))
    while first <= last:
        piece = channel.receive_piece()
        first = piece.last + 1
        yield piece


_decode_holders = msgspec.msgpack.Decoder(list[Holder]).decode
