"""Accounts on a real member with TLS: who gets in, and what somebody with an account of their own
reaches of what is another's."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq.base.access_rules import Account, Rule
from rollq.base.digests import digest_to_text
from rollq.base.errors import DialError, ErrorCode, RollqError
from rollq.base.jobs import BlobRef
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.raft.types import Role
from rollq.roles.blobs.client import BlobClient
from rollq.security.credentials import Credentials
from rollq.security.identity import CertificateRole
from rollq.wire import messages as wire
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.login_messages import Login
from rollq.wire.models import InputFile, encode_model, job_request
from rollq.wire.reader_messages import HelloReader
from tests.integration.access_grid import AccessGrid, access_grid
from tests.integration.patience import DEADLINE_S
from tests.unit.security.kit import Cluster

FEATURES = ("compact", "accepted")
SECRET = b"the secret of alice\n" * 10_000
DIGEST = hashlib.sha256(SECRET).digest()
REQUEST = bytes(15) + b"\1"
# What opens each kind of link, and which certificates may say it.
C = CertificateRole
HELLOS: dict[str, tuple[Any, set[CertificateRole]]] = {
    "client": (wire.HelloClient("NAME/1", 0, FEATURES), {C.CLIENT, C.ADMIN}),
    "worker": (
        wire.HelloWorker(REQUEST, ("none",), "NAME", features=FEATURES),
        {C.WORKER, C.ADMIN},
    ),
    "member": (wire.LeaderHello(9, "a:1", b"other", 1, 0, newcomer=True), {C.MEMBER}),
    "blobs": (HelloBlobs("client"), set(C)),
    "reader": (HelloReader(), {C.CLIENT, C.ADMIN}),
}


class Words:
    """A link by what it hears."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[Message | str] = asyncio.Queue()
        self.link: Link | None = None

    def messages(self, link: Link, messages: list[Message]) -> None:
        for message in messages:
            self._heard.put_nowait(message)

    def closed(self, link: Link, reason: str) -> None:
        self._heard.put_nowait(reason)

    async def ask(self, *messages: Message) -> Any:
        """The answer."""
        assert self.link is not None
        self.link.send_all(messages)
        return await self._heard.get()

    async def hear(self) -> Any:
        """What comes next; a text is the end."""
        return await self._heard.get()


@asynccontextmanager
async def dialed(address: str, credentials: Credentials) -> AsyncIterator[Words]:
    words = Words()
    link = words.link = await dial(
        address, "default", words.messages, words.closed, credentials=credentials
    )
    try:
        yield words
    finally:
        link.abort("over")


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


def named(hello: Any, name: str) -> Any:
    """A hello of this account."""
    if isinstance(hello, wire.HelloClient):
        return msgspec.structs.replace(hello, client_id=f"{name}/1")
    if isinstance(hello, wire.HelloWorker):
        return msgspec.structs.replace(hello, name=name)
    return hello


def test_only_who_has_a_certificate_for_it_opens_a_link(tmp_path: Path) -> None:
    async def story() -> None:
        async with access_grid(tmp_path) as grid:
            stranger = Cluster(tmp_path / "stranger").credentials(C.ADMIN, "root")
            async with dialed(grid.address, grid.credentials("first", C.ADMIN)) as words:
                hello = wire.HelloClient("first/1", 0, FEATURES)
                assert isinstance(await words.ask(hello), wire.Welcome)  # it leads from now on
            for kind, (hello, roles) in HELLOS.items():
                await refuse_handshakes(grid, kind, hello, stranger)
                for role in C:
                    if kind == role == C.MEMBER:
                        continue  # what members say to each other is no matter of accounts
                    who = f"{role}-1"
                    credentials = grid.credentials(who, role)
                    async with dialed(grid.address, credentials) as words:
                        answer = await words.ask(named(hello, who))
                    denied = isinstance(answer, wire.Error) and answer.code in (
                        ErrorCode.ACCESS_DENIED,
                        ErrorCode.LOGIN_REQUIRED,
                    )
                    assert denied == (role not in roles), (kind, role, answer)

    run(story())


