"""What the pages cost: `python -m bench.dashboards [--jobs N] [--seconds N] [--rounds N]`.

- `paint`: with so many jobs in the state of a member, every page is opened in Chromium by a new
  visitor: when the first content is painted, and when the rows are there.
- `rate`: no-op jobs while ten streams of live pages are open, and while none is, by turns; the
  ratio of the medians. The streams are read by a process of its own; what a browser draws is not
  counted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Final

from bench import loops, machine
from bench.frame import workplace
from bench.loops import run
from bench.peers.rollq import Rollq
from bench.procs import HOST, Process, free_ports, python
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW

JOBS: Final = 1_000_000
STREAMS: Final = 10
PAINT_MS_MAX: Final = 1_000
RATIO_MIN: Final = 0.95
OPEN: Final = "open"
PAGES: Final = (
    *("/", "/jobs", "/jobs?state=failed", "/submit", "/arrays", "/dead", "/workers", "/queues"),
    *("/cluster", "/files", "/history", "/access"),
)
CHROMIUM_WORDS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
PAINTED: Final = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main() -> int:
    """Measure and print; or, with --read, be the process that reads streams."""
    parser = argparse.ArgumentParser(prog="python -m bench.dashboards", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="in the state (1,000,000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a slice (10)")
    parser.add_argument("--rounds", type=int, default=4, help="slices of each kind (4)")
    parser.add_argument("--only", choices=("paint", "rate"), help="one of the two")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    parser.add_argument("--read", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_streams(options.read)
        return 0
    loops.choose(loops.UVLOOP)
    print(machine.line())
    with workplace(options.dir) as folder:
        if options.only != "rate":
            measure_paint(folder / "paint", options.jobs)
        if options.only != "paint":
            measure_rate(folder / "rate", options.seconds, options.rounds)
    return 0


def measure_paint(folder: Path, count: int) -> None:
    """Every page, over a large state."""
    peer = Rollq("r1")
    try:
        peer.start(folder)
        run(fill(peer, count))
        url, pages = start_pages(peer, folder)
        try:
            paint(url)
        finally:
            pages.stop()
    finally:
        peer.stop()


async def fill(peer: Rollq, count: int) -> None:
    """Jobs that nobody runs."""
    async with peer.client("fills") as client:
        began_s = time.perf_counter()
        await client.submit_many(
            "noop", (str(number) for number in range(count)), keep_results=False, queue="held"
        )
        print(f"{count:,} jobs accepted within {time.perf_counter() - began_s:.1f} s")


def paint(url: str) -> None:
    """Open every page once, as a new visitor."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    print("| page | first paint ms | rows are there, ms |")
    print("|---|---|---|")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(CHROMIUM_WORDS)
        )
        for path in ("/", *PAGES):  # the first visit of all also starts the browser's processes
            context = browser.new_context()
            page = context.new_page()
            began_s = time.perf_counter()
            page.goto(url + path)
            page.get_by_role("heading", level=1).wait_for()
            page.wait_for_function("() => !document.querySelector('[data-testid=loading]')")
            rows_ms = (time.perf_counter() - began_s) * 1000
            print(f"| {path} | {page.evaluate(PAINTED):.0f} | {rows_ms:.0f} |")
            context.close()
        browser.close()
    print(f"(first paint at most {PAINT_MS_MAX} ms is asked for)")


def measure_rate(folder: Path, seconds: float, rounds: int) -> None:
    """Jobs with pages open and without."""
    peer = Rollq("r1")
    rates: dict[str, list[float]] = {"none": [], "ten": []}
    try:
        peer.start(folder)
        url, pages = start_pages(peer, folder)
        peer.noop(PAYLOAD, WIDE_WINDOW, WARM_UP_S)
        for number in range(2 * rounds):
            kind = ("none", "ten", "ten", "none")[number % 4]
            if kind == "none":
                rates[kind].append(peer.noop(PAYLOAD, WIDE_WINDOW, seconds).per_s)
                continue
            reader = Process(
                python("bench.dashboards", "--read", url), folder / f"read{number}.log"
            )
            reader.wait_for_text(OPEN)
            rates[kind].append(peer.noop(PAYLOAD, WIDE_WINDOW, seconds).per_s)
            reader.stop()
        pages.stop()
    finally:
        peer.stop()
    for kind, found in rates.items():
        told = " ".join(f"{one:,.0f}" for one in found)
        print(f"{kind} open: median {median(found):,.0f} jobs/s ({told})")
    ratio = median(rates["ten"]) / median(rates["none"])
    print(f"ten/none: {ratio:.3f} (at least {RATIO_MIN} is asked for)")


def start_pages(peer: Rollq, folder: Path) -> tuple[str, Process]:
    """`rollq web` beside the members; where it is."""
    (port,) = free_ports(1)
    words = ("web", "--servers", peer.servers, "--port", str(port))
    pages = Process(python("rollq", *words), folder / "web.log")
    pages.wait_for_port(port)
    return f"http://{HOST}:{port}", pages


def read_streams(url: str) -> None:
    """Open the streams of live pages, and read what comes until killed."""
    streams = [urllib.request.urlopen(f"{url}/api/v1/live") for _ in range(STREAMS)]
    print(OPEN, flush=True)
    while True:
        for stream in streams:
            stream.readline()


if __name__ == "__main__":
    sys.exit(main())
