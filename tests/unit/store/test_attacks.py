"""Every row of the table of attacks is refused, wherever it knocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import OUTPUT_BYTES_MAX
from rollq.base.names import NAME_CHARS_SHOWN, checked_name, checked_tree
from rollq.store.archive import pack, unpack
from rollq.store.safe_dir import SafeDir
from tests.unit.store.attacks import ARCHIVES, HARMLESS, NAMES, TREES, zipped


@pytest.mark.parametrize(("name", "_aim"), NAMES, ids=[aim for _, aim in NAMES])
def test_a_name_is_refused_and_named(name: str, _aim: str) -> None:
    for check in (checked_name, lambda one: checked_tree(["first", one])):
        with pytest.raises(RemoteError) as caught:
            check(name)
        assert caught.value.code is ErrorCode.BAD_PAYLOAD
        assert ascii(name[:NAME_CHARS_SHOWN]) in caught.value.message
        assert caught.value.hint


@pytest.mark.parametrize(("names", "_aim"), TREES, ids=[aim for _, aim in TREES])
def test_a_tree_is_refused_and_the_last_name_named(names: Sequence[str], _aim: str) -> None:
    for name in names:
        assert checked_name(name)
    with pytest.raises(RemoteError) as caught:
        checked_tree(names)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
    assert ascii(names[-1]) in caught.value.message


@pytest.mark.parametrize(("make", "named", "_aim"), ARCHIVES, ids=[aim for *_, aim in ARCHIVES])
def test_an_archive_is_refused_and_says_why(
    make: Callable[[], bytes], named: str, _aim: str
) -> None:
    with pytest.raises(RemoteError) as caught:
        unpack(make(), OUTPUT_BYTES_MAX)
    assert caught.value.code in (ErrorCode.BAD_PAYLOAD, ErrorCode.DECOMPRESSION_BOMB)
    assert named in caught.value.message


def test_the_table_is_long() -> None:
    assert len(NAMES) + len(TREES) + len(ARCHIVES) >= 120
    assert len({name for name, _ in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", HARMLESS)
def test_odd_names_that_harm_nobody_land_below(tmp_path: Path, name: str) -> None:
    parts = checked_name(name)
    assert "/".join(parts) == name
    with SafeDir(str(tmp_path)) as directory:
        write_fd = directory.open_new(parts)
        with open(write_fd, "wb") as file:
            file.write(b"1")
    (found,) = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert str(found.relative_to(tmp_path)) == name
    assert unpack(pack([(name, b"1", 0o644)]), 10) == {name: b"1"}


def test_a_total_is_bounded_whatever_the_ratio() -> None:
    data = zipped(("a", b"12"), ("b", b"34"))
    assert unpack(data, 4) == {"a": b"12", "b": b"34"}
    with pytest.raises(RemoteError) as caught:
        unpack(data, 3)
    assert caught.value.code is ErrorCode.DECOMPRESSION_BOMB


def test_a_short_file_of_zeros_is_no_bomb() -> None:
    assert unpack(pack([("zeros", bytes(1 << 20), 0)]), 1 << 20) == {"zeros": bytes(1 << 20)}
