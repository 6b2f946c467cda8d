"""Bodies on scratch files: what goes in comes out, and files go when nobody needs them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import INLINE_BYTES_MAX, SPILL_BLOCKS_MAX, SPILL_FILE_BYTES
from rollq.base.sealed import seal
from rollq.grid.apply import apply_entry
from rollq.grid.snapshot import decode_snapshot, encode_snapshot, head_bytes
from rollq.grid.state import GridState
from rollq.store.snapshot_layout import SnapshotLayout
from rollq.store.spill import FOLDER, Spill, SpillSizes, clear_spill
from rollq.testing.disk import VirtualDisk
from tests.effort import examples
from tests.replay.commands_log import LOGS, read_log

SMALL = SpillSizes(file_bytes=4_096, block_bytes=1_024, blocks_max=2, tail_bytes_max=700)


def scratch(disk: VirtualDisk) -> list[str]:
    """The files there are."""
    return disk.names(FOLDER)


def test_what_fits_the_hot_window_stays_in_memory() -> None:
    disk = VirtualDisk()
    spill = Spill(disk, "a", hot_bytes_max=10)
    first, second = spill.keep(b"12345"), spill.keep(b"67890")
    assert (first, second, spill.keep(b"")) == (b"12345", b"67890", b"")
    third = spill.keep(b"x")
    assert isinstance(third, int)
    assert (spill.load(third), spill.size(third), spill.size(first)) == (b"x", 1, 5)
    spill.drop_all((first,))
    assert spill.keep(b"again") == b"again"


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.binary(max_size=600), st.integers(0, 99)), max_size=120),
    st.integers(0, 300),
)
def test_every_body_comes_back_until_it_is_dropped(
    steps: list[tuple[bytes, int]], hot_bytes_max: int
) -> None:
    disk = VirtualDisk()
    spill = Spill(disk, "a", hot_bytes_max=hot_bytes_max, sizes=SMALL)
    kept: list[tuple[bytes | int, bytes]] = []
    for body, dice in steps:
        kept.append((spill.keep(body), body))
        if dice < 60:
            token, wanted = kept.pop(dice % len(kept))
            assert spill.load(token) == wanted
            spill.drop_all((token,))
        for token, wanted in kept[:: 1 + dice % 7]:
            assert (spill.load(token), spill.size(token)) == (wanted, len(wanted))
        some = kept[dice % 5 :: 1 + dice % 3]
        sealed = b"".join(spill.sealed([token for token, _ in some]))
        assert sealed == b"".join(seal(wanted) for _, wanted in some)
    for token, wanted in kept:
        assert spill.load(token) == wanted
        spill.drop_all((token,))
    assert len(scratch(disk)) <= 1  # the one that is written to
    spill.close()
    assert scratch(disk) == []


def test_the_largest_body_fits_and_blocks_are_bounded() -> None:
    disk = VirtualDisk()
    spill = Spill(disk, "a", hot_bytes_max=0)
    bodies = [bytes([n]) * INLINE_BYTES_MAX for n in range(3)]
    small = [bytes([n % 256]) * 1_000 for n in range(80 * SPILL_BLOCKS_MAX)]
    tokens = [spill.keep(body) for body in (*bodies, *small)]
    assert [spill.load(token) for token in tokens] == [*bodies, *small]
    assert len(spill._blocks) == SPILL_BLOCKS_MAX


def test_a_rotten_body_is_not_handed_out() -> None:
    disk = VirtualDisk()
    spill = Spill(disk, "a", hot_bytes_max=0)
    tokens = [spill.keep(b"%8d" % n * 20) for n in range(2_000)]
    (name,) = scratch(disk)
    disk.rot(f"{FOLDER}/{name}", 5, 3)
    with pytest.raises(DiskError) as caught:
        spill.load(tokens[0])
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    with pytest.raises(DiskError) as caught:
        list(spill.sealed(tokens))
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    assert b"".join(spill.sealed(tokens[1:3])) == seal(b"%8d" % 1 * 20) + seal(b"%8d" % 2 * 20)
    assert spill.load(tokens[1]) == b"%8d" % 1 * 20


def test_a_snapshot_is_kept_until_its_last_body_is_dropped() -> None:
    disk = VirtualDisk()
    disk.write("snapshots/s", 0, b"header" + b"head" + seal(b"one") + seal(b"three"))
    spill = Spill(disk, "a", hot_bytes_max=0)
    drained: list[str] = []
    spill.attach("snapshots/s", 6, SnapshotLayout(4 + 7 + 9), lambda: drained.append("s"))
    one, nothing, three = spill.adopt(4, [3, 0, 5])
    spill.adopted()
    later = spill.keep(b"later")
    assert (spill.load(one), nothing, spill.load(three)) == (b"one", b"", b"three")
    spill.drop_all((one,))
    spill.drop_all((nothing,))
    assert drained == []
    spill.drop_all((three,))
    assert drained == ["s"]
    assert spill.load(later) == b"later"
    spill.close()
    assert drained == ["s"]
    assert disk.names("snapshots") == ["s"]


def test_a_snapshot_without_bodies_is_given_free_at_once() -> None:
    spill = Spill(VirtualDisk(), "a")
    drained: list[str] = []
    spill.attach("snapshots/s", 6, SnapshotLayout(4), lambda: drained.append("s"))
    assert spill.adopt(4, []) == []
    spill.adopted()
    assert drained == ["s"]


def test_a_snapshot_larger_than_a_file_takes_several_numbers() -> None:
    disk = VirtualDisk()
    spill = Spill(disk, "a", hot_bytes_max=0)
    size = 2 * SPILL_FILE_BYTES + 1
    spill.attach("snapshots/s", 0, SnapshotLayout(size), lambda: None)
    disk.write("snapshots/s", 2 * SPILL_FILE_BYTES - 6, seal(b"end"))
    (token,) = spill.adopt(2 * SPILL_FILE_BYTES - 6, [3])
    assert spill.load(token) == b"end"
    other = spill.keep(b"other")
    assert spill.load(other) == b"other"
    spill.drop_all((token,))
    assert spill.load(other) == b"other"


def test_a_stretch_for_a_snapshot_ends_with_its_file() -> None:
    sizes = SpillSizes(file_bytes=3 * 14)  # three bodies fill a file
    spill = Spill(VirtualDisk(), "a", hot_bytes_max=0, sizes=sizes)
    bodies = [b"%10d" % n for n in range(8)]
    tokens = [spill.keep(body) for body in bodies]
    assert b"".join(spill.sealed(tokens)) == b"".join(map(seal, bodies))


def test_what_an_earlier_process_left_is_cleared() -> None:
    disk = VirtualDisk()
    disk.write(f"{FOLDER}/old.tmp", 0, b"x")
    clear_spill(disk)
    assert scratch(disk) == []


@pytest.mark.parametrize("hot_bytes_max", [0, 2_000])
def test_a_state_is_the_same_wherever_its_bodies_are(hot_bytes_max: int) -> None:
    path = LOGS[-1]
    disk = VirtualDisk()
    spill = Spill(disk, "a", hot_bytes_max=hot_bytes_max)
    state = GridState(spill)
    half = b""
    entries = read_log(path)
    for index, data in enumerate(entries, 1):
        apply_entry(state, index, data)
        if index == len(entries) // 2:
            half = encode_snapshot(state)
    wanted = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
    assert state.log_hash.hex() == wanted["log_hash"]
    golden = path.with_suffix(".snapshot").read_bytes()
    assert encode_snapshot(state) == golden
    disk.write("snapshots/s", 0, b"header" + half)
    second = Spill(disk, "b", hot_bytes_max=hot_bytes_max)
    second.attach("snapshots/s", 6, SnapshotLayout(len(half)), lambda: None)
    copy = decode_snapshot(half[: head_bytes(half)], second, second.adopt)
    for index, data in enumerate(entries[len(entries) // 2 :], len(entries) // 2 + 1):
        apply_entry(copy, index, data)
    assert encode_snapshot(copy) == golden
