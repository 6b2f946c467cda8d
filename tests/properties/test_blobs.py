"""Transfers of blobs end with the same bytes whatever is cut, delayed, repeated or reordered by
the disks, and never hold more than the window."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.errors import RemoteError
from rollq.roles.blobs.client_machine import BlobClientMachine
from rollq.roles.blobs.server_machine import ServerMachine
from rollq.roles.blobs.turns import TransferSlots
from rollq.wire import blob_messages as b
from rollq.wire.handshake import Side
from tests.effort import examples
from tests.unit.roles.blob_world import WINDOW, World, digest_of, small_sizes

BLOBS = st.lists(
    st.builds(
        lambda seed, size: (seed * 400)[:size],
        st.binary(min_size=1, max_size=9),
        st.integers(0, 400),
    ),
    min_size=1,
    max_size=4,
    unique=True,
)
# What happens next: bytes one way or the other, some disk work, a cut.
STEPS = st.lists(st.tuples(st.sampled_from("ssssccccddddddddx"), st.integers(0, 200)), max_size=150)


def check_bounds(world: World) -> None:
    """What each side may hold."""
    for machine in (world.client, world.server):
        assert machine._sending.ahead_bytes <= WINDOW
        assert machine._sending.ahead_bytes >= 0
        for arrival in machine._arrivals.values():
            assert 0 <= arrival.held_bytes <= WINDOW


def play(world: World, steps: list[tuple[str, int]], begin: list[bytes], *, puts: bool) -> None:
    """Some of the transfers under a schedule, with cuts; then all of them to their end."""

    def ask() -> None:
        done = {blob for blob in begin if is_done(world, blob, puts=puts)}
        for blob in begin:
            if blob in done:
                continue
            if puts:
                world.put(blob)
            else:
                world.get(digest_of(blob), len(blob))

    ask()
    for what, size in steps:
        if what == "s":
            world.carry(Side.DIALER, size)
        elif what == "c":
            world.carry(Side.ACCEPTER, size)
        elif what == "d" and world.disk:
            world.work(size % len(world.disk))
        elif what == "x":
            world.cut()
            ask()
        check_bounds(world)
    world.settle()


def is_done(world: World, blob: bytes, *, puts: bool) -> bool:
    """Whether there is nothing left to do."""
    return not puts and bytes(world.fetched.get(digest_of(blob), b"")) == blob != b""


@settings(max_examples=examples(150))
@given(BLOBS, STEPS)
def test_what_is_put_arrives(blobs: list[bytes], steps: list[tuple[str, int]]) -> None:
    with small_sizes():
        world = World()
        play(world, steps, blobs, puts=True)
        assert world.stored == {digest_of(blob): blob for blob in blobs}
        assert not any(code for _, code in world.over)


@settings(max_examples=examples(150))
@given(BLOBS, STEPS)
def test_what_is_fetched_arrives(blobs: list[bytes], steps: list[tuple[str, int]]) -> None:
    with small_sizes():
        world = World()
        world.stored = {digest_of(blob): blob for blob in blobs}
        play(world, steps, blobs, puts=False)
        assert world.fetched == world.stored
        assert not any(code for _, code in world.over)


@settings(max_examples=examples(100))
@given(BLOBS, STEPS)
def test_without_cuts_every_byte_is_sent_once(
    blobs: list[bytes], steps: list[tuple[str, int]]
) -> None:
    with small_sizes():
        world = World()
        play(world, [step for step in steps if step[0] != "x"], blobs, puts=True)
        assert world.chunk_bytes == sum(map(len, blobs))


@settings(max_examples=examples(60))
@given(BLOBS, st.integers(0, 1_500))
def test_a_cut_after_any_byte_costs_at_most_the_window(blobs: list[bytes], cut: int) -> None:
    with small_sizes():
        world = World()
        for blob in blobs:
            world.put(blob)
        while cut and (world.disk or world.to_server or world.to_client):
            if world.disk:
                world.work()
            world.carry(Side.ACCEPTER, len(world.to_client))
            size = min(cut, len(world.to_server), 50)
            cut -= size
            world.carry(Side.DIALER, size)
        sent = world.chunk_bytes
        world.cut()
        for blob in blobs:
            world.put(blob)
        world.settle()
        assert world.stored == {digest_of(blob): blob for blob in blobs}
        assert sent <= world.chunk_bytes <= sum(map(len, blobs)) + WINDOW


DIGESTS = st.sampled_from([bytes(32), b"\x01" * 32])
SMALL = st.integers(-2, 30)
WORDS = st.one_of(
    st.builds(b.BlobAsk, st.just(bytes(16)), st.lists(DIGESTS, max_size=2).map(tuple)),
    st.builds(b.BlobHave, st.just(bytes(16)), st.lists(SMALL, max_size=2).map(tuple)),
    st.builds(b.BlobPut, DIGESTS, SMALL),
    st.builds(b.BlobGo, DIGESTS, SMALL, st.sampled_from([0, 0, 402, 9999])),
    st.builds(b.BlobChunk, DIGESTS, SMALL, st.binary(max_size=20), SMALL),
    st.builds(b.BlobStored, DIGESTS, st.sampled_from([0, 0, 402, 9999])),
    st.builds(b.BlobGet, DIGESTS, SMALL),
    st.builds(b.BlobInfo, DIGESTS, SMALL, st.sampled_from([0, 0, 402])),
    st.builds(b.BlobMore, DIGESTS, SMALL),
    st.builds(b.BlobDrop, DIGESTS),
)
SERVER_WORDS = (b.BlobAsk, b.BlobPut, b.BlobChunk, b.BlobGet, b.BlobMore, b.BlobDrop)


@settings(max_examples=examples(300))
@given(st.lists(WORDS, max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_no_words_hurt_a_machine(words: list[b.BlobMessage], work: list[int]) -> None:
    """Whatever is said is taken, ignored or refused, in any order and any number of times."""
    with small_sizes():
        world = World()
        world.stored[bytes(32)] = bytes(20)
        world.client.put(bytes(32), 10)
        world.sources[id(world.client), 1] = bytes(10)
        world.client.get(b"\x01" * 32, 20, 0)
        for at, word in enumerate(words):
            machine: ServerMachine | BlobClientMachine = world.server
            if not isinstance(word, SERVER_WORDS):
                machine = world.client
            try:
                machine.on_message(word)
            except RemoteError:
                return  # the link would end
            machine.take_orders()
            check_bounds(world)
            if at < len(work):
                machine.tick()


@settings(max_examples=examples(200))
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 5)), max_size=40),
)
def test_turns_are_given_to_all_and_one_at_a_time(
    count_max: int, steps: list[tuple[bool, int, int]]
) -> None:
    turns: TransferSlots[int, int] = TransferSlots(count_max)
    serving: dict[tuple[int, int], None] = {}
    asked: dict[tuple[int, int], None] = {}

    def start(key: int, who: int) -> None:
        serving[key, who] = None

    for enters, key, who in steps:
        one = (key, who)
        if enters and one not in asked:
            asked[one] = None
            turns.enter(key, who, lambda one=one: start(*one))  # type: ignore[misc]
        elif not enters:
            asked.pop(one, None)
            serving.pop(one, None)
            turns.leave(key, who)
        assert len(serving) <= count_max
        assert len({key for key, _ in serving}) == len(serving)
        assert len(serving) == min(count_max, len({key for key, _ in asked}))
    while asked:
        one = next(iter(serving))
        asked.pop(one)
        serving.pop(one)
        turns.leave(*one)
    assert not serving
