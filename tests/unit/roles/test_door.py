"""The one way in: who a link is, and what it may say."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rollq.base.access import LinkRole, Principal
from rollq.base.access_rules import Account
from rollq.base.errors import ErrorCode, RemoteError
from rollq.net.link import Link
from rollq.net.login import KeyLogin, TokenLogin
from rollq.raft.types import RaftHeartbeat
from rollq.roles.access import PERMITTED, ROLE_OF_HELLO, check, principal_of
from rollq.roles.door import Door
from rollq.roles.login import LoginSetup
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.security.mode import Mode
from rollq.security.signing import make_key, read_key
from rollq.security.tokens import make_token
from rollq.wire import messages as wire
from rollq.wire.blob_messages import BlobAsk, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.login_messages import LoginChallenge, LoginProof
from rollq.wire.reader_messages import HelloReader, SpanAsk
from rollq.wire.registry import ROWS, Phase

ID = bytes(15) + b"\1"
HELLO_WORKER = wire.HelloWorker(ID, ("q",), name="box")


class StillClock:
    """A loop whose time stands still."""

    def time(self) -> float:
        return 0.0


class Line:
    """A link that only notes what is done to it."""

    def __init__(self) -> None:
        self.address = "10.0.0.1:5"
        self.certificate: CertificateIdentity | None = None
        self.loop = StillClock()
        self.sent: list[Any] = []
        self.closed = ""

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def close(self, reason: str) -> None:
        self.closed = reason


class Room:
    """A service that notes what it is given."""

    def __init__(self) -> None:
        self.heard: list[tuple[Principal, list[Message]]] = []
        self.gone: list[str] = []

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        self.heard.append((principal, messages))

    def closed(self, link: Link, reason: str) -> None:
        self.gone.append(reason)


def say(door: Door, line: Line, *messages: Message) -> None:
    door.messages(cast(Link, line), list(messages))


@pytest.mark.parametrize(
    ("hello", "principal"),
    [
        (wire.HelloClient("ann"), Principal(LinkRole.CLIENT, "ann", "a:1")),
        (HELLO_WORKER, Principal(LinkRole.WORKER, "box", "a:1")),
        (wire.LeaderHello(7, "m:1", ID, 1, 0), Principal(LinkRole.MEMBER, "7", "a:1")),
        (HelloBlobs("worker"), Principal(LinkRole.BLOBS, "worker", "a:1")),
        (HelloReader("g"), Principal(LinkRole.READER, "", "a:1")),
    ],
)
def test_the_first_message_names_the_principal(hello: Any, principal: Principal) -> None:
    assert principal_of(hello, "a:1") == principal


def test_every_hello_of_the_table_has_a_role() -> None:
    hellos = {row.struct for row in ROWS if Phase.HELLO in row.phase}
    assert hellos == set(ROLE_OF_HELLO)
    assert all(hello in PERMITTED[role] for hello, role in ROLE_OF_HELLO.items())


@pytest.mark.parametrize(
    ("role", "message", "needed"),
    [
        (LinkRole.CLIENT, wire.Credit(1), "Credit requires a worker session"),
        (LinkRole.WORKER, wire.Cancel(ID, (ID,)), "Cancel requires a client session"),
        (LinkRole.READER, BlobAsk(ID, ()), "BlobAsk requires a blobs session"),
        (LinkRole.BLOBS, SpanAsk(ID), "SpanAsk requires a reader session"),
        (LinkRole.CLIENT, RaftHeartbeat(1, 2, 1, 0), "RaftHeartbeat requires a member session"),
        (LinkRole.MEMBER, wire.Ping(), "Ping requires a client or worker session"),
    ],
)
def test_what_a_role_may_not_say_is_refused_in_one_way(
    role: LinkRole, message: Any, needed: str
) -> None:
    with pytest.raises(RemoteError) as caught:
        check(Principal(role, "", "a:1"), message)
    assert (caught.value.code, caught.value.message) == (ErrorCode.BAD_HANDSHAKE, needed)


def test_what_only_members_answer_is_taken_from_nobody() -> None:
    for role in LinkRole:
        with pytest.raises(RemoteError) as caught:
            check(Principal(role, "", "a:1"), wire.Accepted(ID))
        assert caught.value.code is ErrorCode.UNKNOWN_MESSAGE


def test_messages_go_to_the_service_of_the_hello_until_the_link_is_gone() -> None:
    room, other, line = Room(), Room(), Line()
    door = Door({LinkRole.WORKER: room, LinkRole.CLIENT: other})
    say(door, line, HELLO_WORKER)
    say(door, line, wire.Credit(1), wire.Ping())
    principal = Principal(LinkRole.WORKER, "box", "10.0.0.1:5")
    assert room.heard == [(principal, [HELLO_WORKER]), (principal, [wire.Credit(1), wire.Ping()])]
    door.closed(cast(Link, line), "over")
    door.closed(cast(Link, line), "again")
    assert (room.gone, other.heard, other.gone) == (["over"], [], [])


def test_a_link_that_is_refused_at_once_is_none_of_a_service() -> None:
    room, line = Room(), Line()
    door = Door({LinkRole.WORKER: room})
    say(door, line, HELLO_WORKER, wire.Cancel(ID, (ID,)))
    door.closed(cast(Link, line), "over")
    assert (room.heard, room.gone) == ([], [])
    assert line.sent[0].request_id == ID  # of the message that was refused


def test_one_message_that_is_refused_keeps_back_the_others_and_ends_the_link() -> None:
    room, line = Room(), Line()
    door = Door({LinkRole.WORKER: room})
    say(door, line, HELLO_WORKER)
    say(door, line, wire.Credit(1), wire.Cancel(ID, (ID,)))
    assert len(room.heard) == 1
    (error,) = line.sent
    assert (error.code, error.message) == (
        ErrorCode.BAD_HANDSHAKE,
        "Cancel requires a client session",
    )
    assert "Cancel requires a client session" in line.closed


def test_a_role_that_is_not_served_is_told_what_is() -> None:
    room, line = Room(), Line()
    door = Door({LinkRole.BLOBS: room})
    say(door, line, wire.HelloClient("ann"))
    (error,) = line.sent
    assert error.code == ErrorCode.BAD_HANDSHAKE
    assert error.message == "a client session is not served here, only blobs"
    assert not room.heard


# --- logins

TOKEN, STORED = make_token("ann")
KEY = read_key(make_key("ann"))
ACCOUNTS = {"ann": Account("ann", tokens=(STORED,), public_keys=(KEY.public,))}
BY_TOKEN = TokenLogin("ann", TOKEN.reveal()).first
HELLO = wire.HelloClient("ann/1")


def guarded(room: Room, mode: Mode = Mode.REQUIRE) -> Door:
    logins = LoginSetup(
        mode, "g1", accounts=lambda: ACCOUNTS, now_ms=lambda: 0, draw_nonce=lambda: bytes(32)
    )
    return Door({LinkRole.CLIENT: room, LinkRole.MEMBER: room}, logins)


def codes(line: Line) -> list[int]:
    return [sent.code for sent in line.sent if isinstance(sent, wire.Error)]


def test_a_token_and_its_hello_may_come_in_one_read_or_in_two() -> None:
    both: list[list[list[Message]]] = [[[BY_TOKEN, HELLO]], [[BY_TOKEN], [HELLO]]]
    for reads in both:
        room, line = Room(), Line()
        door = guarded(room)
        for read in reads:
            say(door, line, *read)
        principal = Principal(LinkRole.CLIENT, "ann/1", line.address, "ann", "token")
        assert room.heard == [(principal, [HELLO])]
        assert (line.sent, line.closed) == ([], "")


def test_a_key_is_challenged_and_the_hello_comes_with_its_proof() -> None:
    room, line, login = Room(), Line(), KeyLogin(KEY, bytes(32))
    door = guarded(room)
    say(door, line, login.first)
    [challenge] = line.sent
    assert isinstance(challenge, LoginChallenge)
    say(door, line, login.prove(challenge), HELLO, wire.Ping())
    [(principal, messages)] = room.heard
    assert (principal.account, principal.method) == ("ann", "key")
    assert messages == [HELLO, wire.Ping()]


def test_the_account_stays_with_its_link() -> None:
    room, line, other = Room(), Line(), Line()
    door = guarded(room, Mode.ALLOW)
    say(door, line, BY_TOKEN)
    say(door, other, HELLO)
    say(door, line, HELLO)
    assert [principal.account for principal, _ in room.heard] == ["anonymous", "ann"]


@pytest.mark.parametrize("mode", [Mode.ALLOW, Mode.REQUIRE])
def test_a_wrong_login_ends_the_link_before_any_service_hears_of_it(
    mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    room, line = Room(), Line()
    door = guarded(room, mode)
    wrong = TokenLogin("ann", make_token("ann")[0].reveal()).first
    say(door, line, wrong, HELLO)
    assert codes(line) == [ErrorCode.LOGIN_FAILED]
    assert line.closed
    door.closed(cast(Link, line), "over")
    assert (room.heard, room.gone) == ([], [])
    [record] = caplog.records
    assert "'ann': a wrong token" in record.getMessage()
    assert wrong.proof.decode() not in record.getMessage()


@pytest.mark.parametrize(
    "said",
    [
        [BY_TOKEN, BY_TOKEN],
        [KeyLogin(KEY, bytes(32)).first, HELLO],
        [LoginProof(b"x")],
    ],
    ids=["twice", "a hello before the proof", "a proof alone"],
)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_login_out_of_order_fails_in_every_mode(mode: Mode, said: list[Message]) -> None:
    for reads in ([said], [[message] for message in said]):
        room, line = Room(), Line()
        door = guarded(room, mode)
        for read in reads:
            say(door, line, *read)
        assert codes(line) == [ErrorCode.LOGIN_FAILED]
        assert room.heard == []


def test_whoever_proves_nothing_is_told_to_log_in() -> None:
    room, line = Room(), Line()
    say(guarded(room), line, HELLO)
    assert codes(line) == [ErrorCode.LOGIN_REQUIRED]
    assert room.heard == []


def test_without_access_control_a_login_changes_nothing() -> None:
    for said in ([BY_TOKEN, HELLO], [HELLO]):
        room, line = Room(), Line()
        say(guarded(room, Mode.OFF), line, *said)
        assert room.heard == [(Principal(LinkRole.CLIENT, "ann/1", line.address), [HELLO])]


def test_nobody_logs_in_at_a_listener_without_accounts() -> None:
    room, line = Room(), Line()
    say(Door({LinkRole.CLIENT: room}), line, BY_TOKEN, HELLO)
    assert codes(line) == [ErrorCode.UNKNOWN_MESSAGE]
    assert room.heard == []


def test_a_certificate_names_the_account() -> None:
    room, line = Room(), Line()
    line.certificate = CertificateIdentity("prod", CertificateRole.ADMIN, "carol")
    say(guarded(room), line, HELLO)
    [(principal, _)] = room.heard
    assert principal[3:] == ("carol", "certificate", "admin")


def test_a_client_with_a_certificate_is_no_member() -> None:
    room, line = Room(), Line()
    line.certificate = CertificateIdentity("prod", CertificateRole.CLIENT, "carol")
    say(guarded(room, Mode.OFF), line, wire.LeaderHello(7, "m:1", ID, 1, 0))
    assert codes(line) == [ErrorCode.ACCESS_DENIED]
    assert room.heard == []


def test_a_stranger_that_guesses_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    door = guarded(Room())
    for number in range(100):
        say(door, Line(), TokenLogin(f"guess{number}", b"").first)
    assert len(caplog.records) == 3
