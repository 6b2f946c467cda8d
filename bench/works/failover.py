"""The leader of three members dies, or freezes, under load: how long nothing is acknowledged, and
how long no result comes.

64 submits of 200 bytes are outstanding all the time. The gap is the longest time without an ack
after the fault, with finding the new leader and reconnecting in it. The member is brought back
before the next fault. On one machine kill -9 resets connections at once, which a dead host would
not; SIGSTOP shows what silence costs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final, Protocol, cast

from bench.figures import Sample
from bench.loops import ASYNCIO, run
from bench.peers.base import Peer
from bench.works import Scale, Work

WINDOW: Final = 64
PAYLOAD: Final = b"x" * 200
STEADY_S: Final = 1.0  # undisturbed load before each fault
WATCH_S: Final = 2.0  # a gap may begin a little after the fault
GAP_S_MAX: Final = 60.0
ALIVE_S: Final = 0.2
LOOK_S: Final = 0.01


class Acks:
    """When acks came."""

    def __init__(self) -> None:
        self.count = 0
        self.is_over = False
        self.last_s = time.perf_counter()
        self.gap_s = 0.0
        self.began_s = 0.0

    def add(self) -> None:
        """One more."""
        now = time.perf_counter()
        self.gap_s = max(self.gap_s, now - self.last_s)
        self.last_s = now
        self.count += 1

    def watch(self) -> None:
        """Forget the gaps before now."""
        self.gap_s = 0.0
        self.began_s = time.perf_counter()


class Load(Protocol):
    """A client that submits until it is acknowledged, whoever leads.

    Attributes:
        results: When results came, if the peer has any.
    """

    results: Acks | None

    async def open(self) -> None:
        """Connect."""

    async def submit(self) -> None:
        """One submit, sent again until it is acknowledged."""

    async def close(self) -> list[Sample]:
        """Check what was acknowledged against what is there, and hang up."""


class FailsOver(Protocol):
    """A peer with a leader. These calls block."""

    def leader(self) -> str:
        """The name of the member that leads; waits until there is one."""

    def kill(self, name: str) -> None:
        """kill -9."""

    def revive(self, name: str) -> None:
        """Start it again on its disk; returns when it follows."""

    def freeze(self, name: str) -> None:
        """SIGSTOP."""

    def thaw(self, name: str) -> None:
        """SIGCONT; returns when it follows."""

    def load(self, payload: bytes) -> Load:
        """A client."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """A gap for each fault, then what the client lost."""
    samples: list[Sample] = []
    try:
        run(_measure(cast(FailsOver, peer), scale, samples), ASYNCIO)
    finally:
        yield from samples  # the gaps before a failure are worth having


async def _measure(peer: FailsOver, scale: Scale, samples: list[Sample]) -> None:
    load = peer.load(PAYLOAD)
    await load.open()
    acks = Acks()
    tasks = [asyncio.create_task(_submit_for_ever(load, acks)) for _ in range(WINDOW)]
    for number in range(scale.kills + scale.stops):
        is_kill = number < scale.kills
        await asyncio.sleep(STEADY_S)
        name = await asyncio.to_thread(peer.leader)
        acks.watch()
        if load.results is not None:
            load.results.watch()
        await asyncio.to_thread(peer.kill if is_kill else peer.freeze, name)
        kind = "kill" if is_kill else "stop"
        samples.append(Sample(f"{kind}_gap_s", await _gap(acks)))
        if load.results is not None:
            samples.append(Sample(f"{kind}_result_gap_s", await _gap(load.results)))
        await asyncio.to_thread(peer.revive if is_kill else peer.thaw, name)
        for task in tasks:
            if task.done():
                task.result()
    await asyncio.sleep(STEADY_S)
    acks.is_over = True
    await asyncio.gather(*tasks)
    samples.append(Sample("acked", acks.count))
    samples.extend(await load.close())


async def _gap(acks: Acks) -> float:
    """The longest gap since `watch`, once acks come again."""
    while True:
        await asyncio.sleep(LOOK_S)
        now = time.perf_counter()
        if now - acks.began_s > GAP_S_MAX:
            raise TimeoutError(f"no ack for {now - acks.last_s:.0f} s")
        if now - acks.began_s > WATCH_S and now - acks.last_s < ALIVE_S:
            return acks.gap_s


async def _submit_for_ever(load: Load, acks: Acks) -> None:
    while not acks.is_over:
        await load.submit()
        acks.add()


WORK = Work(
    "failover",
    "The leader of three dies under load",
    ("rollq:r3", "rabbitmq:r3", "etcd:r3", "nats:r3-durable"),
    measure,
    case_s_max=900,
    columns=(
        ("kill_gap_s", "kill -9: gap s"),
        ("stop_gap_s", "SIGSTOP: gap s"),
        ("kill_result_gap_s", "kill -9: gap to result s"),
        ("stop_result_gap_s", "SIGSTOP: gap to result s"),
        ("acked", "acked"),
        ("lost", "lost"),
        ("ended_twice", "ended twice"),
        ("run_again", "run again"),
    ),
    repeats=False,
)
