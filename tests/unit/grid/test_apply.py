from hashlib import blake2b
from typing import get_args

import msgspec
import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.grid import commands
from rollq.grid.apply import HANDLERS, SUMMED_BYTES_MIN, apply_entry, chain_hash
from rollq.grid.command_codec import VERSION, decode_batch, encode_batch
from rollq.grid.snapshot import encode_snapshot
from rollq.grid.state import GridState
from tests.unit.grid.kit import Grid, submit

SUBMIT = encode_batch(7, [submit("a")])


def test_every_command_has_a_handler() -> None:
    assert set(HANDLERS) == set(get_args(commands.Command))


def test_tags_are_unique() -> None:
    tags = [one.__struct_config__.tag for one in get_args(commands.Command)]
    assert len(set(tags)) == len(tags)


def test_an_empty_entry_only_moves_on() -> None:
    state = GridState()
    applied = apply_entry(state, 1, b"")
    assert (applied.index, applied.outcomes, applied.events, applied.effects) == (1, [], [], [])
    assert state.applied_index == 1
    assert state.log_hash == chain_hash(bytes(16), 1, b"")


@pytest.mark.parametrize("index", [0, 1, 3])
def test_entries_come_in_order_and_once(index: int) -> None:
    state = GridState()
    apply_entry(state, 1, SUBMIT)
    before = encode_snapshot(state)
    with pytest.raises(LocalError) as caught:
        apply_entry(state, index, SUBMIT)
    assert caught.value.code is ErrorCode.BUG
    assert encode_snapshot(state) == before


def test_the_hash_tells_large_entries_apart_and_old_ones_as_before() -> None:
    large = b"\x06" + b"x" * SUMMED_BYTES_MIN
    hashes = {
        chain_hash(bytes(16), 1, data)
        for data in (large, large + b"x", large[:-1] + b"y", large[: SUMMED_BYTES_MIN - 1])
    }
    assert len(hashes) == 4
    old = blake2b(bytes(16), digest_size=16)
    old.update((1).to_bytes(8, "little") + b"\x05" + large[1:])
    assert chain_hash(bytes(16), 1, b"\x05" + large[1:]) == old.digest()


def test_the_hash_tells_logs_apart() -> None:
    states = [GridState() for _ in range(3)]
    for state, second in zip(states, (b"", SUBMIT, SUBMIT), strict=True):
        apply_entry(state, 1, SUBMIT)
        apply_entry(state, 2, second)
    assert states[0].log_hash != states[1].log_hash
    assert states[1].log_hash == states[2].log_hash


def unreadable() -> list[bytes]:
    body = SUBMIT[1:]
    unknown_tag = msgspec.msgpack.encode((7, [[99, b"x"]]))
    more_fields = msgspec.msgpack.encode((7, [[19, "q", "by", "a field of the future"]]))
    more_batch = msgspec.msgpack.encode((7, [], "a field of the future"))
    wrong_type = msgspec.msgpack.encode((7, [[19, 5]]))
    known = bytes([VERSION])
    return [
        bytes([VERSION + 1]) + body,
        b"\0" + body,
        *(known + data for data in (unknown_tag, more_fields, more_batch, wrong_type)),
    ]


@pytest.mark.parametrize("data", unreadable())
def test_what_is_not_understood_stops_the_member(data: bytes) -> None:
    state = GridState()
    with pytest.raises(LocalError) as caught:
        apply_entry(state, 1, data)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert state.applied_index == 0


def test_what_is_no_batch_at_all_is_a_bug() -> None:
    with pytest.raises(LocalError) as caught:
        decode_batch(SUBMIT[:-1])
    assert caught.value.code is ErrorCode.BUG
    with pytest.raises(LocalError) as caught:
        decode_batch(b"")
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_refused_command_does_not_stop_the_others() -> None:
    grid = Grid()
    applied = grid.apply(submit("a", priority=99), submit("b"))
    assert [type(outcome).__name__ for outcome in applied.outcomes] == ["Refused", "Done"]
