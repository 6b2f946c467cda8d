"""A few hundred random lives of small groups, each from one seed, with Raft's promises checked.

Members crash between any two duties, messages are lost, doubled and reordered, commits that were
not synced are forgotten, tails rot, members join and leave. The large campaigns are the
simulator's; this one is small enough to run after every change.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest

from rollq.base.errors import StateError
from rollq.base.ids import MemberId
from rollq.raft.node import RaftOptions
from rollq.raft.ready import Ready
from rollq.raft.types import (
    ChangeKind,
    ConfigChange,
    Entry,
    Member,
    MemberChange,
    Position,
    RaftMessage,
    Role,
)
from tests.unit.raft.network import Host, Network

STEPS = 2_000
HEAL_ROUNDS = 400
OPTIONS = RaftOptions(
    election_ticks_min=5,
    election_ticks_max=10,
    heartbeat_ticks=2,
    append_bytes_max=40,
    apply_bytes_max=60,
    inflight_appends_max=3,
    inflight_bytes_max=200,
    uncommitted_bytes_max=400,
    snapshot_chunk_bytes_max=10,
)


class Checker:
    """What must hold at every moment, over all members and all their lives."""

    def __init__(self) -> None:
        self.leaders: dict[int, MemberId] = {}
        self.applied: dict[int, Entry] = {}
        self.chains: dict[int, bytes] = {}
        # The first index that a read asked for now must reach: all that anybody has applied.
        self.floor = 0

    def look(self, host: Host) -> None:
        node = host.node
        if node.role is Role.LEADER:
            assert self.leaders.setdefault(node.term, node.member_id) == node.member_id

    def take(self, host: Host, ready: Ready) -> None:
        for entry in ready.committed:
            assert self.applied.setdefault(entry.index, entry) == entry
        chain = self.chains.setdefault(host.chain_index, host.chain)
        assert chain == host.chain, "two members differ at one index"
        self.floor = max(self.floor, host.chain_index)


class RandomRun:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        size = self.random.choice((1, 2, 3, 3, 3, 5))
        self.net = Network(*range(1, size + 1), options=OPTIONS)
        for host in self.net.hosts.values():
            host.jitter.random.seed(seed * 100 + host.id)
            host.boot()
        self.checker = Checker()
        self.out: dict[MemberId, Ready] = {}
        self.down: set[MemberId] = set()
        self.floors: dict[tuple[MemberId, int], int] = {}
        self.number = 0
        self.actions: list[tuple[int, Callable[[Host], None]]] = [
            (60, self.deliver),
            (60, self.take_ready),
            (25, lambda host: host.node.tick()),
            (10, self.propose),
            (4, self.read),
            (2, self.lose_message),
            (2, self.double_message),
            (2, self.crash),
            (2, self.snapshot),
            (2, self.change_config),
            (2, self.meddle),
            (1, self.partition),
        ]

    def run(self) -> None:
        weights = [weight for weight, _ in self.actions]
        for _ in range(STEPS):
            up = [host for i, host in self.net.hosts.items() if i not in self.down]
            host = self.random.choice(up)
            action = self.random.choices(self.actions, weights)[0][1]
            action(host)
            self.checker.look(host)
            if self.down and self.random.random() < 0.05:
                self.restart(self.random.choice(sorted(self.down)))
        self.heal()

    def take_ready(self, host: Host) -> None:
        """All duties of one Ready, with other things happening between taking and confirming."""
        ready = self.out.pop(host.id, None)
        if ready is None:
            if host.node.has_ready():
                ready = self.out[host.id] = host.node.ready()
                self.send(host, ready.send_now)
            return
        host.persist(ready)
        self.send(host, ready.send_after_persist)
        host.apply(ready)
        self.checker.take(host, ready)
        for read in ready.reads:
            floor = self.floors.pop((host.id, read.request))
            assert read.index == 0 or read.index >= floor, "a read went back in time"
        host.node.advance(ready)

    def send(self, host: Host, messages: list[RaftMessage]) -> None:
        self.net.wire.extend(host.fill(message) for message in messages)

    def deliver(self, _host: Host) -> None:
        if self.net.wire:
            # Mostly the oldest, at times any.
            far = self.random.random() < 0.1
            at = self.random.randrange(len(self.net.wire) if far else min(3, len(self.net.wire)))
            message = self.net.wire.pop(at)
            reaches = message.to in self.net.hosts and message.to not in self.down
            if reaches and (message.sender, message.to) not in self.net.cut:
                self.net[message.to].step(message)
                self.checker.look(self.net.hosts[message.to])

    def lose_message(self, _host: Host) -> None:
        if self.net.wire:
            del self.net.wire[self.random.randrange(len(self.net.wire))]

    def double_message(self, _host: Host) -> None:
        if self.net.wire:
            self.net.wire.append(self.random.choice(self.net.wire))

    def partition(self, host: Host) -> None:
        """Cut one member off, with whatever it has said before, or join all again."""
        if self.net.cut:
            self.net.heal()
        else:
            self.net.isolate(host.id)

    def propose(self, host: Host) -> None:
        self.number += 1
        with contextlib.suppress(StateError):
            host.node.propose(b"%d %d" % (host.id, self.number))

    def read(self, host: Host) -> None:
        self.number += 1
        self.floors[host.id, self.number] = self.checker.floor
        host.node.read_index(self.number)

    def snapshot(self, host: Host) -> None:
        if host.id not in self.out and host.node.applied > host.disk.snapshot.index:
            host.take_snapshot(keep=0)

    def meddle(self, host: Host) -> None:
        """What an operator or a broken link may do."""
        other = self.random.choice(sorted(self.net.hosts))
        what = self.random.randrange(4)
        if what == 0:
            host.node.leader_lost(other)
        elif what == 1:
            host.node.report_unreachable(other)
        elif what == 2:
            host.node.campaign()
        elif other in host.node.progress and not host.node.progress[other].learner:
            host.node.transfer_leadership(other)

    def change_config(self, host: Host) -> None:
        if host.node.role is not Role.LEADER:
            return
        kind = self.random.choice((ChangeKind.ADD_VOTER, ChangeKind.ADD_LEARNER, ChangeKind.REMOVE))
        member_id = self.random.choice([*self.net.hosts, len(self.net.hosts) + 1])
        try:
            host.node.propose_config(ConfigChange((MemberChange(kind, Member(member_id)),)))
        except StateError:
            return
        if member_id not in self.net.hosts:
            self.net.add(member_id)

    def crash(self, host: Host) -> None:
        """Stop between two duties, or in the midst of writing."""
        if len(self.down) + 1 >= len(self.net.hosts):
            return
        ready = self.out.pop(host.id, None)
        stage = self.random.randrange(3)
        if ready is not None and stage == 1 and not ready.snapshot_chunks:
            # Torn: some entries, and no hard state. None of it was promised to anybody.
            host.disk.write_entries(ready.entries[: self.random.randrange(len(ready.entries) + 1)])
        elif ready is not None and stage == 2:
            host.persist(ready)
            self.send(host, ready.send_after_persist)
        if self.random.random() < 0.5:
            host.disk.hard_state = host.disk.loose_state
        host.disk.loose_state = host.disk.hard_state
        self.down.add(host.id)

    def restart(self, member_id: MemberId) -> None:
        host = self.net.hosts[member_id]
        self.down.discard(member_id)
        if self.random.random() < 0.2:
            self.rot(host)
        self.floors = {key: floor for key, floor in self.floors.items() if key[0] != member_id}
        host.boot()

    def rot(self, host: Host) -> None:
        """Lose a synced tail, and know it. Never on two members at once."""
        voters = max(len(h.node.config.voters) for h in self.net.hosts.values())
        others_whole = all(
            h.disk.suspect is None for h in self.net.hosts.values() if h.id != host.id
        )
        if not host.disk.entries or voters < 3 or not others_whole:
            return
        last = host.disk.entries[-1]
        lost = Position(last.term, last.index)
        host.disk.suspect = max(lost, host.disk.suspect or lost)
        del host.disk.entries[self.random.randrange(len(host.disk.entries)) :]
        # The link is new: nothing of the earlier life arrives any more, and the leader is told.
        self.net.wire = [m for m in self.net.wire if m.sender != host.id]
        last_index = host.disk.snapshot.index + len(host.disk.entries)
        for other in self.net.hosts.values():
            other.node.member_restarted(host.id, last_index)

    def heal(self) -> None:
        """No more faults: a leader must come about, and everybody must agree with it."""
        self.net.heal()
        for member_id in sorted(self.down):
            self.restart(member_id)
        for number in range(HEAL_ROUNDS):
            if number % 50 == 49 and self.converged():
                break
            for host in list(self.net.hosts.values()):
                host.node.tick()
                self.take_ready(host)
                self.take_ready(host)
                self.checker.look(host)
            arrived, self.net.wire = self.net.wire, []
            for message in arrived:
                if message.to in self.net.hosts:
                    self.net[message.to].step(message)
        self.check_converged()

    def converged(self) -> bool:
        try:
            self.check_converged()
        except AssertionError:
            return False
        return True

    def check_converged(self) -> None:
        leaders = [h for h in self.net.hosts.values() if h.node.role is Role.LEADER]
        config = max((h.node for h in self.net.hosts.values()), key=lambda n: n.applied).config
        suspects = [m for m in config.voters if self.net[m.id].suspect is not None]
        if suspects and min(len(h.node.config.voters) for h in self.net.hosts.values()) < 3:
            return  # nobody can tell what was lost: to stand still is right
        assert leaders, "no leader came about"
        leader = max(leaders, key=lambda h: h.node.term)
        assert leader.node.applied == leader.node.commit == leader.node.last_index
        for member in (*leader.node.config.voters, *leader.node.config.learners):
            host = self.net.hosts[member.id]
            assert (host.chain_index, host.chain) == (leader.chain_index, leader.chain)
            assert host.node.config == leader.node.config
            assert host.node.suspect is None


@pytest.mark.parametrize("block", range(10))
def test_random_lives_keep_raft_promises(block: int) -> None:
    for seed in range(block * 30, (block + 1) * 30):
        try:
            RandomRun(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
