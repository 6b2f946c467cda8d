"""Makes Arrow copies, as a process beside a member: `python -m … STATE GROUP NICENESS`.

It does what there is to do and ends. It takes only what nobody else wants of the machine, dies with
the member that started it (its standard input ends then), and writes nothing but copies:
whatever happens to it, the member is not concerned.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
import psutil  # type: ignore[import-untyped]

from rollq.base.limits import COLUMNS_BYTES_MIN, COLUMNS_PIECE_BYTES
from rollq.history import arrow_cache
from rollq.history.arrow_cache import ArrowCopy, RowBatch
from rollq.history.columns import EVENTS
from rollq.history.cutting import SegmentFile
from rollq.history.segments import Segments, name_of
from rollq.store.disk import Disk
from rollq.store.look import LookDisk

PR_SET_PDEATHSIG: Final = 1
FILE_MODE: Final = 0o600


def main() -> None:
    """Make what is missing, remove what is of no more use."""
    state, group, niceness = sys.argv[1:]
    _step_back(int(niceness))
    threading.Thread(target=_follow_parent, daemon=True).start()
    make_all(Path(state), group)


def make_all(state: Path, group: str) -> int:
    """Make every copy that is missing; how many were made."""
    disk = LookDisk(state)
    (state / arrow_cache.FOLDER).mkdir(mode=0o700, exist_ok=True)
    for name in stale(disk):
        (state / arrow_cache.FOLDER / name).unlink(missing_ok=True)
    ranges = missing(disk, group)
    for first, last in ranges:
        if Segments(disk).is_sound(first, last):
            make_copy(state, disk, (first, last), group)
    return len(ranges)


def missing(disk: Disk, group: str) -> list[tuple[int, int]]:
    """Segments that are worth a copy and have none that could be read."""
    return [
        (first, last)
        for first, last, size in Segments(disk).sizes()
        if size >= COLUMNS_BYTES_MIN and arrow_cache.read_copy(disk, first, last, group) is None
    ]


def stale(disk: Disk) -> list[str]:
    """Names of files whose segments are gone, and of what was begun and not ended."""
    kept = {(first, last) for first, last, _ in Segments(disk).sizes()}
    return [
        name for name in disk.names(arrow_cache.FOLDER) if arrow_cache.copy_range(name) not in kept
    ]


def make_copy(state: Path, disk: Disk, ends: tuple[int, int], group: str) -> None:
    """Make the copy of one segment, which is known to be sound."""
    temporary = state / f"{arrow_cache.copy_name(*ends)}{arrow_cache.TEMPORARY}"
    schema_bytes, batches = _write_stream(temporary, SegmentFile(disk, *ends), ends, group)
    with temporary.open("rb+") as file:
        schema_crc = crc32(file.read(schema_bytes))
        for number, batch in enumerate(batches):
            file.seek(batch.offset)
            batches[number] = msgspec.structs.replace(batch, crc=crc32(file.read(batch.size)))
        file.seek(0, os.SEEK_END)
        copy = ArrowCopy(arrow_cache.VERSION, group, *ends, schema_bytes, schema_crc, batches)
        file.write(arrow_cache.encode_footer(copy))
    temporary.chmod(FILE_MODE)
    if disk.size(name_of(*ends)) >= 0:
        temporary.rename(state / arrow_cache.copy_name(*ends))
    else:  # the segment was let go meanwhile
        temporary.unlink()


def _write_stream(
    path: Path, segment: SegmentFile, ends: tuple[int, int], group: str
) -> tuple[int, list[RowBatch]]:
    """Write the rows of a segment; how long the schema is, and where batches are."""
    # Whoever asks only what is missing does not need it.
    import pyarrow as pa  # noqa: PLC0415

    from rollq.history.arrow import arrow_schema, from_lines  # noqa: PLC0415

    schema = arrow_schema(EVENTS)
    schema_bytes = schema.serialize().size
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    batches: list[RowBatch] = []
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as writer,
    ):
        for first, last, lines in segment.pieces(*ends, COLUMNS_PIECE_BYTES):
            table = from_lines(lines, EVENTS, group).combine_chunks()
            offset = max(sink.tell(), schema_bytes)  # it is written with the first batch
            for batch in table.to_batches():
                writer.write_batch(batch)
            size = max(sink.tell() - offset, 0)
            batches.append(RowBatch(first, last, offset, size, len(table), 0))
    return schema_bytes, batches


def _step_back(niceness: int) -> None:
    """Take only what nobody else wants, and do not outlive the member."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.nice(niceness)
    with contextlib.suppress(AttributeError, OSError):  # not every system has that of the disk
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def _follow_parent() -> None:
    """The other end of the pipe is the member's."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
