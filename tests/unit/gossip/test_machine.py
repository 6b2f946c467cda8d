from __future__ import annotations

import msgspec
import pytest

from rollq.base.federation_limits import (
    GOSSIP_ACK_MS,
    GOSSIP_DEAD_MS_MAX,
    GOSSIP_LEFT_MS_MAX,
    GOSSIP_NEWS_MAX,
    GOSSIP_NODES_MAX,
    GOSSIP_PERIOD_MS,
    GOSSIP_PROBES_MAX,
    GOSSIP_TICK_MS,
)
from rollq.gossip.machine import GossipMachine, OwnState, Send
from rollq.gossip.nodes import Change, NodeTable
from rollq.gossip.records import Ack, Figures, NodeUpdate, Probe, ProbeFor, Standing, Sync
from rollq.gossip.spread import Spread
from tests.unit.gossip.kit import alive, datagram, machine, node_id, record


def run(node: GossipMachine, first_ms: int, last_ms: int) -> list[tuple[int, Send]]:
    """Looks at the clock, and what was sent when."""
    sent = []
    for now_ms in range(first_ms, last_ms, GOSSIP_TICK_MS):
        sent += [(now_ms, send) for send in node.tick(now_ms)]
    return sent


def knowing(*numbers: int) -> GossipMachine:
    node = machine()
    node.receive(datagram(2, Sync(asks=False), *(alive(number) for number in numbers)), 0)
    return node


def standing(node: GossipMachine, number: int) -> Standing | None:
    found = node.nodes.get(node_id(number))
    return None if found is None else found.standing


def test_a_new_node_asks_its_seeds_for_everything_until_one_is_there() -> None:
    node = machine(2, 3)
    first = [send for _, send in run(node, 0, GOSSIP_TICK_MS)]
    assert {send.address for send in first} == {"10.0.0.2:5000", "10.0.0.3:5000"}
    assert all(send.message == Sync(asks=True) for send in first)
    assert all(send.updates == (NodeUpdate(Standing.ALIVE, 0, node.me),) for send in first)
    again = run(node, GOSSIP_TICK_MS, 4 * GOSSIP_PERIOD_MS)
    assert {send.address for _, send in again} == {"10.0.0.2:5000", "10.0.0.3:5000"}


def test_its_own_address_is_no_seed() -> None:
    assert run(machine(1), 0, 5_000) == []


def test_who_asks_gets_everything_itself_and_who_asks_first() -> None:
    node = knowing(2, 3, 4)
    node.receive(datagram(3, Sync(asks=True), alive(3)), 0)
    (page,) = [
        s for s in node.tick(0) if s.address == "10.0.0.3:5000" and s.message == Sync(asks=False)
    ]
    told = [update.record.node_id for update in page.updates]
    assert told[:2] == [node_id(1), node_id(3)]
    assert sorted(told) == [node_id(number) for number in (1, 2, 3, 4)]


def test_who_is_not_known_gets_nothing_and_who_asks_too_often_gets_it_once() -> None:
    node = knowing(2)
    node.tick(0)
    node.receive(datagram(9, Sync(asks=True)), 10)
    for _ in range(100):
        node.receive(datagram(2, Sync(asks=True)), 10)
    assert [send.address for send in node.tick(20)] == ["10.0.0.2:5000"]


def test_everything_goes_in_pages() -> None:
    node = knowing(2)
    for number in range(3, 103):
        node.receive(datagram(2, Sync(asks=False), alive(number)), 0)
    node.receive(datagram(2, Sync(asks=True)), 0)
    sent = [send for _, send in run(node, 0, 900) if send.address == "10.0.0.2:5000"]
    pages = [send for send in sent if send.message == Sync(asks=False)]
    assert len(pages) > 5
    told = [update.record.node_id for page in pages for update in page.updates]
    assert len(told) == len(set(told)) == 102


def test_every_node_is_probed_before_one_is_probed_again() -> None:
    node = knowing(*range(2, 10))
    rounds: list[bytes] = []
    for period in range(24):
        for send in node.tick(period * GOSSIP_PERIOD_MS):
            if isinstance(send.message, Probe):
                rounds.append(send.message.target)
                ack = Ack(send.message.number, send.message.target)
                node.receive(
                    datagram(int.from_bytes(send.message.target, "big"), ack), period * 1000
                )
    eight = {node_id(number) for number in range(2, 10)}
    assert [set(rounds[first : first + 8]) for first in (0, 8, 16)] == [eight] * 3
    assert rounds[:8] != rounds[8:16]  # shuffled anew
    assert all(standing(node, number) is Standing.ALIVE for number in range(2, 10))


