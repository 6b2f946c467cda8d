"""Why no worker runs a job, in words with counts."""

from __future__ import annotations

from rollq.policy.lacks import LackKind, lacks
from rollq.policy.needs import SHIPPED, Need, ProgramSet
from rollq.policy.pools import DispatchSession


def session(
    *labels: str,
    programs: tuple[str, ...] | None = None,
    credit: int = 1,
    **resources: int,
) -> DispatchSession:
    listed = None if programs is None else frozenset(programs)
    made = DispatchSession(
        b"w", 1, "w", 0, ProgramSet(listed), labels=labels, resources=tuple(resources.items())
    )
    made.credit = credit
    return made


def test_workers_are_counted_by_the_first_thing_that_they_lack() -> None:
    need = Need("exe", ("!spot", "zone=a"), (("gpu", 4_000), ("memory", 2_000_000)))
    busy = session("zone=a", gpu=4_000, memory=4_000_000)
    busy.room.take_jobs((b"j",), (("gpu", 500),))
    told = lacks(
        need,
        [
            *(session("zone=b") for _ in range(3)),
            session(programs=("other",)),
            session("spot=yes", "zone=a"),
            *(session("zone=a", gpu=1_000) for _ in range(2)),
            session("zone=a", memory=9_000_000),
            busy,
            session("zone=a", gpu=8_000, memory=2_000_000, credit=0),
            session("zone=a", gpu=8_000, memory=2_000_000),
        ],
    )
    assert [one.text for one in told] == [
        "3 workers lack label zone=a",
        "2 workers have 1 gpu, 4 needed",
        "1 worker lacks program exe",
        "1 worker has the excluded label spot",
        "1 worker has no gpu, 4 needed",
        "1 worker has 3.5 gpu free of 4, 4 needed",
        "1 worker has no free slot, and could run it",
        "1 worker could run it now",
    ]
    assert sum(one.worker_count for one in told) == 11
    assert {one.kind for one in told if one.is_for_good} == {
        LackKind.PROGRAM,
        LackKind.LABEL,
        LackKind.CAPACITY,
    }


def test_a_program_that_comes_with_its_job_is_said_so() -> None:
    (told,) = lacks(SHIPPED + "mine", [session(programs=()), session(programs=())])
    assert told.text == "2 workers do not run programs that come with jobs, as mine does"
