"""Only what is listed runs, whatever happens to the file that it came from."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.roles.worker import sealed_execs
from rollq.roles.worker.execs import NoProgramError
from rollq.roles.worker.sealed_execs import SealedExec, SealedExecs
from rollq.roles.worker.spawn import Spawner
from rollq.security.exec_digests import ExecDigests

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs memory that can be sealed")
GOOD = b"#!/bin/sh\necho good $1\n"
EVIL = b"#!/bin/sh\necho evil $1\n"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Bench:
    """A directory of programs, a list of what may run, and a way to run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.list = folder / "list"
        self.list.write_text("")
        self.fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.spawner = Spawner([b"PATH=/usr/bin:/bin"])
        self.execs = SealedExecs(ExecDigests(self.list))

    def put(self, name: str, data: bytes, *, listed: bool = True) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        path.chmod(0o755)
        if listed:
            with open(self.list, "a") as file:
                file.write(f"{name} {digest_of(data)}\n")
        return path

    def get(self, name: str, program: str = "") -> SealedExec:
        return self.execs.get(name, os.fsencode(program or self.folder / name), self.fd)

    def run(self, copy: SealedExec, *args: bytes) -> tuple[int, bytes]:
        """Its exit code and what it wrote."""
        reading, writing = os.pipe()
        with open(os.devnull, "rb") as null, open(reading, "rb") as told:
            stdio = (null.fileno(), writing, writing)
            pid = self.spawner.spawn([b"/x", *args], (), self.fd, stdio, program=copy.program)
            os.close(writing)
            said = told.read()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty one."""
    made = Bench(tmp_path)
    yield made
    made.execs.close()
    os.close(made.fd)


def test_a_script_that_is_listed_runs(bench: Bench) -> None:
    bench.put("tool", GOOD)
    assert bench.run(bench.get("tool"), b"day") == (0, b"good day\n")


def test_a_program_that_is_listed_runs_and_inherits_nothing(bench: Bench) -> None:
    program = Path(shutil.which("ls") or "").read_bytes()
    bench.put("tool", program)
    copy = bench.get("tool")
    code, said = bench.run(copy, b"-l", b"/proc/self/fd")
    assert code == 0
    assert b"rollq-exec" not in said


def test_what_is_not_listed_is_refused(bench: Bench) -> None:
    bench.put("tool", GOOD, listed=False)
    bench.put("other", GOOD)
    with pytest.raises(NoProgramError) as caught:
        bench.get("tool")
    assert caught.value.code is ErrorCode.NO_PROGRAM
    assert bench.execs.listed(["tool", "other"]) == {"other"}


def test_the_digest_of_another_name_does_not_count(bench: Bench) -> None:
    bench.put("good", GOOD)
    bench.put("evil", EVIL)
    shutil.copy(bench.folder / "evil", bench.folder / "good")
    with pytest.raises(NoProgramError):
        bench.get("good")


def test_a_changed_file_is_refused_with_its_digest(bench: Bench) -> None:
    path = bench.put("tool", GOOD)
    bench.get("tool")
    path.write_bytes(EVIL)
    with pytest.raises(NoProgramError) as caught:
        bench.get("tool")
    assert digest_of(EVIL) in str(caught.value)


@pytest.mark.parametrize("how", ["write", "replace", "link"])
def test_a_file_that_is_swapped_after_the_check_does_not_run(bench: Bench, how: str) -> None:
    path = bench.put("tool", GOOD)
    evil = bench.put("evil", EVIL, listed=False)
    copy = bench.get("tool")
    if how == "write":
        path.write_bytes(EVIL)
    elif how == "replace":
        os.replace(evil, path)
    else:
        path.unlink()
        path.symlink_to(evil)
    assert bench.run(copy, b"day") == (0, b"good day\n")


def test_a_link_on_the_way_is_what_it_leads_to_when_it_is_read(bench: Bench) -> None:
    good, evil = bench.put("good", GOOD), bench.put("evil", EVIL, listed=False)
    link = bench.folder / "tool"
    link.symlink_to(good)
    with open(bench.list, "a") as file:
        file.write(f"tool {digest_of(GOOD)}\n")
    assert bench.run(bench.get("tool"))[1] == b"good\n"
    link.unlink()
    link.symlink_to(evil)
    with pytest.raises(NoProgramError):
        bench.get("tool")


def test_a_write_while_it_is_copied_is_found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gets at the memory before it is sealed changes what the digest is taken of."""
    bench.put("tool", GOOD)
    real = fcntl.fcntl

    def seal_late(fd: int, what: int, seals: int) -> int:
        os.pwrite(fd, EVIL, 0)
        answer: int = real(fd, what, seals)
        return answer

    monkeypatch.setattr(fcntl, "fcntl", seal_late)
    with pytest.raises(NoProgramError) as caught:
        bench.get("tool")
    assert digest_of(EVIL) in str(caught.value)


