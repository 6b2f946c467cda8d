"""Blobs of a member: what a majority holds, the store with its leases, when to try again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_FETCH_AGAIN_MS, BLOB_FETCH_AGAIN_MS_MAX
from rollq.grid.refs import hold_blobs, release_blobs
from rollq.grid.state import GridState
from rollq.raft.types import Role
from rollq.roles.member.blobs.care import Retries
from rollq.roles.member.blobs.majority import GroupKnowledge, MajorityBlobs
from rollq.roles.member.blobs.member import BUSY_MS, MemberBlobs
from rollq.roles.member.blobs.member_store import MemberBlobStore
from rollq.roles.member.setup import MemberSetup
from rollq.store.blobs.keeper import Keeper
from rollq.store.blobs.local import LocalBlobs

A, B, C = (BlobRef(letter * 32, 5) for letter in (b"a", b"b", b"c"))
VOTERS = (1, 2, 3)
LEASE_MS = 1_000


# --- the book


def test_the_book_holds_what_was_vouched_for_in_its_size_and_time() -> None:
    book = MajorityBlobs()
    assert not book.holds(A, 0, VOTERS)
    book.vouch(A.digest, A.size, 100, VOTERS)
    assert book.holds(A, 99, VOTERS)
    assert not book.holds(A, 100, VOTERS)
    assert not book.holds(BlobRef(A.digest, A.size + 1), 99, VOTERS)
    book.forget(A.digest)
    book.forget(A.digest)
    assert not book.holds(A, 99, VOTERS)


def test_a_majority_of_others_is_another_majority() -> None:
    book = MajorityBlobs()
    book.vouch(A.digest, A.size, 100, VOTERS)
    assert not book.holds(A, 0, (1, 2, 4))
    assert not book.holds(A, 0, VOTERS)


def test_the_book_is_bounded_and_the_oldest_entry_goes() -> None:
    book = MajorityBlobs(2)
    for ref in (A, B, A, C):
        book.vouch(ref.digest, ref.size, 100, VOTERS)
    assert [book.holds(ref, 0, VOTERS) for ref in (A, B, C)] == [True, False, True]
    assert len(book) == 2


def test_what_the_state_refers_to_is_held_and_the_rest_is_looked_for() -> None:
    book, state = MajorityBlobs(), GridState()
    sought: list[Digest] = []
    knowledge = GroupKnowledge(book, lambda: state, lambda: VOTERS, lambda: 7, sought.append)
    hold_blobs(state, [A], "ann")
    book.vouch(B.digest, B.size, 8, VOTERS)
    assert knowledge.lacking([A, B, C]) == [C.digest]
    assert sought == [C.digest]


# --- news of the state


def test_the_state_tells_the_first_reference_and_the_last() -> None:
    state = GridState()
    hold_blobs(state, [A], "ann")
    assert state.blob_news is None
    state.blob_news = []
    hold_blobs(state, [A, B, B], "ann")
    release_blobs(state, [A], "ann")
    assert state.blob_news == [(B.digest, True)]
    release_blobs(state, [B, A, B], "ann")
    assert state.blob_news == [(B.digest, True), (A.digest, False), (B.digest, False)]


# --- when to try again


def test_what_fails_is_tried_later_and_later() -> None:
    retries = Retries()
    assert retries.due([A.digest, B.digest, A.digest], 0) == [A.digest, B.digest]
    assert retries.next_ms() is None
    now_ms, waits = 0, []
    for _ in range(10):
        retries.failed(A.digest, now_ms)
        due_ms = retries.next_ms()
        assert due_ms is not None
        assert retries.due([A.digest, B.digest], due_ms - 1) == [B.digest]
        assert retries.due([A.digest], due_ms) == [A.digest]
        waits.append(due_ms - now_ms)
        now_ms = due_ms
    assert waits[:3] == [BLOB_FETCH_AGAIN_MS, 2 * BLOB_FETCH_AGAIN_MS, 4 * BLOB_FETCH_AGAIN_MS]
    assert waits[-1] == BLOB_FETCH_AGAIN_MS_MAX
    assert retries.due([], now_ms) == []
    assert retries.next_ms() is None


# --- the store of a member


class Room:
    """A store on a real disk, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now_ms = 10**13  # later than any file's own time
        self.store = LocalBlobs(folder)
        self.keeper = Keeper(self.store, ())
        self.tracked = MemberBlobStore(self.store, self.keeper, LEASE_MS, lambda: self.now_ms)

    def put(self, data: bytes) -> Digest:
        digest = hashlib.sha256(data).digest()
        sink = self.tracked.begin(digest, len(data))
        sink.write(data[sink.offset :])
        sink.commit()
        sink.close()
        return digest

    def evicted(self) -> list[Digest]:
        return [blob.digest for blob in self.keeper.evict(self.now_ms, 0)]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path / "blobs")
    yield made
    made.store.close()


