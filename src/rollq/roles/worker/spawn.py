"""Starting a program: one call of the C library, because it is most of the cost of a short job.

`posix_spawn` shares our memory until the program is loaded, so its cost does not grow with the
worker; it sets process group and directory without a launcher. It makes no session: Linux schedules
sessions as groups, and creating one for every program costs a third of the speed. Python's own
binding cannot set the directory, hence ctypes. If the C library cannot either, `subprocess` is
used, which is slower.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

SETPGROUP: Final = 0x02  # group 0: a new one
SETSIGDEF: Final = 0x04
SETSIGMASK: Final = 0x08
# The opaque structs of the C library are smaller than these on all known Linux systems.
ACTIONS_BYTES: Final = 512
ATTRIBUTES_BYTES: Final = 1_024
SIGNALS_BYTES: Final = 128
ACTIONS_KEPT_MAX: Final = 256
EXTRA_ENV_MAX: Final = 8
# Python ignores some of them, and shells ignore others for background processes; programs expect
# the defaults.
RESET_SIGNALS: Final = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
)

# A directory by path, or an open one, whose path does not matter.
Cwd: TypeAlias = bytes | int


class ProgramFd(NamedTuple):
    """A program as an open file."""

    fd: int
    is_read: bool = False  # a script, which its interpreter reads through the same descriptor


class Spawner:
    """Starts programs with one common environment and a few variables for each. Variables of a job
    make a start slower, as the environment is built anew."""

    def __init__(self, environ: Sequence[bytes]) -> None:
        self._environ = tuple(environ)
        # Built once: only the entries after the common environment change between programs.
        self._envp = (ctypes.c_char_p * (len(self._environ) + EXTRA_ENV_MAX + 1))(*self._environ)
        self._libc = _load_libc()
        self._attributes = None if self._libc is None else _make_attributes(self._libc)
        self._actions: dict[tuple[Cwd, tuple[int, int, int], int], Any] = {}
        self._pid = ctypes.c_int()
        self._pid_place = ctypes.byref(self._pid)

    def spawn(
        self,
        argv: Sequence[bytes],
        extra_env: Sequence[bytes],
        cwd: Cwd,
        stdio: tuple[int, int, int],
        own: Mapping[str, str] | None = None,
        *,
        program: ProgramFd | None = None,
    ) -> int:
        """Start a program in a process group of its own; returns its pid.

        Args:
            argv: Its path and arguments.
            extra_env: At most EXTRA_ENV_MAX additional variables.
            cwd: Its working directory.
            stdio: Its stdin, stdout and stderr.
            own: Variables with precedence over all others; any number.
            program: An open file to start instead of the path.

        Raises:
            OSError: it could not be started.
        """
        every = merged((*self._environ, *extra_env), own) if own else None
        if self._libc is None:
            assert program is None, "needs executable memory, so Linux"
            environ = every or (*self._environ, *extra_env)
            return _spawn_by_subprocess(argv, environ, cwd, stdio)
        if every is None:
            envp = self._envp
            place = len(self._environ)
            for entry in extra_env:
                envp[place] = entry
                place += 1
            envp[place] = None
        else:
            envp = (ctypes.c_char_p * (len(every) + 1))(*every, None)
        kept = program.fd if program is not None and program.is_read else -1
        actions = self._actions.get((cwd, stdio, kept)) or self._make_actions(cwd, stdio, kept)
        code = self._libc.posix_spawn(
            self._pid_place,
            argv[0] if program is None else b"/proc/self/fd/%d" % program.fd,
            actions,
            self._attributes,
            (ctypes.c_char_p * (len(argv) + 1))(*argv, None),
            envp,
        )
        _check(code, argv[0])
        return self._pid.value

    def _make_actions(self, cwd: Cwd, stdio: tuple[int, int, int], kept: int) -> Any:
        """The actions in the new process; cached, as directories and descriptors recur."""
        libc = self._libc
        if len(self._actions) >= ACTIONS_KEPT_MAX:
            oldest = self._actions.pop(next(iter(self._actions)))
            libc.posix_spawn_file_actions_destroy(oldest)
        actions = ctypes.create_string_buffer(ACTIONS_BYTES)
        _check(libc.posix_spawn_file_actions_init(actions), b"")
        if isinstance(cwd, int):
            _check(libc.posix_spawn_file_actions_addfchdir_np(actions, cwd), b"")
        else:
            _check(libc.posix_spawn_file_actions_addchdir_np(actions, cwd), cwd)
        for place, fd in enumerate(stdio):
            _check(libc.posix_spawn_file_actions_adddup2(actions, fd, place), b"")
        if kept >= 0:  # duplicated onto itself: stays open
            _check(libc.posix_spawn_file_actions_adddup2(actions, kept, kept), b"")
        self._actions[cwd, stdio, kept] = actions
        return actions


def environ_bytes() -> list[bytes]:
    """Our own environment as NAME=value."""
    return [b"%b=%b" % pair for pair in os.environb.items()]


def merged(environ: Sequence[bytes], own: Mapping[str, str]) -> list[bytes]:
    """Both merged; `own` has precedence. Each name once, as programs differ on duplicates."""
    names = {os.fsencode(name) for name in own}
    kept = [entry for entry in environ if entry.partition(b"=")[0] not in names]
    return [*kept, *(f"{name}={value}".encode() for name, value in own.items())]


def _load_libc() -> Any:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "posix_spawn_file_actions_addfchdir_np"):
        return None
    libc.posix_spawn_file_actions_addfchdir_np.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.posix_spawn_file_actions_addchdir_np.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    libc.posix_spawn_file_actions_adddup2.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    libc.posix_spawnattr_setflags.argtypes = [ctypes.c_char_p, ctypes.c_short]
    return libc


def _make_attributes(libc: Any) -> Any:
    attributes = ctypes.create_string_buffer(ATTRIBUTES_BYTES)
    _check(libc.posix_spawnattr_init(attributes), b"")
    none = ctypes.create_string_buffer(SIGNALS_BYTES)
    reset = ctypes.create_string_buffer(SIGNALS_BYTES)
    libc.sigemptyset(none)
    libc.sigemptyset(reset)
    for number in RESET_SIGNALS:
        libc.sigaddset(reset, int(number))
    _check(libc.posix_spawnattr_setsigmask(attributes, none), b"")
    _check(libc.posix_spawnattr_setsigdefault(attributes, reset), b"")
    _check(libc.posix_spawnattr_setflags(attributes, SETPGROUP | SETSIGDEF | SETSIGMASK), b"")
    return attributes


def _check(code: int, path: bytes) -> None:
    if code:
        raise OSError(code, os.strerror(code), os.fsdecode(path))


def _spawn_by_subprocess(
    argv: Sequence[bytes], environ: Sequence[bytes], cwd: Cwd, stdio: tuple[int, int, int]
) -> int:
    env = dict(entry.split(b"=", 1) for entry in environ)
    process = subprocess.Popen(  # waited for by its pid
        list(argv),
        cwd=b"/dev/fd/%d" % cwd if isinstance(cwd, int) else cwd,
        env=env,
        stdin=stdio[0],
        stdout=stdio[1],
        stderr=stdio[2],
        process_group=0,
    )
    process.returncode = 0  # keeps its destructor from waiting for the pid
    return process.pid
