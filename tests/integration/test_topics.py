"""Topics and durable subscriptions of real members: readers that come back, leaders that die."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rollq import BlockingClient, Client, ErrorCode, RollqError, Subscription
from rollq.base.topic_limits import TOPIC_WINDOW
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import Members
from tests.integration.small_grid import SmallGrid


async def read(subscription: Subscription, count: int) -> list[int]:
    """The indexes of the next messages; all of them are done with."""
    found = []
    for _ in range(count):
        message = await subscription.next(DEADLINE_S)
        assert message.payload == b"%d" % message.index
        found.append(message.index)
    subscription.consumed(message)
    return found


async def publish(client: Client, first: int, last: int, subject: str = "price.eur") -> None:
    """Messages that say which index they will have."""
    for index in range(first, last + 1):
        assert await client.publish(subject, b"%d" % index, confirm=True) == index


def test_what_is_kept_is_read_from_where_one_stands(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Client(grid.address) as writer, Client(grid.address) as reader:
            await writer.put_topic("prices", "price.>")
            async with await reader.subscribe("price.*") as live:
                await publish(writer, 1, 3)
                told = [await live.next(DEADLINE_S) for _ in range(3)]
            assert [(one.topic, one.index, one.text) for one in told] == [
                ("prices", number, str(number)) for number in (1, 2, 3)
            ]
            new = await reader.subscribe(">", topic="prices", durable="new")
            kept = await reader.subscribe(">", topic="prices", durable="all", from_index=-1)
            plain = await reader.subscribe(">", topic="prices", from_index=2)
            assert await read(kept, 3) == [1, 2, 3]
            await publish(writer, 4, 5)
            assert await read(plain, 4) == [2, 3, 4, 5]
            assert await read(new, 2) == [4, 5]
            for subscription in (new, kept, plain):
                subscription.close()
            await publish(writer, 6, 6)
            again = await reader.subscribe(">", topic="prices", durable="all", from_index=-1)
            assert await read(again, 3) == [4, 5, 6]
            view = await reader.topic("prices")
            assert view is not None
            assert (view.first_index, view.last_index, view.count) == (1, 6, 6)
            assert [cursor.durable for cursor in view.cursors] == ["all", "new"]

    with SmallGrid(tmp_path) as grid:
        asyncio.run(scenario())


def test_more_than_the_window_and_only_some_subjects(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Client(grid.address) as client:
            await client.put_topic("prices", "price.>", "rate.>")
            count = 3 * TOPIC_WINDOW
            for index in range(1, count + 1):
                await client.publish(f"{'rate' if index % 3 else 'price'}.x", b"%d" % index)
            await publish(client, count + 1, count + 1)
            wanted = [index for index in range(1, count + 2) if not index % 3 or index > count]
            some = await client.subscribe("price.>", topic="prices", durable="d", from_index=-1)
            found = []
            async for message in some:
                found.append(message.index)
                if message.index > count:
                    break
            assert found == wanted
            assert some.missed == 0

    with SmallGrid(tmp_path) as grid:
        asyncio.run(scenario())


def test_what_was_dropped_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Client(grid.address) as client:
            await client.put_topic("prices", "price.>", count_max=3)
            away = await client.subscribe(">", topic="prices", durable="d")
            await publish(client, 1, 1)
            assert await read(away, 1) == [1]
            away.close()
            await publish(client, 2, 10)
            back = await client.subscribe(">", topic="prices", durable="d")
            assert await read(back, 3) == [8, 9, 10]
            assert back.missed == 6

    with SmallGrid(tmp_path) as grid:
        asyncio.run(scenario())


def test_one_session_has_a_durable_subscription(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            Client(grid.address, client_id="ann") as first,
            Client(grid.address, client_id="bob") as other,
            Client(grid.address, client_id="ann") as second,
        ):
            await first.put_topic("prices", "price.>")
            held = await first.subscribe(">", topic="prices", durable="d")
            with pytest.raises(RollqError) as refused:
                await other.subscribe(">", topic="prices", durable="d")
            assert refused.value.code is ErrorCode.DURABLE_TAKEN
            taken = await second.subscribe(">", topic="prices", durable="d")
            with pytest.raises(RollqError) as ended:
                await held.next(DEADLINE_S)
            assert ended.value.code is ErrorCode.DURABLE_TAKEN
            await publish(first, 1, 1)
            assert await read(taken, 1) == [1]
            await first.forget_cursor("prices", "d")
            with pytest.raises(RollqError) as forgotten:
                await taken.next(DEADLINE_S)
            assert forgotten.value.code is ErrorCode.UNKNOWN_TOPIC
            last = await other.subscribe(">", topic="prices", durable="d", from_index=-1)
            assert await read(last, 1) == [1]
            await first.remove_topic("prices")
            with pytest.raises(RollqError) as removed:
                await last.next(DEADLINE_S)
            assert removed.value.code is ErrorCode.UNKNOWN_TOPIC
            with pytest.raises(RollqError) as unknown:
                await other.subscribe(">", topic="prices")
            assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC
            with pytest.raises(RollqError) as live:
                await first.put_topic("events", ">")
            assert live.value.code is ErrorCode.TOPIC_CONFLICT

    with SmallGrid(tmp_path) as grid:
        asyncio.run(scenario())


def test_a_killed_leader_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    accepted: dict[int, bytes] = {}
    count = 300

    async def write(addresses: str) -> None:
        async with Client(addresses) as client:
            for number in range(count):
                try:
                    index = await client.publish("price.eur", b"%d" % number, confirm=True)
                except RollqError as error:
                    if error.code is not ErrorCode.OUTCOME_UNKNOWN:
                        raise
                else:
                    accepted[index] = b"%d" % number
            accepted[await client.publish("price.end", b"end", confirm=True)] = b"end"

    async def scenario() -> None:
        addresses = ",".join(members.addresses)
        async with Client(addresses) as client:
            await client.put_topic("prices", "price.>")
            durable = await client.subscribe(">", topic="prices", durable="d")
            plain = await client.subscribe(">", topic="prices")
            got: tuple[list[int], list[int]] = ([], [])

            async def take(subscription: Subscription, indexes: list[int]) -> None:
                async for message in subscription:
                    indexes.append(message.index)
                    assert accepted.get(message.index, message.payload) == message.payload
                    if indexes is got[0] and len(indexes) == 100:
                        members.at(client.leader).kill()
                    if message.payload == b"end":
                        return

            readers = (take(durable, got[0]), take(plain, got[1]))
            async with asyncio.timeout(2 * DEADLINE_S):
                await asyncio.gather(write(addresses), *readers)
            for indexes in got:
                assert indexes == list(range(1, len(indexes) + 1))  # in order, each once, no gap
                assert set(accepted) <= set(indexes)
            assert (durable.missed, plain.missed) == (0, 0)

    with Members(tmp_path, 3) as members:
        asyncio.run(scenario())


def test_a_reader_without_asyncio(tmp_path: Path) -> None:
    with SmallGrid(tmp_path) as grid, BlockingClient(grid.address) as client:
        client.put_topic("prices", "price.>")
        client.publish("price.eur", "1", confirm=True)
        with client.subscribe(">", topic="prices", durable="d", from_index=-1) as prices:
            for message in prices:
                assert (message.index, message.text) == (1, "1")
                break
        assert [topic.name for topic in client.topics()] == ["prices"]
