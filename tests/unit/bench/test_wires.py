"""The raw clients of the peers, against bytes as the servers send them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from bench.peers import CLASSES, make_peer, redis_queues
from bench.peers.amqp_wire import ACK, GET_EMPTY, GET_OK, AmqpSocket, ConfirmPipeline, method
from bench.peers.etcd import fields, put_request
from bench.peers.nats_wire import NatsSocket, PublishPipeline, publish
from bench.peers.redis_queues import PushPipeline, command, push_many
from bench.works.all import WORKS


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def nats_on(link: socket.socket) -> NatsSocket:
    client = NatsSocket.__new__(NatsSocket)
    client._socket = link
    client._buffer = b""
    return client


def amqp_on(link: socket.socket) -> AmqpSocket:
    client = AmqpSocket.__new__(AmqpSocket)
    client._socket = link
    client._buffer = b""
    return client


def test_every_case_has_a_peer() -> None:
    for work in WORKS.values():
        for key in work.peers:
            assert key.partition(":")[0] in CLASSES
    peer = make_peer("nats:durable")
    assert isinstance(peer.available(), str)
    with pytest.raises(KeyError):
        make_peer("nobody:default")


def test_nats_counts_acks_across_torn_reads(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    pipeline = PublishPipeline(nats_on(ours), "jobs.noop", b"job")
    pipeline.send(2)
    assert theirs.recv(1000) == publish("jobs.noop", b"job") * 2
    ack = b'{"stream":"JOBS","seq":1}'
    whole = b"MSG _INBOX.bench 1 %d\r\n%b\r\n" % (len(ack), ack)
    theirs.sendall(b"PING\r\n" + whole + whole[:9])
    assert pipeline.acked() == 1
    assert theirs.recv(1000) == b"PONG\r\n"
    theirs.sendall(whole[9:] + whole)
    assert pipeline.acked() == 2


def test_nats_refusals_are_not_acks(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    pipeline = PublishPipeline(nats_on(ours), "jobs.noop", b"job")
    no_responders = b"NATS/1.0 503\r\n\r\n"
    size = len(no_responders)
    theirs.sendall(b"HMSG _INBOX.bench 1 %d %d\r\n%b\r\n" % (size, size, no_responders))
    with pytest.raises(RuntimeError):
        pipeline.acked()


def test_amqp_counts_single_and_multiple_confirms(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    pipeline = ConfirmPipeline(amqp_on(ours), "jobs", b"job")

    def confirm(tag: int, is_multiple: bool) -> bytes:
        return method(1, ACK, struct.pack(">QB", tag, is_multiple))

    theirs.sendall(confirm(2, False))
    assert pipeline.acked() == 1
    theirs.sendall(confirm(3, True))
    assert pipeline.acked() == 2
    whole = confirm(5, False) + confirm(4, False) + confirm(9, True)
    theirs.sendall(whole)
    assert pipeline.acked() == 6


def test_amqp_anything_else_is_a_refusal(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    pipeline = ConfirmPipeline(amqp_on(ours), "jobs", b"job")
    theirs.sendall(method(1, (60, 120), struct.pack(">QB", 1, 0)))
    with pytest.raises(RuntimeError):
        pipeline.acked()


@pytest.mark.parametrize(("answer", "is_there"), [(GET_OK, True), (GET_EMPTY, False)])
def test_amqp_says_whether_a_message_was_there(
    pair: tuple[socket.socket, socket.socket], answer: tuple[int, int], is_there: bool
) -> None:
    ours, theirs = pair
    theirs.sendall(method(1, answer, b""))
    assert amqp_on(ours).get("jobs") is is_there
    assert theirs.recv(1000) == method(1, (60, 70), b"\0\0\x04jobs\0")


def test_redis_is_filled_by_commands_of_many_values(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_queues, "PUSH_VALUES", 2)
    ours, theirs = pair
    theirs.sendall(b":3\r\n")  # one answer is enough: the second read finds the end
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError):
        push_many(ours, "k", iter([b"a", b"b", b"c", b"d"]), 3)
    pushed = command(b"LPUSH", b"k", b"a", b"b") + command(b"LPUSH", b"k", b"c")
    assert theirs.recv(1000) == pushed


def test_redis_counts_answers_and_sees_errors(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    pipeline = PushPipeline(ours, "jobs", b"job")
    pipeline.send(1)
    assert theirs.recv(1000) == b"*3\r\n$5\r\nLPUSH\r\n$4\r\njobs\r\n$3\r\njob\r\n"
    theirs.sendall(b":1\r\n:2\r\n")
    assert pipeline.acked() == 2
    theirs.sendall(b"-ERR no\r\n")
    with pytest.raises(ConnectionError):
        pipeline.acked()


def test_etcd_messages_by_hand() -> None:
    assert put_request(b"k", b"v" * 200) == b"\x0a\x01k\x12\xc8\x01" + b"v" * 200
    assert fields(b"\x0a\x02\x10\x05\x20\xac\x02") == {1: b"\x10\x05", 4: 300}
