"""Secrets in a stream are masked, however the stream is cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.security.masking import MASK, MASKED_BYTES_MIN, Masker


def through(values: Sequence[bytes], *pieces: bytes) -> bytes:
    masker = Masker(values)
    return b"".join([*map(masker.feed, pieces), masker.finish()])


@pytest.mark.parametrize("cut", range(18))
def test_a_value_is_masked_wherever_it_is_cut(cut: int) -> None:
    said = b"the hunter2 and so"
    assert through([b"hunter2"], said[:cut], said[cut:]) == b"the *** and so"


def test_what_cannot_be_a_value_is_not_held_back() -> None:
    masker = Masker([b"hunter2"])
    assert masker.feed(b"working ... 10 %\r") == b"working ... 10 %\r"
    assert masker.feed(b"hunt") == b""
    assert masker.feed(b"ing\n") == b"hunting\n"
    assert masker.finish() == b""


def test_one_value_may_begin_with_another() -> None:
    both = [b"abcd", b"abcdefgh"]
    assert through(both, b"abcd", b"efgh.") == b"***."
    assert through(both, b"abcd", b"ef.") == b"***ef."
    assert through(both, b"abcd") == b"***"
    assert through([b"aXXa"], b"..aXXa", b"XXa") == b"..***XXa"


def test_short_values_are_left_alone() -> None:
    assert through([b"", b"a", b"x" * (MASKED_BYTES_MIN - 1)], b"a xxx a") == b"a xxx a"


def test_text_is_masked_as_it_is() -> None:
    assert Masker(["pässword".encode()]).mask_text("it is pässword \ud800.") == "it is *** \ud800."


small = st.binary(min_size=4, max_size=8).map(lambda data: bytes(one % 3 + 97 for one in data))
stream = st.lists(st.binary(max_size=9).map(lambda data: bytes(one % 3 + 97 for one in data)))


@given(st.lists(small, min_size=1, max_size=3), stream)
def test_no_cut_makes_a_difference(values: list[bytes], pieces: list[bytes]) -> None:
    whole = Masker(values).mask(b"".join(pieces))
    assert through(values, *pieces) == whole
    assert not any(value in part for value in values for part in whole.split(MASK))
