"""What must hold for any bytes. A target returns if all is well, refuses by an error of ours, and
raises anything else if it is not. Pure, and cheap: it runs some thousand times a second."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from rollq.base.access_checks import why_bad_account, why_bad_role
from rollq.base.access_rules import AccessRole, Account, decide, matches
from rollq.base.errors import DiskError, LocalError, RemoteError
from rollq.base.federation_limits import GOSSIP_DATAGRAM_BYTES_MAX
from rollq.base.limits import (
    ARCHIVE_PACKED_BYTES_MAX,
    FRAME_BYTES_MAX,
    HELLO_BYTES_MAX,
    LOGIN_PROOF_BYTES_MAX,
)
from rollq.gossip.codec import DatagramRefusal, decode_datagram, encode_datagram, signed
from rollq.gossip.map import federation_view
from rollq.gossip.records import Datagram
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.roles.login import LinkIdentity, LoginMachine, LoginSetup
from rollq.security.identity import PART, parse_uri
from rollq.security.mode import Mode
from rollq.security.secret import Secret
from rollq.security.signing import read_key
from rollq.security.tokens import parse_token
from rollq.store.archive import unpack
from rollq.store.snapshot_header import HEADER_BYTES, decode_header
from rollq.store.snapshot_layout import decode_layout
from rollq.wire.connection import Connection
from rollq.wire.frame import FrameDecoder
from rollq.wire.handshake import BEFORE_HELLO, Side, Stage
from rollq.wire.login_messages import Login, LoginMessage
from rollq.wire.messages import LeaderHello
from tests.fuzz.accounts import ACCOUNTS, GROUP, TOKEN
from tests.fuzz.datagrams import DATAGRAMS, FEDERATION_KEY
from tests.unit.gossip.kit import NOW_MS as GOSSIP_MS
from tests.unit.gossip.kit import machine

LEN_BYTES: Final = 4  # of the length before a frame
PIECES_MAX: Final = 32
UNPACKED_BYTES_MAX: Final = 1024 * 1024


def frame(data: bytes) -> None:
    """Frames come out the same however the bytes are cut; what is buffered is bounded."""
    whole, pieces = FrameDecoder(HELLO_BYTES_MAX), FrameDecoder(HELLO_BYTES_MAX)
    whole.feed(data)
    step = max(data[0] % 64 + 1, len(data) // PIECES_MAX) if data else 1
    for at in range(0, len(data), step):
        pieces.feed(data[at : at + step])
        assert pieces.buffered_bytes <= FRAME_BYTES_MAX + LEN_BYTES
    assert _frames(whole) == _frames(pieces)


def _frames(decoder: FrameDecoder) -> tuple[list[object], str]:
    found: list[object] = []
    try:
        while frames := decoder.frames():
            found += frames
    except RemoteError as error:
        return found, error.code.name
    return found, ""


def connection(data: bytes) -> None:
    """An accepter takes whatever comes: it hands out messages, or is closed for good."""
    accepter = Connection(Side.ACCEPTER, GROUP)
    _feed(accepter, data)


def tls_hello(data: bytes) -> None:
    """A TLS hello into a port without TLS ends the connection before anything is heard."""
    accepter = Connection(Side.ACCEPTER, GROUP)
    heard = accepter.receive_data(b"\x16\x03\x01" + data)
    assert not heard
    assert accepter.state in (Stage.NEW, Stage.CLOSED)
    assert accepter.error is not None or accepter.partial_bytes < 64


def dialer(data: bytes) -> None:
    """A dialer that logs in takes whatever the other side answers."""
    dialing = Connection(Side.DIALER, GROUP)
    dialing.send(Login("key", "ann", nonce=bytes(32)))
    _feed(dialing, data)


def member(data: bytes) -> None:
    """A link between members: consensus, and chunks of snapshots."""
    accepter = Connection(Side.ACCEPTER, GROUP)
    accepter.receive_data(Connection(Side.DIALER, GROUP).send(LeaderHello(1, "a:1", b"c", 1, 0)))
    assert accepter.state is Stage.MEMBER
    _feed(accepter, data)


def _feed(end: Connection, data: bytes) -> None:
    half = len(data) // 2
    for piece in (data[:half], data[half:]):
        was_closed = end.error is not None
        heard = end.receive_data(piece)
        assert not (was_closed and heard)
        if end.side is Side.ACCEPTER and end.state in BEFORE_HELLO:
            assert end.partial_bytes <= HELLO_BYTES_MAX + LEN_BYTES
        assert (end.error is None) or end.state is Stage.CLOSED
    end.take_refusals()
    end.farewell()


def login(data: bytes) -> None:
    """Nobody is let in without a right proof, whatever is said in whatever order."""
    machine = LoginMachine(
        LoginSetup(
            Mode.REQUIRE,
            GROUP,
            accounts=lambda: ACCOUNTS,
            now_ms=lambda: 0,
            draw_nonce=lambda: bytes(32),
        )
    )
    accepter = Connection(Side.ACCEPTER, GROUP)
    for message in accepter.receive_data(data):
        if not isinstance(message, LoginMessage):
            return
        try:
            answer = machine.hear(message)
        except RemoteError:
            return
        if isinstance(answer, LinkIdentity):
            assert (answer.account, answer.method) == ("ann", "token")
            assert isinstance(message, Login)
            assert message.proof == TOKEN
        elif accepter.state is Stage.LOGIN_WAITS:  # else it said more than it may, and is cut off
            accepter.send(answer)


def token(data: bytes) -> None:
    """A token names an account that can be, and fits a login."""
    parsed = parse_token(data)
    if parsed is not None:
        assert PART.fullmatch(parsed.account)
        assert len(data) <= LOGIN_PROOF_BYTES_MAX
        assert data.startswith(f"rollq_{parsed.account}_".encode())


def key_file(data: bytes) -> None:
    """The file of a key is one, or is refused."""
    with contextlib.suppress(LocalError):
        read_key(Secret(data))


def certificate_name(data: bytes) -> None:
    """The name in a certificate is read exactly, or refused."""
    text = data.decode("latin-1")
    try:
        found = parse_uri(text)
    except LocalError:
        return
    assert found.uri == text


def snapshot(data: bytes) -> None:
    """A snapshot is read, or refused as damaged or too new. What was read can be written."""
    try:
        state = decode_snapshot(data)
    except (DiskError, LocalError):
        return
    encode_snapshot(state)


def snapshot_file(data: bytes) -> None:
    """The beginning and the end of a snapshot's file, as another member sent them."""
    if len(data) >= HEADER_BYTES:
        try:
            decode_header(data, "fuzzed")
        except DiskError:
            return
    half = len(data) // 2
    decode_layout(len(data), data[:half], data[half:])


