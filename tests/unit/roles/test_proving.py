"""Blobs of those who must prove to have them: every byte is asked for, and no byte is told."""

from __future__ import annotations

import hashlib

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.roles.blobs.proving import ProvingSink

DATA = bytes(range(256)) * 4
DIGEST = hashlib.sha256(DATA).digest()


class Part:
    """What is here of a blob."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.is_kept = False
        self.is_closed = False

    @property
    def offset(self) -> int:
        return len(self.data)

    def write(self, data: bytes) -> None:
        self.data += data

    def commit(self) -> None:
        self.is_kept = True

    def close(self) -> None:
        self.is_closed = True


def bring(sink: ProvingSink, data: bytes, step: int) -> None:
    assert sink.offset == 0
    for at in range(0, len(data), step):
        sink.write(data[at : at + step])


@pytest.mark.parametrize("here", [0, 1, 100, 700, len(DATA)])
@pytest.mark.parametrize("step", [1, 99, len(DATA)])
def test_all_bytes_are_wanted_and_those_that_lack_are_written(here: int, step: int) -> None:
    part = Part(DATA[:here])
    sink = ProvingSink(DIGEST, len(DATA), part)
    bring(sink, DATA, step)
    sink.commit()
    sink.close()
    assert (part.data, part.is_kept, part.is_closed) == (DATA, True, True)


@pytest.mark.parametrize("data", [DATA[:-1], DATA[:-1] + b"x", b""])
def test_whoever_does_not_have_it_proves_nothing(data: bytes) -> None:
    """Also the one who knows the end that another has not brought yet."""
    for part in (None, Part(DATA[:-1])):
        sink = ProvingSink(DIGEST, len(DATA), part)
        bring(sink, data, 50)
        with pytest.raises(RemoteError) as caught:
            sink.commit()
        assert caught.value.code is ErrorCode.BLOB_CORRUPT
        assert part is None or not part.is_kept


def test_a_blob_that_is_here_is_not_written_again() -> None:
    sink = ProvingSink(DIGEST, len(DATA), None)
    bring(sink, DATA, 1000)
    sink.commit()
    sink.close()
