"""What is wrong with a JSON body is told."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.web.bodies import decode_json
from rollq.web.errors import RequestError


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (rb'{"a":"\ud800"}', r"the body: \ud800 at byte 6 is an unpaired surrogate"),
        (rb'{"a":"\\\uDC00 and more"}', r"the body: \uDC00 at byte 8 is an unpaired surrogate"),
        (rb'{"a":"\ud83d\ude00","b":"\ud83d\ud83d"}', r"\ud83d at byte 25 is an unpaired"),
        (rb'{"a":"\ud83d\ude00 \\ud800', "the body: Input data was truncated"),
        (b'{"a":1', "the body: Input data was truncated"),
    ],
)
def test_half_a_character_is_told_from_data_that_was_cut(data: bytes, told: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode_json(data, dict[str, Any], "the body", "look it up")
    assert told in caught.value.message
    assert caught.value.status == 400
    is_half = "unpaired" in told
    assert ("both halves" in caught.value.hint) is is_half


def test_whole_characters_pass() -> None:
    data = rb'{"a":"\ud83d\ude00 \\ud800"}'
    assert decode_json(data, dict[str, Any], "the body", "") == {"a": "\U0001f600 \\ud800"}
