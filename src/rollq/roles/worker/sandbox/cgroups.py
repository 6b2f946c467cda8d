"""Control groups that bound memory, processes and CPU of a job: of version 2 or 1, below the group
of the worker, where it has permission to create groups.

A worker has one group, named by its id, and in it one for each program. Leftovers of an earlier run
are killed and removed at the start.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

CONTROLLERS: Final = ("memory", "pids", "cpu")
PERIOD_US: Final = 100_000
OWN_GROUP: Final = "worker"  # for the worker itself, with version 2
MOUNTS: Final = Path("/proc/self/mountinfo")
OWN: Final = Path("/proc/self/cgroup")
REMOVE_TRIES: Final = 100  # killed processes take a moment to exit
REMOVE_PAUSE_S: Final = 0.005


@dataclass(slots=True, frozen=True)
class CgroupFolders:
    """The folders of this process's groups, by controller. `is_v2`: all are the same."""

    folders: dict[str, Path]
    is_v2: bool

    @property
    def name(self) -> str:
        """For log lines."""
        return f"v{2 if self.is_v2 else 1}: {', '.join(self.folders)}"


@dataclass(slots=True, frozen=True)
class CgroupLimits:
    """The limits of one job; 0: none."""

    memory_bytes: int = 0
    pids_max: int = 0
    cpus: float = 0.0


class NoGroupsError(Exception):
    """Control groups cannot be used; says why."""


class WorkerGroup:
    """The control group of a worker. `open` before the first job, `close` after the last."""

    def __init__(self, places: CgroupFolders, name: str) -> None:
        self._places = places
        self._name = name
        self._count = 0
        self.folders: dict[str, Path] = {}  # by controller

    def open(self, limits: CgroupLimits) -> None:
        """Create it without leftovers, and check that a job can have all limits.

        Raises:
            NoGroupsError: it cannot be created.
        """
        try:
            if self._places.is_v2:
                _make_room(self._places.folders["memory"])
            for controller, above in self._places.folders.items():
                folder = above / f"rollq-{self._name}"
                _end_tree(folder)
                folder.mkdir(exist_ok=True)
                self.folders[controller] = folder
                if self._places.is_v2:
                    _hand_down(folder)
                    self.folders = dict.fromkeys(self._places.folders, folder)
                    break
            self.make(limits).remove()
        except OSError as error:
            self.close()
            raise NoGroupsError(f"{error.filename or 'a group'}: {error.strerror}") from None

    def make(self, limits: CgroupLimits) -> JobCgroup:
        """Create the group of one program; raises OSError."""
        self._count += 1
        folders = {name: folder / str(self._count) for name, folder in self.folders.items()}
        group = JobCgroup(folders, self._places.is_v2)
        try:
            group.make(limits)
        except OSError:
            group.remove()
            raise
        return group

    def close(self) -> None:
        """Kill what is left in it, and remove it."""
        for folder in dict.fromkeys(self.folders.values()):
            _end_tree(folder)
        self.folders.clear()


class JobCgroup:
    """The control group of one program, in the hierarchy of every controller."""

    __slots__ = ("_folders", "_is_v2")

    def __init__(self, folders: dict[str, Path], is_v2: bool) -> None:
        self._folders = folders
        self._is_v2 = is_v2

    @property
    def procs(self) -> list[str]:
        """The files through which a process enters the group."""
        return [str(folder / "cgroup.procs") for folder in dict.fromkeys(self._folders.values())]

    def make(self, limits: CgroupLimits) -> None:
        """Create the folders and set the limits; raises OSError."""
        for folder in dict.fromkeys(self._folders.values()):
            folder.mkdir()
        memory, pids, cpu = (self._folders[name] for name in CONTROLLERS)
        if limits.memory_bytes:
            text = str(limits.memory_bytes)
            if self._is_v2:
                _write(memory / "memory.max", text)
                _write_if_there(memory / "memory.swap.max", "0")
                _write_if_there(memory / "memory.oom.group", "1")
            else:
                _write(memory / "memory.limit_in_bytes", text)
                _write_if_there(memory / "memory.memsw.limit_in_bytes", text)
        if limits.pids_max:
            _write(pids / "pids.max", str(limits.pids_max))
        if limits.cpus:
            quota_us = max(1_000, int(limits.cpus * PERIOD_US))
            if self._is_v2:
                _write(cpu / "cpu.max", f"{quota_us} {PERIOD_US}")
            else:
                _write(cpu / "cpu.cfs_period_us", str(PERIOD_US))
                _write(cpu / "cpu.cfs_quota_us", str(quota_us))

    def oom_kills(self) -> int:
        """How many processes the kernel killed for lack of memory."""
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        return _field(self._folders["memory"] / name, "oom_kill")

    def forks_refused(self) -> int:
        """How often the limit of processes refused a new one."""
        return _field(self._folders["pids"] / "pids.events", "max")

    def kill(self) -> None:
        """Kill all its processes."""
        for folder in dict.fromkeys(self._folders.values()):
            _end_processes(folder)

    def remove(self) -> bool:
        """Remove it; false if a process in it has not exited yet."""
        is_gone = True
        for folder in dict.fromkeys(self._folders.values()):
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                is_gone = False
        return is_gone


