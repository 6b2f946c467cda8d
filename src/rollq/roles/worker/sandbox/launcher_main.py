"""The launcher: a small process that starts programs inside the layers of a sandbox.

`posix_spawn` can only set a process group and a directory. So the worker starts this process once,
and sends it a request for every program: it forks, and the fork applies the layers to itself and
executes the program. The program is still a child of the worker (CLONE_PARENT), so that it is
waited for, measured and killed as any other.

With a PID namespace there are two more processes: a fork that makes the namespaces and exits at
once, and an init, which is process 1 of the new namespace. When the init exits, the kernel kills
everything in the namespace. The program is not process 1 itself, as signals do not kill that one.

If a layer cannot be applied, the fork exits before the program is loaded, and reports the layer to
the worker. Run by path with an isolated interpreter: imports nothing of rollq.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import marshal
import os
import resource
import signal
import socket
import stat
import struct
import sys

TYPE_CHECKING = False  # of `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

NEW_MOUNTS = 0x0002_0000
NEW_IPC = 0x0800_0000
NEW_USER = 0x1000_0000
NEW_PIDS = 0x2000_0000
NEW_NET = 0x4000_0000
CLONE_PARENT = 0x8000
CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "ppc64le": 120}

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION_3 = 0x2008_0522
CAPABILITIES_MAX = 64

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
COVER_OPTIONS = "size=64k,nr_inodes=256,mode=0755"

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_PATH_BENEATH = 1
FS_EXECUTE, FS_WRITE_FILE, FS_READ_FILE, FS_READ_DIR = 1, 2, 4, 8
FS_TRUNCATE, FS_IOCTL_DEV = 1 << 14, 1 << 15
FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV
FS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
SCOPED = 3  # abstract sockets and signals

SIOCSIFFLAGS, IFF_UP = 0x8914, 1
RESET_SIGNALS = (
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT),
    *(signal.SIGTERM, signal.SIGCHLD),
)
HEAD = struct.Struct("<I")
FDS = 6  # maximum in a request
FDS_MAX = 65_536
PROBE = b""  # in place of a program: exit when all layers are applied

libc = ctypes.CDLL(None, use_errno=True)


class LayerError(Exception):
    """A layer cannot be applied: its name, errno and cause."""

    def __init__(self, layer: str, number: int, why: str = "") -> None:
        super().__init__(layer)
        self.layer = layer
        self.number = number
        self.why = why


def main() -> None:
    """Serve requests until the worker closes the socket."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    gc.disable()
    os.closerange(3, FDS_MAX)  # descriptors inherited from the worker
    link = socket.socket(fileno=0)
    while request := receive(link):
        wanted, fds = request
        flags = CLONE_PARENT | signal.SIGCHLD
        if fork(flags) == 0:
            start(link, wanted, fds)
        for fd in fds:
            os.close(fd)