def archive(data: bytes) -> None:
    """An archive gives files within their bounds, or is refused."""
    try:
        files = unpack(data, UNPACKED_BYTES_MAX)
    except RemoteError:
        return
    assert len(data) <= ARCHIVE_PACKED_BYTES_MAX
    assert sum(map(len, files.values())) <= UNPACKED_BYTES_MAX
    assert not any(name.startswith("/") or ".." in name.split("/") for name in files)


def access(data: bytes) -> None:
    """An account that is taken can be judged by, and a deny of everything wins."""
    try:
        account = ACCOUNT.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    why_bad_role(AccessRole(account.name, account.rules))
    if why_bad_account(account):
        return
    resource = f"client:{account.name}"
    decide(account.rules, account.name, "jobs.submit", (resource, "queue:q"))
    for rule in account.rules:
        assert matches(rule.action, rule.action.replace("*", "x"))
        if rule.effect == "deny" and rule.action == "*" and rule.resource == "*":
            assert not decide(account.rules, account.name, "jobs.submit", (resource,))


ACCOUNT: Final = msgspec.msgpack.Decoder(Account)


def datagram(data: bytes) -> None:
    """A datagram of a stranger is refused, or it is one that was sent as it is."""
    found = decode_datagram([FEDERATION_KEY], data, GOSSIP_MS)
    assert isinstance(found, DatagramRefusal) or data in DATAGRAMS


def gossip(data: bytes) -> None:
    """What somebody says who has the key is refused, or taken within all bounds; and what is said
    after it can be sent."""
    found = decode_datagram([FEDERATION_KEY], signed(FEDERATION_KEY, data), GOSSIP_MS)
    if isinstance(found, DatagramRefusal):
        return
    node = machine()
    sends = [*node.receive(found, 0), *node.tick(0), *node.tick(1_000)]
    federation_view(node, 1_000)
    for send in sends:
        told = Datagram(GOSSIP_MS, node.me.node_id, node.me.address, send.message, send.updates)
        assert len(encode_datagram(FEDERATION_KEY, told)) <= GOSSIP_DATAGRAM_BYTES_MAX


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    one.__name__: one
    for one in (
        *(frame, connection, tls_hello, dialer, member, login, token, key_file),
        *(certificate_name, snapshot, snapshot_file, archive, access, datagram, gossip),
    )
}
