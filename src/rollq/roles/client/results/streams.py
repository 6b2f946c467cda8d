"""Streams the output of a job, while it runs and after its end.

The output of a running attempt comes from the worker, through the leader. Missing parts, because
the job ended too soon or the leader changed, are read from the result.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RollqError, StateError
from rollq.base.ids import JobId
from rollq.base.limits import OUTPUT_CHUNK_BYTES_MAX, OUTPUT_WINDOW_BYTES
from rollq.grid.views import RawJobView
from rollq.roles.client.answers import error_of
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.results.outputs import Fetcher, Output
from rollq.roles.client.results.result import Result, result_message
from rollq.roles.client.session.group_session import GroupSession
from rollq.wire import messages as wire
from rollq.wire.output_messages import (
    JOB_ENDED,
    STREAMS,
    UNWANTED,
    Offsets,
    OutputChunk,
    WatchOutput,
)

log = logging.getLogger("rollq.client")

Ending: TypeAlias = Callable[[], Coroutine[Any, Any, Result]]
OVER: Final = OutputChunk(bytes(16), 0, end=JOB_ENDED)  # end of the watch, when the end is known

# A window for each stream, and the same again for what a new leader repeats.
INBOX_BYTES_MAX: Final = 2 * len(STREAMS) * OUTPUT_WINDOW_BYTES


@dataclass(slots=True, frozen=True)
class StreamPart:
    """A piece of output.

    Attributes:
        stream: `stdout` or `stderr`.
        data: The bytes.
        offset: Their offset in the stream of this attempt.
        attempt: The attempt that wrote them; a new attempt begins at offset 0.
        skipped: How many bytes before them were left out; 0 if `whole`.
    """

    stream: str
    data: bytes
    offset: int
    attempt: int
    skipped: int = 0

    @property
    def text(self) -> str:
        """The bytes as UTF-8 text; a character that is split between two parts is replaced."""
        return self.data.decode(errors="replace")


class StreamPosition:
    """The position of a reader in both streams of an attempt. Pure.

    Args:
        stream: `stdout` or `stderr`; empty: both.
        whole: Whether to ignore chunks after a gap, so that the output is complete.
    """

    def __init__(self, stream: str, *, whole: bool = False) -> None:
        if stream and stream not in STREAMS:
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"no stream {stream!r}", f"use {' or '.join(STREAMS)}"
            )
        self.wanted = tuple(not stream or stream == name for name in STREAMS)
        self.attempt = 0
        self.at = [0, 0]
        self._whole = whole
        self._goal: Offsets | None = None  # stream sizes when the watch of this attempt began

    @property
    def offsets(self) -> Offsets:
        """The position in the form of a watch request."""
        out, err = (
            at if wanted else UNWANTED for at, wanted in zip(self.at, self.wanted, strict=True)
        )
        return out, err

    @property
    def is_level(self) -> bool:
        """Whether everything written before the watch began has been read."""
        return self._goal is not None and all(
            not wanted or at >= goal
            for wanted, at, goal in zip(self.wanted, self.at, self._goal, strict=True)
        )

    def take(self, chunk: OutputChunk) -> StreamPart | None:
        """The new part of a chunk; None if there is none."""
        self.turn_to(chunk.attempt)
        if self._goal is None:
            self._goal = chunk.totals
        if chunk.attempt < self.attempt or self.is_gap(chunk):
            return None
        return self.advance(chunk.stream, chunk.offset, chunk.data)

    def is_gap(self, chunk: OutputChunk) -> bool:
        """Whether output before a chunk is missing, for a reader of the whole."""
        return self._whole and chunk.offset > self.at[chunk.stream]

    def turn_to(self, attempt: int) -> None:
        """Go to the beginning of a later attempt."""
        if attempt > self.attempt:
            self.attempt, self.at, self._goal = attempt, [0, 0], None

    def advance(self, stream: int, offset: int, data: bytes) -> StreamPart | None:
        """The new part of these bytes; None if there is none."""
        at = self.at[stream]
        if offset + len(data) <= at:
            return None
        self.at[stream] = offset + len(data)
        begin = max(offset, at)
        new = data[begin - offset :]
        return StreamPart(STREAMS[stream], new, begin, self.attempt, skipped=begin - at)


class OutputReader:
    """Reads the output of one job; `parts` is the stream.

    Args:
        session: The session with its group.
        job_id: The job.
        fetcher: Downloads streams that the grid keeps.
        stream: `stdout` or `stderr`; empty: both.
        whole: Whether the output must be complete: missing parts are read at the end.
    """

    def __init__(
        self,
        session: GroupSession,
        job_id: JobId,
        fetcher: Fetcher,
        stream: str = "",
        *,
        whole: bool = False,
    ) -> None:
        self._session = session
        self._job_id = job_id
        self._fetcher = fetcher
        self._whole = whole
        self._position = StreamPosition(stream, whole=whole)
        self._request_id = secrets.token_bytes(16)
        self._resumed_at: tuple[int, Offsets] | None = None  # the position of the last gap
        self._inbox: deque[OutputChunk | wire.Error] = deque()
        self._inbox_bytes = 0
        self._changed = asyncio.Event()
        self._sent_offsets = [0, 0]  # the offsets of the last watch request
        self._ended: asyncio.Future[Result] | None = None

    async def parts(
        self,
        timeout_s: float,
        *,
        follow: bool,
        tail: int | None,
        result: Result | None = None,
        ending: Ending | None = None,
    ) -> AsyncGenerator[StreamPart, None]:
        """Iterate over the output until the job ends; without `follow`, over the output so far.

        Args:
            timeout_s: How long to wait for the first response.
            follow: Whether to go on until the job ends.
            tail: Begin with the last lines of each stream, instead of all output so far.
            result: The result, if it is known.
            ending: Waits for the result; default: query the grid.

        Raises:
            RollqError: UNKNOWN_JOB, TIMED_OUT, or the output cannot be streamed.
        """
        held: list[StreamPart] | None = None if tail is None else []
        if result is None:
            if ending is not None:
                self._ended = asyncio.ensure_future(ending())
                self._ended.add_done_callback(lambda _: self._changed.set())
            self._send_watch()
            try:
                await self._await_first(timeout_s)
                while (chunk := await self._next()).end != JOB_ENDED:
                    part = self._position.take(chunk)
                    self._maybe_resume(chunk)
                    self._maybe_send_position()
                    if part is not None:
                        if held is None:
                            yield part
                        else:
                            held.append(part)
                    if self._position.is_level:
                        for part in last_lines(held or [], tail or 0):
                            yield part
                        held = None
                        if not follow:
                            return
                if self._ended is not None:
                    result = await self._ended
            finally:
                self._session.unwatch(self._request_id, self._job_id)
                if self._ended is not None:
                    self._ended.cancel()
            result = result or await self._find_result(timeout_s)
        if held is None:
            async for part in self._rest(result):
                yield part
        else:
            for part in last_lines(held + self._ends(result), tail or 0):
                yield part

    def _send_watch(self) -> None:
        position = self._position
        request = WatchOutput(
            self._request_id, self._job_id, position.attempt, position.offsets, whole=self._whole
        )
        self._sent_offsets = list(position.at)
        self._session.watch(request, self._on_output)

    def _maybe_send_position(self) -> None:
        """Send the position before the window is used up."""
        ahead = [
            at - named for at, named in zip(self._position.at, self._sent_offsets, strict=True)
        ]
        if max(ahead) >= OUTPUT_WINDOW_BYTES // 2 or min(ahead) < 0:
            self._send_watch()

    def _maybe_resume(self, chunk: OutputChunk) -> None:
        """On a gap, watch again from before it, once per position. If the worker has dropped that
        output, it is read from the result."""
        place = (self._position.attempt, self._position.offsets)
        if (
            self._position.is_gap(chunk)
            and chunk.attempt == self._position.attempt
            and place != self._resumed_at
        ):
            self._resumed_at = place
            self._session.unwatch(self._request_id, self._job_id)
            self._request_id = secrets.token_bytes(16)
            self._send_watch()

    def _on_output(self, output: OutputChunk | wire.Error) -> None:
        size_bytes = len(output.data) if isinstance(output, OutputChunk) else 0
        if size_bytes and self._inbox_bytes + size_bytes > INBOX_BYTES_MAX:
            return  # repeats of several leaders; the next offset shows the gap
        self._inbox.append(output)
        self._inbox_bytes += size_bytes
        self._changed.set()

    async def _next(self) -> OutputChunk:
        """The next chunk. If `ending` is awaited, its completion ends the watch too."""
        while not self._inbox:
            if self._ended is not None and self._ended.done():
                return OVER
            self._changed.clear()
            await self._changed.wait()
        output = self._inbox.popleft()
        if isinstance(output, wire.Error):
            if self._ended is None:
                raise error_of(output)
            log.info("live output is not available: %s", error_of(output))
            return OVER
        self._inbox_bytes -= len(output.data)
        return output

    async def _await_first(self, timeout_s: float) -> None:
        if self._ended is not None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            raise self._overdue(timeout_s) from None

    def _overdue(self, timeout_s: float) -> DeadlineError:
        trouble = "" if self._session.is_open else self._session.last_error
        return DeadlineError(
            ErrorCode.TIMED_OUT,
            f"no output within {timeout_s:g} s" + (f" ({trouble})" if trouble else ""),
            "check that a majority of the members runs",
        )

    # --- after the end

    async def _find_result(self, timeout_s: float) -> Result | None:
        """The result, if the grid keeps it."""
        query = wire.Query(secrets.token_bytes(16), "job", self._job_id)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._session.call(query)
        except TimeoutError:
            raise self._overdue(timeout_s) from None
        if isinstance(answer, wire.Error):
            raise error_of(answer)
        assert isinstance(answer, wire.Answer), "the answer to a query"
        view = msgspec.msgpack.decode(answer.value, type=RawJobView | None)
        if view is not None and view.end is not None:
            return Result(result_message(view), self._fetcher)
        if not self._position.attempt:
            raise StateError(
                ErrorCode.UNKNOWN_JOB, "the job has ended, and its result is no longer kept"
            )
        return None

    async def _rest(self, result: Result | None) -> AsyncGenerator[StreamPart, None]:
        """The remaining output from a result; from the whole stream, if the grid keeps it."""
        if result is not None:
            await result.aload_report()
            self._position.turn_to(result.attempts)
            for stream, whole in enumerate((result.whole_stdout, result.whole_stderr)):
                if self._position.wanted[stream] and not whole.is_here:
                    async for part in self._rest_of(stream, whole):
                        yield part
        for part in self._ends(result):
            yield part

    async def _rest_of(self, stream: int, whole: Output) -> AsyncGenerator[StreamPart, None]:
        at = self._position.at[stream]
        if at >= whole.size:
            return
        try:
            file = await whole.aopen()
        except RollqError as error:  # the last part of the stream is in the result
            if self._whole:
                raise
            log.info("the whole %s cannot be fetched: %s", whole.name, error)
            return
        with file:
            await asyncio.to_thread(file.seek, at)
            while data := await asyncio.to_thread(file.read, OUTPUT_CHUNK_BYTES_MAX):
                part = self._position.advance(stream, at, data)
                at += len(data)
                if part is not None:
                    yield part

    def _ends(self, result: Result | None) -> list[StreamPart]:
        """The new part of the last output of each stream, which is in the result."""
        if result is None:
            return []
        position = self._position
        position.turn_to(result.attempts)
        parts: list[StreamPart | None] = []
        for stream, name in enumerate(STREAMS):
            if position.wanted[stream]:
                end = result.end_of(name)
                parts.append(position.advance(stream, end.offset, end.data))
        return [part for part in parts if part is not None]


def output_of(
    engine: Engine,
    job_id: JobId,
    *,
    follow: bool,
    stream: str,
    tail: int | None,
    whole: bool,
    result: Result | None = None,
    ending: Ending | None = None,
) -> AsyncGenerator[StreamPart, None]:
    """The output of a job; see `Client.output`.

    Args:
        engine: The client.
        job_id: The job.
        follow, stream, tail, whole: As for `Client.output`.
        result: The result, if it is known.
        ending: Waits for the result; default: query the grid.
    """
    whole = whole and follow and tail is None
    reader = OutputReader(engine.session_of(job_id), job_id, engine, stream, whole=whole)
    return reader.parts(engine.timeout_s, follow=follow, tail=tail, result=result, ending=ending)


def last_lines(parts: list[StreamPart], count: int) -> list[StreamPart]:
    """The last lines of each stream; earlier output is not counted as skipped."""
    left = dict.fromkeys(STREAMS, count)
    is_last = dict.fromkeys(STREAMS, True)
    kept: list[StreamPart] = []
    for part in reversed(parts):
        stream, data = part.stream, part.data
        if not left[stream] or not data:
            continue
        begin = len(data)
        if is_last[stream] and data.endswith(b"\n"):
            begin -= 1  # the newline that ends the last line
        is_last[stream] = False
        while left[stream] and (begin := data.rfind(b"\n", 0, begin)) >= 0:
            left[stream] -= 1
        begin += 1
        kept.append(
            replace(
                part,
                data=data[begin:],
                offset=part.offset + begin,
                skipped=0 if begin else part.skipped,
            )
        )
    return [part for part in reversed(kept) if part.data]
