"""Jobs that wait for others, against a model of some lines: whatever is submitted, ended, cancelled
and forgotten, in whichever order, a job stands where the model says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.jobs import Condition, ParentRef, Status
from rollq.grid import commands as c
from rollq.grid.effects import Refused
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import JobState
from tests.effort import examples
from tests.unit.grid.kit import Grid, job_id, submit

NAMES = "abcdefgh"
FULFILS = {  # which conditions an end fulfils
    "ok": {Condition.OK, Condition.RESULT, Condition.ENDED},
    "failed": {Condition.FAILED, Condition.ENDED},
    "cancelled": {Condition.ENDED},
}
WORDS = {
    JobState.QUEUED: "waiting",
    JobState.BLOCKED: "blocked",
    JobState.DEAD: "failed",
    JobState.CANCELLED: "cancelled",
}

names = st.sampled_from(NAMES)
edges = st.dictionaries(names, st.sampled_from(Condition), max_size=3)
steps = st.one_of(
    st.tuples(st.just("submit"), names, edges),
    st.tuples(st.sampled_from(["ok", "failed", "dead", "cancelled", "forgotten"]), names),
)


class Model:
    """Where each job stands: waiting, blocked, or how it ended."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self.open: dict[str, dict[str, Condition]] = {}  # of blocked jobs: parents not ended yet

    def submit(self, name: str, after: dict[str, Condition]) -> bool:
        """Whether it is taken as a new job."""
        if name in self.jobs or any(one not in self.jobs for one in after):
            return False
        self.jobs[name], self.open[name] = "blocked", dict(after)
        self.settle()
        return True

    def end(self, name: str, how: str) -> None:
        self.jobs[name] = how
        self.settle()

    def settle(self) -> None:
        """Children follow their parents, until nothing changes any more."""
        changed = True
        while changed:
            changed = False
            for name, after in self.open.items():
                if self.jobs.get(name) != "blocked":
                    continue
                ended = {one: self.jobs[one] for one in after if self.jobs[one] in FULFILS}
                if any(after[one] not in FULFILS[how] for one, how in ended.items()):
                    self.jobs[name], changed = "cancelled", True
                    continue
                for one in ended:
                    del after[one]
                if not after:
                    self.jobs[name], changed = "waiting", True


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(steps, max_size=30))
def test_a_job_stands_where_the_model_says(asked: list[tuple[object, ...]]) -> None:
    grid, model = Grid(), Model()  # the grid checks all laws after every command
    for what, name, *more in asked:
        assert isinstance(name, str)
        if what == "submit":
            (after,) = more
            assert isinstance(after, dict)
            refs = tuple(ParentRef(job_id(one), word) for one, word in after.items())
            outcome = grid.ask(submit(name, after=refs))
            if model.submit(name, after):
                assert not isinstance(outcome, Refused)
            elif name not in model.jobs:
                assert isinstance(outcome, Refused), "a parent is not known"
        else:
            _end(grid, model, name, str(what))
        found = {one: _stands(grid, one) for one in NAMES if job_id(one) in grid.state.jobs}
        assert found == model.jobs
    assert encode_snapshot(decode_snapshot(encode_snapshot(grid.state))) == encode_snapshot(
        grid.state
    )


def _end(grid: Grid, model: Model, name: str, how: str) -> None:
    stands = model.jobs.get(name)
    if how == "forgotten":
        grid.apply(c.ForgetJobs((job_id(name),)))
        if stands in FULFILS:
            del model.jobs[name]
    elif how == "cancelled":
        grid.apply(c.CancelJobs((job_id(name),)))
        if stands in ("waiting", "blocked"):
            model.end(name, how)
    elif stands == "waiting":
        if how == "dead":
            grid.kill(name)
        else:
            grid.assign(name)
            grid.ack(name, Status.OK if how == "ok" else Status.FAILED)
        model.end(name, "ok" if how == "ok" else "failed")


def _stands(grid: Grid, name: str) -> str:
    record = grid.job(name)
    if record.state is JobState.DONE:
        assert record.end is not None
        return "failed" if record.end.status else "ok"
    return WORDS[record.state]
