"""Resources of this host for jobs, found at the start, and their present use.

A container or a service may have less than its host: the limits of this process's control groups
and of those above them count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil

from rollq.base.needs import CPU, MEMORY, Amounts, WorkerLoad, resources_of
from rollq.roles.worker.sandbox.cgroups import CgroupFolders, NoGroupsError, look_for_places

LOAD_MS: Final = 2_000  # between samples
MIB: Final = 1024**2


def capacity(given: Mapping[str, str | float]) -> Amounts:
    """The resources of a worker: CPUs and memory as found, overridden and extended by the given
    ones.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    return resources_of({CPU: found_cpus(), MEMORY: found_memory_bytes(), **given})


def found_cpus() -> float:
    """CPUs that this process may use; at least a thousandth of one."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        count = os.cpu_count() or 1
    shares = [quota / period for quota, period in _quotas() if quota > 0 and period > 0]
    return max(0.001, round(min([count, *shares]), 3))


def found_memory_bytes() -> int:
    """Memory that this process may use, rounded down to MiB."""
    found = min([int(psutil.virtual_memory().total), *_memory_limits()])
    return found - found % MIB if found > MIB else found


class LoadSampler:
    """Samples the load of the host."""

    def __init__(self, memory_total_bytes: int, folder: Path) -> None:
        self._memory_total_bytes = memory_total_bytes
        self._is_bounded = memory_total_bytes < psutil.virtual_memory().total
        self._folder = folder
        self._busy_s, self._all_s = _cpu_times()

    def sample(self, cache_bytes: int) -> WorkerLoad:
        """The present use; of the CPU since the last call. Takes about 0.2 ms."""
        busy_s, all_s = _cpu_times()
        share = (busy_s - self._busy_s) / max(0.01, all_s - self._all_s)
        self._busy_s, self._all_s = busy_s, all_s
        disk_free_bytes = 0
        with contextlib.suppress(OSError):
            disk_free_bytes = psutil.disk_usage(str(self._folder)).free
        return WorkerLoad(
            min(1_000, max(0, round(1_000 * share))),
            self._memory_used_bytes(),
            self._memory_total_bytes,
            cache_bytes,
            disk_free_bytes,
        )

    def _memory_used_bytes(self) -> int:
        if self._is_bounded:
            used = _group_memory_bytes()
            if used is not None:
                return used
        memory = psutil.virtual_memory()
        return int(memory.total - memory.available)


def _cpu_times() -> tuple[float, float]:
    """Busy seconds and total seconds of all CPUs."""
    times = psutil.cpu_times()
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    # Guest time is included in user time.
    all_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return all_s - idle_s, all_s


def _quotas() -> Iterator[tuple[int, int]]:
    """CPU quota and period of the control groups of this process."""
    for places, folder in _folders("cpu"):
        if places.is_v2:
            quota, _, period = _text(folder / "cpu.max").partition(" ")
            yield _number(quota), _number(period)
        else:
            quota_us = _number(_text(folder / "cpu.cfs_quota_us"))
            yield quota_us, _number(_text(folder / "cpu.cfs_period_us"))


def _memory_limits() -> Iterator[int]:
    """Memory limits in bytes of the control groups of this process."""
    for places, folder in _folders("memory"):
        name = "memory.max" if places.is_v2 else "memory.limit_in_bytes"
        limit = _number(_text(folder / name))
        if limit > 0:
            yield limit


def _group_memory_bytes() -> int | None:
    """The memory of our control group, without reclaimable file cache."""
    for places, folder in _folders("memory"):
        used = _number(
            _text(folder / ("memory.current" if places.is_v2 else "memory.usage_in_bytes"))
        )
        name = "inactive_file" if places.is_v2 else "total_inactive_file"
        for line in _text(folder / "memory.stat").splitlines():
            if line.startswith(f"{name} "):
                used -= _number(line.partition(" ")[2])
        return used if used > 0 else None
    return None


def _folders(controller: str) -> Iterator[tuple[CgroupFolders, Path]]:
    """The folders of our control group and those above it, as far as they are visible."""
    try:
        places = look_for_places()
    except NoGroupsError:
        return
    folder = places.folders[controller]
    while (folder / "cgroup.procs").exists():
        yield places, folder
        folder = folder.parent


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _number(text: str) -> int:
    """A number; 0 for `max`, -1 and missing files: no limit."""
    return int(text) if text.isdecimal() else 0
