"""Access below a directory: no step follows a link, and removal takes all and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import REMOVAL_DEPTH_MAX
from rollq.store import safe_dir
from rollq.store.safe_dir import SafeDir

NOBODY = 65_534


@pytest.fixture(name="job")
def _job(tmp_path: Path) -> Path:
    """A job's directory, with something precious beside it."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"precious")
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def is_untouched(job: Path) -> bool:
    precious = job.parent / "precious"
    return os.listdir(precious) == ["file"] and (precious / "file").read_bytes() == b"precious"


def remove(job: Path) -> None:
    with SafeDir(str(job.parent)) as parent:
        parent.remove(job.name)


def test_files_are_created_once_with_their_folders(job: Path) -> None:
    with SafeDir(str(job)) as directory:
        os.close(directory.open_new(("a", "b", "c"), 0o755))
        assert os.access(job / "a/b/c", os.X_OK)
        os.close(directory.open_new(("a", "b", "d")))
        directory.make_folders(("a", "b", "e"))
        directory.make_folders(("a", "b", "e"))
        assert (job / "a/b/e").is_dir()
        for parts in (("a", "b", "c"), ("a", "b", "c", "x"), ("a", "b", "e")):
            with pytest.raises(RemoteError, match="/".join(parts)) as caught:
                directory.open_new(parts)
            assert caught.value.code is ErrorCode.BAD_PAYLOAD
        with pytest.raises(RemoteError):
            directory.make_folders(("a", "b", "c"))
    directory.close()


STEPS: list[Callable[[SafeDir, str], object]] = [
    lambda directory, _: directory.open_new(("link", "new")),
    lambda directory, _: directory.open_new(("link", "file")),
    lambda directory, _: directory.open_new(("dangling",)),
    lambda directory, _: directory.make_folders(("link", "new")),
    lambda directory, _: directory.make_folders(("link",)),
    lambda directory, _: directory.replace(("link", "file"), b"other"),
    lambda directory, source: directory.link(("link", "new"), source),
    lambda directory, _: directory.open_read(("link", "file")),
    lambda directory, _: directory.open_read(("to_file",)),
    lambda directory, _: directory.open_read(("deep", "link", "file")),
]


@pytest.mark.parametrize("step", STEPS)
def test_no_step_follows_a_link(job: Path, step: Callable[[SafeDir, str], object]) -> None:
    precious = job.parent / "precious"
    (job / "link").symlink_to(precious)
    (job / "to_file").symlink_to(precious / "file")
    (job / "dangling").symlink_to(precious / "new")
    (job / "deep").mkdir()
    (job / "deep" / "link").symlink_to(precious)
    (job / "own").touch()
    with SafeDir(str(job)) as directory, pytest.raises((RemoteError, OSError)):
        step(directory, str(job / "own"))
    assert is_untouched(job)


def test_a_folder_that_became_a_link_is_not_entered(job: Path) -> None:
    (job / "sub").mkdir()
    with SafeDir(str(job)) as directory, SafeDir("sub", directory) as sub:
        os.rename(job / "sub", job / "moved")
        (job / "sub").symlink_to(job.parent / "precious")
        os.close(sub.open_new(("lands",)))
        with pytest.raises(OSError, match="directory"):
            SafeDir("sub", directory)
    assert (job / "moved" / "lands").exists()
    assert is_untouched(job)


def test_a_file_is_replaced_whole_and_a_link_by_itself(job: Path) -> None:
    (job / "link").symlink_to(job.parent / "precious" / "file")
    (job / "old").write_bytes(b"old")
    (job / "folder").mkdir()
    with SafeDir(str(job)) as directory:
        for name in ("link", "old", "new"):
            directory.replace((name,), b"new", 0o755)
            assert not (job / name).is_symlink()
            assert (job / name).read_bytes() == b"new"
        with pytest.raises(IsADirectoryError):
            directory.replace(("folder",), b"")
    assert sorted(os.listdir(job)) == ["folder", "link", "new", "old"]
    assert is_untouched(job)


def test_a_file_of_ours_is_linked_or_copied(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = job.parent / "precious" / "file"
    with SafeDir(str(job)) as directory, open(source, "rb") as file:
        assert directory.link(("d", "linked"), str(source))
        assert os.path.samefile(job / "d/linked", source)
        with pytest.raises(RemoteError, match="d/linked"):
            directory.link(("d", "linked"), str(source))
        directory.copy(("d", "copied"), file.fileno(), 0o755)
        monkeypatch.setattr(safe_dir, "COPY_BYTES", 3)
        monkeypatch.setattr(os, "copy_file_range", _cannot)
        directory.copy(("d", "by hand"), file.fileno())
        monkeypatch.setattr(os, "link", _cannot)
        assert not directory.link(("d", "other"), str(source))
    assert (job / "d/copied").read_bytes() == (job / "d/by hand").read_bytes() == b"precious"
    assert os.access(job / "d/copied", os.X_OK)
    assert not os.path.samefile(job / "d/copied", source)


def _cannot(*_args: object, **_more: object) -> int:
    raise OSError(18, "Invalid cross-device link")


def test_removal_of_what_is_not_there_or_no_folder(job: Path) -> None:
    (job / "file").touch()
    (job / "link").symlink_to(job.parent / "precious")
    os.mkfifo(job / "fifo")
    (job / "empty").mkdir()
    with SafeDir(str(job)) as directory:
        for name in ("file", "link", "fifo", "empty", "absent"):
            directory.remove(name)
    assert os.listdir(job) == []
    assert is_untouched(job)


def test_removal_follows_no_link(job: Path) -> None:
    (job / "a" / "b").mkdir(parents=True)
    for place in (job, job / "a", job / "a" / "b"):
        (place / "link").symlink_to(job.parent / "precious")
        (place / "up").symlink_to("..")
        (place / "loop").symlink_to("loop")
        os.link(job.parent / "precious" / "file", place / "hard")
    remove(job)
    assert not job.exists()
    assert is_untouched(job)


def make_deep(top: Path, levels: int) -> None:
    """Folders in folders, in some a file and a link: no path leads to the last of them."""
    fd = os.open(top, os.O_RDONLY)
    for level in range(levels):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
        if level % 31 == 0:
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
            os.symlink(top.parent / "precious", "l", dir_fd=fd)
    os.close(fd)


@pytest.mark.parametrize("levels", [REMOVAL_DEPTH_MAX - 1, REMOVAL_DEPTH_MAX, 10_000])
def test_removal_of_a_deep_tree_needs_few_descriptors(job: Path, levels: int) -> None:
    make_deep(job, levels)
    highest: list[int] = []
    opened = os.open

    def watched(*args: Any, **more: Any) -> int:
        fd = opened(*args, **more)
        highest.append(fd)
        return fd

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched)
        remove(job)
    assert not job.exists()
    assert is_untouched(job)
    # A scan has a second one, and what else this process has open came before.
    assert max(highest) - highest[0] <= 2 * REMOVAL_DEPTH_MAX + 4


