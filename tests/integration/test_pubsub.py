"""Publishing and subscribing, with three real members."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rollq.base.access_rules import Rule
from rollq.base.errors import ErrorCode, RollqError
from rollq.cli.fleet import Fleet
from rollq.net.ports import free_ports
from rollq.roles.client.blocking.clients import BlockingClient
from rollq.roles.client.client import Client
from rollq.roles.client.topics.subscriptions import Subscription
from rollq.wire import messages as wire
from rollq.wire.subject_messages import Deliver, Publish, Subscribe
from tests.integration.access_grid import access_grid
from tests.integration.patience import DEADLINE_S
from tests.integration.talk import FEATURES, Talker, hang_up_all
from tests.integration.test_cli import Grid

ASKED = b"r" * 16


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """Three members; no test harms them."""
    with Fleet(tmp_path_factory.mktemp("pubsub")) as fleet:
        fleet.start_members(free_ports(3))
        yield Grid(fleet)


def client(grid: Grid) -> Client:
    return Client(grid.fleet.servers, timeout=DEADLINE_S)


async def texts(subscription: Subscription, count: int) -> list[str]:
    return [(await subscription.next(DEADLINE_S)).text for _ in range(count)]


def code_of(error: pytest.ExceptionInfo[RollqError]) -> ErrorCode:
    return error.value.code


def test_many_subscribers_get_what_they_asked_for(shared: Grid) -> None:
    async def run() -> None:
        clients = [client(shared) for _ in range(12)]
        async with asyncio.TaskGroup() as tasks:
            for one in clients:
                tasks.create_task(one.start())
        every = [await one.subscribe("many.>") for one in clients]
        some = [await one.subscribe(f"many.{at}.*") for at, one in enumerate(clients)]
        none = await clients[0].subscribe("other")
        for at in range(len(clients)):
            for number in range(50):
                await clients[0].publish(f"many.{at}.{number}", f"{at} {number}")
        expected = [f"{at} {number}" for at in range(len(clients)) for number in range(50)]
        for subscription in every:
            assert await texts(subscription, len(expected)) == expected
        for at, subscription in enumerate(some):
            assert await texts(subscription, 50) == [f"{at} {number}" for number in range(50)]
        # What has ended is told to nobody; the first still listens twice.
        for one in clients[1:]:
            await one.stop()
        while await clients[0].publish("many.0.0", confirm=True) != 2:
            pass
        some[0].close()
        assert await clients[0].publish("many.0.0", confirm=True) == 1
        assert [one.missed for one in every] == [0] * len(every)
        with pytest.raises(RollqError) as silent:
            await none.next(0.01)
        assert code_of(silent) is ErrorCode.TIMED_OUT
        await clients[0].stop()

    asyncio.run(run())


def test_a_queue_group_takes_turns(shared: Grid) -> None:
    async def run() -> None:
        async with client(shared) as one, client(shared) as two:
            mine = [
                await asker.subscribe(pattern, queue_group="desk")
                for asker, pattern in ((one, "turns.*"), (one, "turns.>"), (two, "turns.a"))
            ]
            everything = await two.subscribe("turns.a")
            for number in range(30):
                await one.publish("turns.a", str(number))
            assert await one.publish("turns.a", "last", confirm=True) == 2
            assert len(await texts(everything, 31)) == 31
            got = [await texts(subscription, 10) for subscription in mine]
            assert len({text for taken in got for text in taken}) == 30

    asyncio.run(run())


def test_requests_are_answered_or_told_that_nobody_is_there(shared: Grid) -> None:
    async def run() -> None:
        async with client(shared) as asker, client(shared) as other:
            with pytest.raises(RollqError) as alone:
                await asker.request("sum", "1 2")
            assert code_of(alone) is ErrorCode.NO_RESPONDERS
            questions = await other.subscribe("sum", queue_group="sums")

            async def serve() -> None:
                async for question in questions:
                    if question.payload:
                        await question.respond(str(sum(map(int, question.text.split()))))

            serving = asyncio.create_task(serve())
            answers = await asyncio.gather(*(asker.request("sum", f"{n} {n}") for n in range(50)))
            assert [answer.text for answer in answers] == [str(2 * n) for n in range(50)]
            with pytest.raises(RollqError) as unanswered:
                await asker.request("sum", "", timeout=0.05)
            assert code_of(unanswered) is ErrorCode.TIMED_OUT
            # Whoever knows where answers go cannot listen there.
            heard = await other.subscribe(">")
            await asker.request("sum", "1 1")
            asked = await heard.next(DEADLINE_S)
            inbox = asked.reply_to.rpartition(".")[0]
            assert inbox.startswith("_inbox.")
            for pattern in (f"{inbox}.>", asked.reply_to, "_inbox.>"):
                with pytest.raises(RollqError) as refused:
                    await other.subscribe(pattern)
                assert code_of(refused) is ErrorCode.ACCESS_DENIED
            questions.close()
            await serving
            await asker.publish("over", "")
            assert (await heard.next(DEADLINE_S)).subject == "over"

    asyncio.run(run())


def test_what_is_wrong_is_refused_here(shared: Grid) -> None:
    async def run() -> None:
        async with client(shared) as one:
            for subject in ("a b", "a.*", ">", "a..b", ""):
                with pytest.raises(RollqError) as bad:
                    await one.publish(subject)
                assert code_of(bad) in (ErrorCode.BAD_SUBJECT, ErrorCode.BAD_OPTIONS)
            with pytest.raises(RollqError) as large:
                await one.publish("a", bytes(1024 * 1024 + 1))
            assert code_of(large) is ErrorCode.BAD_PAYLOAD
            listening = await one.subscribe("large")
            await one.publish("large", bytes(1024 * 1024))
            assert len((await listening.next(DEADLINE_S)).payload) == 1024 * 1024
            with pytest.raises(RollqError) as others:
                await one.publish(f"job.event.{'0' * 32}", confirm=True)
            assert code_of(others) is ErrorCode.ACCESS_DENIED

    asyncio.run(run())


def test_the_blocking_client_does_the_same(shared: Grid) -> None:
    with BlockingClient(shared.fleet.servers, timeout=DEADLINE_S) as one:
        with one.subscribe("plain.*") as mine:
            assert one.publish("plain.a", "x", confirm=True) == 1
            for message in mine:
                assert (message.subject, message.text, mine.missed) == ("plain.a", "x", 0)
                break
            with pytest.raises(RollqError):
                message.respond("nobody waits")
            with (
                BlockingClient(shared.fleet.servers, timeout=DEADLINE_S) as two,
                ThreadPoolExecutor() as pool,
            ):
                asking = pool.submit(two.request, "plain.b", "?")
                mine.next(DEADLINE_S).respond("!")
                assert asking.result(DEADLINE_S).text == "!"
        assert list(mine) == []


def test_a_worker_publishes_and_listens(shared: Grid) -> None:
    leader = shared.json("status")["cluster"]["leader"]
    try:
        worker = Talker(leader)
        features = (*FEATURES, "subjects")
        worker.say(wire.HelloWorker(b"w" * 16, ("",), "", 1, 0, (), features))
        worker.hear(wire.Welcome)
        worker.say(Subscribe(ASKED, 1, "box.*"))
        assert worker.hear(wire.Accepted).request_id == ASKED
        worker.say(Publish("box.a", b"1"), Publish("box.b", b"2"))
        heard = [worker.hear(Deliver) for _ in range(2)]
        assert [message.payload for message in heard] == [b"1", b"2"]
    finally:
        hang_up_all()


def test_subscriptions_go_on_at_the_next_leader(tmp_path: Path) -> None:
    async def run(grid: Grid) -> None:
        async with client(grid) as one, client(grid) as two:
            listening = await one.subscribe("news")
            silent = await two.subscribe("silent")
            asking = asyncio.create_task(one.request("silent", "?"))
            await silent.next(DEADLINE_S)
            grid.fleet.kill(one.leader)
            with pytest.raises(RollqError) as lost:
                await asking
            assert code_of(lost) is ErrorCode.OUTCOME_UNKNOWN
            # Until both are with the next leader, some of it is missed.
            while True:
                await two.publish("news", "again")
                try:
                    message = await listening.next(0.2)
                except RollqError:
                    continue
                assert message.text == "again"
                break
            asking = asyncio.create_task(two.request("news", "?", timeout=DEADLINE_S))
            while not (message := await listening.next(DEADLINE_S)).reply_to:
                pass
            await message.respond("yes")
            assert (await asking).text == "yes"

    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(3))
        asyncio.run(run(Grid(fleet)))


class Listener:
    """`rollq subscribe` as a process that writes to files."""

    def __init__(self, grid: Grid, directory: Path, *arguments: str) -> None:
        self._out, self._err = directory / "out", directory / "err"
        command = [sys.executable, "-m", "rollq", "subscribe", "-s", grid.fleet.servers, *arguments]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)
        grid.until(lambda: "listening" in self.remarks)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def remarks(self) -> str:
        return self._err.read_text()

    @property
    def messages(self) -> list[Any]:
        lines = self._out.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def missed(self) -> int:
        """How many it was told of."""
        told = [line for line in self.remarks.splitlines() if line.endswith("missed]")]
        return sum(int(line.lstrip("[").split()[0]) for line in told)


def test_one_that_does_not_read_is_counted_exactly_and_nobody_waits(
    shared: Grid, tmp_path: Path
) -> None:
    async def run(listener: Listener) -> None:
        async with client(shared) as one, client(shared) as two:
            reading = await two.subscribe("flood")
            listener.process.send_signal(signal.SIGSTOP)
            # More than it is sent ahead, and the system keeps for it.
            for number in range(1_000):
                await one.publish("flood", f"{number} " + "x" * 32 * 1024)
                assert (await reading.next(DEADLINE_S)).text.startswith(f"{number} ")
            assert reading.missed == 0
            listener.process.send_signal(signal.SIGCONT)
            count = 1_000
            while not any(message["text"] == "end" for message in listener.messages):
                await one.publish("flood", "end", confirm=True)
                count += 1
                await reading.next(DEADLINE_S)
            shared.until(lambda: len(listener.messages) + listener.missed == count)
            assert listener.missed > 0
            numbers = [message["text"].split()[0] for message in listener.messages]
            assert numbers[: len(numbers) // 2] == [str(at) for at in range(len(numbers) // 2)]

    with Listener(shared, tmp_path, "flood", "--json") as listener:
        asyncio.run(run(listener))


def test_the_command_line(shared: Grid, tmp_path: Path) -> None:
    with Listener(shared, tmp_path, "shell.*", "--json", "--respond", "yes") as listener:
        told = shared.json("publish", "shell.a", "1.08")
        assert told == {"subject": "shell.a", "published": 1, "subscriptions": 1}
        assert shared.run("publish", "shell.b", "x", "--count", "3") == (
            "shell.b: 3 messages to 1 subscription\n"
        )
        shared.until(lambda: len(listener.messages) == 4)
        assert listener.messages[0] == {"subject": "shell.a", "text": "1.08"}
        assert shared.run("request", "shell.c", "?") == "yes\n"
        assert "replyTo" in listener.messages[-1]
        listener.process.send_signal(signal.SIGINT)
        assert listener.process.wait(DEADLINE_S) == 130
        assert listener.remarks.endswith("interrupted\n")
    assert shared.run("publish", "shell.a") == "shell.a: 1 message to 0 subscriptions\n"
    assert shared.run("request", "shell.c", code=4) == ""
    assert "no_responders" in shared.stderr
    for words in (("publish", "a.*"), ("request", "a b"), ("subscribe", "a..b")):
        shared.run(*words, code=2)
    shared.run("publish", "a", "x", "--lines", code=2)


def test_rules_say_who_publishes_and_who_listens(tmp_path: Path) -> None:
    async def run() -> None:
        async with access_grid(tmp_path) as grid, grid.client("root") as root:
            await root.access.add("ann")
            await root.access.add_rules(
                "ann",
                Rule("allow", "client.connect", "client:ann*"),
                Rule("allow", "subjects.publish", "subject:ann.*"),
            )
            everything = await root.subscribe("ann.>")
            async with grid.client("ann") as ann:
                assert await ann.publish("ann.a", "1", confirm=True) == 1
                await ann.publish("bob.a", "no answer is wanted, and none comes")
                for refused in (
                    ann.publish("bob.a", confirm=True),
                    ann.subscribe("ann.>"),
                    ann.subscribe(">"),
                ):
                    with pytest.raises(RollqError) as denied:
                        await refused
                    assert code_of(denied) is ErrorCode.ACCESS_DENIED
                await ann.publish("ann.b", "2")
            assert await texts(everything, 2) == ["1", "2"]
            # A right that is taken away ends what it let in.
            listens = Rule("allow", "subjects.subscribe", "subject:ann.*")
            await root.access.add_rules("ann", listens)
            async with grid.client("ann") as ann:
                mine = await ann.subscribe("ann.*")
                await root.publish("ann.c", "3", confirm=True)
                assert await texts(mine, 1) == ["3"]
                await root.access.remove_rules("ann", listens)
                with pytest.raises(RollqError) as withdrawn:
                    await mine.next(DEADLINE_S)
                assert code_of(withdrawn) is ErrorCode.ACCESS_DENIED

    asyncio.run(run())
