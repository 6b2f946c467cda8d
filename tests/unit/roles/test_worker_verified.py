"""When a worker reads a blob of its store again before a job gets it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from rollq.roles.worker import verified
from rollq.roles.worker.verified import TRUSTED_MS, VerifiedBlobs
from rollq.store.blobs.local import LocalBlobs

DATA = b"content" * 1_000
DIGEST = hashlib.sha256(DATA).digest()


class Counted(LocalBlobs):
    """Counts how often a blob was read."""

    reads = 0

    def verify(self, digest: bytes) -> bool:
        self.reads += 1
        return super().verify(digest)


@pytest.fixture
def store(tmp_path: Path) -> Counted:
    store = Counted(tmp_path / "blobs")
    with store.begin(DIGEST, len(DATA)) as incoming:
        incoming.write(DATA)
        incoming.commit()
    return store


def path_of(store: LocalBlobs) -> Path:
    path = store.path(DIGEST)
    assert path is not None
    return path


def test_one_that_looks_as_it_did_is_trusted_for_a_time(store: Counted) -> None:
    seen = VerifiedBlobs(store)
    assert seen.is_sound(DIGEST, 1)
    assert seen.is_sound(DIGEST, TRUSTED_MS)
    assert store.reads == 1
    assert seen.is_sound(DIGEST, TRUSTED_MS + 1)
    assert store.reads == 2
    other = VerifiedBlobs(store)
    other.note(DIGEST, 5)
    assert other.is_sound(DIGEST, 6)
    assert store.reads == 2


def test_one_that_changed_is_read_and_set_aside_if_it_is_rotten(store: Counted) -> None:
    seen = VerifiedBlobs(store)
    seen.note(DIGEST, 1)
    os.utime(path_of(store), ns=(1, 1))
    assert seen.is_sound(DIGEST, 2)
    assert store.reads == 1
    path_of(store).chmod(0o644)
    path_of(store).write_bytes(DATA[:-1] + b"x")
    assert not seen.is_sound(DIGEST, 3)
    assert store.path(DIGEST) is None
    assert not seen.is_sound(DIGEST, 4)
    seen.note(DIGEST, 5)
    assert not seen.is_sound(DIGEST, 6)


def test_of_too_many_the_oldest_is_read_again(
    store: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified, "LOOKS_MAX", 1)
    seen = VerifiedBlobs(store)
    seen.note(DIGEST, 1)
    with store.begin(hashlib.sha256(b"").digest(), 0) as incoming:
        incoming.commit()
    seen.note(hashlib.sha256(b"").digest(), 2)
    assert seen.is_sound(DIGEST, 3)
    assert store.reads == 1
