"""A disk in memory that loses unsynced data, tears writes, rots, fills up and fails.

Every file has two contents: the page cache, which readers see, and what survives a power cut. On
`crash` the given jitter decides which unsynced 512-byte sectors and which unsynced names survive.
Deterministic: the same calls give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.stamp import Jitter
from rollq.testing.faults import SimulatedCrash

SECTOR_BYTES: Final = 512


@dataclass(slots=True)
class VirtualFile:
    """One inode."""

    cache: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    # Byte ranges that differ (at most) between the two.
    dirty: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class NameChange:
    """A directory change that is not durable yet. `old` None: created; `new` None: removed. A
    rename between folders is durable when both folders are synced."""

    file: VirtualFile
    old: str | None
    new: str | None
    folders: frozenset[str]


@dataclass(slots=True, frozen=True)
class DiskImage:
    """All durable files at one moment, to be restored by the fault `old_disk`."""

    files: dict[str, bytes]


class VirtualDisk:
    """Implements `rollq.store.disk.Disk`, with methods to inject faults."""

    def __init__(self) -> None:
        self._names: dict[str, VirtualFile] = {}
        self._durable_names: dict[str, VirtualFile] = {}
        self._changes: list[NameChange] = []
        self._crash_at = -1
        self._dead = False
        self.op_count = 0  # changing calls so far
        self.sync_count = 0
        self.used_bytes = 0
        self.bytes_max = -1  # DISK_FULL beyond; -1: unlimited
        self.fail_next_sync = False
        self.fail_next_write = False

    # -- the Disk protocol -------------------------------------------------------------------

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted."""
        self._alive()
        prefix = folder + "/"
        cut = len(prefix)
        return sorted(name[cut:] for name in self._names if name.startswith(prefix))

    def size(self, name: str) -> int:
        """Length in bytes, or -1 if there is no such file."""
        self._alive()
        file = self._names.get(name)
        return -1 if file is None else len(file.cache)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read from the page cache."""
        self._alive()
        return bytes(self._file(name).cache[offset : offset + length])

    def write(self, name: str, offset: int, *pieces: bytes) -> None:
        """Write to the page cache only."""
        self._operate()
        data = b"".join(pieces)
        if self.fail_next_write:
            self.fail_next_write = False
            raise _failed(f"write to {name}")
        file = self._names.get(name)
        end = offset + len(data)
        growth = end - (0 if file is None else len(file.cache))
        if growth > 0:
            self._reserve(name, growth)
        if file is None:
            file = self._create(name)
        cache = file.cache
        if offset > len(cache):
            file.dirty.append((len(cache), offset))
            cache.extend(bytes(offset - len(cache)))
        cache[offset:end] = data
        file.dirty.append((offset, end))

    def truncate(self, name: str, length: int) -> None:
        """Cut or zero-extend, in the page cache only."""
        self._operate()
        file = self._names.get(name)
        size = 0 if file is None else len(file.cache)
        if length > size:
            self._reserve(name, length - size)
        if file is None:
            file = self._create(name)
        if length < size:
            del file.cache[length:]
            self.used_bytes -= size - length
        else:
            file.cache.extend(bytes(length - size))
        file.dirty.append((min(size, length), max(size, length)))

    def sync(self, name: str) -> None:
        """Make a file's content durable. A failed sync drops its dirty pages."""
        self._operate()
        self.sync_count += 1
        file = self._file(name)
        if self.fail_next_sync:
            self.fail_next_sync = False
            file.dirty.clear()  # as in Linux: the pages are marked clean, and are not written
            raise _failed(f"sync of {name}")
        _settle(file)

    def rename(self, old: str, new: str) -> None:
        """Replace atomically; durable after `sync_dir`."""
        self._operate()
        file = self._file(old)
        if old == new:
            return
        replaced = self._names.get(new)
        if replaced is not None:
            self.used_bytes -= len(replaced.cache)
        del self._names[old]
        self._names[new] = file
        self._changes.append(NameChange(file, old, new, frozenset({_folder(old), _folder(new)})))

    def remove(self, name: str) -> None:
        """Remove a name; durable after `sync_dir`."""
        self._operate()
        file = self._names.pop(name, None)
        if file is not None:
            self.used_bytes -= len(file.cache)
            self._changes.append(NameChange(file, name, None, frozenset({_folder(name)})))

    def sync_dir(self, folder: str) -> None:
        """Make the changes of names in a folder durable."""
        self._operate()
        waiting = []
        for change in self._changes:
            left = change.folders - {folder}
            if left:
                waiting.append(NameChange(change.file, change.old, change.new, left))
            else:
                _apply(self._durable_names, change)
        self._changes = waiting

    # -- fault injection -----------------------------------------------------------------------

    def crash_at(self, op_number: int) -> None:
        """Crash just before the mutating call with this number (the first is 1)."""
        self._crash_at = op_number

    def crash(self, jitter: Jitter) -> None:
        """Power cut and restart: synced data survives, and a random part of the rest."""
        names = dict(self._durable_names)
        whole = jitter.draw(0, 4)  # 0: no unsynced data survives, 1: all does, else a mixture
        for change in self._changes:
            if _keeps(whole, jitter):
                _apply(names, change)
        for name in sorted(names):
            _tear(names[name], whole, jitter)
        self._settle_names(names)

    def kill(self) -> None:
        """The process dies, the machine does not: the page cache survives."""
        self._dead = False
        self._crash_at = -1

    def rot(self, name: str, offset: int, bit: int) -> None:
        """Flip one bit, on disk and in the cache."""
        file = self._file(name)
        for content in (file.cache, file.durable):
            if offset < len(content):
                content[offset] ^= 1 << bit

    def snapshot(self) -> DiskImage:
        """Copy all durable files."""
        return DiskImage({name: bytes(f.durable) for name, f in self._durable_names.items()})

    def restore(self, image: DiskImage) -> None:
        """Restore an image."""
        self._settle_names(
            {
                name: VirtualFile(bytearray(data), bytearray(data))
                for name, data in image.files.items()
            }
        )

    # -- helpers -----------------------------------------------------------------------------

    def _alive(self) -> None:
        if self._dead:
            raise SimulatedCrash

    def _operate(self) -> None:
        self._alive()
        self.op_count += 1
        if self.op_count == self._crash_at:
            self._dead = True
            raise SimulatedCrash

    def _file(self, name: str) -> VirtualFile:
        file = self._names.get(name)
        if file is None:
            raise _failed(f"there is no file {name}; access")
        return file

    def _create(self, name: str) -> VirtualFile:
        file = VirtualFile()
        self._names[name] = file
        self._changes.append(NameChange(file, None, name, frozenset({_folder(name)})))
        return file

    def _reserve(self, name: str, growth: int) -> None:
        if self.bytes_max >= 0 and self.used_bytes + growth > self.bytes_max:
            raise DiskError(
                ErrorCode.DISK_FULL, f"no room for {growth} more bytes of {name}", "free some space"
            )
        self.used_bytes += growth

    def _settle_names(self, names: dict[str, VirtualFile]) -> None:
        self._names = names
        self._durable_names = dict(names)
        self._changes = []
        self.used_bytes = sum(len(file.cache) for file in names.values())
        self.kill()


