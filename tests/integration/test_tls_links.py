"""Links with TLS and without, over real sockets, on both loops: who is let in, and what each side
is told if not."""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from rollq.base.errors import DialError, ErrorCode
from rollq.net import dialer, tls_layer
from rollq.net.dialer import is_served, takes_connections
from rollq.net.handshake_turns import HandshakeTurns, Step
from rollq.net.link import CUT_OFF, Link, LinkLimits
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateIdentity, CertificateRole
from rollq.security.mode import Mode
from rollq.security.tls import make_contexts, reload_all
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from tests.integration.greeter import HELLO, Place, call, dialed, listening, until_closed
from tests.integration.patience import DEADLINE_S
from tests.unit.security.kit import Cluster

Runner = Callable[[Coroutine[Any, Any, None]], None]


@dataclass
class Parties:
    """Who has which certificate."""

    cluster: Cluster
    member: Credentials
    worker: Credentials
    client: Credentials


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    cluster = Cluster(tmp_path_factory.mktemp("home"))
    roles = CertificateRole.MEMBER, CertificateRole.WORKER, CertificateRole.CLIENT
    return Parties(cluster, *map(cluster.credentials, roles))


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Runner:
    runner: Any = asyncio.run if request.param == "asyncio" else uvloop.run

    def within(story: Coroutine[Any, Any, None]) -> None:
        runner(asyncio.wait_for(story, DEADLINE_S))

    return within


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process remembers of lines and addresses is not of other tests."""
    monkeypatch.setattr(dialer, "PLAIN", {})
    monkeypatch.setattr(CUT_OFF, "_kinds", {})


async def refused(place: Place, credentials: Credentials, **how: Any) -> DialError:
    with pytest.raises(DialError) as caught:
        await call(place, credentials, **how)
    assert not place.heard
    return caught.value


def test_a_dial_that_is_cut_off_leaves_no_unread_exception(home: Parties) -> None:
    unread: list[dict[str, Any]] = []

    async def cut_off(make: Callable[[], asyncio.Protocol], host: str, port: int) -> None:
        layer = make()
        layer.connection_made(asyncio.Transport())
        layer.connection_lost(ConnectionResetError("reset by peer"))
        raise TimeoutError

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unread.append(context))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tls_layer.TlsLayer, "_flush", lambda layer: None)
            patch.setattr(loop, "create_connection", cut_off)
            with pytest.raises(DialError):
                await dialer.dial(
                    "127.0.0.1:1",
                    "",
                    no_messages,
                    no_end,
                    credentials=home.client,
                    tls=Mode.REQUIRE,
                )
        gc.collect()

    asyncio.run(story())
    assert unread == []


def no_messages(link: Link, messages: list[Message]) -> None:
    raise AssertionError(messages)


def no_end(link: Link, why: str) -> None:
    raise AssertionError(why)


def test_each_side_knows_whom_it_speaks_with(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.member) as place:
            for who in (home.client, home.worker, home.member):
                talk = await call(place, who)
                assert isinstance(await talk.hear(), wire.Welcome)
                assert talk.link.certificate == CertificateIdentity(
                    "home", CertificateRole.MEMBER, "member"
                )
            without = await call(place, replace(home.client, certificate=None))
            assert isinstance(await without.hear(), wire.Welcome)
        names = ["" if one is None else one.uri for one in place.heard]
        assert names == [
            "rollq://home/client/client",
            "rollq://home/worker/worker",
            "rollq://home/member/member",
            "",
        ]

    run(story())


def test_much_is_carried_both_ways(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.member) as place:
            talk = await call(place, home.client)
            await talk.hear()
            jobs = [
                wire.SubmitJob(bytes([n] * 16), "me", "", "exec", bytes([65 + n]) * 60_000)
                for n in range(1, 20)
            ]
            talk.link.send_all(jobs)
            for job in jobs:
                answer = await talk.hear()
                assert isinstance(answer, wire.Result)
                assert answer.result == job.body
            talk.link.close("done")
            assert await talk.hear() == "done"

    run(story())


def test_an_authority_that_is_not_ours_is_refused(
    home: Parties, run: Runner, tmp_path: Path
) -> None:
    stranger = Cluster(tmp_path).credentials(CertificateRole.MEMBER)

    async def story() -> None:
        async with listening(home.member) as place:
            error = await refused(place, stranger)
            assert error.code is ErrorCode.BAD_CERTIFICATE
            assert "not in our ca.pem" in error.message
            why = await place.ends.get()
            assert why == "it refuses us: our certificate is signed by another authority"

    run(story())


def test_why_a_peer_hung_up_is_told_although_its_handshake_had_no_turn(
    home: Parties, run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(self: HandshakeTurns, host: str, step: Step, *, has_begun: bool) -> None:
        if not has_begun:
            step()

    monkeypatch.setattr(HandshakeTurns, "enter", enter)
    stranger = Cluster(tmp_path).credentials(CertificateRole.MEMBER)

    async def story() -> None:
        async with listening(home.member) as place:
            await refused(place, stranger)
            why = await place.ends.get()
            assert why == "it refuses us: our certificate is signed by another authority"

    run(story())


def test_an_expired_certificate_is_told_on_both_sides(
    home: Parties, run: Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(tmp_path)
    member = cluster.credentials(CertificateRole.MEMBER)
    late = cluster.credentials(CertificateRole.CLIENT, has_expired=True)
    late_member = cluster.credentials(CertificateRole.MEMBER, "late", has_expired=True)

    async def story() -> None:
        async with listening(member) as place:
            talk = await call(place, late)  # the accepter looks when the dialer is done
            assert await talk.hear() == "it refuses us: our certificate has expired"
            assert not place.heard
        async with listening(late_member) as place:
            error = await refused(place, member)
            assert "expired" in error.message

    run(story())
    assert "its certificate is refused: certificate has expired" in caplog.text


def test_a_dialer_wants_a_member_and_among_workers_a_worker(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.worker) as place:
            error = await refused(place, home.client)
            assert error.code is ErrorCode.BAD_CERTIFICATE
            assert "rollq://home/worker/worker is not a member" in error.message
            talk = await call(place, home.worker, peer=CertificateRole.WORKER)
            assert isinstance(await talk.hear(), wire.Welcome)
        async with listening(home.member) as place:
            error = await refused(place, home.worker, peer=CertificateRole.WORKER)
            assert "is not a worker" in error.message

    run(story())


def test_a_listener_may_want_workers_alone(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.worker, roles=(CertificateRole.WORKER,)) as place:
            for who, code in (
                (home.client, ErrorCode.BAD_CERTIFICATE),
                (replace(home.client, certificate=None), ErrorCode.LOGIN_REQUIRED),
            ):
                talk = await call(place, who, peer=CertificateRole.WORKER)
                told = await talk.hear()
                assert isinstance(told, wire.Error)
                assert told.code == code
                assert isinstance(await talk.hear(), str)
            assert not place.heard

    run(story())


def test_a_plain_peer_is_told_that_tls_is_required(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.member) as place:
            talk = await call(place)
            told = await talk.hear()
            assert isinstance(told, wire.Error)
            assert told.code == ErrorCode.TLS_REQUIRED
            assert "--credentials" in told.hint
            assert isinstance(await talk.hear(), str), "it is closed"
            assert not place.heard

    run(story())


def test_tls_into_a_plain_port_is_told_on_both_sides(
    home: Parties, run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with listening(NONE) as place:
            for _ in range(3):
                error = await refused(place, home.client)
                assert error.code is ErrorCode.UNREACHABLE
                assert "does not speak TLS" in error.message
                assert "--tls allow" in error.hint

    run(story())
    assert caplog.text.count("it speaks TLS, which is off here") == 1, "once, and then counted"


def test_where_both_are_allowed_both_are_served(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.member, Mode.ALLOW) as place:
            for who in (NONE, home.client):
                assert isinstance(await (await call(place, who)).hear(), wire.Welcome)
        assert [one is not None for one in place.heard] == [False, True]

    run(story())


def test_who_may_dials_without_tls_where_there_is_none_and_remembers_it(
    home: Parties, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    class Counted(tls_layer.TlsLayer):
        def __init__(self, *args: Any) -> None:
            tried.append(None)
            super().__init__(*args)

    monkeypatch.setattr(dialer, "TlsLayer", Counted)

    async def story() -> None:
        async with listening(NONE) as plain:
            for _ in range(3):
                talk = await call(plain, home.member, tls=Mode.ALLOW)
                assert isinstance(await talk.hear(), wire.Welcome)
            assert len(tried) == 1
        async with listening(home.member, Mode.REQUIRE) as other:
            talk = await call(other, home.member, tls=Mode.ALLOW)
            assert isinstance(await talk.hear(), wire.Welcome)
            assert other.heard[0] is not None
        # A certificate that is wrong is no reason to speak without one.
        async with listening(home.worker, Mode.ALLOW) as third:
            assert "is not a member" in (await refused(third, home.member, tls=Mode.ALLOW)).message

    run(story())


def test_new_files_are_for_new_links_and_open_links_stay(run: Runner, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    member, client = map(cluster.credentials, (CertificateRole.MEMBER, CertificateRole.CLIENT))

    async def serial(place: Place) -> str:
        talk = await call(place, client)
        assert isinstance(await talk.hear(), wire.Welcome)
        tls = talk.link._transport.get_extra_info("ssl_object")  # type: ignore[union-attr]
        return str(tls.getpeercert()["serialNumber"])

    async def story() -> None:
        async with listening(member) as place:
            before = await call(place, client)
            await before.hear()
            first = await serial(place)
            cluster.renew(member)
            reload_all()
            assert await serial(place) != first
            before.link.send(wire.SubmitJob(bytes(range(16)), "me", "", "exec", b"still here"))
            answer = await before.hear()
            assert isinstance(answer, wire.Result)
            assert answer.result == b"still here"

    run(story())


def test_a_dialer_reads_files_that_changed_a_moment_ago_before_it_refuses_a_peer(
    run: Runner, tmp_path: Path
) -> None:
    old, new = (Cluster(tmp_path / name) for name in ("old", "new"))
    client, renewed = (one.credentials(CertificateRole.CLIENT) for one in (old, new))

    async def story() -> None:
        for cluster in (old, new):
            async with listening(cluster.credentials(CertificateRole.MEMBER)) as place:
                assert isinstance(await (await call(place, client)).hear(), wire.Welcome)
            shutil.copytree(renewed.directory, client.directory, dirs_exist_ok=True)

    run(story())


def test_first_bytes_may_come_one_by_one(home: Parties, run: Runner) -> None:
    """Also of a frame whose length is that of a record of TLS in its first two bytes."""
    hello = b""
    pads = ["x" * 60] * 12
    while hello[:2] != b"\x16\x03":
        features = ("compact", "accepted", *pads)
        hello = Connection(Side.DIALER, "g").send(wire.HelloClient("me", 0, features))
        lacking = 0x0316 - int.from_bytes(hello[:4], "little")
        pads = [*pads[:-1], pads[-1] + "x" * lacking] if lacking > 0 else [*pads[:-2], "x"]

    async def story() -> None:
        async with (
            listening(home.member, Mode.ALLOW) as place,
            dialed(place) as (reader, writer),
        ):
            for at in range(len(hello)):
                writer.write(hello[at : at + 1])
                await writer.drain()
                await asyncio.sleep(0)
            assert await reader.readexactly(4)
            assert place.heard == [None]

    run(story())


@pytest.mark.parametrize(
    "said",
    [b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x03" + b"\xff" * 400, b"\x16\x03\x09" + bytes(60)],
    ids=["short", "long", "version"],
)
def test_what_only_looks_like_tls_is_closed(home: Parties, run: Runner, said: bytes) -> None:
    async def story() -> None:
        async with listening(home.member) as place:
            async with dialed(place) as (reader, writer):
                writer.write(said)
                with suppress(ConnectionResetError):
                    await reader.read()
            assert not place.heard
            assert isinstance(await (await call(place, home.client)).hear(), wire.Welcome)

    run(story())


def test_who_never_ends_the_handshake_is_cut_off(
    home: Parties, run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    limits = LinkLimits(hello_ms_max=1_000)  # enough for the whole of one that ends it

    async def stay(place: Place, said: bytes) -> None:
        async with dialed(place) as (reader, writer):
            writer.write(said)
            await until_closed(reader)

    async def story() -> None:
        async with listening(home.member, limits=limits) as place:
            begun = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01")
            await asyncio.gather(*(stay(place, said) for said in begun))
            assert isinstance(await (await call(place, home.client)).hear(), wire.Welcome)

    run(story())
    assert "no TLS handshake within 1000 ms" in caplog.text


def test_half_open_links_of_one_address_are_bounded(
    home: Parties, run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(credentials: Credentials) -> None:
        limits = LinkLimits(half_open_max=3)
        async with listening(credentials, limits=limits) as place:
            open_ones = [await call(place, credentials) for _ in range(5)]
            for talk in open_ones:  # a hello was said: they do not count
                assert isinstance(await talk.hear(), wire.Welcome)
            async with dialed(place), dialed(place), dialed(place), dialed(place) as (reader, _):
                await until_closed(reader)
            # Theirs is free again, as soon as the listener has seen it.
            while True:
                try:
                    talk = await call(place, credentials)
                except DialError:
                    continue
                if isinstance(await talk.hear(), wire.Welcome):
                    break

    run(story(home.member))
    run(story(NONE))
    assert "more than 3 connections of 127.0.0.1 without a hello" in caplog.text


def test_a_listener_that_stops_leaves_nobody_in_a_handshake(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.member) as place:
            ends = dialed(place)
            reader, _ = await ends.__aenter__()
            talk = await call(place, home.client)
            await talk.hear()  # so the one before was accepted
        await until_closed(reader)
        await ends.__aexit__(None, None, None)

    run(story())


def test_probes_need_no_tls(home: Parties, run: Runner) -> None:
    async def story() -> None:
        async with listening(home.member) as place:
            assert await takes_connections(place.address)
            assert await is_served(place.address)

    run(story())


def test_what_cannot_be_read_is_said_when_it_listens(home: Parties, run: Runner) -> None:
    async def story() -> None:
        with pytest.raises(Exception, match="no certificate"):
            async with listening(replace(home.client, certificate=None), Mode.REQUIRE):
                pass

    run(story())


def test_a_peer_that_ends_by_the_rules_of_tls_is_heard_to_the_end(
    home: Parties, run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """A client of another library: it says its hello, and ends with a close_notify."""
    caplog.set_level(logging.INFO)

    def talk(address: str) -> bytes:
        host, port = address.split(":")
        raw = socket.create_connection((host, int(port)), DEADLINE_S)
        with make_contexts(home.client).dials.wrap_socket(raw) as tls:
            assert tls.version() == "TLSv1.3"
            tls.sendall(Connection(Side.DIALER, "g").send(HELLO))
            answer = tls.recv(4096)
            with suppress(ssl.SSLError, OSError):  # whose end comes first does not matter
                tls.unwrap().close()
            return answer

    async def story() -> None:
        async with listening(home.member) as place:
            assert await asyncio.to_thread(talk, place.address)
            assert len(place.heard) == 1

    run(story())
