import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.grid.bounds import Bounds
from rollq.grid.commands import (
    ConfirmResults,
    ForgetJobs,
    OpenClient,
    PauseQueue,
    ResumeQueue,
    SetSettings,
    Settings,
)
from rollq.grid.effects import Done, Duplicate, Refused
from rollq.grid.state import DEAD
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, submit


def confirm(*names: str, client: str = "ann") -> ConfirmResults:
    return ConfirmResults(client, tuple(job_id(name) for name in names))


def done(*names: str) -> Grid:
    grid = Grid()
    grid.start(*names)
    for name in names:
        grid.ack(name)
    return grid


def test_a_client_declares_its_cap() -> None:
    grid = Grid()
    applied = grid.apply(OpenClient("ann", 3))
    assert [(event.kind, event.client_id, event.count) for event in applied.events] == [
        ("client_open", "ann", 3)
    ]
    grid.apply(OpenClient("ann", 5))
    assert grid.state.clients["ann"].cap == 5
    assert refusal(grid.ask(OpenClient("ann", -1))) is ErrorCode.BAD_OPTIONS
    assert refusal(grid.ask(OpenClient(""))) is ErrorCode.BAD_OPTIONS


def test_the_cluster_has_a_cap_for_clients_without_one() -> None:
    grid = Grid()
    grid.apply(SetSettings(Settings(client_cap=1)))
    grid.submit("a", "b")
    grid.submit("c", "d", client="bob")
    grid.apply(OpenClient("bob", 2))
    grid.assign("a", "c", "d")
    assert refusal(grid.ask(grid.assignment("b"))) is ErrorCode.CAP_REACHED


def test_idle_clients_give_way_oldest_first() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(clients=2)
    grid.apply(OpenClient("ann", 1))
    grid.apply(OpenClient("bob", 1))
    grid.submit("a", client="ann")
    grid.submit("c", client="cid")
    assert sorted(grid.state.clients) == ["ann", "cid"]
    assert refusal(grid.ask(OpenClient("dan"))) is ErrorCode.GRID_FULL


def test_what_is_confirmed_is_owed_no_more_but_still_known() -> None:
    grid = done("a", "b")
    applied = grid.apply(confirm("a", "gone", "a"))
    assert applied.outcomes == [Done(1)]
    assert kinds(applied) == ["confirm"]
    assert list(grid.state.clients["ann"].owed) == [job_id("b")]
    assert grid.ask(submit("a")) == Duplicate(ended=True)


def test_only_the_owner_confirms_and_only_an_end() -> None:
    grid = done("a")
    grid.submit("b")
    assert grid.ask(confirm("a", client="bob")) == Done(0)
    assert grid.ask(confirm("b")) == Done(0)


def test_confirmed_results_are_bounded_and_the_oldest_goes_first() -> None:
    grid = done("a", "b", "c")
    grid.apply(SetSettings(Settings(results_kept_max=1)))
    applied = grid.apply(confirm("b", "a"))
    assert [(event.kind, event.job_id) for event in applied.events] == [
        ("confirm", job_id("b")),
        ("confirm", job_id("a")),
        ("forget", job_id("b")),
    ]
    assert list(grid.state.confirmed) == [job_id("a")]
    assert job_id("c") in grid.state.jobs


def test_a_lowered_bound_is_reached_step_by_step() -> None:
    names = [f"j{number}" for number in range(9)]
    grid = done(*names)
    grid.apply(confirm(*names[:8]))
    grid.apply(SetSettings(Settings(results_kept_max=0)))
    assert len(grid.state.confirmed) == 8
    grid.apply(confirm(names[8]))
    assert len(grid.state.confirmed) == 7


def test_with_no_room_a_confirmed_result_goes_at_once() -> None:
    grid = done("a")
    grid.apply(SetSettings(Settings(results_kept_max=0)))
    assert kinds(grid.apply(confirm("a"))) == ["confirm", "forget"]


def test_a_confirmed_dead_job_waits_for_people() -> None:
    grid = Grid()
    grid.submit("a", max_attempts=1)
    grid.kill("a")
    grid.apply(SetSettings(Settings(results_kept_max=0)))
    grid.apply(confirm("a"))
    assert grid.job("a").state is DEAD
    assert not len(grid.state.clients["ann"].owed)
    grid.apply(ForgetJobs((job_id("a"),)))
    assert not grid.state.jobs


def test_confirmed_results_are_forgotten_at_their_ttl() -> None:
    grid = done("a")
    grid.apply(confirm("a"))
    grid.apply(ForgetJobs((job_id("a"),)))
    assert not len(grid.state.confirmed)


def test_a_queue_is_paused_and_resumed() -> None:
    grid = Grid()
    assert kinds(grid.apply(PauseQueue("q", "olga"))) == ["queue_pause"]
    assert grid.ask(PauseQueue("q")) == Duplicate(ended=False)
    grid.submit("a")
    assert kinds(grid.apply(ResumeQueue("q", "olga"))) == ["queue_resume"]
    assert grid.ask(ResumeQueue("q")) == Duplicate(ended=False)
    assert grid.ask(ResumeQueue("gone")) == Duplicate(ended=False)
    assert grid.ask(grid.assignment("a")) == Done(1)


def test_a_paused_queue_is_kept_and_a_resumed_empty_one_is_not() -> None:
    grid = Grid()
    grid.apply(PauseQueue("q"))
    assert "q" in grid.state.queues
    grid.apply(ResumeQueue("q"))
    assert not grid.state.queues
    assert refusal(grid.ask(PauseQueue(""))) is ErrorCode.BAD_OPTIONS


def test_settings_are_replaced_and_count_from_then_on() -> None:
    grid = Grid()
    grid.submit("a")
    assert kinds(grid.apply(SetSettings(Settings(max_attempts=1), "olga"))) == ["settings"]
    grid.assign("a")
    grid.nack("a")
    assert grid.job("a").state is DEAD


@pytest.mark.parametrize(
    "settings",
    [
        Settings(max_attempts=0),
        Settings(max_attempts=101),
        Settings(lease_ms=0),
        Settings(lease_ms=999),
        Settings(retry_base_ms=-1),
        Settings(results_kept_max=-1),
        Settings(client_cap=-1),
    ],
)
def test_settings_out_of_bounds_are_refused(settings: Settings) -> None:
    refused = Grid().ask(SetSettings(settings))
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.BAD_OPTIONS
    (changed,) = (
        f"{name} is {value}"
        for name, value in msgspec.structs.asdict(settings).items()
        if value != getattr(Settings(), name)
    )
    assert refused.message.startswith(changed)
