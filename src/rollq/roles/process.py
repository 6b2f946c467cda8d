"""Metrics of the process from the operating system."""

from __future__ import annotations

import platform
from importlib.metadata import version

import psutil

from rollq.base.counters import GAUGE, Family, Sample, counter, gauge

_PROCESS = psutil.Process()
_BUILD = (version("rollq"), platform.python_version())


def process_families() -> list[Family]:
    """Memory, CPU, descriptors and threads, under their conventional names; and build info."""
    with _PROCESS.oneshot():
        times = _PROCESS.cpu_times()
        memory = _PROCESS.memory_info()
        return [
            gauge("process_resident_memory_bytes", memory.rss),
            gauge("process_virtual_memory_bytes", memory.vms),
            counter("process_cpu_seconds_total", times.user + times.system),
            gauge("process_open_fds", _PROCESS.num_fds()),
            gauge("process_threads", _PROCESS.num_threads()),
            gauge("process_start_time_seconds", _PROCESS.create_time()),
            Family("rollq_build_info", GAUGE, ("version", "python"), [Sample(_BUILD, 1)]),
        ]
