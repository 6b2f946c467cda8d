"""Whoever connects and means no good, or knows no better: a clear error, and nobody else notices.

One member for all tests: each must leave it serving.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
from collections.abc import Iterator

import psutil
import pytest

from rollq.base.errors import ErrorCode
from rollq.wire import messages as wire
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess
from tests.integration.talk import (
    OPEN,
    Talker,
    accepted,
    client,
    hang_up_all,
    job,
    submit,
    worker,
)

HELLO_MS = 400
OUTBOX_BYTES = 20 * 1024 * 1024
PARTIAL_BYTES = 16 * 1024 * 1024
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    one = MemberProcess(
        tmp_path_factory.mktemp("abuse") / "state",
        hello_ms_max=HELLO_MS,
        outbox_bytes_max=OUTBOX_BYTES,
        partial_bytes_max=PARTIAL_BYTES,
    ).start()
    yield one
    assert one.stop() == 0


@pytest.fixture
def witness(member: MemberProcess) -> Iterator[Talker]:
    """A client that was there before, and is served as well afterwards as before."""
    one = client(member.address, "witness")
    assert accepted(one, [next(NUMBERS)])
    yield one
    assert accepted(one, [next(NUMBERS)])
    newer = client(member.address, "newer")
    assert accepted(newer, [next(NUMBERS)])
    hang_up_all()


def raw(member: MemberProcess) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", member.port), DEADLINE_S)
    OPEN.append(one)
    return one


def is_cut_off(one: socket.socket) -> bool:
    try:
        while one.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.usefixtures("witness")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(100), "cut off"),
        (struct.pack("<I", 0xFFFF_FFFF), "frame_too_large"),
        (struct.pack("<I", 0) + bytes(64), "bad_frame"),
        (struct.pack("<I", 39) + bytes([255]) + bytes(38), "unknown_message"),
        (struct.pack("<I", 39) + bytes([1]) + bytes(38), "bad_handshake"),
        (struct.pack("<IB16s16sHI", 43, 9, b"", b"", 0, 4) + b"{{{{", "bad_payload"),
        (struct.pack("<IB16s16sHI", 39, 9, b"", b"", 500, 0), "bad_frame"),
    ],
)
def test_bytes_that_mean_nothing_end_their_connection(
    member: MemberProcess, data: bytes, reason: str
) -> None:
    member.lines.clear()
    one = raw(member)
    one.sendall(data)
    assert is_cut_off(one)
    assert "cut off" in member.until_line(reason)


@pytest.mark.usefixtures("witness")
@pytest.mark.parametrize("data", [b"", b"\x27", struct.pack("<I", 500) + b"\x09" + bytes(30)])
def test_a_hello_that_does_not_come_or_does_not_end_is_not_waited_for(
    member: MemberProcess, data: bytes
) -> None:
    one = raw(member)
    one.sendall(data)
    assert is_cut_off(one)
    member.until_line(f"no hello within {HELLO_MS} ms")


def test_one_byte_at_a_time_gains_no_time(member: MemberProcess, witness: Talker) -> None:
    one = raw(member)
    hello = struct.pack("<IB16s16sHI", 10_039, 9, b"", b"", 0, 10_000) + bytes(10_000)

    def drip() -> None:
        for byte in hello:
            one.sendall(bytes([byte]))
            assert accepted(witness, [next(NUMBERS)])

    with pytest.raises(OSError):
        drip()
    member.until_line("no hello")


@pytest.mark.usefixtures("witness")
def test_a_frame_that_does_not_end_holds_up_nobody(member: MemberProcess) -> None:
    one = client(member.address, "half")
    one.socket.sendall(struct.pack("<I", 3_000_000) + bytes(1_000_000))


@pytest.mark.usefixtures("witness")
def test_whoever_breaks_the_protocol_is_told_why_if_it_understands(member: MemberProcess) -> None:
    one = client(member.address, "rude")
    one.socket.sendall(struct.pack("<I", 0xFFFF_FFFF))
    error = one.hear(wire.Error)
    assert error.code == ErrorCode.FRAME_TOO_LARGE
    assert one.is_over()
    two = worker(member.address, 77, 0)
    two.say(wire.Credit(-1))
    assert two.hear(wire.Error).code == ErrorCode.BAD_CREDIT
    assert two.is_over()


@pytest.mark.usefixtures("witness")
def test_a_member_of_another_group_is_refused(member: MemberProcess) -> None:
    member.lines.clear()
    stranger = Talker(member.address, "another")
    stranger.say(wire.LeaderHello(5, "127.0.0.1:1", bytes(16), 1, 0, True))
    assert stranger.is_over()
    assert "bad_subject" in member.until_line("is not for the group")


def test_a_member_of_another_cluster_gets_no_answer(member: MemberProcess, witness: Talker) -> None:
    stranger = Talker(member.address)
    stranger.say(wire.LeaderHello(5, "127.0.0.1:1", b"x" * 16, 1, 9, False))
    witness.say(wire.Query(job(1), "cluster"))
    answer = witness.hear(wire.Answer)
    assert b"127.0.0.1:1\xa0" not in answer.value
    assert len([line for line in member.lines if "127.0.0.1:1 " in line]) == 0


def test_a_reader_that_never_reads_is_cut_off(member: MemberProcess, witness: Talker) -> None:
    member.lines.clear()
    process = psutil.Process(member.pid)
    lazy = client(member.address, "lazy")
    busy = worker(member.address, 78, 10_000)
    numbers = [next(NUMBERS) for _ in range(500)]
    lazy.say(*(submit(number) for number in numbers))  # and from now on it reads nothing
    before = process.memory_info().rss
    fences: dict[bytes, int] = {}
    while len(fences) < len(numbers):
        assign = busy.hear_any()
        if isinstance(assign, wire.AssignJob) and assign.client_id == "lazy":
            fences[assign.job_id] = assign.fence
    result = os.urandom(60_000)
    for job_id, fence in fences.items():
        busy.say(wire.AckJob(job_id, 1, fence, 0, result))
        while not isinstance(busy.hear_any(), wire.AckTaken):
            pass
    assert "the peer does not read" in member.until_line("cut off")
    assert process.memory_info().rss - before < 200 * 1024 * 1024
    # What it did not take is not lost, and a reader that reads gets all of it.
    again = client(member.address, "lazy")
    owed = {again.hear(wire.Result).job_id for _ in numbers}
    assert owed == set(fences)
    again.say(wire.Confirm(tuple(owed)))
    assert accepted(witness, [next(NUMBERS)])


def test_a_flood_of_large_requests_shuts_nobody_out(member: MemberProcess, witness: Talker) -> None:
    flood = client(member.address, "flood")
    body = bytes(60_000)
    for _ in range(20):  # 60 MB, as fast as they are read, and no answer is
        flood.say(*(submit(next(NUMBERS), body) for _ in range(50)))
    assert accepted(witness, [next(NUMBERS)])


def test_half_sent_frames_of_many_take_no_more_memory_than_they_may(
    member: MemberProcess, witness: Talker
) -> None:
    """Each sends most of a frame, and together they would take far more than they may."""
    process = psutil.Process(member.pid)
    before = process.memory_info().rss
    half = struct.pack("<I", 4_000_000) + bytes(1_000_000)
    crowd = [client(member.address, f"half-{number}") for number in range(200)]
    for one in crowd:
        with contextlib.suppress(OSError):
            one.socket.sendall(half)
    assert accepted(witness, [next(NUMBERS)])
    member.until_line("incomplete frames of all connections exceed")
    # Those that were cut off: all but what fits the bound, whoever came last.
    fit = PARTIAL_BYTES // 1_000_000
    assert all(is_cut_off(one.socket) for one in crowd[: len(crowd) - 2 * fit])
    # Buffers that grow are copied, and the allocator keeps some: far less than what was sent.
    assert process.memory_info().rss - before < 8 * PARTIAL_BYTES
