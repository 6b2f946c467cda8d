"""CPU time of a case's processes, by role."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.cpu import CpuUse, Meter, Roles

# Uses some CPU itself and in a child that has ended, tells so, and stays.
BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
PROGRAM = (
    BURN.format(0.1)
    + f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN.format(0.2)!r}])\n"
    + "print('done', flush=True)\nsys.stdin.read()\n"
)


class OneServer:
    """A peer with one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def roles(self) -> Roles:
        return {"server": [self._pid], "worker": []}


def test_children_that_have_ended_count_as_upkeep() -> None:
    argv = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"done\n"
        meter = Meter(OneServer(server.pid))
        used = meter.read()
        assert meter.server_mb() > 0
        server.kill()
    assert used.server >= 0.08
    assert used.upkeep >= 0.18
    assert used.client > 0
    assert used.all >= used.server + used.upkeep + used.client - 0.05


def test_a_peer_without_roles_has_a_sum_and_its_client() -> None:
    meter = Meter(object())
    figures = {one.figure for one in meter.read().samples(10, meter.has_roles)}
    assert figures == {"cpu_all_us", "cpu_client_us"}


def test_microseconds_a_job_between_two_readings() -> None:
    used = CpuUse(4.0, 1.0, 0.5, 1.5, 1.0).since(CpuUse(1.0, 0.5, 0.5, 0.5, 0.5))
    told = {one.figure: one.value for one in used.samples(1_000_000, has_roles=True)}
    assert told == pytest.approx(
        {
            "cpu_all_us": 3.0,
            "cpu_server_us": 0.5,
            "cpu_upkeep_us": 0.0,
            "cpu_worker_us": 1.0,
            "cpu_client_us": 0.5,
        }
    )
