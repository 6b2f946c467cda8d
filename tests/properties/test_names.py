"""Whatever the name: it is refused, or it lands below the directory, as it is and where it says."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.errors import RemoteError
from rollq.base.limits import FILE_NAME_BYTES_MAX
from rollq.base.names import checked_name, checked_tree
from rollq.store.archive import pack, unpack
from rollq.store.descriptors import write_all
from rollq.store.safe_dir import SafeDir, settle_links
from tests.effort import examples

NASTY = [
    *("..", ".", "/", "//", "\\", ":", "\0", "\n", " ", ". ", "C:", "NUL", "con", ".txt", "~"),
    *("\u200d", "\uff0e", "\u2025", "\ufeff", "\ud800", "\u0301", "é", "e", "É", "a", "A", "x"),
]
PIECES = st.sampled_from(NASTY) | st.characters(codec=None)
NAMES = st.lists(PIECES, max_size=8).map("".join)
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
PLAIN_PARTS = st.sampled_from(["a", "B", "c.d", "é", "日"])
PLAIN = st.lists(PLAIN_PARTS, min_size=1, max_size=4).map("/".join)


def outside_of(top: Path) -> list[str]:
    """All that is there but in the job's directory; no link is followed."""
    return sorted(
        os.path.join(folder, name)
        for folder, folders, files in os.walk(top)
        for name in (*folders, *files)
        if not os.path.join(folder, name).startswith(str(top / "job") + "/")
    )


@settings(max_examples=examples(300))
@given(PATHS)
def test_a_name_that_is_taken_means_one_place(name: str) -> None:
    try:
        parts = checked_name(name)
    except RemoteError:
        return
    assert "/".join(parts) == name
    assert os.path.normpath(f"/base/{name}") == f"/base/{name}"
    assert len(name.encode()) <= FILE_NAME_BYTES_MAX
    assert checked_tree([name]) == [parts]


@settings(max_examples=examples(60))
@given(st.lists(PATHS | PLAIN, max_size=6))
def test_whatever_is_placed_lands_below_and_nothing_else_changes(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        top = Path(made)
        (top / "job").mkdir()
        (top / "precious").write_bytes(b"precious")
        before = outside_of(top)
        placed: dict[str, bytes] = {}
        with SafeDir(str(top / "job")) as directory:
            for number, name in enumerate(names):
                with contextlib.suppress(RemoteError):
                    fd = directory.open_new(checked_name(name))
                    placed[name] = b"%d" % number
                    write_all(fd, placed[name])
                    os.close(fd)
            found = [one for one in settle_links(list(directory.walk())) if one.is_file]
            assert {one.name: directory.read(one) for one in found} == placed
        assert outside_of(top) == before
        with SafeDir(made) as parent:
            parent.remove("job")
        assert outside_of(top) == [str(top / "precious")]
        assert (top / "precious").read_bytes() == b"precious"


@given(st.lists(PATHS | PLAIN, max_size=8))
def test_a_tree_that_is_taken_has_every_file_apart(names: list[str]) -> None:
    try:
        places = checked_tree(names)
    except RemoteError:
        return
    assert ["/".join(parts) for parts in places] == names
    seen = {name.casefold() for name in names}
    assert len(seen) == len(names)
    for name in seen:
        assert not any(other.startswith(name + "/") for other in seen)


@given(st.dictionaries(PLAIN, st.binary(max_size=50), max_size=5), st.data())
def test_an_archive_comes_back_or_is_refused_whatever_happened_to_it(
    files: dict[str, bytes], data: st.DataObject
) -> None:
    try:
        checked_tree(files)
    except RemoteError:
        return
    packed = bytearray(pack((name, content, 0o644) for name, content in files.items()))
    assert unpack(bytes(packed), 1_000) == files
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = unpack(bytes(packed), 1_000)
    except RemoteError:
        return
    checked_tree(read)
    assert sum(map(len, read.values())) <= 1_000


@given(st.binary(max_size=300))
def test_bytes_that_are_no_archive_are_refused(noise: bytes) -> None:
    with contextlib.suppress(RemoteError):
        checked_tree(unpack(noise, 1_000))
