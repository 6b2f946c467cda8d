"""The list of programs that may run: what it says, who signed it, and when it counts."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.exec_digests import (
    ExecDigests,
    digest_line,
    make_key,
    parse_list,
    sign_list,
)

A, B = (f"sha256:{hashlib.sha256(one).hexdigest()}" for one in (b"a", b"b"))
LONG = f"blake2b:{hashlib.blake2b(b'a').hexdigest()}"


def test_a_name_may_have_several_digests() -> None:
    shouted = B.upper().replace("SHA", "sha")
    said = f"# ours\nrender {A}\nrender\t{shouted}  # the next one\n\nx {LONG}\r\n"
    assert parse_list(said.encode(), "list") == {"render": {A, B}, "x": {LONG}}


@pytest.mark.parametrize(
    "line",
    ["render", f"{A} render", f"../x {A}", "render sha256:00", f"a b {A}", f"x md5{A}", "\xff"],
)
def test_a_line_that_is_none_is_refused_and_named(line: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse_list(f"ok {A}\n{line}\n".encode("latin-1"), "list")
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert "line 2" in caught.value.message


def test_a_line_of_a_file_is_one_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "render").write_bytes(b"a")
    assert digest_line(tmp_path / "render", "render") == f"render {A}"


def test_names_without_their_suffix_may_be_called(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"render.sh {A}\n")
    listed = ExecDigests(tmp_path / "list")
    assert listed.can_run("render")
    assert listed.can_run("render.sh")
    assert not listed.can_run("rend")
    assert listed.of("render", "render.sh") == {A}
    assert listed.of("render") == frozenset()


def test_a_list_is_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "list"
    path.write_text(f"render {A}\n")
    listed = ExecDigests(path)
    assert listed.of("render") == {A}
    path.write_text(f"render {B}\n# longer\n")
    assert listed.of("render") == {B}
    path.write_text("broken\n")
    with caplog.at_level(logging.ERROR):
        assert listed.of("render") == {B}
    assert "line 1" in caplog.text
    path.unlink()
    assert listed.of("render") == {B}


def test_a_signed_list_counts_only_with_its_signature(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text(f"render {A}\n")
    private, public = make_key(tmp_path / "key")
    assert private.stat().st_mode & 0o777 == 0o600
    with pytest.raises(LocalError):
        ExecDigests(path, public)  # not signed
    signature = sign_list(path, private)
    listed = ExecDigests(path, public)
    assert listed.of("render") == {A}
    path.write_text(f"render {A}\nevil {B}\n")  # by somebody without the key
    assert listed.of("evil") == frozenset()
    assert listed.of("render") == {A}
    with pytest.raises(LocalError):
        ExecDigests(path, public)
    sign_list(path, private)
    assert listed.of("evil") == {B}
    _, other = make_key(tmp_path / "other")
    with pytest.raises(LocalError):
        ExecDigests(path, other)
    signature.write_text("not base64")
    with pytest.raises(LocalError):
        ExecDigests(path, public)


def test_keys_are_kept_apart(tmp_path: Path) -> None:
    private, public = make_key(tmp_path / "key")
    with pytest.raises(LocalError):
        make_key(tmp_path / "key")
    (tmp_path / "list").write_text(f"render {A}\n")
    with pytest.raises(LocalError):
        ExecDigests(tmp_path / "list", private)
    public.chmod(0o600)
    with pytest.raises(LocalError):
        sign_list(tmp_path / "list", public)
    private.chmod(0o644)
    with pytest.raises(LocalError) as caught:
        sign_list(tmp_path / "list", private)
    assert caught.value.code is ErrorCode.BAD_CREDENTIALS
