"""A worker's part that starts programs in layers, as a process of its own: for tests that kill it,
or need one of another user. Its first argument says what it does, the second is a directory."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

from rollq.roles.worker.child_processes import ChildProcesses
from rollq.roles.worker.environment import INTERPRETER, clean_environ
from rollq.roles.worker.sandbox.layers import SandboxLevel, SandboxSetup
from rollq.roles.worker.sandbox.sandbox import Place, Sandbox

MODULE = "tests.integration.sandbox_worker"
ROOT = Path(__file__).parents[2]
STRICT = SandboxSetup(SandboxLevel.STRICT)
ENVIRON = [b"PATH=/usr/bin:/bin"]
NEW_MOUNTS = 0x20000
BIND, RECURSIVE, PRIVATE = 4096, 16384, 1 << 18
OTHER_USER = 70_100
PIDS_MAX = 10
# One that wipes its mark, and leaves its group.
HIDES = "env -i setsid sleep 600 & sleep 600"
FORKS = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 9 & done"


def sandbox_in(directory: Path, setup: SandboxSetup, *hidden: Path) -> Sandbox:
    """One whose jobs have the folder `jobs`, and do not see `state`."""
    state, jobs = directory / "state", directory / "jobs"
    for folder in (state, jobs / "1"):
        folder.mkdir(parents=True, exist_ok=True)
    return Sandbox(
        setup,
        clean_environ(os.environ, INTERPRETER),
        hidden=(state, jobs, *hidden),
        closed=(state,),
        run=(),
        through=(),
        name=f"test-{directory.name}",
    )


def start(children: ChildProcesses, directory: Path, script: str) -> int:
    """Start a script in the job's folder; returns its pid."""
    jobs = str(directory / "jobs" / "1")
    fd = os.open(jobs, os.O_RDONLY)
    try:
        argv = [b"/bin/sh", b"-c", script.encode()]
        return children.spawn(argv, (), fd, (0, 1, 1), place=Place((jobs,)))
    finally:
        os.close(fd)


def wait_to_be_killed(directory: Path) -> None:
    """Start something that hides, tell who that is, and wait."""
    sandbox = sandbox_in(directory, STRICT)
    children = ChildProcesses(ENVIRON, sandbox)
    children.open()
    pid = start(children, directory, HIDES)
    print(pid, *sandbox.pids, "groups", *sandbox.groups, flush=True)
    time.sleep(600)


def become_another_user(directory: Path) -> None:
    """Go on as one who is not root. Our Python may lie where only root gets, so it gets another
    place, that nobody else sees."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(code: int) -> None:
        if code:
            raise OSError(ctypes.get_errno(), "not allowed here")

    python = directory / "python"
    python.mkdir()
    for folder in (directory, *directory.iterdir()):
        os.chown(folder, OTHER_USER, OTHER_USER)
    check(libc.unshare(NEW_MOUNTS))
    check(libc.mount(None, b"/", None, ctypes.c_ulong(PRIVATE | RECURSIVE), None))
    source, target = sys.base_prefix.encode(), str(python).encode()
    check(libc.mount(source, target, None, ctypes.c_ulong(BIND | RECURSIVE), None))
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
    program = str(python / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
    environ = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        "LD_LIBRARY_PATH": str(python / "lib"),
    }
    os.execve(program, [program, "-m", MODULE, "attack", str(directory)], environ)


def attack(directory: Path) -> None:
    """Tell the layers, and how attacks end."""
    sandbox = sandbox_in(directory, SandboxSetup(SandboxLevel.STRICT, pids_max=PIDS_MAX))
    children = ChildProcesses(ENVIRON, sandbox)
    children.open()
    print(*sandbox.layers, flush=True)
    secret = directory / "state" / "secret"
    secret.write_text("only for the worker")
    for script in (
        f"cat {secret}",
        f"cat /proc/{os.getpid()}/environ",
        "id -u; echo x > mine",
        FORKS,
    ):
        pid = start(children, directory, script)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        print("ended", os.waitstatus_to_exitcode(children.reap(pid).status), flush=True)
    children.close()


if __name__ == "__main__":
    todo = {"wait": wait_to_be_killed, "other": become_another_user, "attack": attack}
    todo[sys.argv[1]](Path(sys.argv[2]))
