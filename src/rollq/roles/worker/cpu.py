"""Whether the machine is busy, a few times a second."""

from __future__ import annotations

from typing import Final

import psutil  # type: ignore[import-untyped]

from rollq.roles.worker.setup import CPU_CAP_OFF
from rollq.roles.worker.signals import CpuBusy, CpuOk

SAMPLE_MS: Final = 250


class CpuCap:
    """Turns samples of the whole computer's CPU into the machine's events, on change only.

    Attributes:
        busy: What the last sample said.
    """

    def __init__(self, cap: float) -> None:
        self._cap = cap
        self.busy = False
        if cap < CPU_CAP_OFF:
            psutil.cpu_percent(None)  # the first call only sets the start of the first interval

    def sample(self) -> CpuOk | CpuBusy | None:
        """What the time since the last call says; None: nothing new."""
        if self._cap >= CPU_CAP_OFF:
            return None
        return self.judge(psutil.cpu_percent(None) / 100)

    def judge(self, load: float) -> CpuOk | CpuBusy | None:
        """Compare a load (0 to 1) with the cap."""
        busy = load > self._cap
        if busy is self.busy:
            return None
        self.busy = busy
        return CpuBusy() if busy else CpuOk()
