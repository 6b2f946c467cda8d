"""The budget of a job: which stage a module belongs to, and how CPU time is divided."""

from __future__ import annotations

import importlib.util
from types import FrameType

import pytest

from bench.budget import stages
from bench.budget.__main__ import Row, budget, table
from bench.budget.sampler import LOOP, THREADS, Sampler, place_of
from bench.cpu import CpuUse


@pytest.mark.parametrize("told", [stages.MEMBER, stages.WORKER, stages.CLIENT])
def test_every_stage_is_of_modules_that_exist(told: dict[str, str]) -> None:
    names = set(told) - {LOOP, THREADS}
    assert [name for name in names if importlib.util.find_spec(name) is None] == []


@pytest.mark.parametrize(
    ("module", "stage"),
    [
        ("rollq.policy.expiry", "timers: leases, results kept"),
        ("rollq.policy.lanes:Lanes.take", "dispatch: who gets what"),
        ("rollq.wire.compact", stages.MESSAGES),
        ("rollq.cli.leader", stages.SETUP),
        ("rollq.spark", stages.REST),
        (THREADS, "other threads: writes and syncs"),
    ],
)
def test_the_longest_prefix_counts(module: str, stage: str) -> None:
    assert stages.stage_of(module, stages.MEMBER) == stage


def test_time_of_start_and_end_is_no_jobs() -> None:
    told = stages.by_stage(
        {"rollq.cli.main": 1, "rollq.raft.node": 2, "rollq.raft.log": 3}, stages.MEMBER
    )
    assert told == {"consensus": 5}
    functions = {"rollq.cli.main:main": 1.0, "rollq.raft.node:tick": 2.0}
    assert stages.by_function(functions, stages.MEMBER) == {"raft.node:tick": 2.0}


def frame_in(*modules: str) -> FrameType:
    """A stack of functions of these modules, the outermost first."""
    source = "import sys\ndef call(inner):\n    return inner() if inner else sys._getframe()\n"
    inner = None
    for name in reversed(modules):
        space: dict[str, object] = {"__name__": name}
        exec(source, space)  # its globals name the module
        call = space["call"]

        def bound(call: object = call, inner: object = inner) -> object:
            return call(inner)  # type: ignore[operator]

        inner = bound
    assert inner is not None
    frame = inner()
    assert isinstance(frame, FrameType)
    return frame


def test_the_innermost_module_that_is_no_helper_is_at_work() -> None:
    assert place_of(frame_in("rollq.raft.node", "rollq.grid.apply")) == "rollq.grid.apply:call"
    helped = frame_in("rollq.grid.apply", "rollq.base.ids", "json")
    assert place_of(helped) == "rollq.grid.apply:call"
    assert place_of(frame_in("asyncio")) == LOOP
    assert place_of(None) == LOOP


def test_other_threads_are_charged_apart() -> None:
    sampler = Sampler()
    sampler.charge("rollq.raft.node", main_s=1.0, all_s=1.5)
    sampler.charge(LOOP, main_s=1.2, all_s=1.7)
    assert {name: round(used, 6) for name, used in sampler.seconds.items()} == {
        "rollq.raft.node": 1.0,
        LOOP: 0.2,
        THREADS: 0.5,
    }


def test_a_process_is_divided_as_its_samples_are() -> None:
    told = {"a": 3.0, "b": 1.0, stages.REST: 0.0}
    rows = list(budget([("member", 8.0, told)], CpuUse(all=9.0, upkeep=1.0), 1_000_000, 0.05))
    assert rows == [
        Row("member", "", 8.0),
        Row("member", "a", 6.0),
        Row("member", "b", 2.0),
        Row("its children", "", 1.0),
        Row("all", "", 9.0),
    ]
    assert list(table(rows))[2:4] == ["| **member** | | **8.0** |", "| | a | 6.0 |"]
