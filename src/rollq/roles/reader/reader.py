"""A reader of one group: asks any of its members, and goes on at another when one is lost."""

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
from rollq.roles.reader.leader import change, look
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
    """Reads the history of a group, tables of its state, and results.

    Args:
        servers: Addresses of members, `host:port`, as a sequence or with commas between.
        group: Which group they must be of; empty: whichever they are.
        timeout_s: For how long members that cannot serve are asked again before an error is raised.
        prefer: The address of the member to ask first. Else the first is drawn, and the leader,
            which has enough to do, is asked only if no other member can serve.
        credentials: As for `Client`.

    Used by one thread at a time.
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
        self._addresses = _in_turn(addresses_in(servers), prefer)
        self._group = group
        self._timeout_s = timeout_s
        self._credentials = as_credentials(credentials)
        self._channel: Channel | None = None
        # Asked as they are: the one that was wished for, and one that led when it was asked.
        self._taken_as_is = [prefer] if prefer else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up. Twice is no error, and what is asked afterwards is asked anew."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def span(self, *, fresh: bool = True) -> Span:
        """How far the history goes, as one member sees it.

        Args:
            fresh: It has applied everything that was committed when this was called. Else it may
                lag, and one that has just been started has applied nothing yet.

        Raises:
            DialError: no member answers; it names every address.
        """
        return self.ask(lambda channel: self._span(channel, SpanAsk(channel.new_request(), fresh)))

    def cuts(self, first: int, last: int) -> list[Cut]:
        """The sealed parts of a range at one member, in order: reading is cheapest along these.
        What is not sealed yet is in none of them."""

        def ask(channel: Channel) -> list[Cut]:
            channel.say(SpanAsk(channel.new_request(), first=first, last=last))
            return list(channel.hear(SpanTold).cuts)

        return self.ask(ask)

    def pieces(self, first: int, last: int, *, forms: Sequence[str] = FORMS) -> Iterator[Piece]:
        """The history of all log indexes from `first` to `last`, in order, each once.

        Args:
            first: The first index.
            last: The last one, which the group has applied (`span`).
            forms: What is understood; "lines" and "events" always are.

        Raises:
            StateError: HISTORY_GONE if no member has it any more.
            DialError: no member answers.
            DeadlineError: members answer, and none can serve.
        """
        trial = _Trial(self._addresses, self._timeout_s)
        while first <= last:
            # Nothing else may use it meanwhile, nor afterwards if this is left in the middle.
            channel = self._connect(trial)
            try:
                for piece in _stream(channel, first, last, tuple(forms)):
                    trial.succeeded()
                    first = piece.last + 1
                    yield piece
            except RollqError as error:
                channel.close()
                self._failed(trial, channel.address, error)
            except BaseException:
                channel.close()
                raise
            else:
                self.close()
                self._channel = channel

    def tables(
        self, *names: str, index_min: int = 0, fresh: bool = True
    ) -> tuple[TableHandle, ...]:
        """Tables of the state (`rollq.history.tables`), all as of one log index, in parts that any
        process can read with `part` as long as the member that wrote them down keeps them: an
        hour after one was last read, if it has the room.

        Args:
            names: Which: jobs, attempts, results, dlq, workers, queues, arrays.
            index_min: The member has applied so much at least.
            fresh: It has applied everything that was committed when this was called.

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
        """The rows of a part, as JSON lines: whole lines, some at a time, in order. They come from
        the member that wrote the table down, whichever members this reader knows.

        Args:
            handle: The table.
            number: Which of `handle.parts`, from 0.

        Raises:
            StateError: EXPORT_GONE, if the member does not keep it any more.
            DialError: the member does not answer.
        """
        part = handle.parts[number]
        offset = 0
        trial = _Trial([handle.address], self._timeout_s)
        while offset < part.size_bytes:
            try:
                hello = HelloReader(handle.group)
                with Channel(handle.address, hello, self._timeout_s, self._credentials) as channel:
                    for piece in stream_part(channel, handle, part, offset):
                        trial.succeeded()
                        offset = piece.last
                        yield piece.data
            except RollqError as error:
                if not _may_do_elsewhere(error):
                    raise
                trial.failed(handle.address, error)

    def results(self, job_ids: Sequence[JobId | str], *, index_min: int = 0) -> list[ResultRow]:
        """How jobs ended, from the state of one member. Nothing is said of jobs that have not
        ended, or are forgotten.

        Args:
            job_ids: Which jobs, any number of them; ids as bytes, or as text as in the tables.
            index_min: The member has applied so much at least.

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
            what: Which view.
            key: Of what, as the view needs it.
            limit: How many rows at most.

        Raises:
            StateError: what the member answers.
            DialError: no member answers.
            DeadlineError: members answer, and none can serve.
        """

        def ask(channel: Channel) -> tuple[int, bytes]:
            if VIEWS not in channel.welcome.features:
                raise StateError(ErrorCode.NOT_READY, "a member of an older version")
            channel.say(Query(channel.new_request(), what, key, limit))
            answer = channel.hear(Answer)
            return answer.index, answer.value

        return self.ask(ask)

    def hold(self, name: str, index: int) -> None:
        """Have history kept from `index` on, the first that was not read, for a reader of this
        name; to be said again at least once a week. It goes to the leader.

        Raises:
            StateError: GRID_FULL if there are too many names; BAD_OPTIONS.
            DialError: no leader answers.
        """
        self._change("hold_history", {"name": name, "index": index})

    def free(self, name: str) -> None:
        """Have nothing kept for this name any more.

        Raises:
            StateError: UNKNOWN_READER.
            DialError: no leader answers.
        """
        self._change("free_history", {"name": name})

    def holders(self) -> list[Holder]:
        """For whom history is kept, by name."""
        where = self._addresses, self._timeout_s
        return _decode_holders(look(*where, "readers", credentials=self._credentials))

    def ask(self, question: Callable[[Channel], T]) -> T:
        """Have a question answered by a member; by another if one cannot. It is asked again after
        a failure, so it must not change anything."""
        trial = _Trial(self._addresses, self._timeout_s)
        while True:
            channel = self._connect(trial)
            try:
                answer = question(channel)
            except RollqError as error:
                channel.close()
                self._failed(trial, channel.address, error)
            else:
                self._channel = channel
                return answer

    def _change(self, action: str, arguments: object) -> None:
        where = self._addresses, self._timeout_s
        change(*where, action, arguments, credentials=self._credentials)

    def _span(self, channel: Channel, ask: SpanAsk) -> Span:
        channel.say(ask)
        told = channel.hear(SpanTold)
        return Span(channel.welcome.group, told.floor, told.applied)

    def _connect(self, trial: _Trial) -> Channel:
        """The channel that is open, or another: of the first member that answers."""
        channel, self._channel = self._channel, None
        while channel is None:
            address = self._addresses[0]
            try:
                channel = Channel(
                    address, HelloReader(self._group, FEATURES), self._timeout_s, self._credentials
                )
                if self._is_to_be_spared(channel):
                    channel.close()
                    channel = None
                    self._addresses.append(self._addresses.pop(0))
            except RollqError as error:
                if channel is not None:
                    channel.close()
                    channel = None
                self._failed(trial, address, error)
        return channel

    def _is_to_be_spared(self, channel: Channel) -> bool:
        """Whether this is the leader, and others are to be asked before it."""
        if len(self._addresses) == 1 or channel.address in self._taken_as_is:
            return False
        channel.say(SpanAsk(channel.new_request()))
        leads = channel.hear(SpanTold).leads
        if leads:
            self._taken_as_is.append(channel.address)
        return leads

    def _failed(self, trial: _Trial, address: str, error: RollqError) -> None:
        """Go on with the next member, unless there is no sense in it."""
        if not _may_do_elsewhere(error):
            raise error
        trial.failed(address, error)
        if self._addresses[0] == address:
            self._addresses.append(self._addresses.pop(0))


