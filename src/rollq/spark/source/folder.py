"""History in a folder of segments: a copy, a member's own folder, or a bucket.

Segments are immutable, so tasks can read any part: whole files, or byte ranges of line files. If a
segment exists in both formats, the packed one is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.history import lines_file, packed_file, segments
from rollq.history.arrow import from_lines, from_packed
from rollq.history.columns import Column
from rollq.history.lines_file import FOOTER_BYTES_MAX, LAST_ROW_BYTES_MAX, Footer
from rollq.spark.source.conditions import INDEX, RowCondition, keep
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Extent, Sealed, Slice

PIECE_BYTES: Final = 16 << 20  # parsed at once; the memory of a task is a few times that
_FOOTER: Final = b'{"footer":'


class Segment(NamedTuple):
    """A segment file and its range of indexes."""

    first: int
    last: int
    name: str
    size: int


class FolderPiece(NamedTuple):
    """A byte range of a line file, which covers the lines that begin in it; or a packed file."""

    name: str
    start: int
    end: int
    size: int
    after: int = 0  # rows up to this index are read from an overlapping file


class Folder:
    """The segments of one group."""

    def __init__(self, origin: SourceOrigin) -> None:
        self.origin = origin
        self._group = origin.group
        self._files: _Files = _Remote(origin.path) if "://" in origin.path else _Local(origin.path)
        self._listed: list[Segment] = []

    def extent(self) -> Extent:
        """From the floor, or the first segment if that is later, to the last segment."""
        sizes = self._files.sizes()
        found = {
            ends: Segment(*ends, name, size)
            for name, size in sorted(sizes.items())  # packed files replace line files
            if (ends := segments.range_of(name)) is not None
        }
        listed = self._listed = sorted(found.values())
        floor = max((segments.floor_of(name) for name in sizes), default=0)
        if not listed:
            return Extent(self._group, floor + 1, floor + 1)
        first = max(floor + 1, listed[0].first)
        return Extent(self._group, first, listed[-1].last + 1)

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges without a segment."""
        found = []
        for segment in self._listed:
            if segment.first > first and first <= last:
                found.append((first, min(segment.first - 1, last)))
            first = max(first, segment.last + 1)
        if first <= last:
            found.append((first, last))
        return found

    def sealed(self, first: int, last: int) -> list[Sealed]:
        """The segments of a range, without overlaps."""
        found: list[Sealed] = []
        for segment in self._listed:
            if segment.last >= first and segment.first <= last:
                whole = Sealed(segment.first, segment.last, segment.size)
                found.append(whole.within(first, last))
                first = segment.last + 1
        return found

    def slices(self, first: int, last: int, count: int) -> list[Slice]:
        """Split by bytes: a range of indexes says little about its number of rows."""
        listed = [each for each in self._listed if each.last >= first and each.first <= last]
        share = max(sum(each.size for each in listed) // count, 1)
        slices: list[Slice] = []
        pieces: list[FolderPiece] = []
        room, known = share, first - 1
        for segment in listed:
            start, after = 0, known
            known = max(known, segment.last)
            if segment.last <= after:
                continue  # covered by overlapping segments of other members
            if segment.name.endswith(segments.PACKED_SUFFIX):  # not split
                pieces.append(FolderPiece(segment.name, 0, segment.size, segment.size, after))
                room, start = room - segment.size, segment.size
            while start < segment.size:
                end = min(start + min(room, PIECE_BYTES), segment.size)
                if segment.size - end < FOOTER_BYTES_MAX + LAST_ROW_BYTES_MAX:
                    end = segment.size  # avoid a piece with little more than the footer
                pieces.append(FolderPiece(segment.name, start, end, segment.size, after))
                room -= end - start
                start = end
                if room <= 0:
                    slices.append(Slice(self.origin, self._group, first, last, tuple(pieces)))
                    pieces, room = [], share
            if room <= 0:
                slices.append(Slice(self.origin, self._group, first, last, tuple(pieces)))
                pieces, room = [], share
        if pieces:
            slices.append(Slice(self.origin, self._group, first, last, tuple(pieces)))
        return slices

    def tables(self, wanted: Slice, columns: Sequence[Column]) -> Iterator[Any]:
        """Read piece by piece, restricted to the slice's indexes."""
        parsed = columns if INDEX in columns else (*columns, INDEX)
        for piece in wanted.part:
            within = (
                RowCondition(INDEX, "greater_equal", max(wanted.first, piece.after + 1)),
                RowCondition(INDEX, "less_equal", wanted.last),
            )
            if piece.name.endswith(segments.PACKED_SUFFIX):
                tables = self._packed_tables(piece, parsed, wanted.group)
            else:
                tables = self._line_tables(piece, parsed, wanted.group)
            for table in tables:
                yield keep(table, within)

    def _packed_tables(
        self, piece: FolderPiece, columns: Sequence[Column], group: str
    ) -> Iterator[Any]:
        data = self._files.read(piece.name, 0, piece.size)
        footer = packed_file.footer_in(data, piece.name)
        if footer is None:
            raise _damaged(piece.name, "no footer")
        for block in footer.blocks:
            frame = data[block.offset : block.offset + block.size]
            if crc32(frame) != block.crc:
                raise _damaged(piece.name, "it does not match its checksum")
            yield from_packed(packed_file.indexes_in(frame), columns, group)

    def _line_tables(
        self, piece: FolderPiece, columns: Sequence[Column], group: str
    ) -> Iterator[Any]:
        try:
            yield from_lines(self._lines(piece), columns, group)
        except ValueError as error:  # from pyarrow: not JSON
            raise _damaged(piece.name, str(error)) from error

    def hold(self, name: str, index: int) -> None:
        """Does nothing: a folder keeps its files."""

    def _lines(self, piece: FolderPiece) -> bytes:
        if piece.start == 0 and piece.end == piece.size:
            return _verified(piece.name, self._files.read(piece.name, 0, piece.size))
        start = max(piece.start - 1, 0)  # to see whether a line begins at the start
        data = self._files.read(piece.name, start, piece.end + LAST_ROW_BYTES_MAX)
        begin = data.find(b"\n") + 1 if piece.start else 0
        if begin >= piece.end - start or (piece.start and not begin):
            return b""  # no line begins in this range
        end = data.find(b"\n", piece.end - start - 1) + 1 or len(data)
        footer = data.rfind(_FOOTER, begin, end)
        return data[begin : end if footer < 0 else footer]


class _Local:
    """Local files."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def sizes(self) -> dict[str, int]:
        path = self._path
        if not path.is_dir():
            raise _no_folder(str(path), "there is no such folder")
        if (path / segments.FOLDER).is_dir():
            path = self._path = path / segments.FOLDER
        with os.scandir(path) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def read(self, name: str, start: int, end: int) -> bytes:
        path = self._path / name
        if not path.exists():  # the state folder was given, and `sizes` ran elsewhere
            path = self._path / segments.FOLDER / name
        with path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)


class _Remote:
    """Files at a URL, through fsspec."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise LocalError(
                ErrorCode.BAD_SETUP, f"{url} needs fsspec", "pip install 'rollq[s3]'"
            ) from error
        self._url = url
        # A cached listing would hide newly sealed segments.
        self._system, path = url_to_fs(url, use_listings_cache=False)
        self._path = str(path).rstrip("/")

    def sizes(self) -> dict[str, int]:
        listed = self._listed(self._path)
        if any(_name(each) == segments.FOLDER and each["type"] != "file" for each in listed):
            self._path = f"{self._path}/{segments.FOLDER}"
            listed = self._listed(self._path)
        return {_name(each): int(each["size"]) for each in listed if each["type"] == "file"}

    def read(self, name: str, start: int, end: int) -> bytes:
        found: bytes
        try:
            found = self._system.cat_file(f"{self._path}/{name}", start=start, end=end)
        except FileNotFoundError:  # as in _Local.read
            inner = f"{self._path}/{segments.FOLDER}/{name}"
            found = self._system.cat_file(inner, start=start, end=end)
        return found

    def _listed(self, path: str) -> list[dict[str, Any]]:
        try:
            return list(self._system.ls(path, detail=True))
        except FileNotFoundError:
            raise _no_folder(self._url, "there is no such folder") from None


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"]).rstrip("/").rpartition("/")[2]


_Files = _Local | _Remote


def _verified(name: str, data: bytes) -> bytes:
    """The lines of a whole segment, without its footer, after a checksum test."""
    begin = data.rfind(b"\n", 0, -1) + 1
    try:
        footer = msgspec.json.decode(data[begin:], type=Footer)
    except msgspec.MsgspecError as error:
        raise _damaged(name, f"no footer: {error}") from None
    lines = data[:begin]
    crc = lines_file.footer_crc(
        footer.version, footer.first, footer.last, lines.count(b"\n"), crc32(lines)
    )
    if crc != footer.crc:
        raise _damaged(name, "it does not match its checksum")
    return lines


def _damaged(name: str, why: str) -> DiskError:
    return DiskError(
        ErrorCode.DISK_CORRUPT,
        f"history segment {name} is damaged: {why}",
        "copy it again from a member; every member has the same",
    )


def _no_folder(path: str, why: str) -> LocalError:
    return LocalError(
        ErrorCode.BAD_OPTIONS,
        f"cannot read history in {path}: {why}",
        "path is a member's state folder, or its history folder, or a copy of that",
    )
