"""Words in the name of a member by somebody who is none: three real members go on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rollq.base.ids import NIL_ID
from rollq.raft import types as raft
from rollq.store.identity import NONCE_BITS
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from rollq.wire.login_messages import Login
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import Members
from tests.integration.talk import Talker, accepted, find_leader, hang_up_all


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    with Members(tmp_path, 3) as three:
        yield three
        hang_up_all()


def overhear(address: str) -> wire.LeaderHello:
    """Have a member call us, as it calls whoever says that it is new, and hear who it is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        us = f"127.0.0.1:{server.getsockname()[1]}"
        talker = Talker(address)
        talker.say(wire.LeaderHello(7, us, NIL_ID, 1 << NONCE_BITS, 0))
        heard = first_word(server)
        assert isinstance(heard, Login)  # it would prove the key, if we had it: we hang up
        heard = first_word(server)
        talker.close()
    assert isinstance(heard, wire.LeaderHello)
    return heard


def first_word(server: socket.socket) -> Message:
    called, _ = server.accept()
    with called:
        called.settimeout(DEADLINE_S)
        ours = Connection(Side.ACCEPTER, "default")
        heard: list[Message] = []
        while not heard:
            heard = ours.receive_data(called.recv(65_536))
    return heard[0]


def say_as(member: wire.LeaderHello, to: str, *messages: Message) -> None:
    talker = Talker(to)
    talker.say(member)
    with contextlib.suppress(OSError):  # cut off already
        for message in messages:
            talker.say(message)
        talker.socket.shutdown(socket.SHUT_WR)
        talker.is_over()


def test_forged_words_of_members_stop_nobody(members: Members) -> None:
    _, client = find_leader(members.addresses)
    assert accepted(client, range(1, 11))
    hellos = {one: overhear(one) for one in members.addresses}
    for victim in members.addresses:
        to = hellos[victim].member_id
        for named in members.addresses:
            if named == victim:
                continue
            hello = hellos[named]
            for term in (2**63 - 1, 2**62, 2**40):
                vote = raft.RequestVote(to, hello.member_id, term, 2**62, 2**62, transfer=True)
                say_as(hello, victim, vote)
                append = raft.AppendEntries(to, hello.member_id, term, 0, 0, 2**62)
                say_as(hello, victim, append)
            later = hello.boot + (1 << NONCE_BITS)
            forged = msgspec.structs.replace(hello, boot=later, lives=(hello.boot, later))
            say_as(forged, victim)
            # In the name of one member on the link of another, and of another cluster.
            stranger = msgspec.structs.replace(hello, member_id=12_345)
            say_as(stranger, victim, raft.TimeoutNow(to, hello.member_id, 5))
            other = msgspec.structs.replace(hello, cluster_id=b"x" * 16)
            say_as(other, victim, raft.TimeoutNow(to, hello.member_id, 5))
    _, again = find_leader(members.addresses)
    assert accepted(again, range(11, 21))
    for member in members.all:
        member.kill()
    for member in members.all:
        member.spawn()
    for member in members.all:
        member.until_line("serving")
    _, after = find_leader(members.addresses)
    assert len(accepted(after, range(1, 31))) == 30
    assert sum(accepted(after, range(1, 31)).values()) == 30
    for member in members.all:
        assert member.stop() == 0


def test_a_member_alone_listens_to_no_others(tmp_path: Path) -> None:
    with Members(tmp_path, 1) as one:
        member = one.all[0]
        _, client = find_leader(one.addresses)
        hello = overhear(member.address)
        to = hello.member_id
        forged = msgspec.structs.replace(hello, member_id=99, address="127.0.0.1:1")
        for word in (
            raft.AppendEntries(to, 99, 50, 0, 0, 9),
            raft.RaftHeartbeat(to, 99, 50, 9),
            raft.RequestVote(to, 99, 50, 2**62, 2**62, transfer=True),
            raft.InstallSnapshot(to, 99, 50, raft.SnapshotMeta(2**60, 50), 0, 0),
            raft.VoteResponse(to, 99, 50, granted=False),
        ):
            say_as(forged, member.address, word)
        assert accepted(client, range(1, 4))
        hang_up_all()
        assert member.stop() == 0
