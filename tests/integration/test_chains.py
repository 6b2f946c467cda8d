"""Chains, groups and chords, against a real member and worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import rollq
from rollq import BlockingClient, Client, LocalError, RemoteError, celery, chain, chord, group
from rollq.base.flow_limits import PARENTS_PER_JOB_MAX
from tests.integration import functions_app as app
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid

APP = "tests.integration.functions_app"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    with SmallGrid(tmp_path_factory.mktemp("grid"), APP) as running:
        yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    running = rollq.connect(grid.address)
    yield running
    running.stop()


def test_each_gets_what_the_one_before_returned(client: BlockingClient) -> None:
    steps = app.plus.s(1, 2) | app.plus.s(3) | app.plus.s(right=4)
    assert steps.delay().get(DEADLINE_S) == 10
    assert chain(app.plus.s(2), app.plus_in_loop.s(3))(1).get(DEADLINE_S) == 6
    assert app.plus.s(2).delay(4).get(DEADLINE_S) == 6
    assert app.plus.s(2)(4) == 6, "called, it runs here"


def test_one_that_is_immutable_only_waits(client: BlockingClient) -> None:
    steps = app.plus.s(1, 2).set(countdown=0.1) | app.plus.si(5, 6) | app.plus.s(1)
    assert steps.apply_async().get(DEADLINE_S) == 12
    failing = app.divide.s(1, 0) | app.plus.si(5, 6)
    assert failing.delay().result(DEADLINE_S).cause == "parent"


def test_side_by_side_and_then_together(client: BlockingClient) -> None:
    members = group(app.plus.s(one, one) for one in range(4))
    assert members.delay().get(DEADLINE_S) == [0, 2, 4, 6]
    assert len(members()) == 4
    assert chord(members, app.halves.s()).delay().get(DEADLINE_S) == [0.0, 1.0, 2.0, 3.0]
    assert chord(members)(app.halves.s()).get(DEADLINE_S) == [0.0, 1.0, 2.0, 3.0]
    fan = app.plus.s(1, 1) | group(app.plus.s(1), app.plus.s(2) | app.plus.s(3)) | app.halves.s()
    assert fan.delay().get(DEADLINE_S) == [1.5, 3.5]


def test_a_chord_of_as_many_as_a_job_may_wait_for(client: BlockingClient) -> None:
    members = group(app.plus.s(one, one) for one in range(PARENTS_PER_JOB_MAX))
    halves = chord(members, app.halves.s()).delay().get(DEADLINE_S)
    assert halves == [float(one) for one in range(PARENTS_PER_JOB_MAX)]


def test_what_one_raises_comes_out_at_the_end(client: BlockingClient) -> None:
    with pytest.raises(ZeroDivisionError):
        (app.divide.s(1, 0) | app.plus.s(1) | app.plus.s(2)).delay().get(DEADLINE_S)
    with pytest.raises(ZeroDivisionError):
        chord([app.plus.s(1, 1), app.divide.s(1, 0)], app.halves.s()).delay().get(DEADLINE_S)
    with pytest.raises(ZeroDivisionError):
        group(app.plus.s(1, 1), app.divide.s(1, 0)).delay().get(DEADLINE_S)


def test_nothing_is_submitted_of_what_cannot_be_meant_so(client: BlockingClient) -> None:
    with pytest.raises(TypeError, match="missing a required argument"):
        (app.plus.s(1, 2) | app.divide.s()).delay()
    with pytest.raises(TypeError, match="cannot be serialized"):
        (app.plus.s(1, 2) | app.plus.s(print)).delay()
    with pytest.raises((LocalError, RemoteError)):
        (app.plus.s(1, 2) | app.plus.s(3).set(after=["no id"])).delay()
    with pytest.raises(LocalError, match="no steps"):
        group()
    with pytest.raises(LocalError, match="no steps"):
        chain()


def test_in_an_event_loop(grid: SmallGrid) -> None:
    async def story() -> None:
        async with Client(grid.address) as own:
            job = await own.submit_steps(app.plus.s(1, 2) | app.plus.s(3))
            assert await job.get(DEADLINE_S) == 6
            members = await own.submit_steps(group(app.plus.s(1, 2), app.plus.s(3, 4)))
            assert await members.get(DEADLINE_S) == [3, 7]

    asyncio.run(story())


def test_by_the_names_of_celery(client: BlockingClient) -> None:
    plus, halves = celery.CeleryTask(app.plus), celery.CeleryTask(app.halves)
    done = celery.chain(plus.s(4, 4), plus.s(8))()
    assert (done.get(timeout=DEADLINE_S), done.successful()) == (16, True)
    members = celery.group(plus.s(one, one) for one in range(3))()
    assert members.get(timeout=DEADLINE_S) == [0, 2, 4]
    assert members.ready()
    header = [plus.s(one, one) for one in range(3)]
    assert celery.chord(header)(halves.s()).get(timeout=DEADLINE_S) == [0.0, 1.0, 2.0]
    assert (plus.s(1, 2) | plus.si(5, 6)).delay().get(timeout=DEADLINE_S) == 11


def test_what_is_no_step_is_told_at_once() -> None:
    wrong: Any = app.plus
    for make in (
        lambda: chain(wrong, wrong),
        lambda: app.plus.s(1, 2) | wrong,
        lambda: group([wrong]),
        lambda: group(wrong),
        lambda: chord([app.plus.s(1, 2)], wrong),
    ):
        with pytest.raises(TypeError, match=r"is no step: write plus\.s\(…\)"):
            make()
    with pytest.raises(TypeError, match="1 is no step: write f"):
        group([1])  # type: ignore[list-item]
