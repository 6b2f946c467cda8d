"""Directories that are used again, and descriptors that are watched: the traps of both."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rollq.base.ids import guid_to_text
from rollq.roles.worker.directories import Directories, Directory, make_empty
from rollq.roles.worker.exits import leave_exits_to_others
from rollq.roles.worker.fd_poller import FdPoller
from rollq.roles.worker.inputs import PAYLOAD, Stamps, place_input
from rollq.roles.worker.outputs import ExecutionEnd

JOB = bytes(range(16))


class AtOnce(Executor):
    """A thread that is never late."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **_more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args))
        return future


class Loop:
    """So much of a loop: it keeps a callback."""

    def __init__(self) -> None:
        self.turn: Callable[[], None] = lambda: None

    def add_reader(self, _fd: int, callback: Callable[[], None]) -> None:
        self.turn = callback

    def remove_reader(self, _fd: int) -> None:
        self.turn = lambda: None


def taken(parent: Path) -> tuple[Directories, Directory]:
    """A directory as a job without inputs gets it."""
    directories = Directories(AtOnce(), str(parent))
    directory = directories.take(JOB)
    directory.remember_empty()
    return directories, directory


def given_back(directories: Directories, directory: Directory) -> ExecutionEnd:
    ending = ExecutionEnd()
    directories.give(directory, {}, ending)
    return ending


def test_one_that_nobody_touched_comes_back_unseen(tmp_path: Path) -> None:
    directories, directory = taken(tmp_path)
    ending = given_back(directories, directory)
    assert (ending.archive, ending.notes) == (None, [])
    assert directories.take(JOB) is directory


@pytest.mark.parametrize("sets_time_back", [False, True])
def test_a_file_is_found_however_fast_it_was_written(tmp_path: Path, sets_time_back: bool) -> None:
    directories, directory = taken(tmp_path)
    for number in range(50):
        then = os.stat(directory.path)
        Path(directory.path, "out").write_text("x")
        if sets_time_back and os.stat(directory.path).st_ctime_ns != then.st_ctime_ns:
            os.utime(directory.path, ns=(then.st_atime_ns, then.st_mtime_ns))
        assert given_back(directories, directory).archive is not None, number
        assert directories.take(JOB) is directory
        assert os.listdir(directory.path) == []
        directory.remember_empty()


def test_inputs_of_an_earlier_job_are_no_outputs_of_the_next(tmp_path: Path) -> None:
    directories, directory = taken(tmp_path)
    ending = ExecutionEnd()
    stamps: Stamps = {}
    place_input(directory.files, PAYLOAD, b"i", stamps)
    directories.give(directory, stamps, ending)
    assert ending.archive is None
    assert directories.take(JOB) is directory
    directory.remember_empty()
    assert given_back(directories, directory).archive is None


@pytest.mark.parametrize("what", ["mode", "nested", "replaced"])
def test_one_that_is_not_as_it_was_is_not_used_again(tmp_path: Path, what: str) -> None:
    directories, directory = taken(tmp_path)
    if what == "mode":
        os.chmod(directory.path, 0o755)
    elif what == "nested":
        os.mkdir(f"{directory.path}/deep")
    else:
        os.rename(directory.path, f"{directory.path}.away")
        os.mkdir(directory.path, 0o700)
    ending = given_back(directories, directory)
    assert bool(ending.notes) is (what == "replaced")
    assert os.path.exists(directory.path) is (what == "replaced")
    assert directories.take(JOB) is not directory


def test_a_descriptor_with_the_number_of_a_closed_one_is_not_taken_for_it() -> None:
    loop = Loop()
    watch = FdPoller(loop)  # type: ignore[arg-type]
    pipes = [os.pipe() for _ in range(2)]
    fresh: list[tuple[int, int]] = []
    called: list[int] = []

    def first_of_both() -> None:
        """Close both, and watch a third pipe: it gets the number of one of them."""
        for reading, writing in pipes:
            watch.close_fd(reading)
            os.close(writing)
        fresh.append(os.pipe())
        watch.add(fresh[0][0], lambda: called.append(fresh[0][0]))

    for reading, writing in pipes:
        watch.add(reading, first_of_both)
        os.write(writing, b"x")
    loop.turn()
    assert fresh[0][0] in [reading for reading, _ in pipes]
    assert called == []
    os.write(fresh[0][1], b"x")
    loop.turn()
    assert called == [fresh[0][0]]
    watch.close_fd(fresh[0][0])
    os.close(fresh[0][1])
    watch.close()
    watch.close()


def test_only_the_thread_that_asked_is_not_woken_by_exits() -> None:
    with ThreadPoolExecutor(1, initializer=leave_exits_to_others) as thread:
        blocked = thread.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    assert signal.SIGCHLD in blocked
    assert signal.SIGCHLD not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


# --- named by their jobs, in a folder that workers share


def test_workers_that_share_a_folder_do_not_share_the_directory_of_a_job(tmp_path: Path) -> None:
    first, second = (
        Directories(AtOnce(), make_empty(f"{tmp_path}/{name}"), by_job=True) for name in "ab"
    )
    job = guid_to_text(JOB)
    mine, theirs, again = first.take(JOB), second.take(JOB), first.take(JOB)
    assert mine.path == f"{tmp_path}/{job}"
    assert theirs.path == f"{tmp_path}/b/{job}-1"
    assert again.path == f"{tmp_path}/a/{job}-2"
    first.discard(mine)
    assert second.take(JOB).path == mine.path


def test_what_a_killed_worker_left_goes_when_it_starts_again_and_that_of_others_stays(
    tmp_path: Path,
) -> None:
    names = f"{tmp_path}/a", f"{tmp_path}/b"
    killed, other = (Directories(AtOnce(), make_empty(name), by_job=True) for name in names)
    left, kept = killed.take(JOB), other.take(bytes(15) + b"\x01")
    other.take(JOB)  # under another name, as the first has it
    Path(left.path, "file").touch()
    make_empty(names[0])
    assert not Path(left.path).exists()
    assert Path(kept.path).exists()
    make_empty(names[1])
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
