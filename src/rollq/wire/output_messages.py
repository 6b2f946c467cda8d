"""What is said to see the output of a job while it runs. Nothing of it goes through the log.

A client watches a job; the leader tells the worker that runs it; the worker sends chunks, which
the leader passes on. Offsets count the bytes of one stream of one attempt. The first chunk comes
at once, also if it is empty. A stream is sent up to OUTPUT_WINDOW_BYTES beyond the offset that was
named last, so whoever wants more says how far it is. A chunk that begins later than the one before
ended tells that bytes between were left out.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from rollq.base.errors import ErrorCode
from rollq.base.limits import OUTPUT_CHUNK_BYTES_MAX
from rollq.wire.fields import Count, Id, JobId, Number
from rollq.wire.messages import ClientMessage, MemberMessage, WorkerMessage
from rollq.wire.rules import INT64_MAX, Bytes, Int, Many, OutOfBoundsError

STREAMS: Final = ("stdout", "stderr")
UNWANTED: Final = -1  # instead of an offset: not this stream

# Of stdout and of stderr.
Offsets: TypeAlias = Annotated[tuple[int, int], Many(2, Int(UNWANTED, INT64_MAX), 2)]
Totals: TypeAlias = Annotated[tuple[int, int], Many(2, Int(0, INT64_MAX), 2)]

# How a chunk goes on.
MORE: Final = 0
ATTEMPT_ENDED: Final = 1  # nothing more of this attempt comes; another may follow
JOB_ENDED: Final = 2  # nothing follows; the result tells the rest


class WatchOutput(ClientMessage, frozen=True, gc=False, tag=81):
    """Show me what this job writes, from these offsets of that attempt on (0: whichever runs).
    Said again it moves the window; with `on` false it ends the watch. `whole`: what the worker has
    on disk is wanted too, not only the end that it keeps in memory."""

    request_id: Id
    job_id: JobId
    attempt: Count = 0
    offsets: Offsets = (0, 0)
    on: bool = True
    whole: bool = False


class TellOutput(MemberMessage, frozen=True, gc=False, tag=82):
    """The same, to the worker that runs the attempt. The leader numbers its watches."""

    watch_id: Id
    job_id: JobId
    attempt: Count
    fence: Number
    offsets: Offsets = (0, 0)
    on: bool = True
    whole: bool = False


class OutputChunk(WorkerMessage, MemberMessage, frozen=True, gc=False, tag=83):
    """Bytes of a stream, for the watch of this id. `totals` are how many both have by now."""

    watch_id: Id
    attempt: Count
    stream: Annotated[int, Int(0, len(STREAMS) - 1)] = 0
    offset: Number = 0
    data: Annotated[bytes, Bytes(OUTPUT_CHUNK_BYTES_MAX)] = b""
    totals: Totals = (0, 0)
    end: Annotated[int, Int(0, JOB_ENDED)] = MORE


def check_offsets(message: WatchOutput | TellOutput) -> None:
    """Refuse a watch that wants neither stream."""
    if max(message.offsets) == UNWANTED:
        raise OutOfBoundsError(
            ErrorCode.BAD_PAYLOAD,
            f"{type(message).__name__}.offsets: neither stream is wanted",
            "name an offset of one of them",
        )
