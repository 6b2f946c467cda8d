"""Ids and their texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.ids import guid_from_text, guid_texts, guid_to_text


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=40))
def test_texts_of_many_ids_are_those_of_each(ids: list[bytes]) -> None:
    texts = [text.decode() for text in guid_texts(b"".join(ids))]
    assert texts == list(map(guid_to_text, ids))
    assert list(map(guid_from_text, texts)) == ids