def test_a_writer_who_never_stops_gets_nothing_run(bench: Bench) -> None:
    path = bench.put("tool", GOOD)
    stop = threading.Event()

    def swap() -> None:
        other = bench.folder / "other"
        for number in itertools.cycle(range(4)):
            if stop.is_set():
                return
            content = GOOD if number % 2 else EVIL
            if number < 2:
                path.write_bytes(content)  # in place
            else:
                other.write_bytes(content)
                os.replace(other, path)

    thread = threading.Thread(target=swap)
    thread.start()
    ran, refused = 0, 0
    try:
        while ran < 20 or refused < 20:
            try:
                copy = bench.get("tool")
            except NoProgramError:
                refused += 1
            else:
                assert bench.run(copy) == (0, b"good\n")
                ran += 1
    finally:
        stop.set()
        thread.join()
    path.write_bytes(GOOD)
    assert bench.run(bench.get("tool")) == (0, b"good\n")


@pytest.mark.parametrize(
    "attack",
    [
        lambda fd: os.pwrite(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), b"x", 0),
        lambda fd: os.truncate(f"/proc/self/fd/{fd}", 1),
        lambda fd: os.write(fd, b"x"),
    ],
)
def test_the_copy_cannot_be_changed(bench: Bench, attack: Callable[[int], object]) -> None:
    bench.put("tool", GOOD)
    copy = bench.get("tool")
    with pytest.raises(OSError, match=r"permitted|descriptor|busy|denied"):
        attack(copy.fd)
    assert os.pread(copy.fd, 100, 0) == GOOD


@pytest.mark.parametrize("line", ["#!./sh", "#! sh", "#!\tbin/sh"])
def test_an_interpreter_that_the_job_could_bring_is_refused(bench: Bench, line: str) -> None:
    bench.put("tool", f"{line}\necho hi\n".encode())
    with pytest.raises(NoProgramError) as caught:
        bench.get("tool")
    assert "interpreter" in str(caught.value)


def test_a_shipped_program_is_no_link(bench: Bench) -> None:
    good = bench.put("good", GOOD)
    bench.put("tool", GOOD)
    assert bench.run(bench.get("tool", "./tool"))[1] == b"good\n"
    (bench.folder / "tool").unlink()
    (bench.folder / "tool").symlink_to(good)
    with pytest.raises(StateError):
        bench.get("tool", "./tool")


def test_what_is_taken_off_the_list_runs_no_more(bench: Bench) -> None:
    bench.put("tool", GOOD)
    bench.get("tool")
    bench.list.write_text("# nothing\n")
    with pytest.raises(NoProgramError):
        bench.get("tool")


def test_copies_are_kept_and_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_execs, "SEALED_EXECS_MAX", 2)
    for number in range(3):
        bench.put(f"tool{number}", GOOD + b"#%d" % number)
    first = bench.get("tool0")
    assert bench.get("tool0") is first
    bench.get("tool1")
    assert bench.get("tool0") is first  # used again, so the other one goes
    bench.get("tool2")
    assert bench.get("tool0") is first
    assert bench.run(bench.get("tool1"))[1] == b"good\n"