def test_who_does_not_answer_is_probed_by_others_then_suspected_then_dead() -> None:
    node = knowing(2, 3, 4, 5, 6)
    lost = node_id(4)
    helpers: list[str] = []
    since_ms: dict[Standing, int] = {}
    for now_ms in range(0, 20_000, GOSSIP_TICK_MS):
        for send in node.tick(now_ms):
            if isinstance(send.message, Probe) and send.message.target != lost:
                number = int.from_bytes(send.message.target, "big")
                node.receive(
                    datagram(number, Ack(send.message.number, send.message.target)), now_ms
                )
            elif isinstance(send.message, ProbeFor) and Standing.SUSPECT not in since_ms:
                assert send.message.target == lost
                helpers.append(send.address)
        since_ms.setdefault(standing(node, 4) or Standing.ALIVE, now_ms)
    assert len(set(helpers)) == len(helpers) == 3
    assert "10.0.0.4:5000" not in helpers
    assert list(since_ms) == [Standing.ALIVE, Standing.SUSPECT, Standing.DEAD]
    # Six nodes: a logarithm of 3. At the next look after that time.
    waited_ms = since_ms[Standing.DEAD] - since_ms[Standing.SUSPECT]
    assert waited_ms == 2 * 3 * GOSSIP_PERIOD_MS + GOSSIP_TICK_MS


def test_an_ack_by_a_helper_counts() -> None:
    node = knowing(2, 3)
    (probe,) = [send for send in node.tick(0) if isinstance(send.message, Probe)]
    assert isinstance(probe.message, Probe)
    node.tick(GOSSIP_ACK_MS)
    helper = 2 if probe.message.target == node_id(3) else 3
    node.receive(datagram(helper, Ack(probe.message.number, probe.message.target)), 900)
    node.tick(GOSSIP_PERIOD_MS)
    assert [standing(node, number) for number in (2, 3)] == [Standing.ALIVE] * 2


@pytest.mark.parametrize("wrong", ["number", "target"])
def test_an_ack_of_something_else_does_not(wrong: str) -> None:
    node = knowing(2)
    (probe,) = [send for send in node.tick(0) if isinstance(send.message, Probe)]
    assert isinstance(probe.message, Probe)
    other = {"number": probe.message.number + 1, "target": node_id(7)}[wrong]
    ack = Ack(probe.message.number, probe.message.target)
    node.receive(datagram(2, msgspec.structs.replace(ack, **{wrong: other})), 100)
    node.tick(GOSSIP_PERIOD_MS)
    assert standing(node, 2) is Standing.SUSPECT


def test_a_probe_is_answered_by_whom_it_is_for_alone() -> None:
    node = knowing(2)
    (answer,) = node.receive(datagram(2, Probe(7, node_id(1))), 0)
    assert (answer.address, answer.message) == ("10.0.0.2:5000", Ack(7, node_id(1)))
    assert node.receive(datagram(2, Probe(7, node_id(9))), 0) == []


def test_it_probes_for_others_and_passes_the_ack_on() -> None:
    node = knowing(2, 3)
    (probe,) = node.receive(datagram(2, ProbeFor(70, node_id(3))), 0)
    assert isinstance(probe.message, Probe)
    assert (probe.address, probe.message.target) == ("10.0.0.3:5000", node_id(3))
    (ack,) = node.receive(datagram(3, Ack(probe.message.number, node_id(3))), 5)
    assert (ack.address, ack.message) == ("10.0.0.2:5000", Ack(70, node_id(3)))
    assert node.receive(datagram(3, Ack(probe.message.number, node_id(3))), 6) == []  # once
    assert node.receive(datagram(2, ProbeFor(71, node_id(99))), 7) == []  # whom it does not know


def test_probes_for_others_are_bounded() -> None:
    node = knowing(2, 3)
    numbers = []
    for number in range(GOSSIP_PROBES_MAX + 1):
        (probe,) = node.receive(datagram(2, ProbeFor(number, node_id(3))), 0)
        assert isinstance(probe.message, Probe)
        numbers.append(probe.message.number)
    assert node.receive(datagram(3, Ack(numbers[0], node_id(3))), 1) == []  # forgotten
    assert len(node.receive(datagram(3, Ack(numbers[-1], node_id(3))), 1)) == 1


