"""Views read from any member: real members that are killed, stopped and started again, accounts
that see their own jobs alone, and scripted members of other versions."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollq import BlockingClient
from rollq.base.errors import (
    DeadlineError,
    DialError,
    ErrorCode,
    LocalError,
    RollqError,
    StateError,
)
from rollq.grid.commands import Settings
from rollq.grid.matching import JobFilter
from rollq.net.ports import free_ports
from rollq.roles.reader.observer import Observer
from rollq.security.credentials import NONE, Credentials
from rollq.security.secret import Secret
from rollq.security.tokens import make_token
from rollq.wire.messages import Accepted, Admin, Answer, Cancel, Confirm, Query, Result
from tests.integration.fake_reading import FakeReading
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members
from tests.integration.talk import Talker, accepted, find_leader, hang_up_all, job


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


async def counts(observer: Observer) -> dict[str, int]:
    index, value = await observer.query("counts")
    assert index > 0
    found: dict[str, int] = msgspec.msgpack.decode(value)
    return found


async def until_member(observer: Observer, address: str) -> None:
    while observer.member != address:
        await observer.query("counts")
        await asyncio.sleep(0.01)


def test_any_member_answers_and_another_when_one_is_killed_or_stopped(tmp_path: Path) -> None:
    async def story(group: Members, leader: str) -> None:
        followers = [one for one in group.addresses if one != leader]
        first = Observer(group.addresses, "default", NONE, leader)
        second = Observer(followers[:1], "", prefer=followers[0])  # and finds the others
        await first.start()
        await second.start()
        while (await counts(second))["queued"] < 20:  # it may be behind for a moment
            pass
        assert (await counts(first))["queued"] == 20
        assert (first.member, second.member) == (leader, followers[0])
        _, value = await first.query("explain", job(1))
        assert "no worker" in msgspec.msgpack.decode(value)
        with pytest.raises(StateError) as raised:
            await second.query("explain", job(1))
        assert raised.value.code is ErrorCode.NOT_LEADER
        # What was asked is answered, whoever dies meanwhile.
        asked = [asyncio.create_task(counts(second)) for _ in range(20)]
        group.at(followers[0]).kill()
        assert {one["queued"] for one in await asyncio.gather(*asked)} == {20}
        group.at(leader).send(signal.SIGSTOP)
        try:
            assert (await counts(first))["queued"] == 20
            assert first.member == followers[1]
        finally:
            group.at(leader).send(signal.SIGCONT)
        group.at(followers[0]).start()
        await until_member(second, followers[0])  # the one that it was told to ask
        await until_member(first, leader)
        await first.stop()
        await second.stop()

    with Members(tmp_path, 3) as group:
        leader, talker = find_leader(group.addresses)
        accepted(talker, range(1, 21))
        run(story(group, leader))


def test_a_member_alone_answers_without_a_leader(tmp_path: Path) -> None:
    async def story(left: MemberProcess) -> None:
        observer = Observer([left.address], "default")
        await observer.start()
        while True:
            _, value = await observer.query("cluster")
            view = msgspec.msgpack.decode(value)
            if not view["leader"]:
                break
        assert (await counts(observer))["queued"] == 5
        await observer.stop()

    with Members(tmp_path, 2) as group:
        leader, talker = find_leader(group.addresses)
        accepted(talker, range(1, 6))
        left = next(member for member in group.all if member.address != leader)

        async def caught_up() -> None:
            observer = Observer([left.address], "default")
            await observer.start()
            while (await counts(observer))["queued"] < 5:
                pass
            await observer.stop()

        run(caught_up())
        group.at(leader).kill()
        run(story(left))


def test_another_group_is_told_at_once_with_its_name(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m").start()

    async def story() -> None:
        observer = Observer([member.address], "other", answer_s=10 * DEADLINE_S)
        await observer.start()
        with pytest.raises(StateError) as raised:
            await observer.query("counts")
        assert raised.value.code is ErrorCode.BAD_HANDSHAKE
        assert raised.value.message == "this is the group 'default', not 'other'"
        assert "--group default" in raised.value.hint
        await observer.stop()

    try:
        run(story())
    finally:
        member.kill()


def test_accounts_see_what_is_theirs(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "m", auth="allow").start()

    def token(text: str) -> Credentials:
        return Credentials(token=Secret(text.encode()))

    async def story(tokens: list[Credentials], ids: list[bytes]) -> None:
        for place, credentials in enumerate(tokens):
            own, other = ids[place], ids[1 - place]
            observer = Observer([member.address], "default", credentials)
            await observer.start()
            _, value = await observer.query("jobs")
            assert [one["job_id"] for one in msgspec.msgpack.decode(value)["jobs"]] == [own]
            _, value = await observer.query("job", own)
            assert msgspec.msgpack.decode(value)["job_id"] == own
            _, value = await observer.query("job", other)
            assert msgspec.msgpack.decode(value) is None
            with pytest.raises(StateError) as raised:
                await observer.query("accounts")
            assert raised.value.code is ErrorCode.ACCESS_DENIED
            assert (await observer.query("counts"))[0] > 0  # the link goes on
            await observer.stop()
        wrong = Observer([member.address], "default", Credentials(token=make_token("ann")[0]))
        await wrong.start()
        for _ in range(2):
            with pytest.raises(RollqError) as refused:
                await wrong.query("counts")
            assert refused.value.code is ErrorCode.LOGIN_FAILED
        await wrong.stop()
        await refused_among_dead(member.address)

    async def refused_among_dead(address: str) -> None:
        """Members that are down do not hide why the last one refuses, however long they are."""
        dead = [f"127.0.0.1:{port}" for port in free_ports(2)]
        nobody = Observer([address, *dead], "default", answer_s=DEADLINE_S)
        await nobody.start()
        for _ in range(2):
            with pytest.raises(RollqError) as refused:
                await nobody.query("counts")
            assert refused.value.code is ErrorCode.LOGIN_REQUIRED
        await nobody.stop()

    try:
        with BlockingClient(member.address, timeout=DEADLINE_S) as client:
            for name in ("ann", "bob"):
                client.access.add(name, roles=("client",))
            tokens = [token(client.access.new_token(name)) for name in ("ann", "bob")]
        member.stop()
        member.change(auth="require")
        member.start()
        ids = []
        for credentials in tokens:
            with BlockingClient(member.address, credentials=credentials) as client:
                ids.append(client.submit("calc").job_id)
        run(story(tokens, ids))
    finally:
        member.kill()


def test_a_member_of_an_older_version_is_passed_over() -> None:
    def script(message: object) -> list[Answer]:
        assert isinstance(message, Query)
        return [Answer(message.request_id, 7, b"\xc0")]

    async def story(older: str, newer: str) -> None:
        observer = Observer([older, newer], "")
        await observer.start()
        assert await observer.query("counts") == (7, b"\xc0")
        assert observer.member == newer
        await observer.stop()

    with FakeReading(lambda _: ()) as older, FakeReading(script, features=("views",)) as newer:
        run(story(older.address, newer.address))
        assert not any(isinstance(one, Query) for one in older.heard)


def test_a_member_that_owes_an_answer_is_left() -> None:
    def script(message: object) -> list[Answer]:
        assert isinstance(message, Query)
        return [Answer(message.request_id, 7, b"\xc0")]

    async def story(mute: str, other: str) -> None:
        observer = Observer([mute, other], "")
        await observer.start()
        assert await observer.query("counts") == (7, b"\xc0")
        assert observer.member == other
        await observer.stop()

    with (
        FakeReading(lambda _: (), features=("views",)) as mute,
        FakeReading(script, features=("views",)) as other,
    ):
        run(story(mute.address, other.address))
        assert any(isinstance(one, Query) for one in mute.heard)


def test_nobody_answers() -> None:
    async def story() -> None:
        (port,) = free_ports(1)
        observer = Observer([f"127.0.0.1:{port}"], "", answer_s=0.2)
        with pytest.raises(LocalError):
            await observer.query("counts")
        await observer.start()
        await observer.start()
        with pytest.raises(DeadlineError) as raised:
            await observer.query("counts")
        assert "nothing listens" in raised.value.message
        assert observer.member == ""
        waiting = asyncio.create_task(observer.query("counts"))
        await asyncio.sleep(0)
        await observer.stop()
        await observer.stop()
        with pytest.raises(DialError) as stopped:
            await waiting
        assert stopped.value.code is ErrorCode.DISCONNECTED

    run(story())


@pytest.mark.parametrize("newest", [False, True], ids=["oldest first", "newest first"])
def test_a_list_is_walked_while_jobs_are_forgotten_and_accepted(
    tmp_path: Path, newest: bool
) -> None:
    """On a real member: what is there all the while comes once, and nothing comes twice."""
    count, step = 400, 40

    async def story(address: str, talker: Talker) -> None:
        observer = Observer([address], "default")
        await observer.start()
        found: list[bytes] = []
        gone: list[int] = []
        wanted, new = JobFilter(newest=newest, queue="calc"), count
        while True:
            _, value = await observer.query("jobs", msgspec.msgpack.encode(wanted), 30)
            page = msgspec.msgpack.decode(value)
            assert len(page["jobs"]) <= 30
            found += [one["job_id"] for one in page["jobs"]]
            wanted = msgspec.structs.replace(wanted, after=page["after"])
            if not page["after"]:
                break
            if len(gone) < count // 2:  # some that were shown, and some that were not
                some = range(len(gone) * 2 + 1, len(gone) * 2 + step, 2)
                gone += some
                talker.say(Cancel(job(9_999), tuple(map(job, some))))
                heard = [talker.hear_any() for _ in range(1 + len(some))]
                assert sum(isinstance(one, Result) for one in heard) == len(some)
                talker.say(Confirm(tuple(map(job, some))))
                while msgspec.msgpack.decode((await observer.query("job", job(some[-1])))[1]):
                    pass
                accepted(talker, range(new + 1, new + 6))
                new += 5
        await observer.stop()
        stayed = {job(number) for number in range(1, count + 1)} - set(map(job, gone))
        assert len(found) == len(set(found))
        assert stayed <= set(found)
        assert len(gone) > count // 4

    with Members(tmp_path, 1) as group:
        address, talker = find_leader(group.addresses)
        settings = Settings(results_kept_max=0)
        talker.say(Admin(job(9_998), "settings", msgspec.msgpack.encode({"settings": settings})))
        talker.hear(Accepted)
        accepted(talker, range(1, count + 1))
        run(story(address, talker))
