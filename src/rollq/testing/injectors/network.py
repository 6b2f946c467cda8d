"""Faults of the network: partitions of every shape, and sessions that break."""

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
    """Two sides that do not hear each other."""
    addresses = nemesis.shuffled([member.address for member in nemesis.cluster.members])
    cut = nemesis.chance.draw(1, len(addresses))
    block(nemesis, [(a, b) for a in addresses[:cut] for b in addresses[cut:]], both=True)
    return True


def one_way(nemesis: Nemesis) -> bool:
    """No other member hears one member, but that one hears."""
    addresses = nemesis.shuffled([member.address for member in nemesis.cluster.members])
    block(nemesis, [(addresses[0], other) for other in addresses[1:]], both=False)
    return True


def isolate_leader(nemesis: Nemesis) -> bool:
    """The leader alone, as often as not still hearing."""
    leader = nemesis.cluster.leader()
    if leader is None:
        return False
    others = [m.address for m in nemesis.cluster.members if m is not leader]
    pairs = [(leader.address, other) for other in others]
    block(nemesis, pairs, both=nemesis.chance.chance(700))
    return True


def choke_leader(nemesis: Nemesis) -> bool:
    """The next leader reaches no member, or one only, from its first message on."""
    nemesis.choke_next = True
    leader = nemesis.cluster.leader()
    if leader is not None and nemesis.chance.chance(700):
        isolate_leader(nemesis)
    return True


def elected(nemesis: Nemesis, member: SimMember) -> None:
    """A leader was just elected, and has sent no message yet."""
    if not nemesis.active or not nemesis.choke_next:
        return
    nemesis.choke_next = False
    others = nemesis.shuffled([m.address for m in nemesis.cluster.members if m is not member])
    heard = nemesis.chance.draw(0, 2)
    block(nemesis, [(member.address, other) for other in others[heard:]], both=False)


def flap(nemesis: Nemesis) -> bool:
    """One link that comes and goes."""
    a, b = nemesis.shuffled([member.address for member in nemesis.cluster.members])[:2]
    for time in range(nemesis.chance.draw(2, 6)):
        nemesis.timeline.after(time * 300 * MS, nemesis.if_active, lambda: toggle(nemesis, a, b))
    return True


def toggle(nemesis: Nemesis, a: str, b: str) -> None:
    """Cut a link, or mend it."""
    blocked = nemesis.cluster.network.blocked
    for pair in ((a, b), (b, a)):
        if pair in blocked:
            del blocked[pair]
        else:
            blocked[pair] = None


def block(nemesis: Nemesis, pairs: list[tuple[str, str]], *, both: bool, low_ms: int = 200) -> None:
    """Cut directed links for a while."""
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
    """Half of all sessions break."""
    links = list(nemesis.cluster.network.links.values())
    for link in links:
        if nemesis.chance.chance(500):
            nemesis.cluster.network.cut(link)
    return bool(links)


def shut_out(nemesis: Nemesis) -> bool:
    """No client and no worker reaches this member for a while."""
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
    """An attacker who knows the cluster speaks in the name of a member: terms that leap to the end,
    starts that never were, and newcomers in their place. Without the key it also says what a member
    might say: there is no telling it apart but by the key."""
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
    # It does not get what is sent to the members, so it cannot repeat their boots in an answer.
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
    """A member, often the leader, that some or all others cannot reach, or be reached from, and
    neither end is told: bytes vanish in one direction or both."""
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
