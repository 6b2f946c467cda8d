"""What looking at metrics costs: `python -m bench.scrape [--seconds N] [--rounds N] [--only …]`.

- `large`: one scrape of a member whose state has 10,000 workers and 1,000 queues: the CPU time that
  its loop takes, that until the text is there, and the size of the text.
- `rate`: no-op jobs while a process scrapes the member every second, and while none does, by turns;
  the ratio of the medians, and that of the CPU time that a job takes of the member.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench import loops, machine
from bench.cpu import Meter
from bench.frame import workplace
from bench.peers.rollq import Rollq
from bench.procs import Process, python
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW
from rollq.base.counters import Family
from rollq.base.stamp import Clock
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import Command, OpenWorker, SubmitRun
from rollq.observe.text import exposition
from rollq.raft.node import RaftOptions
from rollq.roles.member.calendar import ZoneCalendar
from rollq.roles.member.driver import Driver
from rollq.roles.member.metrics.families import families
from rollq.roles.member.setup import MemberSetup
from rollq.roles.reader.observer import Observer
from rollq.roles.service import SystemClock, SystemJitter
from rollq.testing.disk import VirtualDisk

WORKERS: Final = 10_000
QUEUES: Final = 1_000
JOBS_PER_QUEUE: Final = 10
SCRAPES: Final = 20
SCRAPE_S: Final = 1.0
MS_MAX: Final = 200
BYTES_MAX: Final = 2 * 1024 * 1024
RATIO_MIN: Final = 0.98
SCRAPED: Final = "scraped"


def main() -> int:
    """Measure and print; or, with --scrape, be the process that scrapes."""
    parser = argparse.ArgumentParser(prog="python -m bench.scrape", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a slice (10)")
    parser.add_argument("--rounds", type=int, default=4, help="slices of each kind (4)")
    parser.add_argument("--only", choices=("large", "rate"), help="one of the two")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    parser.add_argument("--scrape", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scrape:
        asyncio.run(scrape(options.scrape))
        return 0
    print(machine.line())
    if options.only != "rate":
        measure_large()
    if options.only != "large":
        loops.choose(loops.UVLOOP)
        with workplace(options.dir) as folder:
            measure_rate(folder, options.seconds, options.rounds)
    return 0


def measure_large() -> None:
    """One scrape of a large state."""
    driver = large_driver(SystemClock())
    loop_ms, all_ms, size_bytes = [], [], 0
    for _ in range(SCRAPES):
        began_s = time.process_time()
        value = msgspec.msgpack.encode(families(driver))
        told_s = time.process_time()
        text = exposition(msgspec.msgpack.decode(value, type=list[Family]))
        loop_ms.append((told_s - began_s) * 1000)
        all_ms.append((time.process_time() - began_s) * 1000)
        size_bytes = len(text)
    print(f"scrape with {WORKERS:,} workers and {QUEUES:,} queues, median of {SCRAPES}, CPU time:")
    print(
        f"  the member's loop {median(loop_ms):.1f} ms, all {median(all_ms):.1f} ms (<= {MS_MAX})"
    )
    print(f"  text {size_bytes:,} bytes (<= {BYTES_MAX:,})")


def large_driver(clock: Clock) -> Driver:
    """A leader alone, with many workers and queues in its state."""
    setup = MemberSetup("here:1", raft=RaftOptions(fixed_leader=True))
    driver = Driver(
        setup, VirtualDisk(), clock, SystemJitter(), lambda _: None, calendar=ZoneCalendar()
    )
    while not driver.leading:
        driver.tick()
        _turns(driver)
    for batch in _commands():
        driver.raft.propose(encode_batch(driver.time.now_ms(), batch))
        _turns(driver)
    return driver


def _commands() -> Iterator[list[Command]]:
    for first in range(0, WORKERS, 500):
        yield [
            OpenWorker(number.to_bytes(16, "big"), 1, f"w{number}", ("job.assign.>",), 4)
            for number in range(first, first + 500)
        ]
    for queue in range(QUEUES):
        ids = range(queue * JOBS_PER_QUEUE, (queue + 1) * JOBS_PER_QUEUE)
        job_ids = b"".join([(WORKERS + number).to_bytes(16, "big") for number in ids])
        yield [SubmitRun("ann", f"group{queue % 10}.queue{queue}", "calc", job_ids, (b"{}",) * 10)]


def _turns(driver: Driver) -> None:
    while (work := driver.begin()) is not None:
        work.run()
        driver.finish(work)
    driver.take_outputs()


def measure_rate(folder: Path, seconds: float, rounds: int) -> None:
    """Slices with and without somebody who scrapes."""
    peer = Rollq("r1")
    rates: dict[bool, list[float]] = {False: [], True: []}
    cpu_us: dict[bool, list[float]] = {False: [], True: []}
    try:
        peer.start(folder / "servers")
        peer.noop(PAYLOAD, WIDE_WINDOW, WARM_UP_S)
        for number in range(rounds):
            # The other way round in every second round: what the member does seldom, a snapshot for
            # one, falls into slices of both kinds.
            for is_scraped in (False, True) if number % 2 else (True, False):
                words = python("bench.scrape", "--scrape", peer.servers)
                scraper = Process(words, folder / "scraper.log") if is_scraped else None
                if scraper is not None:
                    scraper.wait_for_text(SCRAPED)
                meter = Meter(peer)
                before = meter.read()
                rate = peer.noop(PAYLOAD, WIDE_WINDOW, seconds)
                used = meter.read().since(before)
                if scraper is not None:
                    scraper.stop()
                rates[is_scraped].append(rate.per_s)
                cpu_us[is_scraped].append(used.server * 1e6 / rate.count)
    finally:
        peer.stop()
    for is_scraped, name in ((False, "not scraped"), (True, f"every {SCRAPE_S:g} s")):
        told = ", ".join(f"{rate:,.0f}" for rate in rates[is_scraped])
        print(f"  {name}: {told} jobs/s; member {median(cpu_us[is_scraped]):.1f} us of CPU a job")
    print(
        f"  jobs/s {median(rates[True]) / median(rates[False]):.3f} of those without "
        f"(>= {RATIO_MIN}); CPU a job {median(cpu_us[True]) / median(cpu_us[False]):.3f}"
    )


async def scrape(address: str) -> None:
    """Ask for metrics every second, and make their text."""
    observer = Observer(address.split(","), "")
    await observer.start()
    while True:
        began_s = time.perf_counter()
        _, value = await observer.query("metrics")
        exposition(msgspec.msgpack.decode(value, type=list[Family]))
        print(SCRAPED, flush=True)
        await asyncio.sleep(SCRAPE_S - (time.perf_counter() - began_s))


if __name__ == "__main__":
    sys.exit(main())
