"""What is kept and what goes: the fast books against a slow twin, and the races by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.store.blobs.index import NONE, Index
from rollq.store.blobs.keeper import Keeper
from rollq.store.blobs.local import LocalBlobs
from rollq.store.blobs.protocol import StoredBlob
from tests.contracts.blob_places import digest_of

NAMES = [digest_of(bytes([number])) for number in range(8)]
A, B, C, D = NAMES[:4]


class Fake(LocalBlobs):
    """A store in a dict; only what a keeper asks for."""

    def __init__(self, blobs: Iterable[StoredBlob] = ()) -> None:
        self.blobs = {blob.digest: blob for blob in blobs}
        self.removing = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.fails = False

    def size(self, digest: bytes) -> int | None:
        blob = self.blobs.get(digest)
        return None if blob is None else blob.size

    def digests(self, start: int = 0) -> Iterator[StoredBlob]:
        yield from list(self.blobs.values())

    def remove(self, digest: bytes) -> None:
        self.removing.set()
        assert self.go_on.wait(20)
        if self.fails:
            raise DiskError(ErrorCode.DISK_FAILED, "no")
        self.blobs.pop(digest, None)

    def put(self, digest: bytes, size: int) -> None:
        self.blobs[digest] = StoredBlob(digest, size, 0)


def three() -> Fake:
    """B is the oldest, then C, then A."""
    return Fake([StoredBlob(A, 10, 300), StoredBlob(B, 20, 100), StoredBlob(C, 30, 200)])


def names(blobs: Iterable[StoredBlob]) -> list[bytes]:
    return [blob.digest for blob in blobs]


def test_the_oldest_go_first_until_it_is_small_enough() -> None:
    store = three()
    keeper = Keeper(store, [])
    assert (keeper.count, keeper.bytes_stored) == (3, 60)
    assert keeper.evict(1_000, None) == []
    assert keeper.evict(1_000, 60) == []
    assert names(keeper.victims(1_000, 59)) == [B]
    assert keeper.bytes_stored == 60
    assert names(keeper.evict(1_000, 59)) == [B]
    assert names(keeper.evict(1_000, 0)) == [C, A]
    assert (keeper.count, keeper.bytes_stored, store.blobs) == (0, 0, {})


def test_the_old_go_though_there_is_room() -> None:
    keeper = Keeper(three(), [])
    assert keeper.evict(1_000, None, 900) == []
    assert names(keeper.evict(1_001, None, 900)) == [B]
    assert names(keeper.victims(1_200, 5, 900)) == [C, A]
    assert names(keeper.evict(1_200, None, 900)) == [C]


def test_what_was_used_goes_later() -> None:
    keeper = Keeper(three(), [])
    keeper.touched(B, 400)
    keeper.touched(D, 400)
    keeper.touched(C, 50)  # a clock that was set back
    assert names(keeper.evict(1_000, 0)) == [A, B, C]


def test_what_is_pinned_stays() -> None:
    keeper = Keeper(three(), [(B, 2), (D, 1)])
    assert keeper.wanted() == [D]
    assert names(keeper.evict(1_000, 0, 0)) == [C, A]
    keeper.unpin(B, 1_000)
    assert keeper.evict(9_000, 0, 0) == []
    keeper.pin(B)
    keeper.unpin(B, 1_000, 2)
    assert keeper.evict(1_500, None, 500) == []  # it was needed until just now
    assert names(keeper.evict(1_501, None, 500)) == [B]
    keeper.unpin(D, 1_000)
    assert keeper.wanted() == []
    for digest in (D, A):
        with pytest.raises(LocalError) as caught:
            keeper.unpin(digest, 1_000)
        assert caught.value.code is ErrorCode.BUG


def test_a_pin_may_be_there_before_its_blob() -> None:
    store = Fake()
    keeper = Keeper(store, [])
    keeper.pin(A)
    assert keeper.wanted() == [A]
    assert not keeper.holds(A)
    store.put(A, 5)
    assert keeper.stored(A, 5, 100)
    assert keeper.stored(A, 5, 100)
    assert keeper.holds(A)
    assert (keeper.wanted(), keeper.count, keeper.bytes_stored) == ([], 1, 5)
    assert keeper.evict(9_000, 0, 0) == []
    keeper.lost(A)
    assert (keeper.wanted(), keeper.count, keeper.bytes_stored) == ([A], 0, 0)
    keeper.lost(A)
    keeper.lost(B)


def test_a_lease_keeps_until_it_ends() -> None:
    store = three()
    keeper = Keeper(store, [])
    assert keeper.lease(B, 500)
    assert keeper.lease(B, 2_000)
    assert keeper.lease(B, 600)  # a shorter one does not shorten it
    assert not keeper.lease(D, 2_000)
    assert names(keeper.evict(1_999, 0)) == [C, A]
    store.put(D, 1)
    assert keeper.stored(D, 1, 1_999)
    assert keeper.evict(1_999, 0) == []
    assert sorted(names(keeper.evict(2_000, 0))) == sorted([B, D])


def test_a_lease_gives_way_to_a_pin() -> None:
    keeper = Keeper(three(), [])
    keeper.lease(B, 500)
    keeper.pin(B)
    assert names(keeper.evict(1_000, 0)) == [C, A]
    keeper.lease(B, 3_000)
    keeper.unpin(B, 1_000)
    assert keeper.evict(2_999, 0) == []
    assert names(keeper.evict(3_000, 0)) == [B]


def test_all_pins_can_be_replaced() -> None:
    keeper = Keeper(three(), [(A, 1), (B, 1), (D, 3)])
    keeper.repin([(B, 2), (C, 1), (NAMES[5], 1)], 1_000)
    assert keeper.wanted() == [NAMES[5]]
    assert names(keeper.evict(2_000, 0)) == [A]
    keeper.unpin(B, 1_000, 2)
    keeper.unpin(C, 1_000)
    assert sorted(names(keeper.evict(2_000, 0))) == sorted([B, C])


def test_what_cannot_be_removed_stays_in_the_books() -> None:
    store = three()
    keeper = Keeper(store, [])
    store.fails = True
    with pytest.raises(DiskError):
        keeper.evict(1_000, 0)
    assert (keeper.count, keeper.bytes_stored) == (3, 60)
    store.fails = False
    assert len(keeper.evict(1_000, 0)) == 3


def test_nobody_waits_for_an_eviction_but_who_stores_the_same() -> None:
    store = three()
    keeper = Keeper(store, [])
    store.go_on.clear()
    evicting = threading.Thread(target=keeper.evict, args=(1_000, 59))
    evicting.start()
    assert store.removing.wait(20)
    assert not keeper.lease(B, 5_000)  # it is as good as gone
    keeper.pin(B)
    assert keeper.wanted() == [B]
    assert keeper.lease(C, 5_000)
    answers: list[bool] = []
    storing = threading.Thread(target=lambda: answers.append(keeper.stored(B, 20, 1_000)))
    storing.start()
    assert answers == []
    store.go_on.set()
    storing.join(20)
    evicting.join(20)
    assert answers == [False]  # the eviction took what had just been stored
    assert keeper.wanted() == [B]
    store.put(B, 20)
    assert keeper.stored(B, 20, 1_000)
    assert keeper.evict(2_000, 0) == [StoredBlob(A, 10, 300)]


def test_the_books_of_a_real_store(tmp_path: Path) -> None:
    store = LocalBlobs(tmp_path / "blobs", room_bytes=0)
    (tmp_path / "x").write_bytes(b"x" * 100)
    digest, size = store.put_file(tmp_path / "x")
    keeper = Keeper(store, [])
    assert (keeper.count, keeper.bytes_stored) == (1, size)
    assert names(keeper.evict(0, 99)) == [digest]
    assert store.size(digest) is None
    store.close()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pin", "unpin", "lease", "stored", "touched", "lost", "evict", "repin"]),
        st.sampled_from(NAMES),
        st.integers(0, 40),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_books_are_those_of_a_slow_twin(steps: list[tuple[str, bytes, int]]) -> None:
    store = three()
    keeper = Keeper(store, [])
    twin = Twin(store)
    now_ms = 1_000
    for verb, digest, number in steps:
        now_ms += number
        if verb == "evict":
            victims = names(keeper.victims(now_ms, number, 60))
            gone = names(keeper.evict(now_ms, number, 60))
            assert gone == victims
            twin.judge(gone, now_ms, number, 60)
        elif verb == "touched":
            keeper.touched(digest, now_ms)
            if twin.may_go(digest):
                twin.use(digest, now_ms)
        elif verb == "pin":
            keeper.pin(digest, number + 1)
            twin.pins[digest] = twin.pins.get(digest, 0) + number + 1
        elif verb == "unpin" and twin.pins.get(digest):
            count = min(twin.pins[digest], number + 1)
            keeper.unpin(digest, now_ms, count)
            twin.pins[digest] -= count
            twin.use(digest, now_ms)
        elif verb == "lease":
            assert keeper.lease(digest, now_ms + number) == (digest in twin.sizes)
            twin.leases[digest] = max(now_ms + number, twin.leases.get(digest, 0))
        elif verb == "stored":
            store.put(digest, number)
            assert keeper.stored(digest, number, now_ms)
            twin.sizes[digest] = number
            twin.use(digest, now_ms)
        elif verb == "lost":
            store.remove(digest)
            keeper.lost(digest)
            twin.sizes.pop(digest, None)
        elif verb == "repin":
            keeper.repin([(digest, 1)], now_ms)
            for one in [name for name, pins in twin.pins.items() if pins]:
                twin.use(one, now_ms)
            twin.pins = {digest: 1}
            twin.use(digest, now_ms)
        twin.check(keeper, store)


class Twin:
    """Plain dicts, looked through as a whole each time."""

    def __init__(self, store: Fake) -> None:
        self.sizes = {digest: blob.size for digest, blob in store.blobs.items()}
        self.pins: dict[bytes, int] = {}
        self.leases: dict[bytes, int] = {}
        self.used = {digest: blob.mtime_ms for digest, blob in store.blobs.items()}

    def use(self, digest: bytes, now_ms: int) -> None:
        self.used[digest] = now_ms

    def may_go(self, digest: bytes) -> bool:
        return digest in self.sizes and not self.pins.get(digest) and digest not in self.leases

    def judge(self, gone: list[bytes], now_ms: int, bytes_max: int, age_ms: int) -> None:
        """Nothing went that must stay, nothing stayed that must go, and the oldest went."""
        for digest in [name for name, until_ms in self.leases.items() if until_ms <= now_ms]:
            del self.leases[digest]
            self.use(digest, now_ms)
        ages = [self.used[digest] for digest in gone]
        assert all(map(self.may_go, gone))
        assert ages == sorted(ages)
        for digest, age in zip(gone, ages, strict=True):
            assert sum(self.sizes.values()) > bytes_max or age < now_ms - age_ms
            del self.sizes[digest]
        left = [self.used[digest] for digest in self.sizes if self.may_go(digest)]
        assert all(age >= now_ms - age_ms for age in left)
        assert not left or sum(self.sizes.values()) <= bytes_max
        assert not left or not ages or ages[-1] <= min(left)

    def check(self, keeper: Keeper, store: Fake) -> None:
        assert keeper.bytes_stored == sum(self.sizes.values())
        assert keeper.count == len(self.sizes) == len(store.blobs)
        wanted = [name for name, pins in self.pins.items() if pins and name not in self.sizes]
        assert sorted(keeper.wanted()) == sorted(wanted)


@given(st.lists(st.tuples(st.booleans(), st.binary(min_size=2, max_size=2)), max_size=300))
def test_the_index_is_a_dict(steps: list[tuple[bool, bytes]]) -> None:
    """Digests that fall on few heads of few tables."""
    index = Index()
    twin: dict[bytes, int] = {}
    for adds, seed in steps:
        digest = bytes([seed[0] % 3]) + bytes(3) + bytes([seed[1] % 16]) + bytes(25) + seed
        row = index.find(digest)
        assert (row != NONE) == (digest in twin)
        if adds and row == NONE:
            twin[digest] = index.add(digest)
        elif not adds and row != NONE:
            index.drop(row)
            del twin[digest]
    assert len(index) == len(twin)
    assert {index.digest(row): row for row in index.rows()} == twin
    assert all(index.find(digest) == row for digest, row in twin.items())
