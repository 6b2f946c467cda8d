"""What is said to see the output of a job while it runs. Nothing of it goes through the log.

A client watches a job; the leader tells the worker that runs it; the worker sends chunks, which
the leader passes on. Offsets count the bytes of one stream of one attempt. The first chunk comes
at once, also if it is empty. A stream is sent up to OUTPUT_WINDOW_BYTES beyond the offset that was
named last, so whoever wants more says how far it is. A chunk that begins later than the one before
ended tells that bytes between were left out.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base.ids import GUID_BYTES

Id: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=GUID_BYTES, max_length=GUID_BYTES)]
Offsets: TypeAlias = tuple[int, int]  # of stdout and of stderr

STREAMS: Final = ("stdout", "stderr")
UNWANTED: Final = -1  # instead of an offset: not this stream

# How a chunk goes on.
MORE: Final = 0
ATTEMPT_ENDED: Final = 1  # nothing more of this attempt comes; another may follow
JOB_ENDED: Final = 2  # nothing follows; the result tells the rest


class WatchOutput(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=81):
    """Show me what this job writes, from these offsets of that attempt on (0: whichever runs).
    Said again it moves the window; with `on` false it ends the watch. `whole`: what the worker has
    on disk is wanted too, not only the end that it keeps in memory."""

    request_id: Id
    job_id: Id
    attempt: int = 0
    offsets: Offsets = (0, 0)
    on: bool = True
    whole: bool = False


class TellOutput(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=82):
    """The same, to the worker that runs the attempt. The leader numbers its watches."""

    watch_id: Id
    job_id: Id
    attempt: int
    fence: int
    offsets: Offsets = (0, 0)
    on: bool = True
    whole: bool = False


class OutputChunk(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=83):
    """Bytes of a stream, for the watch of this id. `totals` are how many both have by now."""

    watch_id: Id
    attempt: int
    stream: int = 0
    offset: int = 0
    data: bytes = b""
    totals: Offsets = (0, 0)
    end: int = MORE
