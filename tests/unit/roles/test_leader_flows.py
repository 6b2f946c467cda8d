"""What goes to a worker of the parents of a job: results that it uses, and how they ended."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, Cause, Condition, ParentEnd, ParentRef, ParentResult, Status
from rollq.grid import commands as c
from rollq.roles.member.leader import flows
from rollq.roles.member.leader.flows import ends_for, results_for
from tests.unit.grid.kit import Grid, job_id, refusal, submit

BLOBS = (BlobRef(b"\xab" * 32, 5),)


def parents(*names: str) -> tuple[ParentRef, ...]:
    return tuple(ParentRef(job_id(name), Condition.RESULT) for name in names)


def ended(*names: str) -> Grid:
    grid = Grid()
    grid.submit(*names)
    for name in names:
        grid.assign(name)
        grid.ack(name, result=name.encode() * 10, blobs=BLOBS)
    return grid


def test_a_job_gets_the_results_that_it_uses() -> None:
    grid = ended("a", "b", "c")
    grid.submit("child", after=(*parents("a", "c"), ParentRef(job_id("b"))))
    found = results_for(grid.state, job_id("child"))
    assert found == (
        ParentResult(job_id("a"), b"a" * 10, BLOBS),
        ParentResult(job_id("c"), b"c" * 10, BLOBS),
    )
    grid.submit("other", after=(ParentRef(job_id("b")),))
    assert results_for(grid.state, job_id("other")) == ()
    assert results_for(grid.state, job_id("a")) == ()


def test_what_is_forgotten_or_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = ended("a", "b", "c")
    grid.submit("child", after=parents("a", "b", "c"))
    grid.apply(c.ForgetJobs((job_id("a"),)))
    found = results_for(grid.state, job_id("child"))
    assert [one.job_id for one in found] == [job_id("b"), job_id("c")]
    monkeypatch.setattr(flows, "PARENT_RESULTS_BYTES_MAX", 200)
    found = results_for(grid.state, job_id("child"))
    assert [one.job_id for one in found] == [job_id("b")]


def test_an_array_has_no_result_to_use() -> None:
    grid = Grid()
    grid.submit_array("many", 2)
    assert refusal(grid.ask(submit("child", after=parents("many")))) is ErrorCode.UNKNOWN_JOB


def test_a_job_learns_how_its_parents_ended() -> None:
    """Of all of them, if one of its conditions leaves that open; those that all had to end ok go
    to workers in runs, and are told nothing."""
    grid = ended("ok")
    grid.apply(msgspec.structs.replace(submit("bad"), key="nightly"))
    grid.assign("bad")
    grid.ack("bad", status=Status.FAILED, exit_code=3, run_ms=5)
    grid.submit("gone")
    grid.submit_array("many", 2)
    grid.apply(c.CancelJobs((job_id("gone"), job_id("many"))))
    names = ("ok", "bad", "gone", "many")
    after = tuple(ParentRef(job_id(name), Condition.ENDED) for name in names)
    grid.submit("child", after=after)
    found = {one.job_id: one for one in ends_for(grid.state, job_id("child"))}
    assert list(found) == [job_id(name) for name in names]
    assert found[job_id("ok")].state == "ok"
    bad = found[job_id("bad")]
    assert (bad.state, bad.exit_code, bad.run_ms, bad.attempts) == ("failed", 3, 5, 1)
    assert (bad.exec_name, bad.queue, bad.key) == ("exe", "q", "nightly")
    assert bad.ended_ms == grid.state.jobs[job_id("bad")].stamp_ms
    assert found[job_id("gone")].state == "cancelled"
    many = found[job_id("many")]
    assert (many.state, many.tasks) == ("cancelled", (0, 0, 0, 2))

    grid.submit("blind", after=(ParentRef(job_id("ok")),))
    assert ends_for(grid.state, job_id("blind")) == ()
    assert ends_for(grid.state, job_id("ok")) == ()


def test_what_became_of_a_parent_since_is_told() -> None:
    grid = ended("a")
    grid.submit("dead", max_attempts=1)
    grid.kill("dead")
    after = tuple(ParentRef(job_id(name), Condition.ENDED) for name in ("a", "dead"))
    grid.submit("child", after=after)
    told = {one.job_id: one for one in ends_for(grid.state, job_id("child"))}
    assert told[job_id("dead")].state == "dead"
    assert told[job_id("dead")].cause == Cause.NACKED
    grid.apply(c.RedriveJobs((c.RedriveItem(job_id("dead")),)))
    grid.apply(c.ForgetJobs((job_id("a"),)))
    first, second = ends_for(grid.state, job_id("child"))
    assert first == ParentEnd(job_id("a"), "unknown")
    assert (second.state, second.ended_ms, second.attempts) == ("waiting", 0, 1)


def test_what_does_not_fit_is_told_by_id_and_state(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = ended("a", "b")
    after = tuple(ParentRef(job_id(name), Condition.ENDED) for name in ("a", "b"))
    grid.submit("child", after=after)
    monkeypatch.setattr(flows, "PARENT_ENDS_BYTES_MAX", 150)
    first, second = ends_for(grid.state, job_id("child"))
    assert first.exec_name
    assert second == ParentEnd(job_id("b"), "ok")
