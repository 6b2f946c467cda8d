"""Writes tables as files of JSON lines, in parts that can be read separately. Runs in a forked
child."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode, StateError
from rollq.base.limits import (
    EXPORT_BYTES_MAX,
    EXPORT_PART_BYTES,
    EXPORT_PART_ROWS,
    EXPORT_SPARED_BYTES,
)
from rollq.grid.state import GridState
from rollq.history.tables import TableRow
from rollq.roles.member.tables.rows import table_rows
from rollq.store.descriptors import write_all
from rollq.wire.reader_messages import TablePart

ROWS_AT_ONCE: Final = 1_000
FILE_MODE: Final = 0o600


def write_tables(state: GridState, tables: Sequence[str], folder: Path) -> list[TablePart]:
    """Write tables to an existing folder; returns the parts.

    Raises:
        StateError: ANSWER_TOO_LARGE if they exceed EXPORT_BYTES_MAX.
        DiskError: DISK_FULL if the rest of the disk is reserved for the log.
    """
    parts: list[TablePart] = []
    room_bytes = EXPORT_BYTES_MAX
    for table in tables:
        rows = table_rows(state, table)
        while True:
            part = _write_part(part_path(folder, len(parts)), table, rows, room_bytes)
            if not part.row_count:
                break
            room_bytes -= part.size_bytes
            parts.append(part)
    return parts


def part_path(folder: Path, number: int) -> Path:
    """The path of a part."""
    return folder / f"part-{number:04d}.jsonl"


def _write_part(path: Path, table: str, rows: Iterator[TableRow], room_bytes: int) -> TablePart:
    """Write the rows of one part. Without rows there is no part and no file."""
    row_count = size_bytes = 0
    fd = -1
    try:
        while row_count < EXPORT_PART_ROWS and size_bytes < EXPORT_PART_BYTES:
            some = list(islice(rows, ROWS_AT_ONCE))
            if not some:
                break
            if fd < 0:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
            lines = _encode_lines(some)
            row_count += len(some)
            size_bytes += len(lines)
            _check_room(fd, len(lines), room_bytes - size_bytes)
            write_all(fd, lines)
    except OSError as error:
        raise DiskError(
            ErrorCode.DISK_FAILED, f"cannot write {path.name} of a table: {error.strerror}"
        ) from None
    finally:
        if fd >= 0:
            os.close(fd)
    return TablePart(table, row_count, size_bytes)


def _check_room(fd: int, more_bytes: int, room_bytes: int) -> None:
    if room_bytes < 0:
        raise StateError(
            ErrorCode.ANSWER_TOO_LARGE,
            f"the tables need more than {EXPORT_BYTES_MAX} bytes",
            "read the history instead, or results by id",
        )
    disk = os.fstatvfs(fd)
    if disk.f_bavail * disk.f_frsize < EXPORT_SPARED_BYTES + more_bytes:
        raise DiskError(
            ErrorCode.DISK_FULL,
            "the rest of the disk is reserved for the log",
            "make room, or ask another member",
        )


_encode_lines = msgspec.json.Encoder().encode_lines
