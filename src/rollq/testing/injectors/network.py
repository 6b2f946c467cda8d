"""Faults of the network: partitions of every shape, and broken sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    RequestVote,
    TimeoutNow,
    VoteResponse,
)
from rollq.store.identity import NONCE_BITS
from rollq.testing.clock import MS
from rollq.testing.sim_member import SimMember
from rollq.wire.messages import RollAnswer

if TYPE_CHECKING:
    from rollq.testing.nemesis import Nemesis


def partition(nemesis: Nemesis) -> bool:
    """Partition the members into two sides."""
    addresses = nemesis.shuffled([member.address for member in nemesis.cluster.members])
    cut = nemesis.chance.draw(1, len(addresses))
    block(nemesis, [(a, b) for a in addresses[:cut] for b in addresses[cut:]], both=True)
    return True


def one_way(nemesis: Nemesis) -> bool:
    """One member cannot send to the others, but receives."""
    addresses = nemesis.shuffled([member.address for member in nemesis.cluster.members])
    block(nemesis, [(addresses[0], other) for other in addresses[1:]], both=False)
    return True


def isolate_leader(nemesis: Nemesis) -> bool:
    """Isolate the leader, fully or in the sending direction only."""
    leader = nemesis.cluster.leader()
    if leader is None:
        return False
    others = [m.address for m in nemesis.cluster.members if m is not leader]
    pairs = [(leader.address, other) for other in others]
    block(nemesis, pairs, both=nemesis.chance.chance(700))
    return True


def choke_leader(nemesis: Nemesis) -> bool:
    """The next leader reaches at most one member, from its first message on."""
    nemesis.choke_next = True
    leader = nemesis.cluster.leader()
    if leader is not None and nemesis.chance.chance(700):
        isolate_leader(nemesis)
    return True


def elected(nemesis: Nemesis, member: SimMember) -> None:
    """Called when a leader is elected, before its first message."""
    if not nemesis.active or not nemesis.choke_next:
        return
    nemesis.choke_next = False
    others = nemesis.shuffled([m.address for m in nemesis.cluster.members if m is not member])
    heard = nemesis.chance.draw(0, 2)
    block(nemesis, [(member.address, other) for other in others[heard:]], both=False)


def flap(nemesis: Nemesis) -> bool:
    """One link fails and recovers repeatedly."""
    a, b = nemesis.shuffled([member.address for member in nemesis.cluster.members])[:2]
    for time in range(nemesis.chance.draw(2, 6)):
        nemesis.timeline.after(time * 300 * MS, nemesis.if_active, lambda: toggle(nemesis, a, b))
    return True


def toggle(nemesis: Nemesis, a: str, b: str) -> None:
    """Block a link, or unblock it."""
    blocked = nemesis.cluster.network.blocked
    for pair in ((a, b), (b, a)):
        if pair in blocked:
            del blocked[pair]
        else:
            blocked[pair] = None


def block(nemesis: Nemesis, pairs: list[tuple[str, str]], *, both: bool, low_ms: int = 200) -> None:
    """Block directed links for a while."""
    pairs = pairs + [(b, a) for a, b in pairs] if both else pairs
    blocked = nemesis.cluster.network.blocked
    for pair in pairs:
        blocked[pair] = None
        if nemesis.chance.chance(300):  # some connections notice at once
            nemesis.cluster.by_address[pair[1]].link_broke(pair[0])

    def unblock() -> None:
        for pair in pairs:
            blocked.pop(pair, None)

    nemesis.later(low_ms, low_ms + 3_800, unblock)


def cut_sessions(nemesis: Nemesis) -> bool:
    """Break half of all sessions."""
    links = list(nemesis.cluster.network.links.values())
    for link in links:
        if nemesis.chance.chance(500):
            nemesis.cluster.network.cut(link)
    return bool(links)


def shut_out(nemesis: Nemesis) -> bool:
    """Make a member unreachable for clients and workers for a while."""
    network = nemesis.cluster.network
    address = nemesis.chance.pick(nemesis.cluster.members).address
    network.shut[address] = None
    for link in [link for link in network.links.values() if link.member.address == address]:
        network.cut(link)

    def let_in() -> None:
        network.shut.pop(address, None)

    nemesis.later(300, 3_000, let_in)
    return True


def forge(nemesis: Nemesis) -> bool:
    """An attacker who knows the cluster impersonates a member: extreme terms, restarts that never
    happened, and new members in its place. While the members use no key it also sends valid
    messages, which only a key could tell from real ones."""
    up = [member for member in nemesis.cluster.members if member.driver is not None]
    if len(up) < 2:
        return False
    chance = nemesis.chance
    victim = chance.pick(up)
    named = chance.pick([member for member in up if member is not victim])
    if victim.driver is None or named.driver is None:
        return False
    to, sender = victim.driver.raft.member_id, named.driver.raft.member_id
    term = chance.pick((2**63 - 1, 2**62, 2**32))
    boot = named.driver.roll.boot
    hello = named.driver.hello(victim.address)
    later = hello.boot + (1 << NONCE_BITS)
    words: list[Any] = [
        RequestVote(to, sender, term, 2**62, 2**62, transfer=True),
        RequestVote(to, sender, term, 2**62, 2**62, pre=True),
        AppendEntries(to, sender, term, 0, 0, 2**62),
        VoteResponse(to, sender, term, granted=False, commit=2**62, commit_term=2**62),
    ]
    # It does not receive the members' messages, so it cannot echo their boot numbers.
    told = tuple((one.driver.raft.member_id, later) for one in up if one.driver is not None)
    words += [replace(hello, boot=later, lives=(*hello.lives[1:], later))] * 3
    words += [
        replace(hello, member_id=chance.draw(1, 1 << 56), newcomer=True),
        RollAnswer(sender, named.address, hello.cluster_id, later, later, boots=told),
    ]
    key = chance.pick((b"", named.key))
    if not key and victim.driver.roll.keys.is_guarded:
        raft = victim.driver.raft
        words += [
            VoteResponse(to, sender, raft.term, granted=True),
            AppendResponse(to, sender, raft.term, raft.last_index),
            TimeoutNow(to, sender, raft.term),
        ] * 3
    victim.receive_peer(named.address, chance.pick(words), boot, key)
    return True


def blackhole(nemesis: Nemesis) -> bool:
    """Drop all packets between a member, often the leader, and some or all other processes, in one
    direction or both, without an error on either end."""
    cluster, chance = nemesis.cluster, nemesis.chance
    member = nemesis.some_up()
    if member is None:
        return False
    names = [one.address for one in cluster.members if one is not member]
    names += [*(one.name for one in cluster.workers), *cluster.clients]
    names = names if chance.chance(500) else [name for name in names if chance.chance(500)]
    direction = chance.pick(("both", "both", "out", "in"))
    ways = [(member.address, name) for name in names if direction != "in"]
    ways += [(name, member.address) for name in names if direction != "out"]
    blackholes = cluster.network.blackholes
    blackholes.update(dict.fromkeys(ways))

    def let_through() -> None:
        for way in ways:
            blackholes.pop(way, None)

    nemesis.later(500, 8_000, let_through)
    return bool(ways)