def test_two_removals_of_one_tree_do_not_hinder_each_other(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one moves a deep folder up after the last look, and then removes all of it."""
    (job / "file").touch()
    rmdir = os.rmdir
    calls: list[str] = []

    def meanwhile(name: str, *, dir_fd: int) -> None:
        calls.append(name)
        if len(calls) == 2:
            (job / "moved").mkdir()
        if len(calls) == 4:
            rmdir(name, dir_fd=dir_fd)
        rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", meanwhile)
    remove(job)
    assert not job.exists()
    assert calls == ["job", "job", "moved", "job"]


def test_a_folder_that_is_filled_again_and_again_is_told(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job / "file").touch()
    rmdir = os.rmdir

    def refill(name: str, *, dir_fd: int) -> None:
        if name == job.name:
            (job / "file").touch()
        rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", refill)
    with pytest.raises(OSError, match="not empty"):
        remove(job)


def test_removal_of_a_wide_tree(job: Path) -> None:
    for number in range(10):
        (job / str(number)).mkdir()
        for other in range(20):
            (job / str(number) / str(other)).touch()
    remove(job)
    assert not job.exists()


def test_what_cannot_be_removed_is_told_and_the_rest_is_gone(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job / "a").mkdir()
    for name in ("a/stuck", "a/x", "b"):
        (job / name).touch()
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int) -> None:
        if name == "stuck":
            raise PermissionError(1, "Operation not permitted", name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError, match="stuck"):
        remove(job)
    assert [str(one.relative_to(job)) for one in sorted(job.rglob("*"))] == ["a", "a/stuck"]
    with SafeDir(str(job / "a")) as directory, pytest.raises(PermissionError, match="stuck"):
        directory.remove("stuck")


LOCKED = """
import os, sys
from rollq.store.safe_dir import SafeDir
os.chdir(sys.argv[1])
if os.getuid() == 0:
    os.setgid({nobody}); os.setuid({nobody})
os.makedirs("job/a/b/c")
open("job/a/b/f", "w").close()
open("job/secret", "w").close()
os.chmod("job/secret", 0)
deep = "job/deep" + "/d" * {depth}
os.makedirs(deep + "/locked/in")
for locked in (deep + "/locked/in", deep + "/locked", "job/a/b/c", "job/a/b", "job/a", "job"):
    os.chmod(locked, 0)
parent = SafeDir(".")
os.chmod("job", 0o500)
with SafeDir("job", parent) as job:
    print([(one.name, one.problem) for one in job.walk() if one.problem])
os.chmod("job", 0)
parent.remove("job")
print(os.listdir("."))
"""


def test_permissions_that_were_taken_away_do_not_keep_a_tree(tmp_path: Path) -> None:
    """In a process of its own, because a superuser would not notice."""
    tmp_path.chmod(0o777)
    for above in tmp_path.parents[:2]:
        above.chmod(0o755)
    code = LOCKED.format(nobody=NOBODY, depth=REMOVAL_DEPTH_MAX)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    problems, left = done.stdout.splitlines()
    assert "('a', 'cannot be looked into: Permission denied')" in problems
    assert left == "[]"


MOUNTED = """
import os, subprocess, sys
from rollq.store.safe_dir import SafeDir
os.chdir(sys.argv[1])
os.makedirs("job/a/same"); os.makedirs("job/other")
subprocess.run(["mount", "--bind", "precious", "job/a/same"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "none", "job/other"], check=True)
open("job/other/x", "w").close()
with SafeDir("job") as job:
    print([(one.name, one.problem) for one in job.walk() if one.problem])
try:
    with SafeDir(".") as parent:
        parent.remove("job")
except OSError as error:
    print(error.strerror)
print(os.listdir("job/other"), os.listdir("precious"))
"""


def test_what_a_job_mounted_is_left_alone(job: Path) -> None:
    inside = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this system lets nobody mount")
    except FileNotFoundError:
        pytest.skip("no unshare on this system")
    done = subprocess.run(
        [*inside, sys.executable, "-c", MOUNTED, str(job.parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "[('other', 'is another file system')]",
        "Device or resource busy",
        "['x'] ['file']",
    ]
    assert is_untouched(job)
