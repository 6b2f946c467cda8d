"""A federation in virtual time: what holds whatever the network does, but for standing still."""

from __future__ import annotations

import itertools

import pytest

from rollq.base.federation_limits import (
    GOSSIP_AGE_MS_MAX,
    GOSSIP_DATAGRAM_BYTES_MAX,
    GOSSIP_NEWS_MAX,
    GOSSIP_PERIOD_MS,
)
from rollq.gossip.codec import DatagramRefusal, Key, encode_datagram
from rollq.gossip.records import Datagram, NodeKind, NodeRecord, NodeUpdate, Standing, Sync
from rollq.testing.jitter import SeededJitter
from rollq.testing.sim_gossip import KEY, GossipFaults, SimFederation, SimGossipNode

GOOD = GossipFaults()
BAD = GossipFaults(lost_per_mille=200, doubled_per_mille=100, delay_ms_max=250)
LEARN_MAX = 20  # periods, for 64 nodes on a bad network
DEAD_MAX = 45
HEAL_MAX = 90

CASES = [
    pytest.param(count, seed, faults, id=f"{count} nodes, seed {seed}, {name}")
    for count, seeds in ((2, 3), (5, 4), (16, 2), (64, 1))
    for seed in range(1, seeds + 1)
    for name, faults in (("good", GOOD), ("bad", BAD))
]


def started(count: int, seed: int = 1, faults: GossipFaults = GOOD) -> SimFederation:
    federation = SimFederation(count, seed, faults=faults)
    federation.start_all()
    federation.periods_until(federation.is_agreed, LEARN_MAX)
    return federation


def thinks(node: SimGossipNode, other: SimGossipNode, *how: Standing) -> bool:
    return node.standing_of(other) in how


@pytest.mark.parametrize(("count", "seed", "faults"), CASES)
def test_all_learn_of_all_the_dead_are_dead_for_all_and_halves_heal(
    count: int, seed: int, faults: GossipFaults
) -> None:
    federation = started(count, seed, faults)
    nodes = federation.nodes
    victim, others = nodes[-1], nodes[:-1]
    victim.kill()
    federation.periods_until(
        lambda: all(thinks(node, victim, Standing.DEAD) for node in others), DEAD_MAX
    )
    victim.start((nodes[0].address,))  # the next life, of the same disk
    federation.periods_until(federation.is_agreed, LEARN_MAX)
    half, rest = nodes[::2], nodes[1::2]
    federation.cut(half)
    federation.periods_until(
        lambda: (
            all(thinks(one, other, Standing.DEAD) for one in half for other in rest)
            and all(thinks(one, other, Standing.DEAD) for one in rest for other in half)
        ),
        DEAD_MAX,
    )
    federation.cut(())
    federation.periods_until(federation.is_agreed, HEAL_MAX)
    assert max(node.bytes_max for node in nodes) <= GOSSIP_DATAGRAM_BYTES_MAX
    assert all(len(node.machine.nodes) == count - 1 for node in nodes)
    assert all(node.machine.update_count <= GOSSIP_NEWS_MAX for node in nodes)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_dies_of_a_network_that_loses_some(seed: int) -> None:
    federation = started(12, seed, GossipFaults(100, 50, 200))
    for node in federation.nodes:
        node.machine.nodes.take_changes()
    federation.run_periods(120)
    changes = [c for node in federation.nodes for c in node.machine.nodes.take_changes()]
    assert any(change.standing is Standing.SUSPECT for change in changes)
    assert not any(change.standing is Standing.DEAD for change in changes)


def test_a_false_suspicion_is_refuted_everywhere() -> None:
    federation = started(8)
    accused, accuser = federation.nodes[3], federation.nodes[5]
    before = accused.machine.me.incarnation
    record = accuser.machine.nodes.get(accused.node_id)
    assert record is not None
    lie = NodeUpdate(Standing.SUSPECT, 0, record.record)
    told = Datagram(
        accuser.clock.wall_ms(), accuser.node_id, accuser.address, Sync(asks=False), (lie,)
    )
    federation.nodes[0].receive(encode_datagram(KEY, told))
    assert thinks(federation.nodes[0], accused, Standing.SUSPECT)
    federation.periods_until(
        lambda: (
            accused.machine.me.incarnation > before
            and all(
                thinks(node, accused, Standing.ALIVE)
                for node in federation.nodes
                if node is not accused
            )
        ),
        6,
    )


def test_a_process_that_is_stopped_is_down_for_all_and_comes_back_blaming_nobody() -> None:
    federation = started(5)
    stopped, others = federation.nodes[2], [*federation.nodes[:2], *federation.nodes[3:]]
    stopped.is_stopped = True
    federation.periods_until(
        lambda: all(thinks(node, stopped, Standing.DEAD) for node in others), DEAD_MAX
    )
    stopped.is_stopped = False
    federation.periods_until(federation.is_agreed, HEAL_MAX)
    changes = [c for node in others for c in node.machine.nodes.take_changes()]
    assert {c.record.node_id for c in changes if c.standing is Standing.DEAD} == {stopped.node_id}


def test_who_leaves_has_left_for_all_at_once() -> None:
    federation = started(16)
    federation.nodes[4].leave()
    others = federation.running()
    periods = federation.periods_until(
        lambda: all(thinks(node, federation.nodes[4], Standing.LEFT) for node in others), 3
    )
    assert periods <= 3


