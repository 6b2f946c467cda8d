"""Every place for blobs, empty."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import pytest

from rollq.store.blobs.protocol import BlobStore
from tests.contracts.blob_places import LocalPlace, Place, RemotePlace, s3_server

KINDS = ("local", "memory", "file", "s3")
NUMBERS = count()


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    with s3_server() as options:
        yield options


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind = request.param
    if kind == "local":
        return LocalPlace(tmp_path / "blobs")
    staging = tmp_path / "staging"
    if kind == "file":
        return RemotePlace(f"file://{tmp_path}/shared", staging, {})
    number = next(NUMBERS)
    if kind == "memory":
        return RemotePlace(f"memory://blobs-{number}", staging, {})
    options = request.getfixturevalue("s3")
    fsspec.filesystem("s3", **options).mkdir(f"bucket-{number}")
    return RemotePlace(f"s3://bucket-{number}/blobs", staging, options)


@pytest.fixture
def store(place: Place) -> Iterator[BlobStore]:
    store = place.open()
    yield store
    store.close()
