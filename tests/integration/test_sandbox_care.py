"""Layers that cannot be had: the worker does not start, or gives jobs back. And what is left of
a sandbox when its worker is gone: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import Status
from rollq.roles.worker.child_processes import ChildProcesses
from rollq.roles.worker.sandbox.cgroups import NoGroupsError, look_for_places
from rollq.roles.worker.sandbox.layers import Layer, SandboxSetup
from rollq.roles.worker.sandbox.sandbox import Place
from rollq.roles.worker.sandbox.watch import memory_of
from rollq.security.exec_digests import digest_line
from tests.integration.patience import DEADLINE_S, read_in_time
from tests.integration.sandbox_worker import (
    ENVIRON,
    MODULE,
    OTHER_USER,
    ROOT,
    STRICT,
    sandbox_in,
)
from tests.integration.workers import eventually, is_alive, running, write_program


def groups_can_be_made() -> bool:
    """Whether this process may make groups of the kernel."""
    try:
        return os.access(look_for_places().folders["memory"], os.W_OK)
    except NoGroupsError:
        return False


def test_a_worker_does_not_start_without_a_layer_that_is_required(tmp_path: Path) -> None:
    setup = SandboxSetup(required=("cgroup",), cgroups=False)

    async def story() -> None:
        async with running(tmp_path, sandbox=setup):
            raise AssertionError("it started")

    with pytest.raises(LocalError) as caught:
        asyncio.run(story())
    assert caught.value.code is ErrorCode.NO_SANDBOX
    assert "cgroup cannot be had here: switched off" in str(caught.value)


def test_users_of_jobs_have_to_be_given(directory: Path) -> None:
    sandbox = sandbox_in(directory, SandboxSetup(required=("user",)))
    with pytest.raises(LocalError) as caught:
        sandbox.open()
    assert "--job-users" in str(caught.value)


def test_a_coroutine_function_is_refused_where_layers_are_needed(tmp_path: Path) -> None:
    setup = SandboxSetup(required=("no-new-privs",))

    async def story() -> None:
        apps = ("tests.integration.sample_app",)
        async with running(tmp_path, apps=apps, sandbox=setup):
            raise AssertionError("it started")

    with pytest.raises(LocalError) as caught:
        asyncio.run(story())
    assert "is a coroutine function" in str(caught.value)


def test_a_job_is_given_back_unstarted_if_a_layer_fails(tmp_path: Path) -> None:
    """The launcher is gone, and with it all layers; the next job has a new one."""
    write_program(tmp_path, "work", "echo done\n")
    write_program(tmp_path, "again", "echo done\n")

    async def story() -> None:
        async with running(tmp_path, slots=1, sandbox=STRICT) as (node, member):
            member.assign(1, "work")
            ack, _ = await member.outcome(1)
            assert ack.status == Status.OK
            launcher = min(_launchers(), key=lambda one: one.create_time())
            launcher.kill()
            launcher.wait()
            member.assign(2, "again")
            nack = await member.until(lambda: member.nacks.get((2).to_bytes(16, "big")))
            assert nack.not_started
            assert "launcher" in nack.detail
            member.assign(3, "again")
            ack, result = await member.outcome(3)
            assert (ack.status, result.stdout) == (Status.OK, "done\n")
            assert node.layers

    asyncio.run(story())


def test_a_private_file_among_programs_is_not_read(directory: Path) -> None:
    """By Landlock alone, and by mounts alone, although the folder may be read."""
    private = directory / "key.pem"
    private.write_text("private")
    by_landlock = SandboxSetup(readable=(directory,))
    by_mounts = SandboxSetup(required=("mount-ns",))
    for setup in (by_landlock, by_mounts):
        sandbox = sandbox_in(directory, setup, private)
        children = ChildProcesses(ENVIRON, sandbox)
        children.open()
        try:
            assert set(setup.needed()) <= set(sandbox.layers)
            argv = [b"/bin/sh", b"-c", f'test -n "$(cat {private})"'.encode()]
            pid = children.spawn(argv, (), b"/", (0, 1, 2), place=Place())
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert os.waitstatus_to_exitcode(children.reap(pid).status) == 1
        finally:
            children.close()


def test_programs_that_are_listed_run_from_memory_in_layers(tmp_path: Path) -> None:
    shutil.copy("/bin/echo", tmp_path / "echo")
    write_program(tmp_path, "script", "echo script $1\n")
    shutil.move(tmp_path / "echo", tmp_path / "exec" / "echo")
    lines = [digest_line(tmp_path / "exec" / name, name) for name in ("echo", "script")]
    (tmp_path / "list").write_text("\n".join(lines) + "\n")

    async def story() -> None:
        listed = tmp_path / "list"
        async with running(tmp_path, sandbox=STRICT, exec_digests=listed) as (_, member):
            member.assign(1, "echo", "binary")
            member.assign(2, "script", "text")
            assert (await member.outcome(1))[1].stdout == "binary\n"
            assert (await member.outcome(2))[1].stdout == "script text\n"

    asyncio.run(story())


def _launchers() -> list[psutil.Process]:
    """The launcher of this process and inits, which are forks of it."""
    found = []
    for one in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any("launcher_main" in word for word in one.cmdline()):
                found.append(one)
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="rollq-sandbox-"))
    yield made
    shutil.rmtree(made)


def test_nothing_outlives_a_worker_that_is_killed(directory: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", MODULE, "wait", str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    with read_in_time(worker):
        words = worker.stdout.readline().split()
    at = words.index("groups")
    pids, groups = [int(word) for word in words[:at]], words[at + 1 :]
    family = [*pids, *(one.pid for pid in pids for one in _descendants(pid))]
    worker.kill()
    worker.wait()
    worker.stdout.close()

    async def story() -> None:
        for pid in family:
            await eventually(partial(_is_gone, pid))
        await eventually(lambda: not any(os.path.exists(group) for group in groups))

    asyncio.run(story())
    if groups_can_be_made():
        assert groups


def _is_gone(pid: int) -> bool:
    """Whether it has ended. Other tests made us the one who buries orphans."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return not is_alive(pid)


