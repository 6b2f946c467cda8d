from __future__ import annotations

import hashlib

import pytest

from rollq.base.digests import (
    DIGEST_BYTES,
    checked_digest,
    digest_from_text,
    digest_to_text,
)
from rollq.base.errors import ErrorCode, RemoteError

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1


def test_text_and_bytes_are_one_to_one() -> None:
    digest = hashlib.sha256(b"abc").digest()
    assert len(digest) == DIGEST_BYTES
    assert digest_to_text(digest) == ABC
    assert digest_from_text(ABC) == digest


@pytest.mark.parametrize(
    "text",
    ["", ABC[:-1], ABC + "0", ABC.upper(), " " + ABC[1:], ABC + "\n", "../" + ABC[3:], "٣" * 64],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(RemoteError) as caught:
        digest_from_text(text)
    assert caught.value.code is ErrorCode.BAD_ID


def test_bytes_of_another_length_are_refused() -> None:
    assert checked_digest(bytes(32)) == bytes(32)
    for length in (0, 31, 33):
        with pytest.raises(RemoteError) as caught:
            checked_digest(bytes(length))
        assert caught.value.code is ErrorCode.BAD_ID
        with pytest.raises(ValueError, match="32 bytes"):
            digest_to_text(bytes(length))
