"""Programs under a real worker: what they get, what comes back, and that all of them end."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import signal
import subprocess
import zipfile
from functools import partial
from pathlib import Path

import psutil
import pytest

from rollq.base.jobs import JobOptions, Status
from rollq.base.limits import ARCHIVE_RAW_BYTES_MAX, INLINE_BYTES_MAX, STREAM_BYTES_MAX
from rollq.roles.worker import spawn
from rollq.roles.worker.child_processes import LEFT_SWEEPS
from rollq.wire import messages as wire
from rollq.wire.models import InputFile, encode_model, job_request
from tests.integration.fake_member import job_id
from tests.integration.workers import (
    eventually,
    is_alive,
    job_directories,
    lines_of,
    running,
    write_program,
)


def test_a_program_gets_its_inputs_and_gives_its_outputs(tmp_path: Path) -> None:
    write_program(
        tmp_path,
        "calc",
        'cat in/a.txt; echo "$# $2" >&2; mkdir -p deep; echo new > deep/b; echo more >> in/a.txt;'
        "ln -s /etc/passwd link; echo $ROLLQ_ATTEMPT; exit 3\n",
    )

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "calc", "x", "y z", files={"in/a.txt": b"first\n", "same": b"s"})
            ack, result = await member.outcome(1)
            assert (ack.status, ack.exit_code, ack.signal) == (Status.FAILED, 3, 0)
            assert (result.status, result.exit_code) == ("FAILED", 3)
            assert result.stdout == "first\n1\n"
            assert result.stderr == "2 y z\n"
            assert result.client_id == "tester"
            assert "link" in str(result.note)
            with zipfile.ZipFile(io.BytesIO(result.output_archive or b"")) as archive:
                assert archive.namelist() == ["deep/b", "in/a.txt"]
                assert archive.read("in/a.txt") == b"first\nmore\n"
            await eventually(lambda: not job_directories(tmp_path))

    asyncio.run(story())


def test_an_opaque_body_is_a_file_and_stdin(tmp_path: Path) -> None:
    write_program(tmp_path, "eat", "cat; cat payload\n")

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "eat", body=b"\xff bytes ")
            ack, result = await member.outcome(1)
            assert ack.status == Status.OK
            assert result.stdout == "\ufffd bytes " * 2
            assert result.output_archive is None

    asyncio.run(story())


def test_without_blobs_much_output_is_cut_and_says_so(tmp_path: Path) -> None:
    write_program(
        tmp_path, "loud", "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678; i=$((i+1));done"
    )
    write_program(tmp_path, "big", f"head -c {ARCHIVE_RAW_BYTES_MAX + 1} /dev/zero > out\n")
    write_program(tmp_path, "noise", "head -c 60000 /dev/urandom > out; echo done\n")
    write_program(tmp_path, "bells", "head -c 100000 /dev/zero | tr '\\0' '\\7'\n")

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            for number, name in enumerate(("loud", "big", "noise", "bells"), 1):
                member.assign(number, name, fence=0)
            _, loud = await member.outcome(1)
            assert loud.stdout == ("0123456789012345678\n" * 3_000)[-STREAM_BYTES_MAX:]
            assert loud.stdout_size == 60_000
            assert loud.note == f"stdout: the last {STREAM_BYTES_MAX} of 60000 bytes"
            for number, note in ((2, "too large"), (3, "too large"), (4, "cut to fit")):
                ack, result = await member.outcome(number)
                assert ack.status == Status.OK
                assert len(ack.result) <= INLINE_BYTES_MAX
                assert result.output_archive is None
                assert note in str(result.note)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"../x": b""}, "is . or .."),
        ({"/etc/x": b""}, "is absolute"),
        ({"a\\b": b""}, "backslash"),
        ({"a": b"", "a/b": b""}, "which is a file"),
        ({"A": b"", "a": b""}, "only in case"),
    ],
)
def test_bad_inputs_fail_the_job_and_leave_nothing(
    tmp_path: Path, files: dict[str, bytes], why: str
) -> None:
    write_program(tmp_path, "calc", "echo never\n")

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "calc", files=files)
            ack, result = await member.outcome(1)
            assert (ack.status, ack.exit_code, result.stdout) == (Status.FAILED, 126, "")
            assert why in str(result.stderr)
            assert not job_directories(tmp_path)

    asyncio.run(story())


def test_what_cannot_be_run_here_is_given_back(tmp_path: Path) -> None:
    write_program(tmp_path, "broken", "")
    (tmp_path / "exec" / "broken").write_text("no interpreter\n")
    cached = job_request(job_id(4), "t", "broken", files=(InputFile("a", "cache-1", None),))

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            for number, name in ((1, "absent"), (2, "../exec/broken"), (3, "broken")):
                one = member.assign(number, name)
                nack = await member.until(partial(member.nacks.get, one))
                assert "no_program" in nack.detail
            assert "#!" in nack.detail
            one = member.assign(4, "broken", body=encode_model(cached))
            nack = await member.until(partial(member.nacks.get, one))
            assert "unknown_cache" in nack.detail
            assert not job_directories(tmp_path)

    asyncio.run(story())


def test_a_start_that_lacks_descriptors_keeps_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path, "quick", "")
    pipe = os.pipe
    calls: list[None] = []

    def fails_each_second_time() -> tuple[int, int]:
        calls.append(None)
        if len(calls) % 2 == 0:
            raise OSError(errno.EMFILE, "too many open files")
        return pipe()

    def open_count() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "quick")
            await member.outcome(1)
            before = open_count()
            monkeypatch.setattr(os, "pipe", fails_each_second_time)
            for number in (2, 3, 4):
                member.assign(number, "quick")
                nack = await member.until(partial(member.nacks.get, job_id(number)))
                assert "too many open files" in nack.detail.lower()
            monkeypatch.undo()
            assert open_count() <= before

    asyncio.run(story())


def test_a_script_whose_interpreter_is_missing_is_told_as_such(tmp_path: Path) -> None:
    write_program(tmp_path, "script", "")
    (tmp_path / "exec" / "script").write_text("#!/no/such/shell -e\n")

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            one = member.assign(1, "script")
            nack = await member.until(partial(member.nacks.get, one))
            assert "its first line asks for '/no/such/shell'" in nack.detail

    asyncio.run(story())


STUBBORN = (
    "trap '' TERM; (setsid sh -c 'echo $$; exec sleep 600' >>$1 &);"
    "sleep 600 & echo $! >>$1; wait; wait"
)


@pytest.mark.parametrize("by", ["cancel", "limit", "stop", "newer attempt"])
def test_the_whole_tree_ends(tmp_path: Path, by: str) -> None:
    write_program(tmp_path, "tree", STUBBORN)
    pids = tmp_path / "pids"
    # Before the soft limit the program must have had the time to ignore SIGTERM.
    options = JobOptions(run_ms_soft=3_000, run_ms_max=3_200) if by == "limit" else None

    async def story() -> None:
        async with running(tmp_path) as (node, member):
            member.assign(1, "tree", str(pids), options=options)
            found = [int(line) for line in await eventually(lambda: lines_of(pids, 2))]
            if by == "cancel":
                member.send(wire.StopJob(job_id(1), 1, 1))
            elif by == "stop":
                await node.stop()
            elif by == "newer attempt":
                write_program(tmp_path, "quick", "echo 2nd\n")
                member.send(wire.AssignJob(job_id(1), 2, 9, 30_000, "q", "quick", b""))
            if by != "stop":
                ack, result = await member.outcome(1)
                if by == "newer attempt":
                    assert (ack.attempt, result.stdout) == (2, "2nd\n")
                else:
                    assert ack.signal == signal.SIGKILL
                    wanted = Status.CANCELLED if by == "cancel" else Status.FAILED
                    assert ack.status == wanted
                if by == "limit":
                    assert "killed, run limit of 3.2 s exceeded" in str(result.note)
            await eventually(lambda: not any(map(is_alive, found)))

    asyncio.run(story())


def test_a_daemon_does_not_outlive_its_job(tmp_path: Path) -> None:
    write_program(tmp_path, "daemon", "(setsid sh -c 'echo $$; exec sleep 600' >$1 &); sleep 0.3\n")
    pids = tmp_path / "pids"

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "daemon", str(pids))
            ack, _ = await member.outcome(1)
            assert ack.status == Status.OK
            (pid,) = [int(line) for line in await eventually(lambda: lines_of(pids))]
            await eventually(lambda: not is_alive(pid))

    asyncio.run(story())


def test_a_process_of_a_function_is_left_for_it_to_wait_for(tmp_path: Path) -> None:
    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=True)

    async def story() -> None:
        async with running(tmp_path) as (node, _):
            process = begin()
            status = psutil.Process(process.pid).status
            await eventually(lambda: status() == psutil.STATUS_ZOMBIE)
            node._executor._children.sweep()
            assert process.wait() == 3
            left = begin()
            status = psutil.Process(left.pid).status
            await eventually(lambda: status() == psutil.STATUS_ZOMBIE)
            for _ in range(LEFT_SWEEPS + 1):
                node._executor._children.sweep()
            assert not psutil.pid_exists(left.pid)
            left.wait()

    asyncio.run(story())


def test_a_soft_limit_lets_a_program_clean_up(tmp_path: Path) -> None:
    write_program(tmp_path, "polite", "trap 'echo bye; exit 0' TERM; echo up; sleep 600 & wait\n")

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "polite", options=JobOptions(run_ms_soft=700, run_ms_max=20_000))
            ack, result = await member.outcome(1)
            assert (ack.status, ack.exit_code, ack.signal) == (Status.FAILED, 0, 0)
            assert str(result.stdout).endswith("bye\n")
            assert "told to end, soft run limit of 0.7 s exceeded" in str(result.note)

    asyncio.run(story())


def test_the_slow_roads_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the C library's spawn and without pidfds: other systems."""
    monkeypatch.setattr(spawn, "_load_libc", lambda: None)
    monkeypatch.delattr("os.pidfd_open")
    write_program(tmp_path, "calc", "pwd; echo $ROLLQ_ATTEMPT; kill -9 $$\n")

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "calc")
            member.assign(2, "absent")
            ack, result = await member.outcome(1)
            assert (ack.exit_code, ack.signal) == (128 + signal.SIGKILL, signal.SIGKILL)
            where, attempt = str(result.stdout).splitlines()
            assert where.startswith(str(tmp_path / "jobs"))
            assert attempt == "1"
            await member.until(lambda: member.nacks)

    asyncio.run(story())


def test_signals_are_as_programs_expect_them(tmp_path: Path) -> None:
    write_program(tmp_path, "mask", "grep -E 'SigBlk|SigIgn' /proc/self/status\n")

    async def story() -> None:
        async with running(tmp_path) as (_, member):
            member.assign(1, "mask")
            _, result = await member.outcome(1)
            masks = [int(line.split()[1], 16) for line in str(result.stdout).splitlines()]
            own = 0b11 << 31  # 32 and 33 belong to the C library, which ignores them
            assert [mask & ~own for mask in masks] == [0, 0]

    # As if the worker had been started in the background, or to outlive a terminal.
    ignored = (signal.SIGHUP, signal.SIGQUIT)
    before = [signal.signal(number, signal.SIG_IGN) for number in ignored]
    try:
        asyncio.run(story())
    finally:
        for number, handler in zip(ignored, before, strict=True):
            signal.signal(number, handler)
