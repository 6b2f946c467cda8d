"""Links between members prove the cluster key: attacks on real members, which go on serving."""

from __future__ import annotations

import base64
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.raft import types as raft
from rollq.roles.member.cluster_login import ClusterLogin
from rollq.roles.member.status import ClusterView
from rollq.security.cluster_key import key_id_of
from rollq.store.dump import dump
from rollq.store.identity import NO_KEY, NONCE_BITS, ClusterKey
from rollq.store.look import LookDisk
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from rollq.wire.login_messages import NONCE_BYTES, Login, LoginChallenge, LoginProof
from tests.integration.load import Load
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import FEATURES, Talker, accepted, find_leader, hang_up_all

KNOWS_KEYS = ("unnoted", "keys")


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with Members(tmp_path_factory.mktemp("group"), 3) as three:
        find_leader(three.addresses)
        until(lambda: all(key_on(member.state).is_sure for member in three.all))
        yield three
    hang_up_all()


@pytest.fixture(autouse=True)
def _serves(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever was tried, the same leader still leads the same term, and accepts jobs."""
    if "group" not in request.fixturenames:
        yield
        hang_up_all()
        return
    members = request.getfixturevalue("group")
    before = view_of(members)
    yield
    after = view_of(members)
    assert (after.leader, after.term) == (before.leader, before.term)
    assert {one.member_id for one in after.members} == {one.member_id for one in before.members}
    _, client = find_leader(members.addresses)
    assert accepted(client, range(1, 6))
    hang_up_all()


def view_of(members: Members) -> ClusterView:
    _, client = find_leader(members.addresses)
    client.say(wire.Query(b"q" * 16, "cluster"))
    return msgspec.msgpack.decode(client.hear(wire.Answer).value, type=ClusterView)


def key_on(state: Path) -> ClusterKey:
    """The key on a disk, as the newest head of its log has it."""
    heads = [record.head for record in dump(LookDisk(state)) if record.head is not None]
    return heads[-1].key if heads else NO_KEY


def key_of(members: Members) -> bytes:
    return key_on(members.all[0].state).value


class Attacker:
    """Listens at an address of its own, and gets members to call it there."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(DEADLINE_S)
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"

    def __enter__(self) -> Attacker:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()

    def asks(self, victim: str, **fields: object) -> None:
        """Call a member as somebody whom nobody knows."""
        hello = wire.LeaderHello(7, self.address, NIL_ID, 1 << NONCE_BITS, 0, features=KNOWS_KEYS)
        Talker(victim).say(msgspec.structs.replace(hello, **fields))

    def called(self) -> Called:
        """The next member that dials us."""
        return Called(self.server.accept()[0])

    def overhear(self, victim: str) -> tuple[wire.LeaderHello, list[wire.RollAnswer]]:
        """What a member says of itself, once we have hung up on its login."""
        self.asks(victim)
        with self.called() as login:
            assert isinstance(login.hear(), Login)
        answers: list[wire.RollAnswer] = []
        with self.called() as unproven:
            hello = unproven.hear()
            assert isinstance(hello, wire.LeaderHello)
            self.asks(victim)
            while not answers:
                word = unproven.hear()
                if isinstance(word, wire.RollAnswer):
                    answers.append(word)
        return hello, answers


class Called:
    """A link that a member dialled to us."""

    def __init__(self, link: socket.socket) -> None:
        self._socket = link
        self._socket.settimeout(DEADLINE_S)
        self._connection = Connection(Side.ACCEPTER, "default")
        self._waiting: list[Message] = []

    def __enter__(self) -> Called:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def hear(self) -> Message | None:
        """The next message; None: it hung up."""
        while not self._waiting:
            data = self._socket.recv(65_536)
            if not data:
                return None
            self._waiting += self._connection.receive_data(data)
        return self._waiting.pop(0)

    def say(self, message: Message) -> None:
        self._socket.sendall(self._connection.send_all((message,)))


def hellos_of(members: Members) -> dict[str, wire.LeaderHello]:
    """What an attacker knows of each member."""
    hellos = {}
    for address in members.addresses:
        with Attacker() as attacker:
            hellos[address], _ = attacker.overhear(address)
    return hellos


def refusal(talker: Talker) -> ErrorCode:
    error = talker.hear(wire.Error)
    assert talker.is_over()
    return ErrorCode(error.code)


def test_a_forged_vote_request_is_not_heard(group: Members) -> None:
    """Of the next term and with the longest log, as at a transfer: it would depose any leader."""
    hellos = hellos_of(group)
    term = view_of(group).term
    for victim in group.addresses:
        to = hellos[victim].member_id
        for named in group.addresses:
            if named == victim:
                continue
            sender = hellos[named].member_id
            words = (
                raft.RequestVote(to, sender, term + 1, 2**40, term, transfer=True),
                raft.AppendEntries(to, sender, term + 1, 0, 0, 0),
                raft.TimeoutNow(to, sender, term),
                wire.HistoryFetch(1, 9),
            )
            for word in words:
                talker = Talker(victim)
                talker.say(msgspec.structs.replace(hellos[named], key_id=b"", key_sure=False), word)
                assert refusal(talker) is ErrorCode.LOGIN_REQUIRED


def test_six_forged_hellos_stop_nobody(group: Members) -> None:
    hellos = hellos_of(group)
    for victim in group.addresses:
        for named in group.addresses:
            if named == victim:
                continue
            hello = hellos[named]
            later = hello.boot + (1 << NONCE_BITS)
            forged = msgspec.structs.replace(hello, boot=later, lives=(hello.boot, later))
            for one in (forged, msgspec.structs.replace(forged, key_id=b"", key_sure=False)):
                talker = Talker(victim)
                talker.say(one, wire.HistoryFetch(1, 1))
                assert refusal(talker) is ErrorCode.LOGIN_REQUIRED


def test_forged_answers_stop_nobody(group: Members) -> None:
    """All others seem to know a later start of a member's disk: it would take itself for a copy."""
    hellos = hellos_of(group)
    for victim in group.addresses:
        mine = hellos[victim]
        later = mine.boot + (1 << NONCE_BITS)
        for named in group.addresses:
            if named == victim:
                continue
            hello = msgspec.structs.replace(hellos[named], key_id=b"", key_sure=False)
            answer = wire.RollAnswer(
                *(hello.member_id, named, hello.cluster_id, later, mine.boot),
                boots=((mine.member_id, later),),
            )
            talker = Talker(victim)
            talker.say(hello, answer, wire.HistoryFetch(1, 1))
            assert refusal(talker) is ErrorCode.LOGIN_REQUIRED


def test_whoever_has_the_key_is_heard(group: Members) -> None:
    """The other tests would mean nothing otherwise."""
    hellos = hellos_of(group)
    victim, named = group.addresses[:2]
    talker = Talker(victim)
    logged_in(talker, key_of(group), victim)
    talker.say(hellos[named], wire.HistoryFetch(1, 1))
    talker.say(raft.TimeoutNow(hellos[victim].member_id, 99, 1))  # not of the link's member
    assert talker.is_over()


def logged_in(
    talker: Talker, key: bytes, address: str, group: str = "default"
) -> tuple[Login, LoginProof]:
    """Log in as a member does; what was said."""
    login = ClusterLogin(key, group, address, secrets.token_bytes(NONCE_BYTES))
    talker.say(login.first)
    proof = login.prove(talker.hear(LoginChallenge))
    talker.say(proof)
    return login.first, proof


def test_a_replayed_proof_is_refused(group: Members) -> None:
    victim = group.addresses[0]
    login, proof = logged_in(Talker(victim), key_of(group), victim)
    again = Talker(victim)
    again.say(login)
    assert again.hear(LoginChallenge).proof
    again.say(proof)
    assert refusal(again) is ErrorCode.LOGIN_FAILED


def test_a_proof_that_is_sent_back_is_refused(group: Members) -> None:
    victim = group.addresses[0]
    name = key_id_of(key_of(group)).hex()  # every Login says it
    talker = Talker(victim)
    talker.say(Login("cluster", name, nonce=b"n" * NONCE_BYTES))
    challenge = talker.hear(LoginChallenge)
    # Let the member itself answer its challenge, on another link, and send that back.
    helper = Talker(victim)
    helper.say(Login("cluster", name, nonce=challenge.nonce))
    reflected = helper.hear(LoginChallenge)
    talker.say(LoginProof(reflected.proof))
    assert refusal(talker) is ErrorCode.LOGIN_FAILED
    helper.say(LoginProof(challenge.proof))
    assert refusal(helper) is ErrorCode.LOGIN_FAILED


def test_a_login_that_is_passed_on_to_another_member_is_refused(group: Members) -> None:
    """A member calls us, and we let another member answer: the first sees that it is not at our
    address, and gives no proof away."""
    one, other = group.addresses[:2]
    with Attacker() as attacker:
        attacker.asks(one)
        with attacker.called() as link:
            login = link.hear()
            assert isinstance(login, Login)
            relay = Talker(other)
            relay.say(login)
            link.say(relay.hear(LoginChallenge))
            assert link.hear() is None


def test_the_key_of_another_cluster_is_refused(group: Members, tmp_path: Path) -> None:
    victim = group.addresses[0]
    with Members(tmp_path, 1) as alone:
        find_leader(alone.addresses)
        key = key_of(alone)
    assert key
    wrong_key = Talker(victim)
    wrong_key.say(ClusterLogin(key, "default", victim, b"n" * NONCE_BYTES).first)
    assert refusal(wrong_key) is ErrorCode.LOGIN_FAILED
    guessed = Talker(victim)
    guessed.say(Login("cluster", key_id_of(key_of(group)).hex(), nonce=b"n" * NONCE_BYTES))
    guessed.hear(LoginChallenge)
    guessed.say(LoginProof(b"p" * 32))
    assert refusal(guessed) is ErrorCode.LOGIN_FAILED


def test_the_key_is_for_members(group: Members) -> None:
    """It is no account: a link that proves it cannot go on as a client's."""
    victim = group.addresses[0]
    talker = Talker(victim)
    logged_in(talker, key_of(group), victim)
    talker.say(wire.HelloClient("ann", 0, FEATURES))
    assert refusal(talker) is ErrorCode.LOGIN_FAILED


def test_somebody_who_is_no_member_is_not_told_the_key(group: Members) -> None:
    for victim in group.addresses:
        with Attacker() as attacker:
            hello, answers = attacker.overhear(victim)
            assert not any(answer.key or answer.share for answer in answers)
            assert not any(answer.boots for answer in answers)  # nor when others were started
            attacker.asks(victim, cluster_id=hello.cluster_id)
            # Nor is a member's key sent to us because we say that we are that member.
            attacker.asks(victim, cluster_id=hello.cluster_id, member_id=hello.member_id)


def test_the_key_is_not_shown(group: Members) -> None:
    member = group.all[0]
    key = key_of(group)
    dumped = [sys.executable, "-m", "rollq", "wal", "dump", str(member.state)]
    shown = subprocess.run(dumped, capture_output=True, text=True, check=True).stdout
    assert f"address={member.address}" in shown
    shown += "\n".join(member.lines)
    for form in (key.hex(), base64.b64encode(key).decode(), repr(key)[2:-1]):
        assert form not in shown


def with_keys(directory: Path, *keys: str) -> str:
    """A directory of credentials with such a cluster.key."""
    directory.mkdir(parents=True)
    file = directory / "cluster.key"
    file.write_text("\n".join(keys))
    file.chmod(0o600)
    return str(directory)


def test_members_with_a_key_from_a_file(tmp_path: Path) -> None:
    """While one key follows another, members prove different ones of those that all take."""
    old, new = "the first secret", "the second secret"
    members = Members(tmp_path, 3)
    for number, member in enumerate(members.all):
        keys = (old, new) if number else (new, old)
        member.change(credentials=with_keys(tmp_path / f"c{number}", *keys))
    with members:
        _, client = find_leader(members.addresses)
        assert accepted(client, range(1, 6))
        assert not any(key_on(member.state).value for member in members.all)
        for address in members.addresses:  # nobody is heard without it, also no newcomer
            talker = Talker(address)
            talker.say(wire.LeaderHello(7, "127.0.0.1:1", NIL_ID, 1 << NONCE_BITS, 0, True))
            assert refusal(talker) is ErrorCode.LOGIN_REQUIRED
        other = members.all[2]
        other.kill()
        other.change(credentials=with_keys(tmp_path / "other", "a third secret"))
        other.spawn()
        other.until_line("does not know our cluster key")
        members.all[0].until_line("a cluster key that is not ours")
        newcomer = MemberProcess(tmp_path / "new", peers=list(members.addresses))
        try:
            newcomer.spawn()  # without the file
            told = newcomer.until_line("this member does not prove the cluster key")
            assert "put the cluster.key of the others into its --credentials" in told
        finally:
            newcomer.kill()
        _, client = find_leader(members.addresses[:2])
        assert accepted(client, range(6, 11))


def test_a_group_from_before_gets_a_key_under_load(tmp_path: Path) -> None:
    with Members(tmp_path, 3, knows_keys=False) as members, Load(members.addresses) as load:
        for member in members.all:
            load.until_more(50)
            assert not any(key_on(one.state).value for one in members.all)
            assert member.stop() == 0
            member.change(knows_keys=True)
            member.start()
        until(lambda: all(key_on(member.state).is_sure for member in members.all))
        assert len({key_on(member.state).value for member in members.all}) == 1
        load.until_more(200)
        # From now on it is asked for, also after all were away.
        for member in members.all:
            member.kill()
        for member in members.all:
            member.spawn()
        load.until_more(50)
        talker = Talker(members.addresses[0])
        hello = wire.LeaderHello(7, "127.0.0.1:1", NIL_ID, 1 << NONCE_BITS, 0)
        talker.say(hello, wire.HistoryFetch(1, 1))
        assert refusal(talker) is ErrorCode.LOGIN_REQUIRED
