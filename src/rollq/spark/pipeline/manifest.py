"""The manifest: the list of files that are the tables. Each batch writes one to a temporary file
and renames it, so that all tables change atomically; the highest number is current.

`<out>/_rollq/manifest-<number>.json`. Superseded manifests and their files are kept for a while,
for readers that began with them. A lock ensures a single writer, and is released when its process
ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.spark.pipeline.catalog import SCHEMA_VERSION

FOLDER: Final = "_rollq"
DATA: Final = "tables"
KEEP_S: Final = 3600.0  # how long files are kept after their manifest is superseded
_FORMAT: Final = "rollq-pipeline"


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Parquet file of a table."""

    path: str  # below the out folder
    rows: int
    bytes: int
    day: str = ""  # its partition, such as 2026-11-15
    kind: str = ""  # "open": later batches may change its rows
    first_ms: int = 0  # minimum and maximum of the partition timestamp
    last_ms: int = 0


class Mark(msgspec.Struct, frozen=True):
    """The read position of a group."""

    index: int  # the last index that is in the tables
    first_ms: int  # the earliest and the latest event timestamp
    last_ms: int
    is_whole: bool = False  # no index is missing since the first


class TableManifest(msgspec.Struct, frozen=True):
    """The state of all tables after a batch."""

    number: int
    schema_version: int
    source: str  # the name of the feed
    made_ms: int
    events: int  # in total
    marks: dict[str, Mark]
    tables: dict[str, list[File]]
    format: str = _FORMAT
    # Of formats with versions, instead of `tables`.
    versions: dict[str, str] | msgspec.UnsetType = msgspec.UNSET

    def files(self, table: str) -> list[File]:
        """The files of a table."""
        return self.tables.get(table, [])

    def version(self, table: str) -> str:
        """The version of a table in a format with versions; "" if it was never written."""
        return self.versions.get(table, "") if self.versions else ""


class Book:
    """The manifests of one folder."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / FOLDER

    def newest(self) -> TableManifest | None:
        """The current manifest; None if nothing was ever committed here.

        Raises:
            DiskError: DISK_VERSION if a newer version wrote it, DISK_CORRUPT if it cannot be read.
        """
        while True:
            numbers = self._numbers()
            if not numbers:
                return None
            try:
                return _read(self._path(numbers[-1]))
            except FileNotFoundError:
                continue  # swept since it was listed: there is a newer one

    def is_begun(self) -> bool:
        """Whether anything was ever committed here, also if it cannot be read."""
        return any(self.folder.glob("manifest-*.json"))

    def expect(self) -> TableManifest:
        """As `newest`, for readers.

        Raises:
            LocalError: BAD_OPTIONS if nothing was ever committed here.
        """
        manifest = self.newest()
        if manifest is None:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"{self.out} holds no tables of a pipeline",
                f"make them: rollq pipeline run --once --tables {self.out}; "
                "of tables in a catalog, say their --format",
            )
        return manifest

    def commit(self, manifest: TableManifest) -> None:
        """Make a manifest the current one; durable when it returns."""
        before = self.newest()
        known = {file.path for files in before.tables.values() for file in files} if before else ()
        new = [
            self.out / file.path
            for files in manifest.tables.values()
            for file in files
            if file.path not in known
        ]
        for path in (*new, *{path.parent: None for path in new}):
            _sync(path)
        path = self._path(manifest.number)
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as stream:
            stream.write(msgspec.json.encode(manifest))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _sync(self.folder)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the writer lock inside the block.

        Raises:
            DiskError: DISK_BUSY if another process writes here, DISK_FAILED if the folder is not
                writable.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            stream = (self.folder / "lock").open("a+")
        except OSError as error:
            raise DiskError(
                ErrorCode.DISK_FAILED,
                f"cannot write tables to {self.out}: {error.strerror or error}",
                "choose another folder with --tables, or give this user the right to write there",
            ) from error
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DiskError(
                    ErrorCode.DISK_BUSY,
                    f"another pipeline is writing to {self.out}",
                    "stop it first, or choose another folder with --tables",
                ) from None
            yield

    def sweep(self, keep_s: float = KEEP_S) -> int:
        """Remove manifests that were superseded long ago, and all files that no remaining manifest
        lists, including those of crashed batches. Only for the writer. Returns the number of
        removed folders.
        """
        numbers = self._numbers()
        now = time.time()
        kept: list[int] = numbers[-1:]
        for older, newer in pairwise(numbers):
            # A manifest is superseded when the next one is written.
            if now - self._path(newer).stat().st_mtime < keep_s:
                kept.append(older)
            else:
                self._path(older).unlink(missing_ok=True)
        named = {
            self.out.joinpath(*Path(file.path).parts[:3])
            for number in kept
            for files in _read(self._path(number)).tables.values()
            for file in files
        }
        gone = 0
        for folder in (self.out / DATA).glob("*/*"):
            if folder not in named:
                shutil.rmtree(folder, ignore_errors=True)
                gone += 1
        return gone

    def _path(self, number: int) -> Path:
        return self.folder / f"manifest-{number:010d}.json"

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DiskError(
                ErrorCode.DISK_FAILED, f"cannot read {self.folder}: {error.strerror or error}"
            ) from error
        stems = (name[len("manifest-") : -len(".json")] for name in _manifests(names))
        return sorted(int(stem) for stem in stems if stem.isdecimal())


def _manifests(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith("manifest-") and name.endswith(".json"))


def _read(path: Path) -> TableManifest:
    return decoded(path.read_bytes(), str(path))


def decoded(data: bytes, place: str) -> TableManifest:
    """Decode a manifest.

    Raises:
        DiskError: DISK_VERSION if a newer version wrote it, DISK_CORRUPT if it cannot be decoded.
    """
    try:
        manifest = msgspec.json.decode(data, type=TableManifest)
    except msgspec.MsgspecError as error:
        raise DiskError(
            ErrorCode.DISK_CORRUPT,
            f"{place} is damaged: {error}",
            "remove it: the manifest before it counts then",
        ) from error
    if manifest.format != _FORMAT or manifest.schema_version > SCHEMA_VERSION:
        raise DiskError(
            ErrorCode.DISK_VERSION,
            f"the tables were made by a newer rollq: schema {manifest.schema_version}, "
            f"and this one knows {SCHEMA_VERSION}",
            "use that rollq, or choose another folder with --tables",
        )
    return manifest


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