def test_news_ride_newest_first_each_a_bounded_number_of_times() -> None:
    node = knowing(2, 3, 4)
    (answer,) = node.receive(datagram(2, Probe(1, node_id(1))), 0)
    assert [update.record.node_id for update in answer.updates] == [
        node_id(n) for n in (4, 3, 2, 1)
    ]
    for number in range(2, 100):
        (answer,) = node.receive(datagram(2, Probe(number, node_id(1))), 0)
    assert answer.updates == ()
    assert node.update_count == 0


def test_a_suspicion_is_refuted_by_a_higher_incarnation() -> None:
    node = knowing(2, 3)
    before = node.me.incarnation
    said = NodeUpdate(Standing.SUSPECT, 0, node.me)
    (answer,) = node.receive(datagram(2, Probe(1, node_id(1)), said), 0)
    assert node.me.incarnation == before + 1
    assert answer.updates[0] == NodeUpdate(Standing.ALIVE, 0, node.me)
    node.receive(datagram(2, Probe(2, node_id(1)), said), 1)  # old: it was refuted
    assert node.me.incarnation == before + 1


def test_what_is_known_of_an_earlier_life_is_outbid() -> None:
    node = knowing(2)
    node.receive(datagram(2, Sync(asks=False), alive(1, incarnation=5_000)), 0)
    assert node.me.incarnation == 5_001
    node.receive(datagram(2, Sync(asks=False), NodeUpdate(Standing.LEFT, 9, node.me)), 0)
    assert node.me.incarnation == 5_002
    node.receive(datagram(2, Sync(asks=False), NodeUpdate(Standing.ALIVE, 0, node.me)), 0)
    assert node.me.incarnation == 5_002  # as it is


def test_a_suspect_is_told_first_so_that_it_can_refute() -> None:
    node = knowing(2, *range(10, 60))
    suspect = NodeUpdate(Standing.SUSPECT, 0, record(2))
    node.receive(datagram(10, Probe(1, node_id(1)), suspect), 0)
    for number in range(60, 90):
        node.receive(datagram(10, Probe(1, node_id(1)), alive(number)), 0)
    (answer,) = node.receive(datagram(2, Probe(2, node_id(1))), 1)
    assert answer.updates[0] == suspect


def test_a_node_that_was_stopped_blames_nobody() -> None:
    node = knowing(2, 3)
    node.receive(datagram(3, Probe(1, node_id(1)), NodeUpdate(Standing.SUSPECT, 0, record(2))), 0)
    node.tick(0)
    node.tick(3_600_000)  # an hour later: nobody was heard, and it was not there to hear
    assert [standing(node, number) for number in (2, 3)] == [Standing.SUSPECT, Standing.ALIVE]


def test_who_leaves_says_so_and_is_silent() -> None:
    node = knowing(2, 3)
    before = node.me.incarnation
    sends = node.leave()
    assert {send.address for send in sends} == {"10.0.0.2:5000", "10.0.0.3:5000"}
    assert all(send.updates == (NodeUpdate(Standing.LEFT, 0, node.me),) for send in sends)
    assert node.me.incarnation > before
    assert node.receive(datagram(2, Probe(1, node_id(1))), 1) == []


def test_what_it_says_of_itself_is_news_once() -> None:
    node = knowing(2)
    own = OwnState(b"cluster", leads=True, term=7, figures=Figures(3, 2, 10, 4, 1))
    node.set_own_state(own)
    incarnation = node.me.incarnation
    assert (node.me.leads, node.me.term, node.me.figures.queued) == (True, 7, 10)
    node.set_own_state(own)
    assert node.me.incarnation == incarnation


# --- the table


def test_higher_incarnations_win_then_worse_standings() -> None:
    table = NodeTable()
    merged = [
        table.merge(NodeUpdate(how, 0, record(2, incarnation=number)), 0, is_page=False)
        for number, how in (
            (5, Standing.ALIVE),
            (4, Standing.DEAD),  # older
            (5, Standing.ALIVE),  # the same
            (5, Standing.SUSPECT),
            (5, Standing.ALIVE),
            (5, Standing.DEAD),
            (6, Standing.ALIVE),
        )
    ]
    assert merged == [True, False, False, True, False, True, True]
    assert [(one.standing, one.before) for one in table.take_changes()] == [
        (Standing.ALIVE, None),
        (Standing.SUSPECT, Standing.ALIVE),
        (Standing.DEAD, Standing.SUSPECT),
        (Standing.ALIVE, Standing.DEAD),
    ]
    assert table.take_changes() == []


