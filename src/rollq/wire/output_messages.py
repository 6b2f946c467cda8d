"""Messages to watch the output of a running job. They are not logged.

A client watches a job; the leader forwards the watch to its worker; the worker sends chunks, which
the leader forwards to the client. Offsets count the bytes of one stream of one attempt. The first
chunk comes at once, also if it is empty. A stream is sent up to OUTPUT_WINDOW_BYTES beyond the
offset that was named last, so the watcher has to acknowledge its offset to get more. A gap between
chunks means that bytes were skipped.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from rollq.base.errors import ErrorCode
from rollq.base.limits import OUTPUT_CHUNK_BYTES_MAX
from rollq.wire.fields import Count, Id, JobId, Number
from rollq.wire.messages import ClientMessage, MemberMessage, WorkerMessage
from rollq.wire.rules import INT64_MAX, Bytes, Int, Many, OutOfBoundsError

STREAMS: Final = ("stdout", "stderr")
UNWANTED: Final = -1  # in place of an offset: not this stream

# Of stdout and of stderr.
Offsets: TypeAlias = Annotated[tuple[int, int], Many(2, Int(UNWANTED, INT64_MAX), 2)]
Totals: TypeAlias = Annotated[tuple[int, int], Many(2, Int(0, INT64_MAX), 2)]

# What follows a chunk.
MORE: Final = 0
ATTEMPT_ENDED: Final = 1  # nothing more of this attempt comes; another may follow
JOB_ENDED: Final = 2  # nothing follows; the result has the rest


class WatchOutput(ClientMessage, frozen=True, gc=False, tag=81):
    """Watch the output of this job, from these offsets of that attempt on (0: the running one).
    Repeated it moves the window; with `on` false it ends the watch. `whole`: also what the worker
    has on disk, not only the end in its memory."""

    request_id: Id
    job_id: JobId
    attempt: Count = 0
    offsets: Offsets = (0, 0)
    on: bool = True
    whole: bool = False


class TellOutput(MemberMessage, frozen=True, gc=False, tag=82):
    """A WatchOutput, forwarded to the worker of the attempt. The leader numbers its watches."""

    watch_id: Id
    job_id: JobId
    attempt: Count
    fence: Number
    offsets: Offsets = (0, 0)
    on: bool = True
    whole: bool = False


class OutputChunk(WorkerMessage, MemberMessage, frozen=True, gc=False, tag=83):
    """Bytes of a stream, for the watch with this id. `totals` are the lengths of both streams so
    far."""

    watch_id: Id
    attempt: Count
    stream: Annotated[int, Int(0, len(STREAMS) - 1)] = 0
    offset: Number = 0
    data: Annotated[bytes, Bytes(OUTPUT_CHUNK_BYTES_MAX)] = b""
    totals: Totals = (0, 0)
    end: Annotated[int, Int(0, JOB_ENDED)] = MORE


def check_offsets(message: WatchOutput | TellOutput) -> None:
    """Refuse a watch of neither stream."""
    if max(message.offsets) == UNWANTED:
        raise OutOfBoundsError(
            ErrorCode.BAD_PAYLOAD,
            f"{type(message).__name__}.offsets: neither stream is wanted",
            "name an offset of one of them",
        )
