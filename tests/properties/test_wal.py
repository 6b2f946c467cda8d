"""The log against a list: whatever is done to both, and however it crashes, they agree."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rollq.raft.types import Entry, HardState, Position, SnapshotMeta
from rollq.store.repair import Recovered
from rollq.store.wal import Wal
from rollq.testing.disk import VirtualDisk
from tests.effort import examples
from tests.unit.store.kit import IDENTITY, Chance, open_wal

SEGMENT_BYTES = 900


class State:
    """One thing that the disk may be found to hold."""

    def __init__(self, base: Position, entries: list[Entry], hard_state: HardState, boot: int):
        self.base = base
        self.entries = entries
        self.hard_state = hard_state
        self.boot = boot

    @property
    def last(self) -> Position:
        """Where its log ends."""
        if not self.entries:
            return self.base
        return Position(self.entries[-1].term, self.entries[-1].index)

    def key(self, snapshot: Position) -> object:
        """What recovery shows of it behind a snapshot."""
        rest = tuple(entry for entry in self.entries if entry.index > snapshot.index)
        return (self.hard_state.term, self.hard_state.vote, self.boot, rest)


class WalAgainstList(RuleBasedStateMachine):
    """States written since the last durable one are all that a crash may leave."""

    @initialize()
    def start(self) -> None:
        self.disk = VirtualDisk()
        self.wal, _ = open_wal(self.disk, None, SEGMENT_BYTES)
        self.wal.create_identity(IDENTITY)
        self.snapshot = Position()
        self.states = [State(Position(), [], HardState(), 0)]
        self.ever: set[Entry] = set()
        self.serial = 0

    @property
    def now(self) -> State:
        return self.states[-1]

    @rule(
        count=st.integers(1, 4), size=st.integers(0, 400), back=st.integers(0, 3), up=st.booleans()
    )
    def append(self, count: int, size: int, back: int, up: bool) -> None:
        now = self.now
        floor = max(now.hard_state.commit, now.base.index, self.snapshot.index)
        first = max(now.last.index + 1 - back, floor + 1)
        replaces = first <= now.last.index
        term = max(now.hard_state.term + (1 if up or replaces else 0), 1)
        self.serial += 1
        entries = [
            Entry(term, first + place, 0, b"%d/" % self.serial + b"RQW\x01" * (size // 4))
            for place in range(count)
        ]
        kept = [entry for entry in now.entries if entry.index < first]
        hard_state = HardState(term, self.serial, now.hard_state.commit)
        self.states.append(State(now.base, kept + entries, hard_state, now.boot))
        self.ever.update(entries)
        self.wal.append(hard_state, entries)

    @rule(step=st.integers(0, 3))
    def commit(self, step: int) -> None:
        now = self.now
        commit = min(now.hard_state.commit + step, now.last.index)
        hard_state = HardState(now.hard_state.term, now.hard_state.vote, commit)
        self.states.append(State(now.base, now.entries, hard_state, now.boot))
        self.wal.append(hard_state, [])

    @rule()
    def sync(self) -> None:
        self.wal.sync()
        del self.states[:-1]

    @rule()
    def mark(self) -> None:
        self.wal.mark()
        del self.states[:-1]

    @rule()
    def bump_boot(self) -> None:
        now = self.now
        assert self.wal.bump_boot() == now.boot + 1
        self.states = [State(now.base, now.entries, now.hard_state, now.boot + 1)]

    @precondition(lambda self: len(self.states) == 1)
    @rule(step=st.integers(1, 8))
    def take_snapshot(self, step: int) -> None:
        now = self.now
        index = min(self.snapshot.index + step, now.hard_state.commit)
        if index > self.snapshot.index:
            term = next(entry.term for entry in now.entries if entry.index == index)
            self.snapshot = Position(term, index)
            self.wal.compact(index)

    @rule(ahead=st.integers(-2, 3))
    def install_snapshot(self, ahead: int) -> None:
        now = self.now
        index = max(now.last.index + ahead, now.hard_state.commit + 1, self.snapshot.index + 1)
        position = Position(now.hard_state.term + 1, index)
        self.snapshot = position
        if ahead % 2:  # else a crash came between: opening must do the same
            self.wal.install(SnapshotMeta(position.index, position.term))
        else:
            self.wal.sync()
            self.wal, found = self.reopen()
            assert (found.entries, found.suspect) == ([], None)
        hard_state = HardState(position.term, 5, index)
        self.wal.append(hard_state, [])
        self.wal.sync()
        self.states = [State(position, [], hard_state, now.boot)]

    @rule(seed=st.integers(0, 1 << 32), power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        chance = Chance(seed)
        if power:
            self.disk.crash(chance)
        self.disk.kill()
        allowed = [state.key(self.snapshot) for state in self.states]
        self.wal, found = self.reopen()
        key = self.key(found)
        assert found.suspect is None
        assert key in allowed
        self.states = [self.states[allowed.index(key)]]
        self.disk.crash(chance)
        self.wal, again = self.reopen()
        assert self.key(again) == key

    @rule(where=st.integers(0, 1 << 20), bit=st.integers(0, 7))
    def rot(self, where: int, bit: int) -> None:
        self.mark()
        now = self.now
        files = [f"wal/{name}" for name in self.disk.names("wal") if name.endswith(".log")]
        name = files[where % len(files)]
        used = len(self.disk.read(name, 0, 1 << 20).rstrip(b"\0"))
        self.disk.rot(name, where // len(files) % used, bit)
        self.wal, found = self.reopen()
        assert found.identity is not None
        assert found.identity.boot == now.boot
        assert found.hard_state.term == now.hard_state.term
        assert found.hard_state.vote == now.hard_state.vote
        if self.key(found) != now.key(self.snapshot):
            assert found.suspect == now.last
            assert self.ever.issuperset(found.entries)
            self.wal, again = self.reopen()
            assert again == replace(found, damaged=False)  # it was mended the first time
            self.wal.clear_suspect()
        else:
            assert found.suspect is None
        self.states = [State(self.snapshot, found.entries, found.hard_state, now.boot)]

    def reopen(self) -> tuple[Wal, Recovered]:
        base = self.snapshot
        meta = SnapshotMeta(base.index, base.term) if base.index else None
        return open_wal(self.disk, meta, SEGMENT_BYTES)

    @staticmethod
    def key(found: Recovered) -> object:
        assert found.identity is not None
        hard_state = found.hard_state
        return (hard_state.term, hard_state.vote, found.identity.boot, tuple(found.entries))

    @invariant()
    def the_log_knows_its_end(self) -> None:
        if hasattr(self, "states"):
            last, now = self.wal.last, self.now.last
            assert last == now or now.index <= self.snapshot.index


WalAgainstList.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40)
TestWal = WalAgainstList.TestCase
