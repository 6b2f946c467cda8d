"""Exports: tables of the state, written by a forked child and kept while they are read.

A forked child writes them, so all tables are as of one log index, and the loop stops for the fork
alone. One child at a time; equal requests that arrive meanwhile share the next one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError, RemoteError, RollqError, StateError
from rollq.base.limits import (
    EXPORT_BYTES_MAX,
    EXPORT_IDLE_MS_MAX,
    EXPORT_USED_MS,
    EXPORTS_BYTES_MAX,
    EXPORTS_MAX,
)
from rollq.grid.state import GridState
from rollq.history.tables import TABLES
from rollq.roles.member.fork import ChildAnswer, Fork
from rollq.roles.member.tables.writer import part_path, write_tables
from rollq.store.real_disk import RealDisk
from rollq.wire.reader_messages import TablePart

log = logging.getLogger("rollq.readers")

FOLDER: Final = "exports"  # of the state directory
NICENESS: Final = 10  # analytics can wait
SWEEP_S: Final = 15.0


class Export:
    """Tables written to files."""

    def __init__(self, export_id: str, folder: Path, tables: tuple[str, ...], index: int) -> None:
        self.export_id = export_id
        self.folder = folder
        self.tables = tables
        self.index = index
        self.parts: tuple[TablePart, ...] = ()
        self.used_s = time.monotonic()

    @property
    def size_bytes(self) -> int:
        """The bytes of all parts."""
        return sum(part.size_bytes for part in self.parts)


class Exports:
    """The exports of one member. Used on the loop, but for `find` and `open_part`."""

    def __init__(self, state_dir: Path, disk: RealDisk, state: Callable[[], GridState]) -> None:
        """Nothing is written before a request.

        Args:
            state_dir: Of the member; exports go to a folder in it.
            disk: Of the member.
            state: Returns the present state.
        """
        self._folder = state_dir / FOLDER
        self._disk = disk
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._kept: dict[str, Export] = {}
        self._waiting: dict[tuple[str, ...], Future[Export]] = {}
        self._fork: Fork | None = None
        self._made: Future[Export] | None = None  # the result of the child under way
        self._sweeping: asyncio.TimerHandle | None = None
        self._stopped = False

    def ask(self, tables: tuple[str, ...]) -> Future[Export]:
        """Request tables as of now or soon.

        Raises:
            RemoteError: BAD_PAYLOAD for an unknown table.
            StateError: NOT_READY if the member stops.
        """
        unknown = [name for name in tables if name not in TABLES]
        if unknown or not tables or len(set(tables)) < len(tables):
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"no table {unknown[0][:64]!a}" if unknown else "name each table once",
                f"there are {', '.join(TABLES)}",
            )
        if self._stopped:
            raise _stops()
        made: Future[Export] = Future()
        now = self._state().applied_index
        for export in self._kept.values():
            if export.index == now and set(tables) <= set(export.tables):
                export.used_s = time.monotonic()
                made.set_result(export)
                return made
        made = self._waiting.setdefault(tables, made)
        self._maybe_begin()
        return made

    def find(self, export_id: str) -> Export:
        """The export with this id, marked as used. On any thread.

        Raises:
            StateError: EXPORT_GONE.
        """
        export = self._kept.get(export_id)
        if export is None:
            raise _gone(export_id)
        export.used_s = time.monotonic()
        return export

    def table_of(self, export_id: str, number: int) -> str:
        """The table of a part; empty: no such part."""
        export = self._kept.get(export_id)
        is_there = export is not None and 0 <= number < len(export.parts)
        return export.parts[number].table if export is not None and is_there else ""

    def open_part(self, export: Export, number: int) -> int:
        """A descriptor for reading a part, to be closed by the caller. On any thread.

        Raises:
            StateError: EXPORT_GONE if it was removed just now.
        """
        try:
            return os.open(part_path(export.folder, number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _gone(export.export_id) from None

    async def stop(self) -> None:
        """Abort the child, fail all requests and remove all exports. Idempotent."""
        self._stopped = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._fork is not None:
            self._fork.kill()
            self._fork = None
        for future in (*self._waiting.values(), self._made):
            if future is not None:
                future.set_exception(_stops())
        self._waiting.clear()
        self._made = None
        self._kept.clear()
        await self._loop.run_in_executor(None, remove_exports, self._folder.parent)

    # --- helpers

    def _maybe_begin(self) -> None:
        while self._fork is None and self._waiting:
            tables = next(iter(self._waiting))
            made = self._waiting.pop(tables)
            try:
                self._begin(tables, made)
            except (OSError, StateError) as error:
                made.set_exception(_explained(error))

    def _begin(self, tables: tuple[str, ...], made: Future[Export]) -> None:
        self._make_room()
        state = self._state()
        export_id = secrets.token_hex(8)
        folder = self._folder / export_id
        folder.mkdir(mode=0o700, parents=True)
        export = Export(export_id, folder, tables, state.applied_index)
        work = partial(_write, state, tables, folder)
        done = partial(self._written, export, made)
        try:
            self._fork = Fork(self._disk, work, done, niceness=NICENESS)
        except OSError:
            self._remove(folder)
            raise
        self._made = made

    def _make_room(self) -> None:
        """Remove the least recently used exports until a new one fits."""
        room_bytes = EXPORTS_BYTES_MAX - EXPORT_BYTES_MAX
        while len(self._kept) >= EXPORTS_MAX or self._kept_bytes() > room_bytes:
            oldest = min(self._kept.values(), key=lambda export: export.used_s)
            if time.monotonic() - oldest.used_s < EXPORT_USED_MS / 1000:
                raise StateError(
                    ErrorCode.OVERLOADED,
                    f"{len(self._kept)} table exports are already open here",
                    "ask another member, or later",
                )
            self._drop(oldest)

    def _kept_bytes(self) -> int:
        return sum(export.size_bytes for export in self._kept.values())

    def _written(self, export: Export, made: Future[Export], answer: ChildAnswer) -> None:
        assert self._fork is not None, "no child was started"
        fork_ms = self._fork.fork_ms
        self._fork = self._made = None
        if answer.given:
            export.parts = _decode_parts(answer.given)
            export.used_s = time.monotonic()
            self._kept[export.export_id] = export
            self._sweep_later()
            log.info(
                "tables %s at %d: %d rows, %d bytes; the fork took %d ms",
                ", ".join(export.tables),
                export.index,
                sum(part.row_count for part in export.parts),
                export.size_bytes,
                fork_ms,
            )
            made.set_result(export)
        else:
            log.warning("tables %s: %s", ", ".join(export.tables), answer.message)
            self._remove(export.folder)
            made.set_exception(_failure(answer))
        self._maybe_begin()

    def _sweep_later(self) -> None:
        if self._sweeping is None and not self._stopped:
            self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        before_s = time.monotonic() - EXPORT_IDLE_MS_MAX / 1000
        for export in [one for one in self._kept.values() if one.used_s < before_s]:
            self._drop(export)
        if self._kept:
            self._sweep_later()

    def _drop(self, export: Export) -> None:
        del self._kept[export.export_id]
        self._remove(export.folder)

    def _remove(self, folder: Path) -> None:
        self._loop.run_in_executor(None, partial(shutil.rmtree, folder, ignore_errors=True))


def remove_exports(state_dir: Path) -> None:
    """Remove the exports of an earlier run. Blocks."""
    shutil.rmtree(state_dir / FOLDER, ignore_errors=True)


def _write(state: GridState, tables: tuple[str, ...], folder: Path) -> bytes:
    """Runs in the child."""
    return _encode(write_tables(state, tables, folder))


def _failure(answer: ChildAnswer) -> RollqError:
    if not answer.code:
        return LocalError(ErrorCode.BUG, f"the tables cannot be written: {answer.message}")
    # The member need not stop: no acknowledged data is affected.
    return StateError(ErrorCode(answer.code), answer.message, answer.hint)


def _explained(error: OSError | StateError) -> RollqError:
    if isinstance(error, StateError):
        return error
    return DiskError(ErrorCode.DISK_FAILED, f"the tables cannot be written: {error.strerror}")


def _gone(export_id: str) -> StateError:
    return StateError(
        ErrorCode.EXPORT_GONE,
        f"the tables {export_id[:64]!a} are not on this member: they were not read for "
        f"{EXPORT_IDLE_MS_MAX // 60_000} minutes, others needed the room, or it was started again",
        "ask for the table again",
    )


def _stops() -> StateError:
    return StateError(ErrorCode.NOT_READY, "the member stops", "ask another member, or later")


_encode = msgspec.msgpack.Encoder().encode
_decode_parts = msgspec.msgpack.Decoder(tuple[TablePart, ...]).decode
