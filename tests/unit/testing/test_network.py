from __future__ import annotations

from typing import Any

from rollq.testing.clock import SECOND, VirtualTimeline
from rollq.testing.jitter import Streams
from rollq.testing.network import NetFaults, Network, SessionLink
from rollq.testing.trace import Trace
from rollq.wire.messages import Credit, HelloWorker, HistoryFetch, Welcome


class FakeMember:
    def __init__(self, address: str) -> None:
        self.address = address
        self.reachable = True
        self.life = 1
        self.boot = 5
        self.key = b"key"
        self.heard: list[Any] = []
        self.gone: list[int] = []

    def receive_peer(self, sender: str, message: Any, boot: int, key: bytes) -> None:
        self.heard.append((sender, message, boot, key))

    def receive_session(self, session: int, message: Any) -> None:
        self.heard.append((session, message))

    def session_gone(self, session: int) -> None:
        self.gone.append(session)


class FakeEndpoint:
    name = "w1"

    def __init__(self) -> None:
        self.link: SessionLink | None = None
        self.heard: list[Any] = []
        self.refusals: list[int] = []
        self.losses = 0

    def connected(self, link: SessionLink) -> None:
        self.link = link

    def refused(self, ticket: int) -> None:
        self.refusals.append(ticket)

    def receive(self, link: SessionLink, message: Any) -> None:
        self.heard.append(message)

    def lost(self, link: SessionLink) -> None:
        self.losses += 1


class World:
    def __init__(self, **faults: int) -> None:
        self.timeline = VirtualTimeline()
        self.network = Network(self.timeline, Streams(1).net, Trace(self.timeline))
        self.network.faults = NetFaults(**faults)
        self.a, self.b = FakeMember("a"), FakeMember("b")
        self.network.members.update({"a": self.a, "b": self.b})
        self.endpoint = FakeEndpoint()

    def settle(self) -> None:
        self.timeline.run_until(self.timeline.now_us + 20 * SECOND)

    def send(self, count: int) -> list[Any]:
        for number in range(1, count + 1):
            self.network.send(self.a, "b", HistoryFetch(number, number))
        self.settle()
        return [message.first for _, message, _, _ in self.b.heard]

    def dial(self) -> SessionLink:
        self.network.dial(self.endpoint, "a", 1)
        assert self.endpoint.link is not None
        return self.endpoint.link


def test_a_good_network_delivers_everything_once_with_the_sender_its_boot_and_key() -> None:
    world = World()
    assert sorted(world.send(50)) == list(range(1, 51))
    told = {(sender, boot, key) for sender, _, boot, key in world.b.heard}
    assert told == {("a", 5, b"key")}


def test_loss_doubling_replay_and_lateness_happen_and_are_counted() -> None:
    world = World(
        loss_per_mille=200,
        double_per_mille=200,
        replay_per_mille=100,
        tail_per_mille=200,
        tail_ms_max=3_000,
    )
    heard = world.send(300)
    counts = world.network.counts
    assert len(set(heard)) == 300 - counts["lost"]
    assert len(heard) == 300 - counts["lost"] + counts["doubled"] + counts["replayed"]
    assert heard != sorted(heard)
    assert min(counts[kind] for kind in ("lost", "doubled", "replayed", "late")) > 5


def test_a_cut_is_one_way_and_takes_what_is_under_way() -> None:
    world = World()
    world.network.send(world.a, "b", HistoryFetch(1, 1))
    world.network.blocked["a", "b"] = None
    world.network.send(world.b, "a", HistoryFetch(2, 2))
    world.settle()
    assert world.b.heard == []
    assert len(world.a.heard) == 1
    world.network.heal()
    assert world.send(1) == [1]


def test_a_dead_member_hears_nothing() -> None:
    world = World()
    world.b.reachable = False
    assert world.send(3) == []


def test_a_session_keeps_its_order_both_ways() -> None:
    world = World(delay_ms_max=500)
    link = world.dial()
    for number in range(20):
        world.network.to_member(link, Credit(number))
        world.network.to_endpoint(link.number, Welcome("g", number))
    world.settle()
    assert [message.count for _, message in world.a.heard] == list(range(20))
    assert [message.member_id for message in world.endpoint.heard] == list(range(20))


def test_nobody_reaches_a_member_that_is_down_or_shut() -> None:
    world = World()
    world.network.shut["a"] = None
    world.network.dial(world.endpoint, "a", 4)
    world.b.reachable = False
    world.network.dial(world.endpoint, "b", 5)
    world.network.dial(world.endpoint, "nowhere", 6)
    world.settle()
    assert sorted(world.endpoint.refusals) == [4, 5, 6]


def test_a_cut_session_loses_what_is_under_way_and_both_ends_learn_of_it() -> None:
    world = World()
    link = world.dial()
    world.network.to_member(link, Credit(1))
    world.network.cut(link)
    world.network.to_member(link, Credit(2))
    world.network.cut(link)
    world.settle()
    assert world.a.heard == []
    assert world.a.gone == [link.number]
    assert world.endpoint.losses == 1


def test_a_member_that_closes_is_heard_out() -> None:
    world = World()
    link = world.dial()
    world.network.to_endpoint(link.number, Welcome("g", 1))
    world.network.close_by_member(link.number)
    world.settle()
    assert len(world.endpoint.heard) == 1
    assert world.endpoint.losses == 1
    assert world.a.gone == []


def test_a_session_belongs_to_one_life_of_its_member() -> None:
    world = World()
    link = world.dial()
    world.network.to_member(link, HelloWorker(b"w" * 16, (">",)))
    world.a.life = 2
    world.network.member_died(world.a)
    world.settle()
    assert world.a.heard == []
    assert world.a.gone == []
    assert world.endpoint.losses == 1


def test_an_endpoint_that_hangs_up_is_missed() -> None:
    world = World()
    link = world.dial()
    world.network.close_by_endpoint(link)
    world.network.close_by_endpoint(link, abrupt=True)
    world.settle()
    assert world.a.gone == [link.number]
    assert world.endpoint.losses == 0


def test_an_endpoint_whose_bytes_are_dropped_loses_its_connection_at_last() -> None:
    world = World()
    link = world.dial()
    world.network.blackholes["w1", "a"] = None
    world.network.to_member(link, Credit(1))
    world.network.heal()
    world.network.to_member(link, Credit(2))  # the stream is stuck: nothing overtakes
    world.settle()
    assert (world.a.heard, world.endpoint.losses) == ([], 0)
    world.settle()
    assert (world.a.heard, world.endpoint.losses) == ([], 1)


def test_an_endpoint_that_says_nothing_learns_that_the_member_closed_or_died() -> None:
    for end in ("closed", "died"):
        world = World()
        link = world.dial()
        world.network.blackholes["a", "w1"] = None
        if end == "closed":
            world.network.close_by_member(link.number)
        else:
            world.network.member_died(world.a)
        world.network.heal()
        world.settle()
        assert world.endpoint.losses == 1
