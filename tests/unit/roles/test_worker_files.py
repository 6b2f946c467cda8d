"""Inputs and outputs of programs: what is put in place, what is taken back, and what is not."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rollq.base.errors import RemoteError
from rollq.base.limits import ARCHIVE_FILES_MAX, FILE_NAME_PARTS_MAX
from rollq.roles.worker.inputs import Input, Stamps, checked_inputs, place_input
from rollq.roles.worker.outputs import ExecutionEnd, collect_outputs
from rollq.store.archive import unpack
from rollq.store.safe_dir import SafeDir
from rollq.wire.models import InputFile

SECRET = b"what only its owner may read"


def collected(
    directory: Path, inputs: Stamps | None = None
) -> tuple[dict[str, bytes], ExecutionEnd]:
    """What a job that left this directory returns."""
    ending = ExecutionEnd()
    with SafeDir(str(directory)) as files:
        collect_outputs(files, inputs or {}, ending)
    return unpack(ending.archive, 1 << 20) if ending.archive else {}, ending


def test_many_files_are_not_even_looked_at(tmp_path: Path) -> None:
    for number in range(ARCHIVE_FILES_MAX + 1):
        (tmp_path / str(number)).touch()
    outputs, ending = collected(tmp_path)
    assert outputs == {}
    assert "more than" in ending.notes[0]


def test_an_input_written_anew_is_an_output(tmp_path: Path) -> None:
    stamps: Stamps = {}
    with SafeDir(str(tmp_path)) as files:
        place_input(files, ("deep", "a"), b"1", stamps)
    assert collected(tmp_path, stamps)[0] == {}
    (tmp_path / "deep/a").write_bytes(b"2")
    assert collected(tmp_path, stamps)[0] == {"deep/a": b"2"}


def test_inputs_are_checked_before_any_is_written() -> None:
    one, other = InputFile("a", None, b"1"), InputFile("b/c", None, b"2")
    assert checked_inputs((one,)) == [Input(("a",), b"1")]
    assert checked_inputs((one, other)) == [Input(("a",), b"1"), Input(("b", "c"), b"2")]
    for files in ((InputFile("../a", None, b""),), (one, one), (InputFile("a", "cache"),)):
        with pytest.raises(RemoteError):
            checked_inputs(files)


def test_executable_outputs_stay_executable_and_the_same_outputs_are_the_same_bytes(
    tmp_path: Path,
) -> None:
    (tmp_path / "run").write_bytes(b"#!/bin/sh\n")
    _, plain = collected(tmp_path)
    (tmp_path / "run").chmod(0o700)
    _, executable = collected(tmp_path)
    assert plain.archive is not None
    assert plain.archive == collected_again(tmp_path, 0o600)
    assert executable.archive != plain.archive


def collected_again(directory: Path, mode: int) -> bytes | None:
    (directory / "run").chmod(mode)
    os.utime(directory / "run", (1, 1))
    return collected(directory)[1].archive


def _link(directory: Path, secret: Path) -> None:
    (directory / "odd").symlink_to(secret)


def _folder_link(directory: Path, secret: Path) -> None:
    (directory / "odd").symlink_to(secret.parent)


def _hard_link(directory: Path, secret: Path) -> None:
    os.link(secret, directory / "odd")


def _hard_links(directory: Path, secret: Path) -> None:
    os.link(secret, directory / "odd")
    os.link(secret, directory / "odd2")


def _fifo(directory: Path, _secret: Path) -> None:
    os.mkfifo(directory / "odd")


def _socket(directory: Path, _secret: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{fd}/odd")
    finally:
        os.close(fd)


def _backslash(directory: Path, _secret: Path) -> None:
    (directory / "..\\odd").write_bytes(b"x")


def _not_text(directory: Path, _secret: Path) -> None:
    Path(os.fsdecode(os.fsencode(directory) + b"/odd\xff")).write_bytes(b"x")


def _control(directory: Path, _secret: Path) -> None:
    (directory / "odd\x1b[2J").write_bytes(b"x")


def _device_name(directory: Path, _secret: Path) -> None:
    (directory / "odd").mkdir()
    (directory / "odd/nul.txt").write_bytes(b"x")


def _case(directory: Path, _secret: Path) -> None:
    (directory / "PLAIN").write_bytes(b"odd")


def _deep(directory: Path, _secret: Path) -> None:
    deep = directory / "/".join(["odd"] * FILE_NAME_PARTS_MAX)
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(b"x")


ODD_OUTPUTS: list[tuple[Callable[[Path, Path], None], str]] = [
    (_link, "'odd' is a link"),
    (_folder_link, "'odd' is a link"),
    (_hard_link, "'odd' is also a file outside"),
    (_hard_links, "'odd2' is also a file outside"),
    (_fifo, "'odd' is not a plain file"),
    (_socket, "'odd' is not a plain file"),
    (_backslash, "'..\\\\odd' holds a backslash"),
    (_not_text, "'odd\\udcff' is not text"),
    (_control, "'odd\\x1b[2J' holds a NUL, a control"),
    (_device_name, "'odd/nul.txt' has a part that is a device"),
    (_case, "'plain' differs from 'PLAIN' only in case"),
    (_deep, "lies too deep"),
]


@pytest.mark.parametrize(("make", "note"), ODD_OUTPUTS)
def test_what_is_not_the_jobs_own_plain_file_stays_where_it_is(
    tmp_path: Path, make: Callable[[Path, Path], None], note: str
) -> None:
    secret, directory = tmp_path / "outside" / "secret", tmp_path / "job"
    secret.parent.mkdir()
    secret.write_bytes(SECRET)
    directory.mkdir()
    (directory / "plain").write_bytes(b"plain")
    (directory / "fine").write_bytes(b"fine")
    make(directory, secret)
    outputs, ending = collected(directory)
    assert outputs["fine"] == b"fine"
    assert SECRET not in outputs.values()
    assert set(outputs) <= {"fine", "plain", "PLAIN"}
    assert note in " ".join(ending.notes)
    with SafeDir(str(tmp_path)) as parent:
        parent.remove("job")
    assert not directory.exists()
    assert secret.read_bytes() == SECRET


def test_of_many_that_are_left_out_some_are_named(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"l{number}").symlink_to("nowhere")
    _, ending = collected(tmp_path)
    (note,) = ending.notes
    assert note.startswith("left out: 'l0' is a link; 'l1' is a link")
    assert note.endswith("'l4' is a link; and 3 more")


def test_links_among_the_outputs_are_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    os.link(tmp_path / "a", tmp_path / "b")
    outputs, ending = collected(tmp_path)
    assert outputs == {"a": b"1", "b": b"1"}
    assert ending.notes == []


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "locked").write_bytes(b"1")
    opened = os.open

    def refuse(path: str, *rest: int, **more: int) -> int:
        if path == "locked":
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    outputs, ending = collected(tmp_path)
    assert outputs == {"a": b"1"}
    assert ending.notes == ["left out: 'locked' cannot be read: Permission denied"]


def test_a_file_that_another_took_the_place_of_is_not_read(tmp_path: Path) -> None:
    secret, directory = tmp_path / "secret", tmp_path / "job"
    secret.write_bytes(SECRET)
    directory.mkdir()
    (directory / "a").write_bytes(b"1")
    with SafeDir(str(directory)) as files:
        (found,) = files.walk()
        assert files.read(found) == b"1"
        (directory / "a").unlink()
        os.link(secret, directory / "a")
        with pytest.raises(OSError, match="another file"):
            files.read(found)
        (directory / "a").unlink()
        (directory / "a").symlink_to(secret)
        with pytest.raises(OSError, match="symbolic links"):
            files.read(found)
        (directory / "a").unlink()
        os.mkfifo(directory / "a")
        with pytest.raises(OSError, match="another file"):
            files.read(found)
        with pytest.raises(OSError, match="not a plain file"):
            files.open_read(("a",))
    assert stat.S_ISFIFO((directory / "a").lstat().st_mode)
