"""What the benchmarks of flows and schedules find in a history that is wrong."""

from __future__ import annotations

from bench.flows import kills
from bench.flows.graph import node_id
from bench.schedules import judge, read
from rollq.base.ids import guid_to_text
from rollq.history.schema import HistoryRow

WIDTH = 2  # node 2 waits for 0 and 1


def row(index: int, kind: str, number: int, status: int = 0) -> HistoryRow:
    return HistoryRow(index, 0, 0, kind, guid_to_text(node_id(number)), status=status)


def life(number: int, at: int) -> list[HistoryRow]:
    return [row(at, "assign", number), row(at + 1, "ack", number)]


def test_a_flow_in_order_has_nothing_wrong() -> None:
    told = kills.judge([*life(0, 1), *life(1, 3), *life(2, 5)], 3, WIDTH)
    assert set(told.values()) == {0.0}


def test_what_is_wrong_with_a_flow_is_counted() -> None:
    early = kills.judge([*life(0, 1), *life(2, 3), *life(1, 5)], 3, WIDTH)
    assert (early["before_a_parent"], early["not_ended_ok"]) == (1, 0)
    twice = kills.judge([*life(0, 1), *life(1, 3), *life(1, 5)], 3, WIDTH)
    assert (twice["ended_twice"], twice["given_again"], twice["not_ended_ok"]) == (1, 1, 1)
    failed = kills.judge([*life(0, 1), row(3, "assign", 1), row(4, "ack", 1, status=1)], 2, WIDTH)
    assert failed["not_ended_ok"] == 1


def fired(second: int, job: str) -> list[HistoryRow]:
    detail = f"s0@1970-01-01T00:00:0{second}Z"
    return [
        HistoryRow(1, 0, 1_000 * second + 7, "enqueue", job),
        HistoryRow(1, 1, 1_000 * second + 7, "schedule_fire", job, detail=detail),
        HistoryRow(2, 0, 1_000 * second + 9, "ack", job),
    ]


def test_every_instant_is_asked_for() -> None:
    missed = HistoryRow(3, 0, 0, "schedule_miss", detail="s0 1970-01-01T00:00:03Z", count=2)
    told = judge(read([*fired(1, "a"), *fired(2, "b"), missed]), {"s0": 1_000}, 5_000)
    wrong = ("instants_untold", "instants_twice", "jobs_not_ended", "jobs_twice")
    assert [told[key] for key in wrong] == [0, 0, 0, 0]
    assert (told["missed"], told["late_max_ms"]) == (2, 7)


def test_instants_that_are_lost_or_doubled_are_counted() -> None:
    told = judge(read([*fired(1, "a"), *fired(1, "a"), *fired(3, "b")[:2]]), {"s0": 1_000}, 4_000)
    assert (told["instants_untold"], told["instants_twice"]) == (1, 1)
    assert (told["jobs_not_ended"], told["jobs_twice"]) == (1, 1)