def _descendants(pid: int) -> list[psutil.Process]:
    """All that it has started, once there is something."""
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        process = psutil.Process(pid)
        is_shell = process.name() == "sh"
        while is_shell and len(process.children(recursive=True)) < 2:
            assert time.monotonic() < deadline_s, "the program did not start its own"
            time.sleep(0.01)
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def test_what_an_earlier_life_left_is_removed_at_the_start(directory: Path) -> None:
    if not groups_can_be_made():
        pytest.skip("this process may not make groups of the kernel")
    first = sandbox_in(directory, STRICT)
    first.open()
    left = [Path(group) / "7" for group in first.groups]
    for folder in left:
        folder.mkdir()
    second = sandbox_in(directory, STRICT)
    second.open()
    assert not any(folder.exists() for folder in left)
    second.close()
    assert not any(os.path.exists(group.parent) for group in left)
    first.close()


def test_a_worker_that_is_not_root_has_layers_too(directory: Path) -> None:
    """By a user namespace. Where tests do not run as root, the others show the same."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "other", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    first, *lines = done.stdout.splitlines()
    if "pid-ns" not in first:
        pytest.skip(f"user namespaces are not allowed here: {done.stderr}")
    assert {"landlock", "mount-ns", "net-ns", "ipc-ns"} <= set(first.split())
    assert "only for the worker" not in done.stdout
    ends = [line for line in lines if line.startswith("ended")]
    assert ends == ["ended 1", "ended 1", "ended 0", "ended 2"]
    assert str(OTHER_USER) in lines
    assert any("Cannot fork" in line for line in lines)


def test_a_limit_of_cpu_time_is_named(directory: Path) -> None:
    sandbox = sandbox_in(directory, SandboxSetup(cpu_s=1))
    children = ChildProcesses(ENVIRON, sandbox)
    children.open()
    try:
        argv = [b"/bin/sh", b"-c", b"while :; do :; done"]
        pid = children.spawn(argv, (), b"/", (0, 2, 2), place=Place())
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        reaped = children.reap(pid)
        assert os.WTERMSIG(reaped.status) == signal.SIGXCPU
        assert reaped.causes == ["killed, limit of 1 s of CPU time exceeded"]
        assert sandbox.has(Layer.RLIMITS)
    finally:
        children.close()


def test_descriptors_of_the_worker_stay_with_it(directory: Path) -> None:
    """A program has its three, and its directory is none of them."""
    sandbox = sandbox_in(directory, STRICT)
    children = ChildProcesses(ENVIRON, sandbox)
    children.open()
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    jobs = directory / "jobs" / "1"
    fd = os.open(jobs, os.O_RDONLY)
    try:
        script = b"cd /proc/self/fd && echo [0-9]*"
        argv = [b"/bin/sh", b"-c", script]
        pid = children.spawn(argv, (), fd, (0, writing, 2), place=Place((str(jobs),)))
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        children.reap(pid)
        told = os.read(reading, 1_000).split()
        assert set(told) <= {b"0", b"1", b"2", b"3"}  # the last is the shell's, of the listing
    finally:
        for one in (fd, reading, writing):
            os.close(one)
        children.close()


def test_memory_that_is_shared_since_a_fork_counts_once() -> None:
    held = bytearray(os.urandom(1024) * 32 * 1024)  # 32 MiB
    reading, writing = os.pipe()
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        pids.append(pid)
    try:
        cheap, exact = memory_of(pids, sys.maxsize), memory_of(pids, 0)
        assert cheap > 4 * len(held)
        assert exact < cheap / 2
    finally:
        os.close(writing)
        os.close(reading)
        for pid in pids:
            os.waitpid(pid, 0)
