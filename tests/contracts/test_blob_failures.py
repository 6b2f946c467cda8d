"""Stores of blobs when what is below them fails half way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq.base.errors import DialError, DiskError, ErrorCode, LocalError
from rollq.store.blobs.partial import Part
from rollq.store.blobs.protocol import BlobStore
from rollq.store.blobs.remote import FsspecBlobs
from rollq.store.blobs.staged import place_of
from tests.contracts.blob_places import Place, digest_of, get, put, refused

DATA = b"0123456789" * 2_000_000  # more than one part of an upload to S3
DIGEST = digest_of(DATA)
REMOTE = ["memory", "file", "s3"]


def cut_off(part: Part) -> Iterator[bytes]:
    """Most of it, and then the disk fails."""
    yield DATA[: 18 * 1024 * 1024]
    raise OSError(5, "bad")


@pytest.mark.parametrize("place", REMOTE, indirect=True)
def test_half_an_upload_is_never_seen(
    place: Place, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA)
        with monkeypatch.context() as patch:
            patch.setattr(Part, "pieces", cut_off)
            with refused(ErrorCode.DISK_FAILED, DiskError):
                incoming.commit()
    assert store.size(DIGEST) is None
    assert place.names() == []
    put(store, DATA)
    assert get(store, DIGEST) == DATA
    assert place.names() == [place_of(DIGEST)]


@pytest.mark.parametrize("place", REMOTE, indirect=True)
def test_a_store_that_is_not_reached_costs_no_bytes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place.open()
    assert isinstance(store, FsspecBlobs)

    def gone(*_: object, **__: object) -> Any:
        raise RuntimeError("no route")  # libraries below fsspec have errors of any kind

    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA)
        with monkeypatch.context() as patch:
            patch.setattr(store._fs, "open", gone)
            with refused(ErrorCode.UNREACHABLE, DialError):
                incoming.commit()
    assert store.size(DIGEST) is None
    with store.begin(DIGEST, len(DATA)) as incoming:
        assert incoming.offset == len(DATA)  # it waits here
        incoming.commit()
    assert get(store, DIGEST) == DATA
    with monkeypatch.context() as patch:
        patch.setattr(store._fs, "info", gone)
        with refused(ErrorCode.UNREACHABLE, DialError):
            store.missing([DIGEST])  # not reached is not the same as not there


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_bucket_that_is_not_there_is_no_empty_one(
    place: Place, s3: dict[str, Any], tmp_path: Path
) -> None:
    store = FsspecBlobs("s3://no-such-bucket/blobs", tmp_path, room_bytes=0, options=s3)
    with pytest.raises((DiskError, DialError)) as caught:
        put(store, b"x")
    assert "no-such-bucket" in str(caught.value)


def test_the_extra_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(LocalError) as caught:
        FsspecBlobs("s3://bucket/blobs", tmp_path)
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert "rollq[s3]" in caught.value.hint
