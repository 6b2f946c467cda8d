"""Output of jobs as documents: whatever is not text is there as bytes."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollq.documents.output import OutputDocuments
from rollq.roles.client.results.streams import StreamPart


def bytes_of(document: dict[str, Any]) -> bytes:
    if "base64" in document:
        return base64.b64decode(document["base64"])
    text: str = document["text"]
    return text.encode()


@given(st.lists(st.binary(max_size=8) | st.text(max_size=3).map(str.encode)))
def test_no_byte_is_lost(pieces: list[bytes]) -> None:
    documents = OutputDocuments()
    offset = 0
    for piece in pieces:
        document = documents.of(StreamPart("stdout", piece, offset, 1))
        assert bytes_of(document) == piece
        offset += len(piece)


def test_a_character_that_is_split_is_text_of_the_second_part() -> None:
    documents = OutputDocuments()
    whole = "日本".encode()
    first = documents.of(StreamPart("stdout", whole[:4], 0, 1))
    documents.of(StreamPart("stderr", b"between", 0, 1))
    second = documents.of(StreamPart("stdout", whole[4:], 4, 1))
    assert (first["text"], second["text"]) == ("日", "本")


def test_a_gap_or_another_attempt_does_not_complete_a_character() -> None:
    for follows in ({"skipped": 9, "attempt": 1}, {"attempt": 2}):
        documents = OutputDocuments()
        documents.of(StreamPart("stdout", "é".encode()[:1], 0, 1))
        after = documents.of(StreamPart("stdout", b"plain", 10, **follows))
        assert after["text"] == "plain"
        assert "base64" not in after
