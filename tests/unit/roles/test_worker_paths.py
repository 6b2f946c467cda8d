from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import RemoteError
from rollq.base.limits import INPUT_PATH_PARTS_MAX
from rollq.roles.worker.paths import checked_parts, remove_tree, write_input

BAD_NAMES = [
    "",
    "/etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a//b",
    "./a",
    "a/",
    "a\0b",
    "a\\..\\b",
    "C:x",
    "\ud800",
    "x" * 256,
    "é" * 128,
    "/".join("a" * (INPUT_PATH_PARTS_MAX + 1)),
    "/".join(["x" * 200] * 6),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(RemoteError):
        checked_parts(name)


@pytest.mark.parametrize("name", ["a", "a/b.c", "..a", "a..", "日本/語", "a:b/c".replace(":", "-")])
def test_plain_names_are_taken(name: str) -> None:
    assert "/".join(checked_parts(name)) == name


@given(st.text(st.characters() | st.sampled_from("./\\\0:"), max_size=20))
def test_a_name_that_is_taken_stays_inside(name: str) -> None:
    try:
        parts = checked_parts(name)
    except RemoteError:
        return
    path = os.path.normpath("/".join(("/base", *parts)))
    assert path == f"/base/{name}"


def test_inputs_are_written_once_and_not_through_links(tmp_path: Path) -> None:
    base, outside = tmp_path / "job", tmp_path / "outside"
    base.mkdir()
    assert write_input(str(base), "deep/er/a", b"x" * 5) == f"{base}/deep/er/a"
    assert (base / "deep/er/a").read_bytes() == b"x" * 5
    with pytest.raises(RemoteError):
        write_input(str(base), "deep/er/a", b"")
    with pytest.raises(RemoteError):
        write_input(str(base), "deep/er/a/b", b"")
    (base / "link").symlink_to(outside)
    with pytest.raises(RemoteError):
        write_input(str(base), "link", b"")
    assert not outside.exists()


def test_removal_follows_no_link_and_takes_locked_directories(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    job = tmp_path / "job"
    (job / "locked" / "in").mkdir(parents=True)
    (job / "locked" / "in" / "file").touch()
    (job / "link").symlink_to(precious)
    (job / "locked" / "in").chmod(0)
    (job / "locked").chmod(0o500)
    remove_tree(str(job))
    assert not job.exists()
    assert (precious / "file").exists()
    remove_tree(str(job))  # already gone
