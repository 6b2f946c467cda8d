"""Copies of packed segments as JSON lines: for people, `jq`, and other tools for text.

A copy is a segment of lines like any other (`history.lines_file`), beside the packed file of the
same range. It is synced before it is renamed, so it is never partial. If history is bounded, lines
take a share of the bound: the oldest copies are removed, and the packed segments stay."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from rollq.base.limits import COPIES_SPARED_BYTES, SYNC_BYTES
from rollq.history import packed_file
from rollq.history.lines_file import footer_line
from rollq.history.segments import TEMPORARY, Segments, name_of, packed_name
from rollq.store.disk import Disk
from rollq.store.look import LookDisk

FILE_MODE: Final = 0o600
LINES_PER_PACKED: Final = 50  # approximate ratio of the sizes


class Due(NamedTuple):
    """Ranges of copies to make and to remove."""

    make: list[tuple[int, int]]
    drop: list[tuple[int, int]]


def make_all(state: Path, bytes_max: int) -> None:
    """Make all missing copies, and remove those beyond the bound."""
    disk = LookDisk(state)
    what = due(disk, bytes_max)
    for ends in what.drop:
        (state / name_of(*ends)).unlink(missing_ok=True)
    for ends in what.make:
        if has_room(state) and Segments(disk).is_sound(*ends):
            make_copy(state, disk, ends)


def due(disk: Disk, bytes_max: int) -> Due:
    """The copies to make and to remove, so that the newest copies take at most `bytes_max` (0: no
    bound). The newest of all always stays. None older than all copies is made: it was removed."""
    packed = [ends for ends in Segments(disk).ranges() if disk.size(packed_name(*ends)) >= 0]
    sizes = {ends: disk.size(name_of(*ends)) for ends in packed}
    oldest = min((ends for ends, size in sizes.items() if size >= 0), default=(0, 0))
    what = Due([], [])
    total = 0
    for ends in reversed(packed):
        size = sizes[ends]
        total += size if size >= 0 else LINES_PER_PACKED * disk.size(packed_name(*ends))
        is_over = bool(bytes_max) and total > bytes_max and ends != packed[-1]
        if is_over and size >= 0:
            what.drop.append(ends)
        elif not is_over and size < 0 and ends > oldest:
            what.make.append(ends)
    what.make.reverse()
    return what


def has_room(state: Path) -> bool:
    """Whether copies may take more of the disk; some of it is reserved for the log."""
    return shutil.disk_usage(state).free >= COPIES_SPARED_BYTES


def make_copy(state: Path, disk: Disk, ends: tuple[int, int]) -> None:
    """Make the copy of a packed segment, which must be verified."""
    name = packed_name(*ends)
    found = packed_file.read_footer(disk, name)
    if found is None:  # removed meanwhile
        return
    temporary = state / f"{name_of(*ends)}{TEMPORARY}"
    count = crc = unsynced = 0
    with open(temporary, "wb", opener=_private) as file:
        for block in found[0].blocks:
            for packed in packed_file.indexes_in(disk.read(name, block.offset, block.size)):
                data = packed.text()
                count, crc = count + data.count(b"\n"), crc32(data, crc)
                file.write(data)
                unsynced += len(data)
                if unsynced >= SYNC_BYTES:
                    file.flush()
                    os.fdatasync(file.fileno())  # bounds the wait of the log's own sync
                    unsynced = 0
        file.write(footer_line(*ends, count, crc))
        file.flush()
        os.fdatasync(file.fileno())
    if disk.size(name) >= 0:
        temporary.rename(state / name_of(*ends))
    else:
        temporary.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