def test_who_is_dead_for_somebody_who_was_cut_off_is_a_suspect_here() -> None:
    table = NodeTable()
    table.merge(alive(2), 0, is_page=False)
    table.merge(NodeUpdate(Standing.DEAD, 5, record(2)), 0, is_page=True)
    assert table.take_changes()[-1] == Change(record(2), Standing.SUSPECT, Standing.ALIVE)


def test_a_suspect_has_its_whole_time_to_refute_however_long_others_thought_it_dead() -> None:
    table = NodeTable()
    table.merge(alive(2), 0, is_page=False)
    table.merge(NodeUpdate(Standing.DEAD, 50, record(2)), 60_000, is_page=True)
    suspect = table.get(node_id(2))
    assert suspect is not None
    assert (suspect.standing, suspect.since_ms) == (Standing.SUSPECT, 60_000)


def test_a_suspect_that_refuted_elsewhere_and_is_suspected_again_has_its_time_anew() -> None:
    table = NodeTable()
    table.merge(NodeUpdate(Standing.SUSPECT, 0, record(2, incarnation=5)), 0, is_page=False)
    table.merge(NodeUpdate(Standing.SUSPECT, 0, record(2, incarnation=5)), 900, is_page=False)
    suspect = table.get(node_id(2))
    assert suspect is not None
    assert suspect.since_ms == 0
    table.merge(NodeUpdate(Standing.SUSPECT, 0, record(2, incarnation=7)), 1_000, is_page=False)
    assert (suspect.standing, suspect.since_ms) == (Standing.SUSPECT, 1_000)


@pytest.mark.parametrize(
    ("how", "kept_ms"),
    [(Standing.DEAD, GOSSIP_DEAD_MS_MAX), (Standing.LEFT, GOSSIP_LEFT_MS_MAX)],
)
def test_all_forget_who_is_gone_at_the_same_time(how: Standing, kept_ms: int) -> None:
    table = NodeTable()
    table.merge(NodeUpdate(how, kept_ms // 1000 - 10, record(2)), 1_000, is_page=True)
    table.forget_gone(10_000)
    assert len(table) == 1
    table.forget_gone(12_000)
    assert len(table) == 0
    table.merge(NodeUpdate(how, kept_ms // 1000 + 1, record(2)), 12_000, is_page=True)
    assert len(table) == 0  # nobody teaches it again


def test_a_new_node_at_the_address_of_a_dead_one_takes_its_place() -> None:
    table = NodeTable()
    table.merge(NodeUpdate(Standing.DEAD, 0, record(2)), 0, is_page=False)
    table.merge(alive(3, address=record(2).address), 0, is_page=False)
    assert [node.record.node_id for node in table] == [node_id(3)]
    table.merge(NodeUpdate(Standing.DEAD, 0, record(2)), 0, is_page=False)
    assert [node.record.node_id for node in table] == [node_id(3)]


def test_a_full_table_takes_in_nobody_but_in_place_of_the_dead() -> None:
    table = NodeTable(nodes_max=3)
    for number in (2, 3, 4, 5):
        table.merge(alive(number), 0, is_page=False)
    assert (len(table), table.dropped_count) == (3, 1)
    dead = table.get(node_id(3))
    assert dead is not None
    table.set_standing(dead, Standing.DEAD, 5)
    table.merge(NodeUpdate(Standing.DEAD, 0, record(6)), 6, is_page=False)
    assert table.get(node_id(6)) is None
    table.merge(alive(6), 6, is_page=False)
    assert table.get(node_id(3)) is None
    assert table.get(node_id(6)) is not None
    assert len(table) == 3


def test_a_hundred_thousand_made_up_nodes_take_no_more_than_the_bounds() -> None:
    node = knowing(2)
    for number in range(1_000, 101_000):
        address = f"10.{number // 62_500}.{number // 250 % 250}.{number % 250}:5000"
        node.receive(datagram(2, Probe(0, node_id(9)), alive(number, address=address)), 0)
    assert len(node.nodes) == GOSSIP_NODES_MAX
    assert node.update_count == GOSSIP_NEWS_MAX
    assert node.nodes.dropped_count == 100_000 - GOSSIP_NODES_MAX + 1
    assert standing(node, 2) is Standing.ALIVE


def test_news_beyond_the_bound_push_out_the_oldest() -> None:
    spread = Spread(news_max=2)
    for number in (1, 2, 3):
        spread.add(node_id(number), 2)
    assert spread.newest_first() == [node_id(3), node_id(2)]
    spread.count_send(node_id(3))
    spread.count_send(node_id(3))
    assert spread.newest_first() == [node_id(2)]
    spread.drop(node_id(2))
    assert len(spread) == 0
