"""Publishing beside core NATS: `python -m bench.subjects [--quick] [--only rollq]`.

One member of rollq and one nats-server, both with their Python clients on the same loop, by turns.
The publisher, the listeners (in two processes) and the server are processes of their own. It sends
as fast as listeners follow: each tells how far it is, and no more than four such steps are ahead.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.loops import run
from bench.procs import Process, python, stop_all
from bench.subjects.child import ACK_EVERY
from bench.subjects.sides import CONNECT, START, Talker, missing_peer

PAYLOAD: Final = bytes(64)
STEPS_AHEAD: Final = 4
SECONDS_MAX: Final = 300.0
PROCESSES: Final = 2
HELD: Final = 100_000


class Case(NamedTuple):
    """So many listeners get so many messages, while so many other subscriptions are held."""

    name: str
    listeners: int
    messages: int
    held: int = 0


CASES: Final = (
    Case("1 subscriber", 1, 200_000),
    Case("10 subscribers", 10, 50_000),
    Case("1,000 subscribers", 1_000, 600),
    Case("1 subscriber, 100,000 held", 1, 200_000, HELD),
)
REQUESTS: Final = 3_000


class Children:
    """Processes beside ours."""

    def __init__(self, folder: Path, side: str, address: str) -> None:
        self._folder, self._side, self._address = folder, side, address
        self._running: list[Process] = []

    def start(self, *words: str) -> Process:
        """Start one; returns when it is ready."""
        log = self._folder / f"child-{len(self._running)}.log"
        argv = python("bench.subjects.child", self._side, self._address, *words)
        child = Process(argv, log)
        self._running.append(child)
        child.wait_for(lambda: b"ready" in log.read_bytes(), "a child", SECONDS_MAX)
        return child

    def stop(self) -> None:
        """End all."""
        stop_all(self._running)


async def publish(case: Case, side: str, address: str, children: Children) -> float:
    """Deliveries a second."""
    talker = await CONNECT[side](address)
    processes = min(PROCESSES, case.listeners)
    share = case.listeners // processes
    reached: dict[str, int] = {f"ack.{number}": 0 for number in range(processes)}
    moved = asyncio.Event()

    def acked(subject: str, payload: bytes) -> None:
        reached[subject] = max(reached[subject], int(payload))
        moved.set()

    await talker.listen("ack.*", acked)
    loop = asyncio.get_running_loop()
    listeners = [
        await loop.run_in_executor(
            None, children.start, "listen", str(number), str(share), str(case.messages)
        )
        for number in range(processes)
    ]
    every = max(1, min(ACK_EVERY, ACK_EVERY * 10 // share, case.messages // 4))
    began_s = time.monotonic()
    for sent in range(case.messages):
        while sent - min(reached.values()) > STEPS_AHEAD * every:
            moved.clear()
            async with asyncio.timeout(SECONDS_MAX):
                await moved.wait()
        await talker.publish(f"load.{sent % 8}", PAYLOAD)
    await asyncio.sleep(0)  # what was published last leaves with this turn of the loop
    for one in listeners:
        await loop.run_in_executor(None, one.wait, SECONDS_MAX)
    ended_s = max(float(one.log.read_text().split("done ")[1].split()[0]) for one in listeners)
    await talker.close()
    return case.messages * share * processes / (ended_s - began_s)


async def ask(side: str, address: str, children: Children) -> tuple[float, float, float]:
    """p50 and p99 of requests one at a time, in ms; and how many a second, 64 at a time."""
    children.start("answer")
    talker = await CONNECT[side](address)
    for _ in range(100):
        await talker.request("ask", PAYLOAD)
    took_ms = []
    for _ in range(REQUESTS):
        began_s = time.perf_counter()
        await talker.request("ask", PAYLOAD)
        took_ms.append((time.perf_counter() - began_s) * 1_000)
    rate = await many_at_once(talker)
    await talker.close()
    cuts = statistics.quantiles(took_ms, n=100)
    return cuts[49], cuts[98], rate


async def many_at_once(talker: Talker) -> float:
    """Requests a second."""

    async def some() -> None:
        for _ in range(REQUESTS * 4 // 64):
            await talker.request("ask", PAYLOAD)

    began_s = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(64)))
    return (REQUESTS * 4 // 64) * 64 / (time.perf_counter() - began_s)


def measure(side: str, cases: list[Case], folder: Path) -> dict[str, float]:
    """All figures of one side, each case on a fresh server."""
    figures: dict[str, float] = {}
    for at, case in enumerate(cases):
        address, server = START[side](folder / f"{side}-{at}")
        children = Children(folder / f"{side}-{at}", side, address)
        try:
            if case.held:
                children.start("hold", str(case.held))
            figures[f"{case.name}, deliveries/s"] = run(publish(case, side, address, children))
        finally:
            children.stop()
            server.stop()
    address, server = START[side](folder / f"{side}-ask")
    children = Children(folder / f"{side}-ask", side, address)
    try:
        p50_ms, p99_ms, rate = run(ask(side, address, children))
    finally:
        children.stop()
        server.stop()
    return figures | {
        "request p50, ms": p50_ms,
        "request p99, ms": p99_ms,
        "requests/s, 64 at once": rate,
    }


def main() -> None:
    """Measure by turns, print medians and ratios: over 1 is better than the peer."""
    parser = argparse.ArgumentParser(prog="python -m bench.subjects", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, once")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("rollq", "nats"), help="one side")
    options = parser.parse_args()
    missing = missing_peer()
    sides = [options.only] if options.only else ["rollq"] if missing else ["rollq", "nats"]
    if missing:
        print(f"no peer: {missing}")
    cases = [
        case._replace(messages=case.messages // (10 if options.quick else 1)) for case in CASES
    ]
    told: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1 if options.quick else options.runs):
            for side in sides:
                place = Path(folder) / str(number)
                for name, value in measure(side, cases, place).items():
                    told[side].setdefault(name, []).append(value)
                    print(f"{side:6} {name:40} {value:12,.2f}", flush=True)
    print(f"\n{'median':40} " + " ".join(f"{side:>12}" for side in sides) + "   ratio")
    for name in told[sides[0]]:
        values = [statistics.median(told[side][name]) for side in sides]
        ratio = values[0] / values[-1] if "/s" in name else values[-1] / values[0]
        print(f"{name:40} " + " ".join(f"{one:12,.2f}" for one in values) + f"   {ratio:.2f}")


if __name__ == "__main__":
    main()