def receive(link: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request, with stdin, stdout, stderr, the directory, the pipe for the answer, and the
    program if it is an open file."""
    head, fds, _, _ = socket.recv_fds(link, HEAD.size, FDS)
    for fd in fds:
        os.set_inheritable(fd, False)  # a program inherits only its own three
    while head and len(head) < HEAD.size:
        head += link.recv(HEAD.size - len(head))
    if not head:
        return None
    (length,) = HEAD.unpack(head)
    body = b""
    while len(body) < length:
        more = link.recv(length - len(body))
        if not more:
            return None
        body += more
    return marshal.loads(body), fds


def fork(flags: int) -> int:
    """As `os.fork`, but the new process is a child of our parent. We have one thread, and no
    handlers of forks."""
    number = CLONE_NUMBERS[os.uname().machine]
    pid = libc.syscall(number, ctypes.c_ulong(flags), None, None, None, None)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return int(pid)


def start(link: socket.socket, wanted: dict[str, Any], fds: list[int]) -> None:
    """In a fork: apply the layers and execute the program. Does not return.

    Answers go to the worker through the fifth of `fds`, which is closed once the program is
    loaded: `h PID` for a helper that exits soon, `i PID` for an init, `p PID` for the program,
    `e LAYER ERRNO WHY` for an error; layer `exec` is the program itself.
    """
    answer_fd = fds[4]
    try:
        link.close()
        if wanted["namespaces"]:
            make_namespaces(wanted, answer_fd)
        if not wanted["namespaces"] & NEW_PIDS:
            report(answer_fd, b"p", os.getpid())
        put_on(wanted, fds)
        if wanted["argv"][0] == PROBE:
            os._exit(0)
        path = wanted["argv"][0]
        if wanted["is_open"]:
            path = b"/proc/self/fd/%d" % fds[5]
            os.set_inheritable(fds[5], wanted["is_script"])  # its interpreter reads it there
        try:
            os.execve(path, wanted["argv"], as_environ(wanted["env"]))
        except OSError as error:
            refuse(answer_fd, "exec", error.errno or 0, "")
    except LayerError as error:
        refuse(answer_fd, error.layer, error.number, error.why)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        line = 0 if trace is None else trace.tb_lineno
        refuse(answer_fd, "launcher", 0, f"{error!r} in line {line}")
    finally:
        os._exit(127)


def as_environ(entries: list[bytes]) -> dict[bytes, bytes]:
    """A mapping of NAME=value entries."""
    return dict(entry.split(b"=", 1) for entry in entries)


def report(answer_fd: int, what: bytes, pid: int) -> None:
    """Report a process to the worker."""
    os.write(answer_fd, b"%b %d\n" % (what, pid))


def refuse(answer_fd: int, layer: str, number: int, why: str) -> None:
    """Report an error to the worker."""
    with contextlib.suppress(OSError):
        os.write(answer_fd, f"e {layer} {number} {why}".replace("\n", " ").encode() + b"\n")


def check(layer: str, code: int, why: str = "") -> int:
    """Check the result of a C library call."""
    if code < 0:
        raise LayerError(layer, ctypes.get_errno(), why)
    return code


# --- namespaces


def make_namespaces(wanted: dict[str, Any], answer_fd: int) -> None:
    """Create the namespaces. Returns in the process that becomes the program: this fork, or with a
    PID namespace the second process in it."""
    flags = wanted["namespaces"]
    user = os.geteuid(), os.getegid()
    check("namespaces", libc.unshare(flags), "unshare")
    if flags & NEW_USER:
        # While we are not dumpable these files belong to root, but we have to write them.
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        write_file("namespaces", "/proc/self/setgroups", b"deny")
        write_file("namespaces", "/proc/self/uid_map", b"%d %d 1" % (user[0], user[0]))
        write_file("namespaces", "/proc/self/gid_map", b"%d %d 1" % (user[1], user[1]))
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if flags & NEW_NET:
        raise_loopback()
    if flags & NEW_MOUNTS:
        cover(wanted)
    if not flags & NEW_PIDS:
        return
    # This process stays outside of the PID namespace, so it sees the pids that the worker sees.
    report(answer_fd, b"h", os.getpid())
    init = fork(CLONE_PARENT | signal.SIGCHLD)
    if init == 0:
        be_init()
    report(answer_fd, b"i", init)
    program = fork(CLONE_PARENT | signal.SIGCHLD)
    if program:
        report(answer_fd, b"p", program)
        os._exit(0)


def be_init() -> None:
    """Run as process 1 until the worker kills it or is gone. Orphans are reaped automatically."""
    os.setpgid(0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.closerange(0, FDS_MAX)
    while True:
        signal.pause()


def raise_loopback() -> None:
    """Activate the loopback interface, the only one in the namespace."""
    # A failure does not matter to programs without network.
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def cover(wanted: dict[str, Any]) -> None:
    """Hide the files of others behind empty folders, and keep the job's own visible."""
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    kept = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in wanted["keep"]]
    covered = []
    for path in wanted["hide"]:
        if os.path.isdir(path):
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, COVER_OPTIONS)
            covered.append(path)
        elif os.path.isfile(path):
            mount("/dev/null", path, None, MS_BIND)
    for path, fd in kept:
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{fd}", path, None, MS_BIND)
        os.close(fd)
    for path in covered:
        # In a user namespace inherited mount flags are locked, so all must be named.
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        mount(None, path, None, flags)
    if wanted["shm_bytes"] and os.path.isdir("/dev/shm"):
        options = f"size={wanted['shm_bytes']},mode=1777"
        mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount; raises LayerError."""
    code = libc.mount(
        None if source is None else os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    check("mount-ns", code, f"mount on {target}")


# --- layers of the program itself


def put_on(wanted: dict[str, Any], fds: list[int]) -> None:
    """Apply all layers, in an order in which no layer prevents a later one."""
    os.setsid()  # a group of its own, without the worker's terminal
    for path in wanted["procs"]:
        write_file("cgroup", path, b"0")
    if wanted["namespaces"] & NEW_PIDS and wanted["namespaces"] & NEW_MOUNTS:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for place in range(3):
        os.dup2(fds[place], place)
    if wanted["cwd"] is None:
        os.fchdir(fds[3])
        if wanted["namespaces"] & NEW_MOUNTS and wanted["keep"]:
            os.chdir(wanted["keep"][0])  # the same directory, by its path in the new mounts
    else:
        os.chdir(wanted["cwd"])
    for kind, limit in wanted["rlimits"]:
        lower(kind, limit)
    rules = make_rules(wanted["landlock"]) if wanted["landlock"] else -1
    if wanted["drop_capabilities"]:
        drop_bounding_set()
    if wanted["user"] is not None:
        become(*wanted["user"])
    if wanted["drop_capabilities"]:
        drop_capabilities()
    if wanted["no_new_privs"]:
        check("no-new-privs", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if rules >= 0:
        check("landlock", libc.syscall(LANDLOCK_RESTRICT, rules, 0))
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def write_file(layer: str, path: str, content: bytes) -> None:
    """Write a file; raises LayerError."""
    try:
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, content)
        finally:
            os.close(fd)
    except OSError as error:
        raise LayerError(layer, error.errno or 0, path) from None


def lower(kind: int, limit: int) -> None:
    """Set a resource limit; a lower one stays."""
    _, most = resource.getrlimit(kind)
    # For CPU time the soft limit sends a signal, a second before the hard limit kills.
    hard = limit + 1 if kind == resource.RLIMIT_CPU else limit
    if most != resource.RLIM_INFINITY:
        limit, hard = min(limit, most), min(hard, most)
    try:
        resource.setrlimit(kind, (limit, hard))
    except (OSError, ValueError) as error:
        raise LayerError("rlimits", getattr(error, "errno", 0) or 0, str(error)) from None


def become(user: int, group: int) -> None:
    """Switch to another user irrevocably: all three ids and the groups, then verify it."""
    try:
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    except OSError as error:
        raise LayerError("user", error.errno or 0, f"user {user}") from None
    is_so = os.getresuid() == (user,) * 3 and os.getresgid() == (group,) * 3 and not os.getgroups()
    with contextlib.suppress(OSError):
        os.setresuid(0, 0, 0)
        is_so = False
    if not is_so:
        raise LayerError("user", 0, f"user {user} does not hold")


def drop_bounding_set() -> None:
    """Programs gain no capabilities from now on, not even as root."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(CAPABILITIES_MAX):
        if libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # no more capabilities, or not permitted: then `no-new-privs` covers it


