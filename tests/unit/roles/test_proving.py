"""Blobs of those who must prove to have them: every byte is asked for, and no byte is told."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import BLOB_WRITERS_MAX
from rollq.roles.blobs.orders import Begin
from rollq.roles.blobs.proving import ProvingSink
from rollq.roles.blobs.server import Writers
from rollq.roles.blobs.server_session import ServerSession

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


class Shelf:
    """A store with one blob, or a part of one."""

    def __init__(self, whole: bytes | None, part: bytes = b"") -> None:
        self.whole = whole
        self.part = Part(part)

    def size(self, digest: bytes) -> int | None:
        return None if self.whole is None else len(self.whole)

    def begin(self, digest: bytes, size: int) -> Part:
        return self.part


def proving(shelf: Shelf, writers: Writers, account: str) -> Any:
    """Where the bytes of an account go that must prove to have them."""
    session: Any = ServerSession.__new__(ServerSession)
    session._server = SimpleNamespace(store=shelf, writers=writers)
    session._account = account
    return session._proving(Begin(1, DIGEST, len(DATA), proves=True))


def test_an_account_goes_on_with_its_own_upload_and_with_no_other() -> None:
    writers = Writers()
    shelf = Shelf(None, DATA[:100])
    assert proving(shelf, writers, "ann").offset == 0  # who brought these is not known
    assert proving(shelf, writers, "ann").offset == 100  # she did
    assert proving(shelf, writers, "bob").offset == 0
    # And now that bob may have gone on with it, what is there is not all hers.
    assert proving(shelf, writers, "ann").offset == 0
    assert proving(Shelf(DATA), writers, "ann").offset == 0  # nor is a blob that is here


def test_who_began_uploads_is_remembered_of_the_last_ones() -> None:
    writers = Writers()
    for number in range(BLOB_WRITERS_MAX + 10):
        writers[b"%d" % number] = "ann"
    assert len(writers) == BLOB_WRITERS_MAX
    assert b"0" not in writers
