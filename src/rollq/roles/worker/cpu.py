"""Samples of the CPU load for the CPU cap."""

from __future__ import annotations

import logging
from typing import Final

import psutil

from rollq.roles.worker.setup import CPU_CAP_OFF
from rollq.roles.worker.signals import CpuBusy, CpuOk

log = logging.getLogger("rollq.worker")

SAMPLE_MS: Final = 250
CALM_SAMPLES: Final = 8  # consecutive samples below the cap before that is logged


class CpuCap:
    """Turns samples of the host's CPU load into events of the machine, on change only.

    Attributes:
        busy: The last sample was above the cap.
    """

    def __init__(self, cap: float) -> None:
        self._cap = cap
        self.busy = False
        self._is_logged = False  # whether the last line said that the cap holds jobs back
        self._calm_count = 0  # samples below the cap in a row
        if cap < CPU_CAP_OFF:
            psutil.cpu_percent(None)  # the first call only sets the start of the first interval

    def sample(self) -> CpuOk | CpuBusy | None:
        """The event for the time since the last call; None: no change."""
        if self._cap >= CPU_CAP_OFF:
            return None
        return self.judge(psutil.cpu_percent(None) / 100)

    def judge(self, load: float) -> CpuOk | CpuBusy | None:
        """Compare a load (0 to 1) with the cap."""
        busy = load > self._cap
        self._log(load, busy=busy)
        if busy is self.busy:
            return None
        self.busy = busy
        return CpuBusy() if busy else CpuOk()

    def _log(self, load: float, *, busy: bool) -> None:
        """One line when jobs begin to be held back, and one when that is over: a load that swings
        around the cap adds no lines."""
        self._calm_count = 0 if busy else self._calm_count + 1
        if busy and not self._is_logged:
            self._is_logged = True
            log.info(
                "CPU at %d %%, above the cap of %d %%: one job at a time",
                round(load * 100),
                round(self._cap * 100),
            )
        elif self._is_logged and self._calm_count >= CALM_SAMPLES:
            self._is_logged = False
            log.info("CPU below the cap: all slots in use")
