"""Logins on a connection: before the hello, once, small, and nobody needs one."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import NIL_ID
from rollq.base.limits import HELLO_BYTES_MAX, HELLO_KNOWN_WORKER_BYTES_MAX, LOGIN_BYTES_MAX
from rollq.wire import messages as m
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.compact import ENCODE, Message
from rollq.wire.connection import Connection
from rollq.wire.features import FEATURES
from rollq.wire.frame import LEN_MIN, Frame, encode_frame
from rollq.wire.handshake import Side, Stage
from rollq.wire.login_messages import Login, LoginChallenge, LoginProof
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import NUMBER_OF
from tests.unit.wire.samples import JOB

TOKEN = Login("token", "alice", b"rollq_alice_00")
KEY = Login("key", "alice", nonce=bytes(32))
CHALLENGE = LoginChallenge(bytes(32), b"", "g1")
PROOF = LoginProof(bytes(64))
HELLO = m.HelloClient("alice", 4, FEATURES)
HELLOS: list[Message] = [
    HELLO,
    m.HelloClient("alice", 4),
    m.HelloWorker(JOB, ("a",), features=FEATURES),
    m.LeaderHello(1, "a:1", b"c", 1, 0),
    HelloBlobs("client"),
    HelloReader("g1"),
]
REFUSED = m.Error(NIL_ID, ErrorCode.LOGIN_FAILED, "no", "", False)


def ends() -> tuple[Connection, Connection]:
    return Connection(Side.DIALER, "g1"), Connection(Side.ACCEPTER, "g1")


@pytest.mark.parametrize("hello", HELLOS, ids=repr)
def test_a_token_and_any_hello_leave_at_once(hello: Message) -> None:
    dialer, accepter = ends()
    assert accepter.receive_data(dialer.send(TOKEN) + dialer.send(hello)) == [TOKEN, hello]
    assert accepter.error is None
    alone = Connection(Side.ACCEPTER, "g1")
    alone.receive_data(Connection(Side.DIALER, "g1").send(hello))
    assert accepter.state is alone.state is dialer.state


@pytest.mark.parametrize("hello", HELLOS, ids=repr)
def test_a_key_is_proved_over_a_challenge_before_any_hello(hello: Message) -> None:
    dialer, accepter = ends()
    assert accepter.receive_data(dialer.send(KEY)) == [KEY]
    with pytest.raises(LocalError):
        dialer.send(hello)
    assert dialer.receive_data(accepter.send(CHALLENGE)) == [CHALLENGE]
    with pytest.raises(LocalError):
        dialer.send(hello)
    assert accepter.receive_data(dialer.send(PROOF) + dialer.send(hello)) == [PROOF, hello]
    assert accepter.error is None


@pytest.mark.parametrize("said", [[TOKEN], [KEY], [KEY, CHALLENGE], [KEY, CHALLENGE, PROOF]])
def test_a_login_may_be_refused_at_every_step(said: list[Message]) -> None:
    dialer, accepter = ends()
    for message in said:
        ours, theirs = (
            (accepter, dialer) if isinstance(message, LoginChallenge) else (dialer, accepter)
        )
        assert theirs.receive_data(ours.send(message)) == [message]
    assert dialer.receive_data(accepter.send(REFUSED)) == [REFUSED]
    assert dialer.state is accepter.state is Stage.CLOSED


def test_a_token_may_be_refused_after_the_hello_that_followed_it() -> None:
    for hello in HELLOS:
        dialer, accepter = ends()
        accepter.receive_data(dialer.send(TOKEN) + dialer.send(hello))
        offers = not isinstance(hello, m.HelloClient) or hello.features
        assert dialer.receive_data(accepter.send(REFUSED)) == ([REFUSED] if offers else [])
        assert dialer.error is None


OUT_OF_PLACE: list[list[Message]] = [
    [TOKEN, TOKEN],
    [TOKEN, KEY],
    [TOKEN, PROOF],
    [KEY, TOKEN],
    [KEY, PROOF],  # before it was challenged
    [KEY, HELLO],
    [PROOF],
    [CHALLENGE],
    [HELLO, TOKEN],
    [m.HelloClient("alice", 4), TOKEN],
    [Login("of tomorrow", "alice"), HELLO],
]


@pytest.mark.parametrize("said", OUT_OF_PLACE, ids=repr)
def test_what_is_out_of_place_ends_the_connection(said: list[Message]) -> None:
    accepter = Connection(Side.ACCEPTER, "g1")
    raw = b"".join(_raw(message) for message in said)
    assert accepter.receive_data(raw) == said[:-1]
    assert accepter.error is not None
    assert accepter.error.code == ErrorCode.BAD_HANDSHAKE
    assert accepter.state is Stage.CLOSED


def test_an_unknown_frame_before_the_hello_ends_the_connection() -> None:
    accepter = Connection(Side.ACCEPTER, "g1")
    assert accepter.receive_data(_raw(TOKEN) + encode_frame(Frame(8))) == [TOKEN]
    assert accepter.error is not None
    assert accepter.error.code == ErrorCode.UNKNOWN_MESSAGE


def test_everything_up_to_the_hello_is_bounded() -> None:
    too_large = (LOGIN_BYTES_MAX + 1).to_bytes(4, "little")
    for before in (b"", _raw(TOKEN)):
        for kind in (NUMBER_OF[Login], NUMBER_OF[m.HelloClient], NUMBER_OF[LoginProof]):
            accepter = Connection(Side.ACCEPTER, "g1")
            accepter.receive_data(before + too_large + bytes([kind]) + bytes(34))
            assert accepter.error is not None
            assert accepter.error.code == ErrorCode.FRAME_TOO_LARGE
            assert accepter.partial_bytes == 0


def test_a_known_worker_that_logged_in_may_still_name_all_that_it_holds() -> None:
    accepter = Connection(Side.ACCEPTER, "g1", knows_worker=lambda worker_id: worker_id == JOB)
    hello = m.HelloWorker(JOB, ("a",) * 2_000)
    raw = Connection(Side.DIALER, "g1").send(hello)
    assert HELLO_BYTES_MAX < len(raw) < HELLO_KNOWN_WORKER_BYTES_MAX
    accepter.receive_data(_raw(TOKEN) + raw[:-1])
    assert accepter.error is None
    assert accepter.partial_bytes == len(raw) - 1


def test_a_challenge_is_bounded_for_the_dialer_too() -> None:
    dialer = Connection(Side.DIALER, "g1")
    dialer.send(KEY)
    padding = b"x" * LOGIN_BYTES_MAX
    payload = ENCODE([bytes(32), b"", "g1", padding])
    assert (
        dialer.receive_data(encode_frame(Frame(NUMBER_OF[LoginChallenge], payload=payload))) == []
    )
    assert dialer.error is not None
    assert dialer.error.code == ErrorCode.FRAME_TOO_LARGE


def test_a_newer_peer_may_append_fields_to_a_login() -> None:
    payload = ENCODE(["token", "alice", b"rollq_alice_00", b"", "of tomorrow"])
    accepter = Connection(Side.ACCEPTER, "g1")
    frame = Frame(NUMBER_OF[Login], payload=payload)
    assert accepter.receive_data(encode_frame(frame)) == [TOKEN]


def test_the_largest_login_fits() -> None:
    largest = Login("m" * 64, "a" * 64, b"p" * 512, bytes(32))
    raw = _raw(largest)
    assert len(raw) <= LOGIN_BYTES_MAX + 4
    assert len(raw) > LEN_MIN + 512
    assert Connection(Side.ACCEPTER, "g1").receive_data(raw) == [largest]


def test_a_token_is_not_shown() -> None:
    assert "rollq_alice_00" not in repr(TOKEN)


def _raw(message: Message) -> bytes:
    payload = ENCODE([getattr(message, name) for name in message.__struct_fields__])
    if isinstance(message, Login | LoginChallenge | LoginProof):
        return encode_frame(Frame(NUMBER_OF[type(message)], payload=payload))
    return Connection(Side.DIALER, "g1").send(message)