async def refuse_handshakes(grid: AccessGrid, kind: str, hello: Any, stranger: Credentials) -> None:
    """Without a certificate, with one of another authority, and with one that has expired."""
    expired = grid.credentials("late", C.ADMIN, has_expired=True)
    for credentials in (stranger, expired):
        try:
            async with dialed(grid.address, credentials) as words:
                answer = await words.ask(hello)
        except DialError as error:
            answer = str(error)
        assert isinstance(answer, str), (kind, answer)  # hung up on, and nothing said
    nobody = replace(grid.credentials("nobody"), certificate=None)
    if kind != "member":  # of these the key of the cluster is asked
        async with dialed(grid.address, nobody) as words:
            answer = await words.ask(hello)
        assert answer.code == ErrorCode.LOGIN_REQUIRED, (kind, answer)
    async with dialed(grid.address, nobody) as words:
        answer = await words.ask(Login("token", "root", b"rollq_root_" + b"1" * 40), hello)
        assert answer.code == ErrorCode.LOGIN_FAILED, (kind, answer)


def test_what_is_of_another_account_is_not_reached(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_bytes(SECRET)

    async def story() -> None:
        async with (
            access_grid(tmp_path / "grid") as grid,
            grid.client("alice", client_id="alice/1") as alice,
            grid.client("bob", client_id="bob/1") as bob,
        ):
            # Nobody takes it from its queue, so it stays.
            files = {"secret.txt": secret}
            waits = await alice.submit("show", ["secret.txt"], files=files, queue="nobody")
            ended = await alice.submit("show", ["secret.txt"], files=files)
            result = await ended.result()
            await result.aload()
            assert result.stdout_bytes == SECRET
            await steal_blob(grid, tmp_path)
            for job in (waits, ended):
                assert await bob.cancel(job.job_id) == 0
                assert await bob.status(job.job_id) is None
                assert await bob.purge(job.job_id) == 0
                with pytest.raises(RollqError, match="no such job"):
                    await bob.redrive(job.job_id)
            await forge(grid, waits.job_id)
            view = await alice.status(waits.job_id)
            assert view is not None
            assert view.state == "waiting"
            assert await alice.cancel(waits.job_id) == 1
            # Who has the bytes may use them: they are asked for, although they are here.
            own = await bob.submit("show", ["s.txt"], files={"s.txt": secret})
            own_result = await own.result()
            await own_result.aload()
            assert own_result.stdout_bytes == SECRET

    (tmp_path / "grid").mkdir()
    run(story())


async def steal_blob(grid: AccessGrid, directory: Path) -> None:
    """Bob knows the digest, and not more."""
    alice, bob = grid.credentials("alice"), grid.credentials("bob")
    async with BlobClient((grid.address,), credentials=alice) as blobs:
        assert await blobs.have((DIGEST,)) == {DIGEST: len(SECRET)}
    async with BlobClient((grid.address,), credentials=bob) as blobs:
        assert await blobs.have((DIGEST,)) == {}
        with pytest.raises(RollqError) as caught:
            await blobs.fetch(DIGEST, directory / "stolen", len(SECRET))
        assert caught.value.code is ErrorCode.BLOB_MISSING
        assert not (directory / "stolen").exists()
        with pytest.raises(RollqError) as caught:
            await blobs.put(bytes(len(SECRET)), digest=DIGEST)
        assert caught.value.code is ErrorCode.BLOB_CORRUPT
        assert await blobs.have((DIGEST,)) == {}
        bait = await blobs.put(b"bait")
    async with dialed(grid.address, bob) as words:
        await words.ask(wire.HelloClient("bob/2", 0, FEATURES))
        stolen = BlobRef(DIGEST, len(SECRET))
        job = wire.SubmitJob(REQUEST, "bob/2", "show", "show", b"{}", None, (stolen,))
        answer = await words.ask(job)
        assert (answer.code, answer.retryable) == (ErrorCode.BLOB_MISSING, True)
        # The worker has it from alice's job, and does not put it in place for another.
        file = InputFile("s", None, None, digest_to_text(DIGEST), len(SECRET))
        body = encode_model(job_request(REQUEST, "bob/2", "show", args=("s",), files=(file,)))
        job = wire.SubmitJob(REQUEST, "bob/2", "show", "show", body, None, (bait,))
        assert isinstance(await words.ask(job), wire.Accepted)
        result = await words.hear()
        assert isinstance(result, wire.Result)
        assert b"does not refer to" in result.result
        assert b"secret of alice" not in result.result


async def forge(grid: AccessGrid, victim: bytes) -> None:
    """Bob says that he is alice."""
    bob = grid.credentials("bob")
    async with dialed(grid.address, bob) as words:
        answer = await words.ask(wire.HelloClient("alice/1", 0, FEATURES))
        assert answer.code == ErrorCode.ACCESS_DENIED
        assert isinstance(await words.hear(), str)  # and the link is over
    async with dialed(grid.address, bob) as words:
        await words.ask(wire.HelloClient("bob/3", 0, FEATURES))
        job = wire.SubmitJob(REQUEST, "alice/1", "show", "show", b"{}")
        answer = await words.ask(job)
        assert (answer.request_id, answer.code) == (REQUEST, ErrorCode.ACCESS_DENIED)
        pause = wire.Admin(REQUEST, "pause", msgspec.msgpack.encode({"queue": "show"}))
        assert (await words.ask(pause)).code == ErrorCode.ACCESS_DENIED
        cancelled = await words.ask(wire.Cancel(REQUEST, (victim,)))
        assert (type(cancelled), cancelled.count) == (wire.Accepted, 0)


def test_rights_are_changed_while_links_are_open(tmp_path: Path) -> None:
    async def story() -> None:
        async with access_grid(tmp_path) as grid:
            root, bob = grid.credentials("root", C.ADMIN), grid.credentials("bob")
            async with dialed(grid.address, root) as admin, dialed(grid.address, bob) as words:
                await admin.ask(wire.HelloClient("root/1", 0, FEATURES))
                await words.ask(wire.HelloClient("bob/1", 0, FEATURES))
                pause = wire.Admin(REQUEST, "pause", msgspec.msgpack.encode({"queue": "q"}))

                async def put(*rules: Rule, **how: Any) -> None:
                    account = Account("bob", ("client",), rules, **how)
                    arguments = msgspec.msgpack.encode({"account": account})
                    message = wire.Admin(REQUEST, "access_put_account", arguments)
                    assert isinstance(await admin.ask(message), wire.Accepted)

                assert (await words.ask(pause)).code == ErrorCode.ACCESS_DENIED
                await put(Rule("allow", "queues.pause", "queue:q"))
                assert isinstance(await words.ask(pause), wire.Accepted)
                await put(Rule("allow", "*", "*"), Rule("deny", "queues.*", "*"))
                assert (await words.ask(pause)).code == ErrorCode.ACCESS_DENIED
                await put(is_disabled=True)
                assert (await words.hear()).code == ErrorCode.ACCESS_DENIED
                assert isinstance(await words.hear(), str)

    run(story())


def test_a_client_goes_on_with_another_leader(tmp_path: Path) -> None:
    """That one knows no uploads: it asks for the files again. Nobody is refused while it is
    elected, although it does not know yet whose the jobs are."""
    data = tmp_path / "data"
    data.write_bytes(SECRET)

    async def story() -> None:
        async with access_grid(tmp_path / "grid", 3) as grid, grid.client("alice") as alice:
            files = {"data": data}
            jobs = [await alice.submit("show", ["data"], files=files) for _ in range(3)]
            leader = next(one for one in grid.members if one.driver.raft.role is Role.LEADER)
            await leader.stop()
            jobs += [await alice.submit("show", ["data"], files=files) for _ in range(3)]
            late = await alice.submit("show", ["data"], files=files, delay=3_600)
            assert await alice.cancel(late.job_id) == 1
            for job in jobs:
                result = await job.result()
                await result.aload()
                assert result.stdout_bytes == SECRET

    (tmp_path / "grid").mkdir()
    run(story())
