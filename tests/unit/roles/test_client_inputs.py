"""The files that a person gives to a job: found, read, checked."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq.base.digests import digest_to_text
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOBS_PER_JOB_MAX, INLINE_BYTES_MAX
from rollq.roles.client.jobs import inputs as inputs_module
from rollq.roles.client.jobs.inputs import Inputs, needs_reading
from rollq.roles.client.jobs.specs import JobSpec, body_of
from rollq.roles.client.jobs.supply import SettledSpec
from rollq.wire.models import (
    JobRequest,
    decode_model,
)
from tests.unit.roles.client_files import JOB, LARGE, digest_of


def read(files: dict[str, Any], **more: Any) -> tuple[SettledSpec, JobRequest]:
    """A job's files as they are sent."""
    settled = Inputs().read(JobSpec("calc", files=files, **more))
    return settled, decode_model(body_of(settled, JOB, "c"), JobRequest)


def test_small_files_ride_in_the_body_and_large_ones_get_a_digest(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"small")
    (tmp_path / "large").write_bytes(LARGE)
    settled, request = read(
        {"a": tmp_path / "small", "b": tmp_path / "large", "c": b"bytes"}, outputs=("*.csv",)
    )
    small, large, given = request.files or ()
    assert (small.content, given.content) == (b"small", b"bytes")
    assert large.content is None
    assert (large.digest, large.size) == (digest_to_text(digest_of(LARGE)), len(LARGE))
    assert large.mode is msgspec.UNSET
    assert request.outputs == ("*.csv",)
    assert getattr(settled, "blobs", ()) == (BlobRef(digest_of(LARGE), len(LARGE)),)
    assert settled.pieces[digest_of(LARGE)].source == tmp_path / "large"


def test_what_fits_into_a_body_stays_there() -> None:
    for size in (0, 1_000, INLINE_BYTES_MAX // 2, INLINE_BYTES_MAX * 3 // 4 - 1_000):
        assert not needs_reading(JobSpec("calc", files={"a": bytes(size)}))
        body_of(JobSpec("calc", files={"a": bytes(size)}), JOB, "c" * 256)
    for size in (INLINE_BYTES_MAX * 3 // 4, INLINE_BYTES_MAX, 10 * INLINE_BYTES_MAX):
        settled, _request = read({"a": bytes(size)})
        assert settled.blobs == (BlobRef(digest_of(bytes(size)), size),)


@pytest.mark.parametrize("size", [1, 100, 1_000, 3_000, 20_000])
def test_a_body_with_many_files_is_never_too_large(size: int) -> None:
    files = {f"folder/{number}": os.urandom(size) for number in range(200)}
    settled, request = read(files, args=("x" * 1_000,))
    contents = {file.name: file.content for file in request.files or () if file.content is not None}
    assert len(contents) + len(settled.blobs) == len(files)
    assert all(files[name] == content for name, content in contents.items())


def test_a_tree_keeps_its_names_and_what_may_be_run(tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub" / "empty").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "data.csv").write_bytes(LARGE)
    tool = tmp_path / "tree" / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (tmp_path / "tree" / "linked").symlink_to(tool)
    _, request = read({"in": tmp_path / "tree", ".": tmp_path / "tree" / "sub"})
    found = {file.name: file.mode for file in request.files or ()}
    plain = msgspec.UNSET
    assert found == {
        "in/linked": 0o755,
        "in/sub/data.csv": plain,
        "in/tool": 0o755,
        "data.csv": plain,
    }


def _made(path: Path, make: Callable[[Path], None]) -> Path:
    make(path / "one")
    return path / "one"


def _loop(path: Path) -> Path:
    (path / "tree").mkdir()
    (path / "tree" / "again").symlink_to(path / "tree")
    return path / "tree"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path / "missing", "No such file"),
        (lambda path: _made(path, os.mkfifo), "neither a file nor a folder"),
        (_loop, "is a link to a folder"),
        (str, "is str"),
    ],
)
def test_what_cannot_be_given(tmp_path: Path, make: Callable[[Path], Any], said: str) -> None:
    given = make(tmp_path)
    with pytest.raises(LocalError, match=said) as caught:
        read({"a": given})
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert caught.value.hint


@pytest.mark.parametrize("size", [10, len(LARGE)])
def test_a_file_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "secret").write_bytes(bytes(size))
    monkeypatch.setattr(inputs_module, "open", refuse, raising=False)
    with pytest.raises(LocalError, match="secret: Permission denied"):
        read({"a": tmp_path / "secret"})


def test_names_are_checked_and_counted() -> None:
    with pytest.raises(LocalError, match=r"\.\."):
        read({"../a": LARGE})
    with pytest.raises(LocalError, match="more than"):
        read({str(number): b"" for number in range(BLOBS_PER_JOB_MAX + 1)})


def test_a_file_that_many_jobs_share_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shared"
    path.write_bytes(LARGE)
    inputs = Inputs()
    first = inputs.read(JobSpec("calc", files={"a": path}))
    monkeypatch.setattr(hashlib, "sha256", None)
    assert inputs.read(JobSpec("calc", files={"b": path})).blobs == first.blobs


def test_files_are_given_by_name() -> None:
    """Pairs could have a name twice."""
    pairs: Any = [("x", b"1"), ("x", b"2")]
    with pytest.raises(LocalError, match="files is list") as refused:
        needs_reading(JobSpec("calc", files=pairs))
    assert refused.value.code is ErrorCode.BAD_OPTIONS