def drop_capabilities() -> None:
    """Drop the present capabilities."""
    head = struct.pack("<Ii", CAPABILITY_VERSION_3, 0)
    check("capabilities", libc.capset(head, bytes(24)))


def make_rules(rules: dict[str, Any]) -> int:
    """A Landlock rule set of the accessible files; returns its descriptor."""
    abi = rules["abi"]
    handled = max(rights for first, rights in FS_BY_ABI.items() if first <= abi)
    shape = struct.pack("<QQQ", handled, 0, SCOPED)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    fd = check("landlock", libc.syscall(LANDLOCK_CREATE, shape[:size], size, 0))
    read = FS_READ_FILE | FS_READ_DIR
    for paths, rights in (
        (rules["write"], handled),
        (rules["run"], read | FS_EXECUTE),
        (rules["read"], read),
        (rules["names"], FS_READ_DIR),
    ):
        for path in paths:
            allow(fd, path, rights & handled)
    return fd


def allow(rules: int, path: str, rights: int) -> None:
    """Allow rights on a path and everything below; a missing path is skipped."""
    try:
        fd = os.open(path, os.O_PATH)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        rights &= FS_OF_FILES
    one = struct.pack("<Qi", rights, fd)
    check("landlock", libc.syscall(LANDLOCK_ADD, rules, LANDLOCK_PATH_BENEATH, one, 0), path)
    os.close(fd)


if __name__ == "__main__":
    main()
    sys.exit(0)
