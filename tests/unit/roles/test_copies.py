"""Copies of sealed history as lines: which there are, and when a process makes them."""

from __future__ import annotations

import io
import subprocess
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from rollq.base.limits import COPIES_WAIT_MS_MAX
from rollq.grid.events import Event, Run
from rollq.history.packed import PackedIndex, pack
from rollq.history.retention import Retention
from rollq.history.segments import Segments, name_of, packed_name
from rollq.roles.member.readers import lines
from rollq.roles.member.readers.copies_keeper import LINES_SHARE, CopiesKeeper
from rollq.roles.member.readers.copies_maker import is_due, make_all
from rollq.roles.member.setup import MemberSetup
from rollq.store.look import LookDisk
from rollq.store.real_disk import RealDisk
from rollq.testing.disk import VirtualDisk

RANGES = [(1, 10), (11, 20), (21, 30)]


def _packed(index: int) -> PackedIndex:
    run = Run(b"".join((100 * index + n).to_bytes(16, "big") for n in range(40)))
    return pack(index, 1_000 + index, [Event("enqueue", queue="q", run=run)] if index % 2 else [])


def _sealed(segments: Segments, *ranges: tuple[int, int]) -> Segments:
    for first, last in ranges:
        segments.seal_packed(first, last, map(_packed, range(first, last + 1)))
    return segments


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A directory with packed segments."""
    disk = RealDisk(tmp_path / "state")
    _sealed(Segments(disk), *RANGES)
    disk.close()
    return tmp_path / "state"


def _copies(state: Path) -> list[tuple[int, int]]:
    return [ends for ends in RANGES if (state / name_of(*ends)).exists()]


def test_a_copy_is_a_segment_of_lines_with_the_same_rows(state: Path) -> None:
    expected = list(Segments(LookDisk(state)).read(1, 30))
    lines.make_all(state, 0)
    assert _copies(state) == RANGES
    for ends in RANGES:
        assert (state / name_of(*ends)).stat().st_mode & 0o777 == 0o600
        (state / packed_name(*ends)).unlink()
    segments = Segments(LookDisk(state))
    assert segments.scrub() == []
    assert list(segments.read(1, 30)) == expected
    assert not [one for one in (state / "history").iterdir() if one.name.endswith(".tmp")]


def test_a_damaged_segment_gets_no_copy(state: Path) -> None:
    path = state / packed_name(*RANGES[1])
    whole = path.read_bytes()
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    lines.make_all(state, 0)
    assert _copies(state) == [RANGES[0], RANGES[2]]


def test_copies_that_there_is_no_room_for_go_and_are_not_made_again(state: Path) -> None:
    lines.make_all(state, 0)
    size = (state / name_of(*RANGES[0])).stat().st_size
    lines.make_all(state, 2 * size + size // 2)
    assert _copies(state) == RANGES[1:]
    lines.make_all(state, 0)
    assert _copies(state) == RANGES[1:]
    lines.make_all(state, 1)
    assert _copies(state) == RANGES[2:]  # the newest is always there
    assert lines.due(LookDisk(state), 1) == lines.Due([], [])
    assert list(Segments(LookDisk(state)).read(1, 3))  # what they were made of stays


def test_the_rest_of_the_disk_is_for_the_log(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "COPIES_SPARED_BYTES", 2**62)
    lines.make_all(state, 0)
    assert _copies(state) == []


def test_a_copy_that_is_lost_between_others_is_made_again() -> None:
    disk = VirtualDisk()
    segments = _sealed(Segments(disk), *RANGES)
    segments.seal(40, 50, [])  # lines of a peer: nothing is a copy of anything
    assert lines.due(disk, 0).make == RANGES
    for ends in (RANGES[0], RANGES[2]):
        segments.seal(*ends, segments.read(*ends))
    assert lines.due(disk, 0) == lines.Due([RANGES[1]], [])


class Makers:
    """In place of processes: they make copies at once, here."""

    returncode = 0
    stderr = io.BytesIO()
    state = Path()
    begun = 0

    def __init__(self, *_: object, **_more: object) -> None:
        Makers.begun += 1
        make_all(Makers.state, "default", 0, with_columns=False)

    def __enter__(self) -> None:
        """As Popen."""

    def __exit__(self, *_: object) -> None:
        """As Popen."""


@pytest.fixture
def makers(state: Path, monkeypatch: pytest.MonkeyPatch) -> type[Makers]:
    Makers.state, Makers.begun = state, 0
    monkeypatch.setattr(subprocess, "Popen", Makers)
    return Makers


def _keeper(state: Path, index: list[int]) -> CopiesKeeper:
    setup = MemberSetup("a:1", columns=False)
    return CopiesKeeper(state, setup, lambda: index[0])


def test_an_idle_member_has_copies_made_at_once(state: Path, makers: type[Makers]) -> None:
    keeper = _keeper(state, [7])
    keeper._maybe_make()  # is it idle? The next time tells
    assert makers.begun == 0
    for _ in range(3):
        assert keeper._maybe_make() == ""
    assert makers.begun == 1
    assert _copies(state) == RANGES


def test_a_busy_member_has_copies_made_after_a_while(
    state: Path, makers: type[Makers], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, now = [0], [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    keeper = _keeper(state, index)
    looks = Mock(return_value=True)
    monkeypatch.setattr(keeper, "_is_due", looks)
    for _ in range(10):
        index[0] += 1
        keeper._maybe_make()
    assert makers.begun == 0
    assert looks.call_count == 1  # to look at all files takes time
    now[0] += COPIES_WAIT_MS_MAX / 1000
    index[0] += 1
    keeper._maybe_make()
    assert makers.begun == 1
    assert _copies(state) == RANGES
    assert COPIES_WAIT_MS_MAX <= 50_000  # with what is left they are there within a minute


def test_lines_take_a_share_of_the_bound_of_the_history(state: Path) -> None:
    bound = Retention(bytes_max=1_000)
    keeper = CopiesKeeper(state, MemberSetup("a:1", retention=bound), lambda: 0)
    assert keeper._words == ("default", 1_000 // LINES_SHARE)
    assert is_due(state, *keeper._words, with_columns=False)