def test_what_is_brought_or_asked_for_stays_for_the_time_of_a_lease(room: Room) -> None:
    digest = room.put(b"some")
    room.now_ms += LEASE_MS - 1
    assert room.evicted() == []
    assert room.tracked.size(digest) == 4
    room.now_ms += LEASE_MS - 1
    assert room.evicted() == []
    room.now_ms += 1
    assert room.evicted() == [digest]
    assert room.tracked.size(digest) is None


def test_asking_for_what_is_not_there_leaves_nothing_in_the_books(room: Room) -> None:
    assert room.tracked.size(A.digest) is None
    assert room.keeper.count == 0
    assert room.keeper.wanted() == []


def test_what_others_put_or_took_away_is_noticed(room: Room) -> None:
    digest = hashlib.sha256(b"beside").digest()
    with room.store.begin(digest, 6) as incoming:
        incoming.write(b"beside")
        incoming.commit()
    assert room.tracked.size(digest) == 6
    assert room.keeper.holds(digest)
    room.keeper.pin(digest)
    room.store.remove(digest)
    assert room.tracked.size(digest) is None
    assert room.keeper.wanted() == [digest]
    assert room.put(b"beside") == digest
    room.store.remove(digest)
    with pytest.raises(StateError):
        room.tracked.open(digest)
    assert room.keeper.wanted() == [digest]


def rot(room: Room, digest: Digest, data: bytes) -> None:
    path = room.store.path(digest)
    assert path is not None
    path.chmod(0o644)
    path.write_bytes(data)


def test_a_rotten_blob_is_wanted_again(room: Room) -> None:
    digest = room.put(b"some")
    room.keeper.pin(digest)
    assert room.tracked.is_sound(digest)
    rot(room, digest, b"same")
    assert not room.tracked.is_sound(digest)
    assert room.keeper.wanted() == [digest]
    assert not room.tracked.is_sound(digest)
    room.put(b"some")
    assert room.tracked.is_sound(digest)
    assert room.keeper.wanted() == []


def test_one_that_became_shorter_gives_way_to_the_whole(room: Room) -> None:
    digest = room.put(b"some")
    rot(room, digest, b"so")
    room.put(b"some")
    assert room.tracked.is_sound(digest)
    assert room.keeper.bytes_stored == 4
    with pytest.raises(RemoteError) as caught:
        room.tracked.begin(digest, 5)
    assert caught.value.code is ErrorCode.BLOB_CORRUPT


def test_a_shared_store_has_no_books(tmp_path: Path) -> None:
    store = LocalBlobs(tmp_path)
    tracked = MemberBlobStore(store, None, LEASE_MS, lambda: 0)
    digest = hashlib.sha256(b"x").digest()
    assert tracked.size(digest) is None
    sink = tracked.begin(digest, 1)
    sink.write(b"x")
    sink.commit()
    sink.close()
    assert tracked.size(digest) == 1
    assert tracked.open(digest).read(0, 1) == b"x"
    rot_path = store.path(digest)
    assert rot_path is not None
    rot_path.chmod(0o644)
    rot_path.write_bytes(b"y")
    assert not tracked.is_sound(digest)
    with pytest.raises(StateError):
        tracked.open(digest)
    store.close()


# --- jobs come first


def test_blobs_make_room_for_a_while_after_anything_was_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000]
    monkeypatch.setattr("rollq.roles.member.blobs.member.steady_clock", lambda: lambda: clock[0])
    state = GridState()
    driver: Any = SimpleNamespace(state=state, raft=SimpleNamespace(role=Role.FOLLOWER))
    blobs = MemberBlobs(MemberSetup("a:1"), tmp_path, driver)
    pace = blobs.server.pace
    assert pace is not None
    blobs.follow()
    assert not pace.is_busy()
    state.applied_index = 7
    blobs.follow()
    assert pace.is_busy()
    clock[0] += BUSY_MS
    blobs.follow()
    assert not pace.is_busy()
    asyncio.run(blobs.stop())
