"""The layers of a sandbox by name, the worker's options, and the choice of layers.
Pure: what the system permits is passed in.
"""

from __future__ import annotations

import enum
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rollq.base.amounts import size_text
from rollq.base.errors import ErrorCode, LocalError


class Layer(enum.StrEnum):
    """A layer between a job and its host."""

    ENVIRONMENT = "environment"  # without the worker's own variables
    GROUP = "process-group"  # its processes are found and killed with it
    OUTPUT = "output"  # stdout and stderr are bounded
    NO_NEW_PRIVS = "no-new-privs"  # no program gains privileges
    RLIMITS = "rlimits"  # no core files, and the configured limits
    USER = "user"  # a user of its own
    CAPABILITIES = "capabilities"  # no capabilities of root
    PIDS = "pid-ns"  # sees only its own processes
    MOUNTS = "mount-ns"  # directories of other jobs and of the worker are hidden
    IPC = "ipc-ns"  # no shared memory with others
    NETWORK = "net-ns"  # no network
    LANDLOCK = "landlock"  # only listed files can be accessed
    CGROUP = "cgroup"  # limits of memory, processes and CPU for all its processes together
    DISK = "disk"  # disk usage of its directory is measured


class SandboxLevel(enum.StrEnum):
    """Which layers are applied without options for them."""

    OFF = "off"
    BASIC = "basic"
    STRICT = "strict"


ALWAYS: Final = (Layer.ENVIRONMENT, Layer.GROUP, Layer.OUTPUT)
BASIC: Final = (*ALWAYS, Layer.NO_NEW_PRIVS, Layer.RLIMITS)
STRICT: Final = (
    *(*BASIC, Layer.CAPABILITIES, Layer.PIDS, Layer.MOUNTS, Layer.IPC, Layer.NETWORK),
    *(Layer.LANDLOCK, Layer.CGROUP),
)
NAMES: Final = tuple(str(layer) for layer in Layer)
# The worker applies these to itself, and its children inherit them: they need no launcher.
INHERITED: Final = frozenset((*ALWAYS, Layer.NO_NEW_PRIVS, Layer.DISK))
OPEN_FILES_MIN: Final = 16  # with fewer, hardly any program can be loaded
MEMORY_BYTES_MIN: Final = 4 * 1024**2


@dataclass(slots=True, frozen=True)
class SandboxSetup:
    """The sandbox options of a worker. Limits are for each job; 0: none."""

    mode: SandboxLevel = SandboxLevel.BASIC
    required: tuple[str, ...] = ()  # layers without which no job is run
    memory_bytes: int = 0
    pids_max: int = 0
    cpus: float = 0.0  # CPUs: 0.5, 2
    cpu_s: int = 0  # CPU time
    open_files: int = 0
    disk_bytes: int = 0  # of its directory, and of any file
    network: bool | None = None  # None: off in a strict sandbox
    users: tuple[int, int] | None = None  # first and last user id of a range, one for each slot
    cgroups: bool = True  # whether control groups may be used
    readable: tuple[Path, ...] = ()  # readable by jobs, beside the files of programs
    writable: tuple[Path, ...] = ()

    def check(self, slots: int) -> None:
        """Raises LocalError BAD_SETUP for invalid options."""
        first, last = self.users or (1, 1)
        unknown = [name for name in self.required if name not in NAMES]
        for is_bad, what, hint in (
            (bool(unknown), f"no layer is called {', '.join(unknown)}", f"use {' '.join(NAMES)}"),
            (
                0 < self.memory_bytes < MEMORY_BYTES_MIN,
                f"a memory limit of {self.memory_bytes} bytes",
                f"give jobs at least {size_text(MEMORY_BYTES_MIN)}",
            ),
            (
                0 < self.open_files < OPEN_FILES_MIN,
                f"{self.open_files} open files",
                f"give jobs at least {OPEN_FILES_MIN}",
            ),
            (
                min(self.memory_bytes, self.pids_max, self.cpus, self.cpu_s, self.disk_bytes) < 0,
                "a limit below 0",
                "0 is no limit",
            ),
            (
                not 0 < first <= last,
                f"job users {first}-{last}",
                "give a range of otherwise unused user ids: FIRST-LAST",
            ),
            (
                self.users is not None and last - first + 1 < slots,
                f"{last - first + 1} job users for {slots} slots",
                "give at least one user a slot",
            ),
            (
                self.mode is SandboxLevel.OFF and bool(self.asked() or self.required),
                "a sandbox that is off, with layers that are asked for",
                "use --sandbox basic",
            ),
        ):
            if is_bad:
                raise LocalError(ErrorCode.BAD_SETUP, what, hint)

    def asked(self) -> list[Layer]:
        """Layers required by options."""
        limits = self.memory_bytes or self.pids_max or self.cpu_s or self.open_files
        found = {
            Layer.RLIMITS: bool(limits or self.disk_bytes),
            Layer.USER: self.users is not None,
            Layer.NETWORK: self.network is False,
            Layer.CGROUP: bool(self.memory_bytes or self.pids_max or self.cpus),
            Layer.DISK: bool(self.disk_bytes),
            Layer.LANDLOCK: bool(self.readable or self.writable),
        }
        return [layer for layer, is_asked in found.items() if is_asked]

    def wanted(self) -> list[Layer]:
        """Layers to apply where the system permits, in the order of `Layer`."""
        modes = {SandboxLevel.OFF: ALWAYS, SandboxLevel.BASIC: BASIC, SandboxLevel.STRICT: STRICT}
        wanted = {*modes[self.mode], *self.asked(), *map(Layer, self.required)}
        if self.network:
            wanted.discard(Layer.NETWORK)
        return [layer for layer in Layer if layer in wanted]

    def needed(self) -> list[Layer]:
        """Layers without which no job is run: the required ones, and those that nothing else can
        replace."""
        needed = set(map(Layer, self.required))
        if self.users is not None:
            needed.add(Layer.USER)
        if self.network is False:
            needed.add(Layer.NETWORK)
        if self.cpus:
            needed.add(Layer.CGROUP)
        if self.cpu_s or self.open_files:
            needed.add(Layer.RLIMITS)
        if self.readable or self.writable:
            needed.add(Layer.LANDLOCK)
        return [layer for layer in Layer if layer in needed]


def choose(setup: SandboxSetup, refusals: dict[Layer, str]) -> tuple[Layer, ...]:
    """The layers of every job.

    Args:
        setup: The options.
        refusals: Layers that the system does not permit, with the causes.

    Raises:
        LocalError: NO_SANDBOX: a needed layer is not available.
    """
    for layer in setup.needed():
        if layer in refusals:
            raise LocalError(
                ErrorCode.NO_SANDBOX,
                f"the layer {layer} cannot be had here: {refusals[layer]}",
                "run the worker where it can, or do not ask for it",
            )
    return tuple(layer for layer in setup.wanted() if layer not in refusals)


def needs_launcher(layers: Container[Layer], setup: SandboxSetup) -> bool:
    """Whether programs need the launcher, which alone can apply some of these layers."""
    limits = setup.memory_bytes or setup.cpu_s or setup.open_files
    limits = limits or setup.disk_bytes or setup.pids_max
    by_it = [layer for layer in Layer if layer not in INHERITED and layer is not Layer.RLIMITS]
    return bool(limits) or any(layer in layers for layer in by_it)