def test_a_seed_that_comes_late_is_found() -> None:
    federation = SimFederation(4)
    for node in federation.nodes[1:]:
        node.start((federation.nodes[0].address,))
    federation.run_periods(20)
    assert not any(len(node.machine.nodes) for node in federation.running())
    federation.nodes[0].start(())
    federation.periods_until(federation.is_agreed, 6)


def test_clocks_that_are_far_apart_do_not_hear_each_other() -> None:
    federation = SimFederation(2)
    federation.nodes[1].clock.jump(GOSSIP_AGE_MS_MAX + 5_000)
    federation.start_all()
    federation.run_periods(10)
    assert not any(len(node.machine.nodes) for node in federation.nodes)
    assert set(federation.nodes[0].refused) == {DatagramRefusal.TOO_OLD}
    federation.nodes[1].clock.correct()
    federation.periods_until(federation.is_agreed, 6)


OLD, NEW = (b"old.", b"o" * 32), (b"new.", b"n" * 32)
ROUNDS = ((OLD,), (OLD, NEW), (NEW, OLD), (NEW,))


@pytest.mark.parametrize(("before", "after"), list(itertools.pairwise(ROUNDS)))
def test_one_key_follows_another_without_a_stop(
    before: tuple[Key, ...], after: tuple[Key, ...]
) -> None:
    federation = SimFederation(4)
    for node in federation.nodes:
        node.keys = after if node.number % 2 else before
    federation.start_all()
    federation.periods_until(federation.is_agreed, LEARN_MAX)
    assert not any(node.refused for node in federation.nodes)


def test_a_key_that_nobody_was_told_of_is_not_heard() -> None:
    federation = SimFederation(3, keys=(OLD,))
    federation.nodes[2].keys = (NEW,)
    federation.start_all()
    federation.run_periods(30)
    assert [len(node.machine.nodes) for node in federation.nodes] == [1, 1, 0]
    assert set(federation.nodes[0].refused) == {DatagramRefusal.NO_KEY}


def test_a_clock_that_was_wrong_at_the_start_and_is_set_right_is_no_hindrance() -> None:
    federation = SimFederation(3)
    federation.nodes[1].clock.jump(3_600_000)
    federation.start_all()
    federation.run_periods(5)
    assert not federation.nodes[1].machine.nodes.present()
    federation.nodes[1].clock.correct()
    federation.periods_until(federation.is_agreed, LEARN_MAX)


# --- a liar


class Liar:
    """Hears everything, has not the key, and sends what it likes."""

    def __init__(self, federation: SimFederation) -> None:
        self._federation = federation
        self._jitter = SeededJitter("liar")
        self._heard: list[tuple[str, bytes]] = []
        federation.taps.append(lambda _, to, data: self._heard.append((to, data)))

    def lie(self, count: int) -> None:
        """Forged, cut, damaged, padded; not as it came: that is a replay."""
        for _ in range(count):
            to, data = self._jitter.pick(self._heard)
            self._send(to, self._forged(data))

    def replay(self, count: int | None = None) -> None:
        """The first so many datagrams, or all, to everybody."""
        for _, data in self._heard[:count]:
            for node in self._federation.nodes:
                self._send(node.address, data)

    def _forged(self, data: bytes) -> bytes:
        jitter = self._jitter
        how = jitter.draw(0, 5)
        if how == 0:
            return data[: jitter.draw(0, len(data))]
        if how == 1:
            damaged = bytearray(data)
            damaged[jitter.draw(0, len(data))] ^= 1 << jitter.draw(0, 8)
            return bytes(damaged)
        if how == 2:
            return data + jitter.draw_id()
        if how == 3:
            return data[:21] + b"\xdd\xff\xff\xff\xff" * 50
        number = jitter.draw(1_000, 101_000)
        made_up = NodeRecord(
            number.to_bytes(8, "big"), NodeKind.MEMBER, "made-up", b"x", "10.9.9.9:5000", 2**40
        )
        told = Datagram(
            self._federation.nodes[0].clock.wall_ms(),
            made_up.node_id,
            made_up.address,
            Sync(asks=True),
            (NodeUpdate(Standing.ALIVE, 0, made_up),) * 8,
        )
        return encode_datagram((KEY[0], b"guessed" * 4), told)

    def _send(self, to: str, data: bytes) -> None:
        for node in self._federation.nodes:
            if node.address == to:
                node.receive(data)


def test_a_liar_without_the_key_changes_nothing() -> None:
    federation = started(5)
    liar = Liar(federation)
    federation.run_periods(5)
    before = {node.number: [one.record for one in node.machine.nodes] for node in federation.nodes}
    liar.lie(20_000)
    after = {node.number: [one.record for one in node.machine.nodes] for node in federation.nodes}
    assert after == before
    refused = [why for node in federation.nodes for why in node.refused]
    assert len(refused) == 20_000
    assert {DatagramRefusal.BAD_MAC, DatagramRefusal.BAD_VERSION} <= set(refused)
    federation.run_periods(30)
    assert federation.is_agreed()


def test_what_is_sent_again_changes_nothing_either() -> None:
    federation = started(5)
    liar = Liar(federation)
    federation.run_periods(5)
    victim = federation.nodes[4]
    victim.leave()
    federation.run_periods(5)
    liar.replay()  # within the window: that it is there, from before it left
    assert all(thinks(node, victim, Standing.LEFT) for node in federation.running())
    federation.run_periods(GOSSIP_AGE_MS_MAX // GOSSIP_PERIOD_MS + 1)
    refused = sum(len(node.refused) for node in federation.running())
    liar.replay(50)
    assert sum(len(node.refused) for node in federation.running()) == refused + 4 * 50
    assert federation.is_agreed()
