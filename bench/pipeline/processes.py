"""`rollq pipeline run` in a process of its own, as people start it: how long it takes, and what all
of its processes use. CPU time says more than time where others work on the same machine."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

LOOK_S: Final = 0.3  # to look costs a hundredth of a core


@dataclass(slots=True)
class ProcessRun:
    """What a run took."""

    took_s: float = 0.0
    java_cpu_s: float = 0.0
    python_cpu_s: float = 0.0
    java_bytes: int = 0  # the most at one time
    python_bytes: int = 0
    stages: list[tuple[str, float]] = field(default_factory=list)  # seconds from the start

    @property
    def cpu_s(self) -> float:
        """Of all processes."""
        return self.java_cpu_s + self.python_cpu_s

    def told(self) -> str:
        """In one line."""
        stages = ", ".join(f"{name} {at_s:.1f}" for name, at_s in self.stages)
        return (
            f"{self.took_s:.1f} s, CPU {self.cpu_s:.1f} s; "
            f"Java {self.java_cpu_s:.1f} s, {self.java_bytes >> 20} MiB; "
            f"Python {self.python_cpu_s:.1f} s, {self.python_bytes >> 20} MiB; {stages}"
        )


def run_pipeline(
    sources: Sequence[Path], tables: Path, master: str, more: Sequence[str] = ()
) -> ProcessRun:
    """Bring tables up to date, from a folder for each group.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-m", "rollq", "pipeline", "run", "--master", master]
    command += ["--path", ";".join(map(str, sources)), "--tables", str(tables), *more]
    if len(sources) > 1:
        command += ["--group", ",".join(f"group{number}" for number in range(len(sources)))]
    made = ProcessRun()
    begun = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        watch = threading.Thread(target=_watch, args=(process, made))
        watch.start()
        said = []
        for line in process.stderr or ():
            said.append(line.strip())
            made.stages.append((line.strip(), time.perf_counter() - begun))
        code = process.wait()
        watch.join()
    made.took_s = time.perf_counter() - begun
    if code:
        raise SystemExit(f"exit code {code}: " + "\n".join(said))
    return made


def _watch(process: subprocess.Popen[str], made: ProcessRun) -> None:
    """Look at all processes until the first has ended: processes of Spark are not waited for, so
    nobody else adds up what they used."""
    java_cpu_s: dict[tuple[int, float], float] = {}
    python_cpu_s: dict[tuple[int, float], float] = {}
    while process.poll() is None:
        java = python = 0
        try:
            first = psutil.Process(process.pid)
            every = [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            break
        for each in every:
            try:
                with each.oneshot():
                    times, its = each.cpu_times(), (each.pid, each.create_time())
                    if each.name() == "java":
                        java_cpu_s[its] = times.user + times.system
                        java += each.memory_info().rss
                    else:
                        python_cpu_s[its] = times.user + times.system
                        python += each.memory_full_info().uss
            except psutil.Error:
                continue
        made.java_bytes = max(made.java_bytes, java)
        made.python_bytes = max(made.python_bytes, python)
        made.java_cpu_s = sum(java_cpu_s.values())
        made.python_cpu_s = sum(python_cpu_s.values())
        time.sleep(LOOK_S)
