"""Policies of queues and shares of clients; and what jobs and workers may say of needs."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.needs import PLACEMENTS
from rollq.grid.bounds import Bounds
from rollq.grid.commands import OpenWorker
from rollq.grid.effects import Done, Duplicate
from rollq.grid.events import AccessFact
from rollq.grid.rule_commands import PutPolicy, PutWeight, RemovePolicy
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import QueuePolicy
from tests.unit.grid.kit import Grid, kinds, refusal, submit, worker_id


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_policy_is_put_known_and_removed(placement: str) -> None:
    grid = Grid()
    (event,) = grid.apply(PutPolicy("render.>", placement, by="olga")).events
    assert (event.kind, event.queue, event.detail) == ("policy_put", "render.>", placement)
    assert event.access == AccessFact("olga")
    assert grid.ask(PutPolicy("render.>", placement)) == Duplicate()
    assert grid.state.policies == {"render.>": QueuePolicy("render.>", placement)}
    assert kinds(grid.apply(RemovePolicy("render.>"))) == ["policy_remove"]
    assert grid.ask(RemovePolicy("render.>")) == Done(0)


def test_weights_of_a_score_have_one_order() -> None:
    grid = Grid()
    grid.apply(PutPolicy("q", "score", (("running", 2), ("cpu", 1))))
    assert grid.ask(PutPolicy("q", "score", (("cpu", 1), ("running", 2)))) == Duplicate()


@pytest.mark.parametrize(
    "command",
    [
        PutPolicy("", "score"),
        PutPolicy("q" * 1_025, "score"),
        PutPolicy("q", "best"),
        PutPolicy("q", "sticky", (("cpu", 1),)),
        PutPolicy("q", "score", (("luck", 1),)),
        PutPolicy("q", "score", (("cpu", 1), ("cpu", 2))),
        PutPolicy("q", "score", (("cpu", -1),)),
        PutPolicy("q", "score", (("cpu", 1_001),)),
        PutWeight("", 2),
        PutWeight("a" * 257, 2),
        PutWeight("ann", 0),
        PutWeight("ann", 101),
    ],
)
def test_what_cannot_be_is_refused(command: PutPolicy | PutWeight) -> None:
    assert refusal(Grid().ask(command)) is ErrorCode.BAD_OPTIONS


def test_a_share_of_one_is_not_kept() -> None:
    grid = Grid()
    (event,) = grid.apply(PutWeight("ann", 3, "olga")).events
    assert (event.kind, event.client_id, event.count) == ("weight_put", "ann", 3)
    assert grid.ask(PutWeight("ann", 3)) == Duplicate()
    assert grid.ask(PutWeight("bob", 1)) == Duplicate()
    assert grid.state.weights == {"ann": 3}
    assert grid.ask(PutWeight("ann", 1)) == Done()
    assert grid.state.weights == {}


def test_both_tables_are_bounded() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(policies=1, weights=1)
    grid.apply(PutPolicy("q", "sticky"), PutWeight("ann", 2))
    assert refusal(grid.ask(PutPolicy("r", "sticky"))) is ErrorCode.GRID_FULL
    assert refusal(grid.ask(PutWeight("bob", 2))) is ErrorCode.GRID_FULL
    assert grid.ask(PutPolicy("q", "score")) == Done()
    assert grid.ask(PutWeight("ann", 5)) == Done()


def test_policies_and_shares_outlive_a_snapshot() -> None:
    grid = Grid()
    grid.apply(PutPolicy("q", "score", (("cpu", 1),)), PutPolicy("a.>", "sticky"))
    grid.apply(PutWeight("zoe", 2), PutWeight("ann", 3))
    copy = decode_snapshot(encode_snapshot(grid.state))
    assert copy.policies == grid.state.policies
    assert copy.weights == grid.state.weights


def test_a_worker_says_what_it_has() -> None:
    grid = Grid()
    offer = ("gpu", "zone=a"), (("cpu", 4_000), ("gpu", 1_000))
    grid.apply(OpenWorker(worker_id("w2"), 1, "w2", (">",), 4, (), 0, *offer))
    for state in (grid.state, decode_snapshot(encode_snapshot(grid.state))):
        worker = state.workers[worker_id("w2")]
        assert (worker.labels, worker.resources) == offer


@pytest.mark.parametrize("offer", [(("!gpu",), ()), ((), (("cpu", 0),))])
def test_a_worker_that_says_what_cannot_be_is_refused(offer: Any) -> None:
    command = OpenWorker(worker_id("w2"), 1, "w2", (">",), 4, (), 0, *offer)
    assert refusal(Grid().ask(command)) is ErrorCode.BAD_OPTIONS


@pytest.mark.parametrize(
    "options",
    [
        {"resources": (("cpu", -1),)},
        {"labels": ("zone=",)},
        {"limits": (("db", 0),)},
        {"sticky_key": "k" * 257},
    ],
)
def test_a_job_that_needs_what_cannot_be_is_refused(options: dict[str, Any]) -> None:
    assert refusal(Grid().ask(submit("a", **options))) is ErrorCode.BAD_OPTIONS