class _Trial:
    """How long to go on asking: until all members have failed and the time is over."""

    def __init__(self, addresses: list[str], timeout_s: float) -> None:
        self._count = len(addresses)
        self._timeout_s = timeout_s
        self._errors: dict[str, RollqError] = {}
        self._deadline = time.monotonic() + timeout_s

    def succeeded(self) -> None:
        """Something came."""
        self._errors.clear()
        self._deadline = time.monotonic() + self._timeout_s

    def failed(self, address: str, error: RollqError) -> None:
        """One member could not; returns when the next may be asked, or raises what all said."""
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


def _may_do_elsewhere(error: RollqError) -> bool:
    """Whether another member may do better: it has applied more, is whole, or keeps more. A disk
    that fails is that of whoever asks."""
    is_ours = isinstance(error, DiskError)
    return not is_ours and (error.retryable or error.code is ErrorCode.HISTORY_GONE)


def addresses_in(servers: str | Sequence[str]) -> list[str]:
    """The addresses of members, each once.

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


def _in_turn(addresses: list[str], prefer: str) -> list[str]:
    random.shuffle(addresses)
    return [prefer, *(one for one in addresses if one != prefer)] if prefer else addresses


def _stream(channel: Channel, first: int, last: int, forms: tuple[str, ...]) -> Iterator[Piece]:
    """What one member sends of a range."""
    channel.say(PiecesAsk(channel.new_request(), first, last, forms))
    while first <= last:
        piece = channel.hear_piece()
        first = piece.last + 1
        yield piece


_decode_holders = msgspec.msgpack.Decoder(list[Holder]).decode
