"""Files on their way through a router: to every group, and from the one that has them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import ErrorCode
from rollq.base.limits import BLOB_TRANSFERS_MAX
from rollq.roles.router.blob_machine import BlobRelay
from rollq.wire.blob_messages import (
    COMPLETE,
    MISSING,
    BlobAsk,
    BlobChunk,
    BlobDrop,
    BlobGet,
    BlobGo,
    BlobHave,
    BlobInfo,
    BlobMore,
    BlobPut,
    BlobStored,
)
from rollq.wire.messages import NotLeader

D, E = b"d" * 32, b"e" * 32
R = b"r" * 16
FULL = (int(ErrorCode.DISK_FULL), "full")


class Kit:
    """A relay, and what it said since it was last asked."""

    def __init__(self, count: int = 2) -> None:
        self.relay = BlobRelay(range(count))

    def says(self, *messages: Any) -> list[Any]:
        self.relay.on_client_messages(messages)
        return self.told()

    def group(self, number: int, *messages: Any) -> list[Any]:
        self.relay.on_group_messages(number, messages)
        return self.told()

    def told(self) -> list[Any]:
        told, self.relay.to_client = self.relay.to_client, []
        return told

    def sent(self) -> list[tuple[int, Any]]:
        sent, self.relay.to_groups = self.relay.to_groups, []
        return sent


def test_what_is_put_goes_to_every_group_from_where_each_lacks_it() -> None:
    kit = Kit()
    kit.says(BlobPut(D, 10))
    assert kit.sent() == [(0, BlobPut(D, 10)), (1, BlobPut(D, 10))]
    assert kit.group(0, BlobGo(D, 6)) == []
    assert kit.group(1, BlobGo(D, 2)) == [BlobGo(D, 2)]
    kit.says(BlobChunk(D, 2, b"2345678"), BlobChunk(D, 9, b"9"))
    assert kit.sent() == [
        (0, BlobChunk(D, 6, b"678")),
        (1, BlobChunk(D, 2, b"2345678")),
        (0, BlobChunk(D, 9, b"9")),
        (1, BlobChunk(D, 9, b"9")),
    ]
    assert kit.group(0, BlobMore(D, 10)) == [BlobMore(D, 2)]
    assert kit.group(1, BlobMore(D, 9)) == [BlobMore(D, 9)]
    assert kit.group(0, BlobStored(D)) == [BlobMore(D, 9)]
    assert kit.group(1, BlobStored(D)) == [BlobStored(D)]


def test_what_all_have_is_not_sent_and_what_one_has_counts_when_the_others_fail() -> None:
    kit = Kit()
    kit.says(BlobPut(D, 10))
    kit.group(0, BlobGo(D, COMPLETE))
    assert kit.group(1, BlobGo(D, COMPLETE)) == [BlobGo(D, COMPLETE)]
    kit.says(BlobPut(D, 10))
    kit.group(0, BlobGo(D, COMPLETE))
    assert kit.group(1, BlobGo(D, 0, *FULL)) == [BlobGo(D, COMPLETE)]
    kit.says(BlobPut(D, 10))
    kit.group(0, BlobGo(D, 0, *FULL))
    assert kit.group(1, BlobGo(D, 0)) == [BlobGo(D, 0)]
    assert kit.group(1, BlobStored(D, *FULL)) == [BlobStored(D, *FULL)]


def test_a_group_that_is_lost_falls_out_and_without_any_the_link_ends() -> None:
    kit = Kit()
    kit.says(BlobPut(D, 10), BlobAsk(R, (E,)))
    kit.group(1, BlobGo(D, 0), BlobHave(R, (5,)))
    assert kit.group(0, NotLeader("there")) == [BlobGo(D, 0), BlobHave(R, (5,))]
    kit.relay.lose(0)
    assert not kit.relay.failure
    kit.relay.lose(1)
    (failed,) = kit.told()
    assert failed.error == ErrorCode.NOT_READY
    assert kit.relay.failure


def test_only_what_every_group_has_is_there() -> None:
    kit = Kit()
    kit.says(BlobAsk(R, (D, E)))
    assert kit.group(0, BlobHave(R, (7, 9))) == []
    assert kit.group(1, BlobHave(R, (7, MISSING))) == [BlobHave(R, (7, MISSING))]


def test_what_is_got_comes_from_the_group_that_has_it() -> None:
    kit = Kit()
    kit.says(BlobGet(D, 1))
    assert kit.sent() == [(0, BlobGet(D, 1))]
    missing = BlobInfo(D, 0, int(ErrorCode.BLOB_MISSING), "no")
    assert kit.group(0, missing) == []
    assert kit.sent() == [(1, BlobGet(D, 1))]
    assert kit.group(1, BlobInfo(D, 4), BlobChunk(D, 1, b"x")) == [
        BlobInfo(D, 4),
        BlobChunk(D, 1, b"x"),
    ]
    kit.says(BlobMore(D, 2))
    assert kit.sent() == [(1, BlobMore(D, 2))]
    assert kit.group(1, BlobChunk(D, 2, b"yz")) == [BlobChunk(D, 2, b"yz")]
    kit.says(BlobGet(D))
    kit.group(0, missing)
    assert kit.group(1, missing) == [missing]


def test_a_transfer_that_is_given_up_is_given_up_everywhere() -> None:
    kit = Kit()
    kit.says(BlobPut(D, 10), BlobGet(E))
    kit.group(0, BlobGo(D, 0))
    kit.sent()
    kit.says(BlobDrop(D), BlobDrop(E))
    assert sorted(kit.sent(), key=str) == sorted(
        [(0, BlobDrop(D)), (1, BlobDrop(D)), (0, BlobDrop(E))], key=str
    )
    assert kit.group(1, BlobGo(D, 0), BlobInfo(E, 5)) == []


def test_transfers_are_bounded() -> None:
    kit = Kit(1)
    puts = [BlobPut(bytes([n]) * 32, 1) for n in range(BLOB_TRANSFERS_MAX + 1)]
    (refusal,) = kit.says(*puts)
    assert (refusal.digest, refusal.error) == (puts[-1].digest, int(ErrorCode.OVERLOADED))
    (again,) = kit.says(puts[0])
    assert again.error


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.lists(st.integers(1, 9), max_size=12),
)
def test_every_group_gets_all_that_it_lacks_in_order(begins: list[int], sizes: list[int]) -> None:
    data = bytes(range(sum(sizes)))
    begins = [min(begin, len(data)) for begin in begins]
    kit = Kit(len(begins))
    kit.says(BlobPut(D, len(data)))
    kit.sent()
    for number, begin in enumerate(begins):
        kit.group(number, BlobGo(D, begin))
    offset = min(begins)
    for size in sizes:
        piece = data[offset : offset + size]
        if piece:
            kit.says(BlobChunk(D, offset, piece))
        offset += len(piece)
    got = {number: data[:begin] for number, begin in enumerate(begins)}
    for number, chunk in kit.sent():
        assert chunk.offset == len(got[number])
        got[number] += chunk.data
    assert all(one == data for one in got.values())
