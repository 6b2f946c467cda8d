"""What the works of no-op jobs ask of a peer, and the figures that they make of its answers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cpu import Roles
from bench.window import Mark, Rate
from bench.works import QUICK
from bench.works.all import WORKS
from bench.works.sustained import MemoryWatch

SCALE = replace(QUICK, window=7, noop_s=3.0, sustained_s=120.0, steady_s=2.0, backlog=1_000_000)


class FakePeer:
    """Does a hundred jobs a second, fewer in the second minute; this process is its server."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def available(self) -> str:
        return ""

    def version(self) -> str:
        return "fake 1"

    def start(self, folder: Path) -> None:
        pass

    def stop(self) -> None:
        pass

    def roles(self) -> Roles:
        return {"server": [os.getpid()], "worker": []}

    def noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        self.asked.append(("noop", window, seconds))
        latencies = [0.01] * 6_000 + [0.03] * 3_000
        marks = (Mark(0, 0, 0), Mark(60, 6_000, 6_000), Mark(120, 9_000, 9_000))
        return Rate(9_000, 120.0, latencies, marks)

    def serve_noop(self, workers: int) -> None:
        self.asked.append(("workers", workers))

    def noop_of_many(self, payload: bytes, clients: int, window: int, seconds: float) -> Rate:
        self.asked.append(("clients", clients, window))
        return Rate(900, 10.0, [])

    def array(self, payload: bytes, tasks: int) -> float:
        self.asked.append(("array", tasks))
        return 500.0

    def lone(self, payload: bytes, seconds: float) -> Rate:
        return Rate(2, 1.0, [0.001, 0.002])

    def lone_beside_load(self, payload: bytes, per_s: float, seconds: float) -> Rate:
        self.asked.append(("load", per_s))
        return Rate(2, 1.0, [0.004, 0.005])

    def submit_rates(self, payload: bytes, windows: tuple[int, ...], seconds: float) -> object:
        return ((window, Rate(2, 1.0, [0.001, 0.003])) for window in windows)

    def submits_beside(self, payload: bytes, how: str, count: int) -> Rate:
        self.asked.append((how, count))
        return Rate(2, 1.0, [0.002, 0.007])


def figures(work: str, peer: FakePeer) -> dict[str, float]:
    return {one.figure: one.value for one in WORKS[work].measure(peer, SCALE)}


@pytest.mark.parametrize(
    "work", ["noop", "noop1024", "sustained", "latency", "beside", "growth", "large"]
)
def test_every_column_of_a_work_is_measured(work: str) -> None:
    assert {figure for figure, _ in WORKS[work].columns} <= set(figures(work, FakePeer()))


def test_the_wide_work_has_its_own_window() -> None:
    narrow, wide = FakePeer(), FakePeer()
    assert (figures("noop", narrow)["window"], figures("noop1024", wide)["window"]) == (7, 1024)
    assert (narrow.asked[-1], wide.asked[-1]) == (("noop", 7, 3.0), ("noop", 1024, 3.0))


def test_a_sustained_load_compares_its_first_minute_with_its_last() -> None:
    seen = figures("sustained", FakePeer())
    assert (seen["jobs_per_s"], seen["first_jobs_per_s"], seen["last_jobs_per_s"]) == (75, 100, 50)
    assert (seen["first_p99_ms"], seen["last_p99_ms"]) == (10, 30)


def test_memory_is_the_most_of_a_time() -> None:
    memory = MemoryWatch.__new__(MemoryWatch)
    memory.seen = [(0.0, 10.0), (30.0, 40.0), (61.0, 20.0)]
    assert (memory.most(0, 60), memory.most(60, 120), memory.most(200, 300)) == (40, 20, 0)


def test_half_of_the_load_that_it_bears_is_put_beside_a_lone_job() -> None:
    peer = FakePeer()
    assert figures("latency", peer)["half_p99_ms"] == 5
    assert peer.asked[-1] == ("load", 37.5)


def test_a_million_jobs_come_beside_single_submits() -> None:
    peer = FakePeer()
    seen = figures("beside", peer)
    assert peer.asked == [("many", 1_000_000), ("commit", 1_000_000)]
    assert (seen["jobs"], seen["alone_p99_ms"], seen["many_p99_ms"]) == (1_000_000, 3, 7)


def test_clients_come_before_workers_that_stay() -> None:
    peer = FakePeer()
    seen = figures("growth", peer)
    kinds = [asked for asked in peer.asked if asked[0] != "noop"]
    assert kinds == [("clients", 100, 1024), ("array", 1_000_000), ("workers", 10)]
    assert (seen["clients100_jobs_per_s"], seen["array_per_s"]) == (90, 500)
