"""Randomness from one seed, in independent streams: more draws in one do not change the others."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class SeededJitter:
    """Implements `rollq.base.stamp.Jitter`, with more draws for the simulator."""

    __slots__ = ("_random",)

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def draw(self, low: int, high: int) -> int:
        """An integer x with low <= x < high."""
        return low + int(self._random.random() * (high - low))

    def draw_id(self) -> bytes:
        """Sixteen random bytes."""
        return self._random.randbytes(16)

    def chance(self, per_mille: int) -> bool:
        """True with this probability in per mille."""
        return self._random.random() * 1000 < per_mille

    def pick(self, items: Sequence[T]) -> T:
        """A random item."""
        return items[int(self._random.random() * len(items))]


class Streams:
    """The random streams of one seed."""

    __slots__ = ("_seed", "clock", "crash", "disk", "net", "schedule", "swarm", "workload")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.swarm = self.named("swarm")
        self.net = self.named("net")
        self.disk = self.named("disk")
        self.clock = self.named("clock")
        self.workload = self.named("workload")
        self.schedule = self.named("schedule")
        self.crash = self.named("crash")

    def named(self, name: str) -> SeededJitter:
        """A separate stream, e.g. for the product code of a member."""
        return SeededJitter(f"{self._seed}/{name}")
