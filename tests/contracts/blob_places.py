"""Places where blobs can be kept, each with a way to spoil what is in it; and the usual calls."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from fsspec.core import url_to_fs

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode
from rollq.store.blobs.local import LocalBlobs
from rollq.store.blobs.protocol import BlobStore
from rollq.store.blobs.remote import FsspecBlobs

NEVER_FULL = 0


def digest_of(data: bytes) -> Digest:
    return hashlib.sha256(data).digest()


def put(store: BlobStore, data: bytes) -> bytes:
    digest = digest_of(data)
    with store.begin(digest, len(data)) as incoming:
        incoming.write(data[incoming.offset :])
        incoming.commit()
    return digest


def get(store: BlobStore, digest: bytes, step: int = 1_000_000) -> bytes:
    reader = store.open(digest)
    try:
        return b"".join(reader.read(at, step) for at in range(0, max(reader.size, 1), step))
    finally:
        reader.close()
        reader.close()


@contextlib.contextmanager
def refused(code: ErrorCode, kind: type[Exception], naming: bytes = b"") -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert getattr(caught.value, "code", None) is code
    assert naming.hex() in str(caught.value)


class Place(Protocol):
    """One empty place. Opened twice, it is the same place."""

    def open(self, room_bytes: int = NEVER_FULL) -> BlobStore: ...

    def overwrite(self, name: str, data: bytes) -> None:
        """Behind the back of the store."""

    def names(self) -> list[str]:
        """Everything that is there, but locks."""

    @property
    def partial(self) -> Path:
        """Where uploads that were cut rest."""


class LocalPlace:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, room_bytes: int = NEVER_FULL) -> BlobStore:
        return LocalBlobs(self._folder, room_bytes=room_bytes)

    def overwrite(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.chmod(0o644)
        path.write_bytes(data)

    def names(self) -> list[str]:
        found = (path for path in self._folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self._folder)) for path in found if path.name != "LOCK")

    @property
    def partial(self) -> Path:
        return self._folder / "partial"


class RemotePlace:
    def __init__(self, url: str, staging: Path, options: dict[str, Any]) -> None:
        self._url = url
        self._staging = staging
        self._options = options

    def open(self, room_bytes: int = NEVER_FULL) -> BlobStore:
        return FsspecBlobs(
            self._url, self._staging, room_bytes=room_bytes, options=dict(self._options)
        )

    def overwrite(self, name: str, data: bytes) -> None:
        fs, root = self._reach()
        fs.pipe_file(f"{root}/{name}", data)

    def names(self) -> list[str]:
        fs, root = self._reach()
        there = [str(name).removeprefix(f"{root}/") for name in fs.find(root)]
        staged = self._staging.iterdir() if self._staging.is_dir() else ()
        return sorted([*there, *(f"staging/{path.name}" for path in staged)])

    @property
    def partial(self) -> Path:
        return self._staging

    def _reach(self) -> tuple[Any, str]:
        fs, root = url_to_fs(self._url, use_listings_cache=False, **self._options)
        return fs, str(root).rstrip("/")


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """S3 in a process of its own; what fsspec needs to reach it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"http://[\d.:]+", line):
                break
        else:
            raise AssertionError("moto did not start")
        # A pipe that nobody reads would stop it in the end.
        with subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL):
            try:
                yield {
                    "key": "key",
                    "secret": "secret",
                    "client_kwargs": {"endpoint_url": found[0]},
                }
            finally:
                process.terminate()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
