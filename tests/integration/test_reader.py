"""Readers of the history: real members, followers too, and members that die in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bench.histories import make
from rollq.base.errors import (
    DeadlineError,
    DialError,
    ErrorCode,
    LocalError,
    RollqError,
    StateError,
)
from rollq.base.limits import READER_LINKS_MAX, READER_WAIT_MS_MAX
from rollq.history.lines_file import index_of
from rollq.history.segments import Segments
from rollq.net.ports import free_ports
from rollq.roles.member.node import MemberNode
from rollq.roles.member.readers import server
from rollq.roles.member.readers.handlers import HANDLERS
from rollq.roles.member.readers.session import ReaderSession
from rollq.roles.member.setup import MemberSetup
from rollq.roles.reader.channel import Channel
from rollq.roles.reader.models import ARROW, EVENTS, LINES, RUNS, Piece
from rollq.roles.reader.reader import Reader
from rollq.store.real_disk import RealDisk
from rollq.wire.compact import Message
from rollq.wire.frame import Frame, encode_frame
from rollq.wire.messages import Error
from rollq.wire.reader_messages import HelloReader, PieceChunk, PiecesAsk, SpanAsk, SpanTold
from rollq.wire.registry import NUMBER_OF
from tests.integration.fake_reading import FakeReading
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import accepted, find_leader, hang_up_all


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def _all(pieces: Iterable[Piece], first: int, last: int) -> list[bytes]:
    """The lines of pieces that are whole and follow each other."""
    lines: list[bytes] = []
    at = first
    for piece in pieces:
        assert piece.first == at
        text = piece.lines()
        assert text.endswith(b"\n") or not text
        found = text.split(b"\n")[:-1]
        assert all(piece.first <= index_of(line) <= piece.last for line in found)
        lines += found
        at = piece.last + 1
    assert at == last + 1
    return lines


def _on_disk(state: Path, first: int, last: int) -> list[bytes]:
    disk = RealDisk(state)
    try:
        return list(Segments(disk).read(first, last))
    finally:
        disk.close()


def test_what_is_sealed_and_what_is_not_is_read_as_it_is_sealed_later(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    _, talker = find_leader([member.address])
    accepted(talker, range(1, 300))
    member.stop()  # seals
    member.start()
    _, talker = find_leader([member.address])
    accepted(talker, range(300, 600))
    with Reader(member.address) as reader:
        span = reader.span()
        assert (span.group, span.floor) == ("default", 0)
        pieces = list(reader.pieces(1, span.applied))
        assert {piece.form for piece in pieces} == {RUNS}
        lines = _all(pieces, 1, span.applied)
        older = list(reader.pieces(1, span.applied, forms=(LINES, EVENTS, ARROW)))
        assert {piece.form for piece in older} == {EVENTS}
        events = [event for piece in older for one in piece.indexes() for event in one.events()]
        assert [event for event in events if event.run is not None] == []
        assert _all(older, 1, span.applied) == lines
        for first, last in ((1, 1), (2, span.applied - 1), (span.applied, span.applied)):
            assert _all(reader.pieces(first, last), first, last) == [
                line for line in lines if first <= index_of(line) <= last
            ]
        [cut] = reader.cuts(1, span.applied)
        assert cut.first == 1
        assert reader.cuts(cut.last + 1, span.applied) == []
    assert member.stop() == 0
    assert lines == _on_disk(member.state, 1, span.applied)
    assert sum(b'"enqueue"' in line for line in lines) == 599


def test_every_member_serves_the_same_and_a_follower_is_as_fresh_as_the_leader(
    tmp_path: Path,
) -> None:
    with Members(tmp_path, 3) as members:
        _, talker = find_leader(members.addresses)
        accepted(talker, range(1, 50))
        with Reader(members.addresses) as reader:
            last = reader.span().applied
        texts: list[list[bytes]] = []
        for address in members.addresses:
            with Reader(address) as reader:
                accepted(talker, [1_000 + len(texts)])
                assert reader.span().applied > last
                texts.append(_all(reader.pieces(1, last), 1, last))
        assert texts[0] == texts[1] == texts[2]
        assert sum(b'"enqueue"' in line for line in texts[0]) == 49


def test_a_reader_goes_on_at_another_member_when_its_own_is_killed(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        leader, talker = find_leader(members.addresses)
        for number in range(1, 40):
            accepted(talker, [number])
        follower = next(one for one in members.all if one.address != leader)
        with Reader(members.addresses, prefer=follower.address) as reader:
            last = reader.span().applied
            expected = _all(reader.pieces(1, last), 1, last)
            follower.kill()
            assert _all(reader.pieces(1, last), 1, last) == expected
            assert reader.span().applied >= last


def _chunk(ask: Message, first: int, last: int, data: bytes = b"{}\n", size: int = 3) -> Message:
    assert isinstance(ask, PiecesAsk)
    return PieceChunk(ask.request_id, first, last, LINES, size, 0, data)


def test_a_piece_that_was_cut_off_in_the_middle_comes_whole_from_the_next_member() -> None:
    def cut(ask: Message) -> Iterator[Message | None]:
        yield _chunk(ask, 1, 3, b"one")
        yield _chunk(ask, 4, 6, b"tw")
        yield None

    def whole(ask: Message) -> Iterator[Message | None]:
        assert isinstance(ask, PiecesAsk)
        for first in range(ask.first, ask.last + 1, 3):
            yield _chunk(ask, first, first + 2, b"%3d" % first)

    with (
        FakeReading(cut) as bad,
        FakeReading(whole) as good,
        Reader([bad.address, good.address], prefer=bad.address) as reader,
    ):
        pieces = [(one.first, one.last, one.data) for one in reader.pieces(1, 9)]
    assert pieces == [(1, 3, b"one"), (4, 6, b"  4"), (7, 9, b"  7")]
    assert [one.first for one in good.heard if isinstance(one, PiecesAsk)] == [4]


def test_one_that_leaves_in_the_middle_asks_on_a_new_connection() -> None:
    def script(ask: Message) -> Iterator[Message | None]:
        yield _chunk(ask, 1, 3)
        yield _chunk(ask, 4, 9)

    with FakeReading(script) as member, Reader(member.address) as reader:
        pieces = reader.pieces(1, 9)
        assert next(pieces).last == 3
        pieces.close()  # type: ignore[attr-defined]
        assert reader.span().applied == 9
        assert sum(isinstance(one, HelloReader) for one in member.heard) == 2


def test_the_leader_is_spared_unless_nobody_else_can_serve() -> None:
    def whole(ask: Message) -> Iterator[Message | None]:
        yield _chunk(ask, 1, 9)

    def nothing(ask: Message) -> Iterator[Message | None]:
        yield None

    for others, count in ((whole, 0), (nothing, 1)):
        with FakeReading(whole, leads=True) as leader, FakeReading(others) as follower:
            for _ in range(4):  # whoever is drawn first
                with Reader([leader.address, follower.address]) as reader:
                    assert [one.last for one in reader.pieces(1, 9)] == [9]
            asked = [one for one in leader.heard if isinstance(one, PiecesAsk)]
            assert len(asked) == 4 * count
        with FakeReading(whole, leads=True) as leader, FakeReading(others) as follower:
            servers = [leader.address, follower.address]
            with Reader(servers, prefer=leader.address) as reader:
                assert [one.last for one in reader.pieces(1, 9)] == [9]
            assert follower.heard == []


def test_members_that_are_behind_are_asked_again_until_one_has_it(tmp_path: Path) -> None:
    asked = 0

    def behind(ask: Message) -> Iterator[Message | None]:
        nonlocal asked
        assert isinstance(ask, PiecesAsk)
        asked += 1
        if asked < 3:
            yield Error(ask.request_id, ErrorCode.NOT_READY, "not applied", "", True)
        else:
            yield _chunk(ask, ask.first, ask.last)

    with FakeReading(behind) as member, Reader(member.address) as reader:
        assert [piece.last for piece in reader.pieces(5, 9)] == [9]


def test_what_is_not_applied_yet_is_waited_for_and_then_told(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    try:
        _, talker = find_leader([member.address])
        accepted(talker, range(1, 5))
        with Reader(member.address) as reader:
            last = reader.span().applied
        # No longer than a member waits, and long enough for it to say hello.
        patient = Reader(member.address, timeout_s=READER_WAIT_MS_MAX / 1000)
        with patient as reader, pytest.raises(DeadlineError) as caught:
            list(reader.pieces(1, last + 100))
        assert f"index {last + 100} is not applied here" in caught.value.message
    finally:
        member.kill()


def test_history_that_is_gone_is_told_with_what_is_left(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    for begin in (1, 50):
        _, talker = find_leader([member.address])
        accepted(talker, range(begin, begin + 40))
        member.stop()
        if begin == 1:
            disk = RealDisk(member.state)
            segments = Segments(disk)
            floor = segments.covered_to()
            segments.forget(floor)
            disk.close()
        member.start()
    try:
        with Reader(member.address) as reader:
            span = reader.span()
            assert span.floor == floor
            with pytest.raises(StateError) as caught:
                list(reader.pieces(1, span.applied))
            assert caught.value.code is ErrorCode.HISTORY_GONE
            assert f"begin at {floor + 1}" in caught.value.hint
            assert _all(reader.pieces(floor + 1, span.applied), floor + 1, span.applied)
    finally:
        member.kill()


def test_a_damaged_segment_is_not_served(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    _, talker = find_leader([member.address])
    accepted(talker, range(1, 40))
    member.stop()
    [path] = (member.state / "history").glob("*.runs")
    whole = path.read_bytes()
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    member.start()
    try:
        with Reader(member.address) as reader:
            reader.span()  # it has applied everything
        with Reader(member.address, timeout_s=1) as reader, pytest.raises(DeadlineError) as told:
            list(reader.pieces(1, 2))
        assert "damaged" in told.value.message or "missing" in told.value.message
    finally:
        member.kill()


def test_nobody_there_names_all_and_another_group_is_refused(tmp_path: Path) -> None:
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    with pytest.raises(DialError) as caught, Reader(f"{first}, {second}") as reader:
        reader.span()
    assert first in caught.value.message
    assert second in caught.value.message
    with pytest.raises(LocalError):
        Reader(" , ")
    member = MemberProcess(tmp_path / "m").start()
    try:
        with pytest.raises(StateError) as refused, Reader(member.address, group="x") as reader:
            reader.span()
        assert refused.value.code is ErrorCode.BAD_HANDSHAKE
    finally:
        member.kill()


def test_one_that_does_not_read_holds_up_nobody_and_goes_with_the_member(tmp_path: Path) -> None:
    [port] = free_ports(1)
    make(tmp_path / "m", 20_000, f"127.0.0.1:{port}")
    member = MemberProcess(tmp_path / "m", port).start()
    with Reader(member.address) as reader:
        last = reader.span().applied
        with Channel(member.address, HelloReader(), 20) as deaf:
            for _ in range(200):  # far more than fits between the two
                deaf.send(PiecesAsk(deaf.new_request(), 1, last))
            _, talker = find_leader([member.address])
            assert accepted(talker, range(1, 50))
            assert _all(reader.pieces(1, last), 1, last)
            assert member.stop() == 0


def test_one_that_breaks_the_rules_is_told_and_cut_off(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    try:
        with Channel(member.address, HelloReader(), 20) as channel:
            channel.send(PiecesAsk(channel.new_request(), 5, 4))
            with pytest.raises(StateError) as caught:
                channel.receive(PieceChunk)
            assert caught.value.code is ErrorCode.BAD_PAYLOAD
            channel.send(PiecesAsk(channel.new_request(), 1, 2**62))
            with pytest.raises(StateError) as caught:
                channel.receive(PieceChunk)
            assert caught.value.code is ErrorCode.NOT_READY
            junk = encode_frame(Frame(NUMBER_OF[PieceChunk], payload=b"junk"))
            channel._socket.sendall(junk)
            with pytest.raises(StateError) as caught:
                channel.receive(PieceChunk)
            assert caught.value.code is ErrorCode.BAD_HANDSHAKE
            with pytest.raises(DialError):
                channel.receive(PieceChunk)
        with Reader(member.address) as reader:
            assert reader.span().floor == 0
    finally:
        member.kill()


def test_readers_are_bounded_and_a_member_stops_with_all_of_them(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()
    channels = [Channel(member.address, HelloReader(), 20) for _ in range(READER_LINKS_MAX)]
    with pytest.raises(StateError) as caught:
        Channel(member.address, HelloReader(), 20)
    assert caught.value.code is ErrorCode.OVERLOADED
    channels.pop().close()

    def is_taken() -> bool:
        try:
            channels.append(Channel(member.address, HelloReader(), 20))
        except StateError:
            return False
        return True

    until(is_taken)
    assert member.stop() == 0
    for channel in channels:
        channel.close()


def test_a_member_on_the_loop_of_the_standard_library_serves_readers_too(tmp_path: Path) -> None:
    async def serve_and_read() -> list[bytes]:
        [port] = free_ports(1)
        node = MemberNode(MemberSetup(f"127.0.0.1:{port}"), "127.0.0.1", port, tmp_path / "m")
        await node.start()
        try:
            return await asyncio.to_thread(read, f"127.0.0.1:{port}")
        finally:
            await node.stop()

    def read(address: str) -> list[bytes]:
        _, talker = find_leader([address])
        accepted(talker, range(1, 5))
        with Reader(address) as reader:
            last = reader.span().applied
            return _all(reader.pieces(1, last), 1, last)

    lines = asyncio.run(serve_and_read())
    assert sum(b'"enqueue"' in line for line in lines) == 4


def test_a_mistake_in_an_answer_costs_one_connection_and_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(session: ReaderSession, ask: SpanAsk) -> None:
        raise ZeroDivisionError

    async def serve_and_ask() -> None:
        [port] = free_ports(1)
        node = MemberNode(MemberSetup(f"127.0.0.1:{port}"), "127.0.0.1", port, tmp_path / "m")
        await node.start()
        try:
            await asyncio.to_thread(ask_twice, f"127.0.0.1:{port}")
        finally:
            await node.stop()

    def ask_twice(address: str) -> None:
        with Channel(address, HelloReader(), 20) as channel, monkeypatch.context() as patch:
            patch.setitem(HANDLERS, SpanAsk, mistaken)
            channel.send(SpanAsk(channel.new_request()))
            with pytest.raises(StateError) as caught:
                channel.receive(SpanTold)
            assert caught.value.code is ErrorCode.BUG
            with pytest.raises(RollqError):  # the Error under no id, or the end of the connection
                channel.receive(SpanTold)
        with Reader(address) as reader:  # is asked again for as long as there is no place
            assert reader.span(fresh=False).floor == 0

    monkeypatch.setattr(server, "READER_LINKS_MAX", 1)
    asyncio.run(serve_and_ask())
