"""A process beside the one that publishes: it listens, answers, or holds subscriptions. It writes
`ready` when it does, and what it measured when it is done.

    python -m bench.subjects.child SIDE ADDRESS listen NAME COUNT MESSAGES
    python -m bench.subjects.child SIDE ADDRESS answer
    python -m bench.subjects.child SIDE ADDRESS hold COUNT
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

from bench.loops import run
from bench.subjects.sides import CONNECT, Talker

ACK_EVERY: Final = 1_000  # deliveries of a listener; the publisher waits for acks
HELD_PER_TALKER: Final = 50_000


async def listen(side: str, address: str, name: str, count: int, messages: int) -> None:
    """So many connections, each with a subscription; ends when all have all messages. Every so
    many messages that all of them got are told to the publisher."""
    acks = await CONNECT[side](address)
    talkers = [await CONNECT[side](address) for _ in range(count)]
    got = [0] * count
    done = asyncio.Event()
    every = max(1, min(ACK_EVERY, ACK_EVERY * 10 // count, messages // 4))
    behind = dict.fromkeys(range(every, messages + 1, every), count)
    background: set[asyncio.Task[None]] = set()
    left = count

    def heard_by(number: int) -> None:
        nonlocal left
        got[number] += 1
        place = got[number]
        if place in behind:
            behind[place] -= 1
            if not behind[place]:
                told = asyncio.ensure_future(acks.publish(f"ack.{name}", str(place).encode()))
                background.add(told)
                told.add_done_callback(background.discard)
        if place == messages:
            left -= 1
            if not left:
                done.set()

    for number, talker in enumerate(talkers):
        await talker.listen("load.*", lambda *_, number=number: heard_by(number))
    print("ready", flush=True)
    await done.wait()
    print(f"done {time.monotonic()}", flush=True)
    await close_all([*talkers, acks])


async def answer(side: str, address: str) -> None:
    """Until it is ended."""
    talker = await CONNECT[side](address)
    await talker.answer("ask")
    print("ready", flush=True)
    await asyncio.Event().wait()


async def hold(side: str, address: str, count: int) -> None:
    """Until it is ended."""
    talkers = []
    for first in range(0, count, HELD_PER_TALKER):
        talker = await CONNECT[side](address)
        patterns = [f"held.{at}.*.>" for at in range(first, min(count, first + HELD_PER_TALKER))]
        for at in range(0, len(patterns), 1_000):
            await talker.hold(patterns[at : at + 1_000])
        talkers.append(talker)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def close_all(talkers: list[Talker]) -> None:
    """Hang up."""
    await asyncio.gather(*(talker.close() for talker in talkers), return_exceptions=True)


def main() -> None:
    """One of the three."""
    side, address, what, *rest = sys.argv[1:]
    if what == "listen":
        run(listen(side, address, rest[0], int(rest[1]), int(rest[2])))
    elif what == "answer":
        run(answer(side, address))
    else:
        run(hold(side, address, int(rest[0])))


if __name__ == "__main__":
    main()
