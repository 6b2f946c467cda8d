"""The sandbox of a worker: what the system permits, and programs started in their layers.

The worker applies cheap layers that break no program (no new privileges, no core files) to itself,
so that its children inherit them and start as fast as without. All other layers need the launcher.
An active layer applies to every job: a job that cannot get it is not run.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rollq.base.amounts import size_text
from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.worker.sandbox import watch
from rollq.roles.worker.sandbox.box import Box
from rollq.roles.worker.sandbox.cgroups import (
    CgroupLimits,
    NoGroupsError,
    WorkerGroup,
    look_for_places,
)
from rollq.roles.worker.sandbox.launcher import Launcher, NotLayeredError
from rollq.roles.worker.sandbox.launcher_main import (
    CLONE_NUMBERS,
    LANDLOCK_CREATE,
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NET,
    NEW_PIDS,
    NEW_USER,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PROBE,
)
from rollq.roles.worker.sandbox.layers import (
    INHERITED,
    Layer,
    SandboxLevel,
    SandboxSetup,
    choose,
    needs_launcher,
)
from rollq.roles.worker.sandbox.paths import (
    SHARED_MEMORY,
    WRITE,
    PathRules,
    check_passable,
    is_below,
    rules_of_paths,
)
from rollq.roles.worker.spawn import Cwd, ProgramFd

log = logging.getLogger("rollq.worker")

NAMESPACES: Final = {
    Layer.PIDS: NEW_PIDS,
    Layer.MOUNTS: NEW_MOUNTS,
    Layer.IPC: NEW_IPC,
    Layer.NETWORK: NEW_NET,
}
LANDLOCK_VERSION: Final = 1  # the flag that queries the version
SHM_BYTES: Final = 64 * 1024**2  # of shared memory, without a memory limit
NOTHING: Final[dict[str, Any]] = {
    "argv": [PROBE],
    "env": [],
    "namespaces": 0,
    "hide": [],
    "keep": [],
    "shm_bytes": 0,
    "procs": [],
    "rlimits": [],
    "landlock": None,
    "user": None,
    "drop_capabilities": False,
    "no_new_privs": False,
}


class Place(NamedTuple):
    """Where one program runs.

    Attributes:
        folders: Its writable folders; it starts in the first, unless told otherwise.
        reads: Further readable and executable paths.
        user: Its user, from `Sandbox.take_user`.
    """

    folders: Sequence[str] = ()
    reads: Sequence[str] = ()
    user: int = 0


NO_PLACE: Final = Place()


class Sandbox:
    """The layers of one worker's jobs. `open` first; `close` after the last job.

    Args:
        setup: The options.
        environ: The launcher's environment, which jobs may read, as NAME=value.
        hidden: Files and folders that jobs must not see, except for their own in there: the
            worker's state and secrets, the directories of all jobs.
        closed: Folders that users of jobs must not enter.
        run: Folders of programs.
        through: Paths that users of jobs must be able to reach.
        name: Of the worker, for its control groups.

    Attributes:
        layers: The layers of every job.
        groups: Folders of the worker's control groups.
    """

    def __init__(
        self,
        setup: SandboxSetup,
        environ: Sequence[bytes],
        *,
        hidden: Iterable[Path],
        closed: Iterable[Path],
        run: Iterable[Path],
        through: Iterable[Path],
        name: str,
    ) -> None:
        self.setup = setup
        self.layers: tuple[Layer, ...] = ()
        self._environ = environ
        self._hidden = [os.path.realpath(path) for path in hidden]
        self._closed = [os.path.realpath(path) for path in closed]
        self._run = [os.path.realpath(path) for path in run]
        self._through = [os.path.realpath(path) for path in through]
        self._name = name
        self._launcher: Launcher | None = None
        self._group: WorkerGroup | None = None
        self._limits = CgroupLimits(setup.memory_bytes, setup.pids_max, setup.cpus)
        self._namespaces = 0
        self._abi = 0
        self._path_rules: dict[tuple[str, ...], PathRules] = {}  # by the additional paths
        self._boxes: dict[int, Box] = {}  # by the pid of the program
        self._closing: list[Box] = []  # with reaped programs
        first, last = setup.users or (1, 0)
        self._users = list(range(first, last + 1))  # free ones

    @property
    def is_launching(self) -> bool:
        """Whether programs must be started by `launch`."""
        return self._launcher is not None

    @property
    def pids(self) -> list[int]:
        """Child processes that are no programs."""
        inits = [box.init_pid for box in (*self._boxes.values(), *self._closing)]
        return inits if self._launcher is None else [*inits, self._launcher.pid]

    @property
    def groups(self) -> list[str]:
        """For the guard, which removes them after a crash."""
        return [] if self._group is None else [str(one) for one in self._group.folders.values()]

    def has(self, layer: Layer) -> bool:
        """Whether every job has this layer."""
        return layer in self.layers

    # --- probing

    def open(self) -> None:
        """Probe the system, and apply the inherited layers.

        Raises:
            LocalError: NO_SANDBOX: a needed layer is not available.
        """
        wanted = self.setup.wanted()
        refusals: dict[Layer, str] = {}
        if sys.platform != "linux":
            refusals = dict.fromkeys(INHERITED ^ set(Layer), "only Linux has it")
        elif any(layer not in INHERITED and layer is not Layer.RLIMITS for layer in wanted) or (
            needs_launcher(wanted, self.setup)
        ):
            refusals = self._probe(wanted)
        try:
            self.layers = choose(self.setup, refusals)
            if self.has(Layer.USER):
                check_passable(self._through)
                for path in self._closed:
                    os.chmod(path, 0o700)
            if sys.platform == "linux":
                self._finish(refusals)
        except LocalError:
            self.close()
            raise
        missing = "; ".join(f"no {layer}: {why}" for layer, why in refusals.items())
        log.info("layers of jobs: %s%s", ", ".join(self.layers), f"; {missing}" if missing else "")

    def _finish(self, refusals: dict[Layer, str]) -> None:
        """Apply the inherited layers, and check that all others work together."""
        if self.has(Layer.NO_NEW_PRIVS):
            libc = ctypes.CDLL(None)
            libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # only root can read our environment in /proc
        if self.has(Layer.RLIMITS):
            _, most = resource.getrlimit(resource.RLIMIT_CORE)
            resource.setrlimit(resource.RLIMIT_CORE, (0, most))
        if not self.has(Layer.CGROUP) and self._group is not None:
            self._group.close()
            self._group = None
        if not needs_launcher(self.layers, self.setup):
            self._close_launcher()
            return
        try:
            self._try(self._wanted([], []))
        except NotLayeredError as error:
            raise LocalError(
                ErrorCode.NO_SANDBOX,
                f"layers do not go together here: {error.message}",
                f"these do not work here at all: {refusals}" if refusals else "ask for fewer",
            ) from None

    def _probe(self, wanted: list[Layer]) -> dict[Layer, str]:
        """The wanted layers that are not available, with the causes."""
        if os.uname().machine not in CLONE_NUMBERS:
            return dict.fromkeys(INHERITED ^ set(Layer), "not on this kind of processor")
        self._launcher = Launcher(self._environ)
        refusals: dict[Layer, str] = {}
        if Layer.USER in wanted and not self._users:
            refusals[Layer.USER] = "no users were given for it (--job-users)"
        elif Layer.USER in wanted:
            self._note(refusals, Layer.USER, {"user": self._users[:1] * 2})
        if Layer.CAPABILITIES in wanted:
            self._note(refusals, Layer.CAPABILITIES, {"drop_capabilities": True})
        if Layer.LANDLOCK in wanted:
            self._abi = _landlock_abi()
            if self._abi < 1:
                refusals[Layer.LANDLOCK] = "this kernel has no Landlock"
            else:
                wanted_rules = {"landlock": self._rules([], []), "no_new_privs": True}
                self._note(refusals, Layer.LANDLOCK, wanted_rules)
        if Layer.CGROUP in wanted:
            self._probe_group(refusals)
        self._probe_namespaces([one for one in NAMESPACES if one in wanted], refusals)
        return refusals

    def _probe_group(self, refusals: dict[Layer, str]) -> None:
        if not self.setup.cgroups:
            refusals[Layer.CGROUP] = "switched off"
            return
        try:
            self._group = WorkerGroup(look_for_places(), self._name)
            self._group.open(self._limits)
            group = self._group.make(self._limits)
            self._note(refusals, Layer.CGROUP, {"procs": group.procs})
            group.remove()
        except NoGroupsError as error:
            refusals[Layer.CGROUP] = str(error)
        except OSError as error:
            refusals[Layer.CGROUP] = error.strerror or str(error)

    def _probe_namespaces(self, wanted: list[Layer], refusals: dict[Layer, str]) -> None:
        """Find the available namespaces, as root or else in a user namespace; not in one if jobs
        have users of their own, which would not exist in that namespace."""
        if not wanted:
            return
        ways = [NEW_USER] if os.geteuid() else [0] if self._users else [0, NEW_USER]
        for way in ways:
            flags, refused = way, {}
            for layer in wanted:
                self._namespaces = flags | NAMESPACES[layer]
                why = self._why_not(self._wanted([], [], only=True))
                if why:
                    refused[layer] = why
                else:
                    flags = self._namespaces
            self._namespaces = flags if len(refused) < len(wanted) else 0
            if not refused:
                return
        refusals.update(refused)

    def _note(self, refusals: dict[Layer, str], layer: Layer, wanted: dict[str, Any]) -> None:
        why = self._why_not(NOTHING | wanted)
        if why:
            refusals[layer] = why

    def _why_not(self, wanted: dict[str, Any]) -> str:
        try:
            self._try(wanted)
        except (NotLayeredError, OSError) as error:
            return error.message if isinstance(error, NotLayeredError) else str(error)
        return ""

    def _try(self, wanted: dict[str, Any]) -> None:
        """Start a process that exits once its layers are applied."""
        assert self._launcher is not None, "set while probing"
        with open(os.devnull, "r+b") as null:
            launched = self._launcher.launch(wanted, b"/", (null.fileno(),) * 3)
        box = Box(launched.pid, self.setup, launched.init_pid)
        os.waitpid(launched.pid, 0)
        box.kill()
        box.is_gone(wait=True)

    # --- programs

    def launch(
        self,
        argv: Sequence[bytes],
        environ: Sequence[bytes],
        cwd: Cwd,
        stdio: tuple[int, int, int],
        *,
        place: Place,
        program: ProgramFd | None = None,
    ) -> int:
        """Start a program in its layers; returns its pid.

        Args:
            argv: The path of the program, and its arguments.
            environ: Its whole environment, as NAME=value.
            cwd: Its working directory.
            stdio: Its stdin, stdout and stderr.
            place: Its folders and user.
            program: An open file to start instead of the path.

        Raises:
            NotLayeredError: a layer cannot be applied; the program was not started.
            OSError: it cannot be started.
        """
        assert self._launcher is not None, "opened, as a layer needs it"
        group = None
        wanted = self._wanted(place.folders, place.reads)
        wanted |= {"argv": list(argv), "env": list(environ)}
        if self._group is not None:
            try:
                group = self._group.make(self._limits)
            except OSError as error:
                why = f"no group of the kernel can be made: {error.strerror}"
                raise NotLayeredError(ErrorCode.NO_SANDBOX, why) from None
            wanted["procs"] = group.procs
        if place.user:
            wanted["user"] = (place.user, place.user)
        try:
            launched = self._launcher.launch(wanted, cwd, stdio, program)
        except (NotLayeredError, OSError):
            if group is not None:
                group.remove()
            raise
        box = Box(launched.pid, self.setup, launched.init_pid, group, place.user)
        self._boxes[launched.pid] = box
        return launched.pid

    def box_of(self, pid: int) -> Box | None:
        """The layers of a program; None: only inherited ones."""
        return self._boxes.get(pid)

    def reaped(self, pid: int) -> None:
        """A program was reaped: its layers are removed when all its processes are gone."""
        box = self._boxes.pop(pid, None)
        if box is not None:
            self._closing.append(box)
            self.settle()

    def settle(self, *, wait: bool = False) -> None:
        """Remove the layers of reaped programs, as far as all their processes are gone."""
        left = []
        for box in self._closing:
            if not box.is_gone(wait=wait):
                left.append(box)
            elif box.user:
                self._users.append(box.user)
        self._closing = left

    def take_user(self) -> int:
        """A free user for a job; 0 if jobs have no users of their own.

        Raises:
            NotLayeredError: earlier jobs still have processes.
        """
        if not self.has(Layer.USER):
            return 0
        if not self._users:
            self.settle(wait=True)
        if not self._users:
            raise NotLayeredError(ErrorCode.NO_SANDBOX, "no user of its own is free for the job")
        return self._users.pop(0)

    def give_user(self, user: int) -> None:
        """Return the user of a job that was not started."""
        if user:
            self._users.append(user)

    def over_limits(self) -> list[int]:
        """Poll for programs over their limits, unless the kernel enforces these. Their boxes have
        the causes. Called a few times a second."""
        setup = self.setup
        boxes = [box for box in self._boxes.values() if box.group is None and not box.causes]
        if not boxes or not (setup.memory_bytes or setup.pids_max):
            return []
        processes = watch.all_processes()
        for box in boxes:
            pids = watch.family_of((box.pid, box.init_pid), processes)
            count = len(pids) - bool(box.init_pid)
            if 0 < setup.pids_max < count:
                limit = f"limit of {setup.pids_max} processes"
                box.causes.append(f"killed, {limit} exceeded: it had {count}")
            elif setup.memory_bytes:
                used = watch.memory_of(pids, setup.memory_bytes)
                limit = f"memory limit of {size_text(setup.memory_bytes)}"
                if used > setup.memory_bytes:
                    box.causes.append(f"killed, {limit} exceeded: it used {size_text(used)}")
        return [box.pid for box in boxes if box.causes]

    def close(self) -> None:
        """End the launcher, and remove the control groups. Idempotent."""
        self.settle(wait=True)
        self._close_launcher()
        if self._group is not None:
            self._group.close()
            self._group = None

    def _close_launcher(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None

    # --- requests for the launcher

    def _wanted(
        self, folders: Sequence[str], reads: Sequence[str], *, only: bool = False
    ) -> dict[str, Any]:
        """A request without program, group and user. `only`: only namespaces."""
        wanted = dict(NOTHING)
        wanted["namespaces"] = self._namespaces
        if self._namespaces & NEW_MOUNTS:
            wanted["hide"] = self._hidden
            kept = [*folders, *(path for path in (*self._run, *reads) if self._is_hidden(path))]
            wanted["keep"] = [path for path in kept if self._is_hidden(path)]
            wanted["shm_bytes"] = self.setup.memory_bytes or SHM_BYTES
        if only:
            return wanted
        if self._abi and self.has(Layer.LANDLOCK):
            wanted["landlock"] = self._rules(folders, reads)
        wanted["drop_capabilities"] = self.has(Layer.CAPABILITIES)
        wanted["no_new_privs"] = self.setup.mode is not SandboxLevel.OFF
        wanted["rlimits"] = self._rlimits() if self.has(Layer.RLIMITS) else []
        return wanted

    def _is_hidden(self, path: str) -> bool:
        return any(is_below(path, one) for one in self._hidden)

    def _rules(self, folders: Sequence[str], reads: Sequence[str]) -> dict[str, Any]:
        setup = self.setup
        write = [*map(str, setup.writable), *folders]
        if self._namespaces & NEW_MOUNTS:
            write.append(SHARED_MEMORY)
        key = tuple(reads)
        if key not in self._path_rules:  # at most two: of programs and of functions
            readable = map(os.path.realpath, setup.readable)
            self._path_rules[key] = rules_of_paths(key, readable, self._hidden, self._run)
        rules = self._path_rules[key]._asdict()
        return rules | {"abi": self._abi, "write": [*WRITE, *write]}

    def _rlimits(self) -> list[tuple[int, int]]:
        setup = self.setup
        limits = {
            resource.RLIMIT_CPU: setup.cpu_s,
            resource.RLIMIT_NOFILE: setup.open_files,
            resource.RLIMIT_FSIZE: setup.disk_bytes,
        }
        if not self.has(Layer.CGROUP):
            # Not RLIMIT_AS: programs reserve more address space than they use.
            limits[resource.RLIMIT_DATA] = setup.memory_bytes
            if self.has(Layer.USER) or self._namespaces & NEW_USER:
                limits[resource.RLIMIT_NPROC] = setup.pids_max  # counted by user
        given = [(kind, limit) for kind, limit in limits.items() if limit]
        return [(resource.RLIMIT_CORE, 0), *given]


def _landlock_abi() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION))