def find_places(mountinfo: str, own: str) -> CgroupFolders:
    """The groups of this process, from the contents of /proc; pure.

    Raises:
        NoGroupsError: a controller is missing.
    """
    paths: dict[str, str] = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    mounts: dict[str, tuple[str, str]] = {}  # by controller; of version 2 by the empty name
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, at = fields.split(" ")[3:5]
        if kind == "cgroup2":
            mounts.setdefault("", (root, at))
        elif kind == "cgroup":
            for name in options.split(" ")[-1].split(","):
                mounts.setdefault(name, (root, at))
    if all(name in mounts and name in paths for name in CONTROLLERS):
        folders = {name: _folder(*mounts[name], paths[name]) for name in CONTROLLERS}
        return CgroupFolders(folders, False)
    if "" in mounts and "" in paths:
        return CgroupFolders(dict.fromkeys(CONTROLLERS, _folder(*mounts[""], paths[""])), True)
    raise NoGroupsError("no groups of the kernel for memory, pids and cpu are mounted")


def look_for_places() -> CgroupFolders:
    """The groups of this process.

    Raises:
        NoGroupsError: there are none.
    """
    try:
        return find_places(MOUNTS.read_text(), OWN.read_text())
    except OSError as error:
        raise NoGroupsError(f"{error.filename}: {error.strerror}") from None


def _folder(root: str, at: str, path: str) -> Path:
    """The folder of a group, if `root` of the hierarchy is mounted at `at`."""
    below = path.removeprefix(root) if root != "/" else path
    return Path(at) / below.lstrip("/")


def _make_room(folder: Path) -> None:
    """With version 2 a group either has processes or delegates its controllers. If the worker is
    alone in its group, move it into a group below."""
    available = (folder / "cgroup.controllers").read_text().split()
    lacking = [name for name in CONTROLLERS if name not in available]
    if lacking:
        raise OSError(errno.EOPNOTSUPP, f"no controller {', '.join(lacking)}", str(folder))
    try:
        _hand_down(folder)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        pids = (folder / "cgroup.procs").read_text().split()
        ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        if not ours.issuperset(map(int, pids)):
            raise OSError(errno.EBUSY, "others are in this group too", str(folder)) from None
        aside = folder / f"rollq-{OWN_GROUP}"
        aside.mkdir(exist_ok=True)
        for pid in pids:
            _write(aside / "cgroup.procs", pid)
        _hand_down(folder)


def _hand_down(folder: Path) -> None:
    _write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))


def _end_tree(folder: Path) -> None:
    """Kill the processes in a group and below, and remove the groups as far as possible."""
    if not folder.is_dir():
        return
    for below in [one for one in folder.iterdir() if one.is_dir()]:
        _end_tree(below)
    for _ in range(REMOVE_TRIES):
        _end_processes(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(REMOVE_PAUSE_S)


def _end_processes(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for word in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(word), signal.SIGKILL)


def _write(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _write_if_there(path: Path, text: str) -> None:
    """Write to a file of an optional controller."""
    with contextlib.suppress(OSError):
        _write(path, text)


def _field(path: Path, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[0] == name:
                return int(words[1])
    return 0
