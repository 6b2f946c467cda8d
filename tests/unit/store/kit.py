"""What the store's tests share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from rollq.raft.types import Entry, HardState, Position, SnapshotMeta
from rollq.store.identity import Identity
from rollq.store.repair import Recovered
from rollq.store.wal import Wal
from rollq.testing.disk import VirtualDisk
from rollq.testing.faults import SimulatedCrash

IDENTITY = Identity(b"c" * 16, 7, "host:5000")
SEGMENT_BYTES = 1536


class Chance:
    """A seeded Jitter."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self, low: int, high: int) -> int:
        """low <= x < high."""
        return self._random.randrange(low, high)

    def draw_id(self) -> bytes:
        """Sixteen bytes."""
        return self._random.randbytes(16)


def open_wal(
    disk: VirtualDisk, snapshot: SnapshotMeta | None = None, segment_bytes: int = SEGMENT_BYTES
) -> tuple[Wal, Recovered]:
    """Open with small segments."""
    return Wal.open(disk, snapshot, segment_bytes=segment_bytes)


def new_wal(disk: VirtualDisk, segment_bytes: int = SEGMENT_BYTES) -> Wal:
    """An empty log with an identity."""
    wal, _ = open_wal(disk, None, segment_bytes)
    wal.create_identity(IDENTITY)
    return wal


def entry(index: int, term: int = 1, size: int = 20) -> Entry:
    """An entry that is unlike every other."""
    return Entry(term, index, 0, f"{term}/{index};".encode().ljust(size, b"."))


def last_of(entries: list[Entry], base: Position) -> Position:
    """Where a log with these entries ends."""
    return Position(entries[-1].term, entries[-1].index) if entries else base


@dataclass(slots=True)
class Story:
    """What a script did to a disk: states in the order in which they were written, and how many
    of them were surely durable."""

    states: list[object] = field(default_factory=list)
    durable_count: int = 0

    def wrote(self, state: object) -> None:
        """The script is about to write this state."""
        self.states.append(state)

    def synced(self) -> None:
        """Everything written so far is durable."""
        self.durable_count = len(self.states)

    @property
    def allowed(self) -> list[object]:
        """States that may be found after a crash."""
        return self.states[max(self.durable_count - 1, 0) :]


def crash_everywhere(
    script: Callable[[VirtualDisk, Story], None],
    recover: Callable[[VirtualDisk], object],
    seeds: int = 4,
) -> int:
    """Crash `script` before each of its disk calls, and recovery before each of its own; whatever
    is found must be the last durable state or a later one, and found again. Returns the number
    of crashes."""
    crashes = 0
    op = 0
    while True:
        op += 1
        for seed in range(seeds):
            disk, story = VirtualDisk(), Story()
            disk.crash_at(op)
            try:
                script(disk, story)
            except SimulatedCrash:
                pass
            else:
                return crashes
            crashes += 1
            chance = Chance(op * 1000 + seed)
            disk.crash(chance)
            allowed = story.allowed
            disk.crash_at(disk.op_count + 1 + chance.draw(0, 12))
            try:
                recover(disk)
            except SimulatedCrash:
                disk.crash(chance)
            disk.kill()
            found = recover(disk)
            assert found in allowed, f"op {op}, seed {seed}: {found} not in {allowed}"
            disk.crash(chance)
            assert recover(disk) == found, f"op {op}, seed {seed}: recovery is not idempotent"


def hard(term: int, commit: int = 0) -> HardState:
    """A hard state with a vote that tells the term."""
    return HardState(term, term * 10, commit)
