"""What compressed frames save and cost: `python -m bench.compression [--rates 100M,1G,0] …`.

No-op jobs through members, a worker and a client that reach each other by a network of so many bits
a second (0: without a limit), with `--compress off`, `auto` and `always`, and with payloads of text
and of noise. Jobs a second, CPU of all processes but the network's, and what members wrote to it.
The addresses are not of the loopback, where nothing is compressed by itself. Printed is Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import psutil

from bench import loops, machine, narrow
from bench.cpu import Meter
from bench.frame import workplace
from bench.peers.rollq import Rollq
from bench.procs import Process, free_ports, python
from bench.window import Rate, Recorder
from rollq.net.packing import PACKING, Compress

RATES: Final = {"100M": 1e8, "1G": 1e9, "0": 0.0}
WINDOWS: Final = {200: 1_024, 49_152: 64}
WARM_UP_S: Final = 2.0
WORDS: Final = 3_000
LETTERS: Final = b"etaoinshrdlu"
PAYLOADS: Final = 128  # more than are on the way at once, or in one frame


class FarRollq(Rollq):
    """Members on an address that is not of the loopback, behind a network of a rate."""

    def __init__(self, mode: str, host: str, bits_per_s: float, compress: Compress) -> None:
        super().__init__(mode)
        self._host = host
        self._bits_per_s = bits_per_s
        self._compress = compress
        self._network: Process | None = None
        self._inner: dict[str, int] = {}  # where the member of an address listens

    def start(self, folder: Path) -> None:
        """Lay the network, then start the members; returns when one leads."""
        folder.mkdir(parents=True)
        self.folder = folder
        ports = free_ports(2 * self._count)
        outer = ports if not self._bits_per_s else ports[self._count :]
        addresses = [f"{self._host}:{port}" for port in outer[: self._count]]
        self._inner = dict(zip(addresses, ports, strict=False))
        if self._bits_per_s:
            pairs = [f"{one}={self._host}:{port}" for one, port in self._inner.items()]
            argv = python("bench.narrow", str(self._bits_per_s), *pairs)
            self._network = Process(argv, folder / "network.log")
            self._network.wait_for_text(narrow.READY)
        for address in addresses:
            self.start_member(address, addresses)
        self.leader()

    def start_member(self, address: str, addresses: Iterable[str] = ()) -> Process:
        """Start one member; returns when it listens."""
        port = self._inner[address]
        peers = ",".join(other for other in addresses or self.members if other != address)
        argv = python(self.module, "leader", str(port), "--state", str(self.state_of(address)))
        argv += ["--host", self._host, "--advertise", address, "--unsafe-no-auth"]
        argv += ["--peers", peers] if peers else []
        name = f"member-{port}"
        self.members[address] = Process(argv, self.folder / f"{name}.log", self.environment(name))
        self.members[address].wait_for(lambda: _takes(self._host, port), f"port {port}")
        return self.members[address]

    def environment(self, _name: str) -> dict[str, str]:
        """Of members and workers; this process has chosen for itself."""
        return {"ROLLQ_COMPRESS": self._compress.value}

    def map_noop(self, payloads: Sequence[bytes], window: int, seconds: float) -> Rate:
        """No-op jobs with one payload after the other until time is over."""
        self.serve_noop(1)
        return loops.run(self._map_noop(payloads, window, seconds))

    async def _map_noop(self, payloads: Sequence[bytes], window: int, seconds: float) -> Rate:
        seen = Recorder()
        end = time.perf_counter() + seconds
        some = itertools.takewhile(lambda _: time.perf_counter() < end, itertools.cycle(payloads))
        async with self.client("noop") as client:
            async for result in client.map("noop", some, window=window):
                if not result.ok:
                    raise RuntimeError(f"a job failed: {result.status}")
                seen.count(time.perf_counter())
        return seen.rate()

    def stop(self) -> None:
        """The network last."""
        super().stop()
        if self._network is not None:
            self._network.stop()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.compression", description=__doc__)
    parser.add_argument("--rates", default="100M,1G,0", help="of the network (100M,1G,0)")
    parser.add_argument("--sizes", default="200,49152", help="of payloads (200,49152)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each row (8)")
    parser.add_argument("--members", type=int, choices=(1, 3), default=3, help="of the group (3)")
    parser.add_argument("--host", default="", help="an address of this computer (found)")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the state is kept")
    options = parser.parse_args()
    loops.choose(loops.UVLOOP)
    host = options.host or _own_address()
    print(f"{machine.line()}; {options.members} members\n")
    print("| network | payload | compress | jobs/s | payload MB/s | CPU µs a job | of members |")
    print("|---|---|---|---|---|---|---|")
    with workplace(options.dir) as folder:
        for rate in options.rates.split(","):
            for compress in Compress:
                PACKING.mode = compress
                mode = "r3" if options.members == 3 else "r1"
                peer = FarRollq(mode, host, RATES[rate], compress)
                try:
                    peer.start(folder / f"{rate}-{compress.value}")
                    for size in map(int, options.sizes.split(",")):
                        for kind in ("text", "noise"):
                            _row(peer, rate, kind, size, options.seconds)
                finally:
                    peer.stop()
    return 0


def _row(peer: FarRollq, rate: str, kind: str, size: int, seconds: float) -> None:
    payloads = texts(size) if kind == "text" else [os.urandom(size) for _ in range(PAYLOADS)]
    peer.map_noop(payloads, WINDOWS[size], WARM_UP_S)
    meter = Meter(peer)
    before = meter.read()
    seen = peer.map_noop(payloads, WINDOWS[size], seconds)
    used = meter.read().since(before)
    members = used.server * 1e6 / seen.count
    cost = members + (used.worker + used.client) * 1e6 / seen.count
    print(
        f"| {rate} | {kind}, {size:,} B | {PACKING.mode.value} | {seen.per_s:,.0f} | "
        f"{seen.per_s * size / 1e6:.1f} | {cost:.0f} | {members:.0f} |",
        flush=True,
    )


def texts(size: int) -> list[bytes]:
    """Words of a small language in no order; zstd makes a third of them."""
    chance = random.Random(1)
    words = [bytes(chance.choices(LETTERS, k=chance.randint(2, 9))) for _ in range(WORDS)]
    ranks = [1 / (number + 8) for number in range(WORDS)]  # some words are said more often
    said = (b" ".join(chance.choices(words, ranks, k=size // 2))[:size] for _ in range(PAYLOADS))
    return list(said)


def _own_address() -> str:
    found = [
        one.address
        for addresses in psutil.net_if_addrs().values()
        for one in addresses
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ]
    if not found:
        sys.exit("this computer has no address but the loopback's; give one with --host")
    return str(found[0])


def _takes(host: str, port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex((host, port)) == 0


if __name__ == "__main__":
    sys.exit(main())