def _failed(what: str) -> DiskError:
    return DiskError(ErrorCode.DISK_FAILED, f"{what} failed", "replace the disk")


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _apply(names: dict[str, VirtualFile], change: NameChange) -> None:
    # By file, not by old name: of two renames in a row a crash may keep only the second.
    for name in [name for name, file in names.items() if file is change.file]:
        del names[name]
    if change.new is not None:
        names[change.new] = change.file


def _settle(file: VirtualFile) -> None:
    """Make the whole cache durable."""
    cache, durable = file.cache, file.durable
    size = len(cache)
    if len(durable) > size:
        del durable[size:]
    elif len(durable) < size:
        durable.extend(bytes(size - len(durable)))
    for begin, end in file.dirty:
        durable[begin : min(end, size)] = cache[begin:end]
    file.dirty.clear()


def _keeps(whole: int, jitter: Jitter) -> bool:
    return bool(whole) if whole <= 1 else jitter.draw(0, 2) == 1


def _tear(file: VirtualFile, whole: int, jitter: Jitter) -> None:
    """Apply a power cut: each dirty sector survives or is lost."""
    cache, durable = file.cache, file.durable
    if file.dirty:
        size = len(cache)
        if len(durable) != size and _keeps(whole, jitter):
            if len(durable) > size:
                del durable[size:]
            else:
                durable.extend(bytes(size - len(durable)))
        sectors = {
            sector
            for begin, end in file.dirty
            for sector in range(begin // SECTOR_BYTES, -(-end // SECTOR_BYTES))
        }
        for sector in sorted(sectors):
            begin = sector * SECTOR_BYTES
            end = min(begin + SECTOR_BYTES, size)
            if begin < end and _keeps(whole, jitter):
                if len(durable) < begin:
                    durable.extend(bytes(begin - len(durable)))
                durable[begin:end] = cache[begin:end]
        file.dirty.clear()
    file.cache = bytearray(durable)
