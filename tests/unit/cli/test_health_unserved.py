from __future__ import annotations

from rollq.base.limits import QUERY_ROWS_MAX
from rollq.cli.health import unserved_findings
from rollq.grid.views import UnservedView


def test_a_queue_that_nobody_serves_is_a_problem_with_a_remedy() -> None:
    (found,) = unserved_findings([UnservedView("render", "", "blender", 3, "")])
    assert found.severity == "problem"
    assert found.what == "3 jobs wait in queue render, and no connected worker serves it"
    assert "rollq worker HOST PORT render" in found.todo


def test_a_program_that_nobody_has_is_named_with_those_who_lack_it() -> None:
    (found,) = unserved_findings([UnservedView("render", "w1", "blender", 2, "w1")])
    assert "no connected worker named w1 has program or function blender" in found.what
    assert "put blender into the exec directory" in found.todo


def test_a_worker_that_is_asked_for_by_name_is_started_under_it() -> None:
    (found,) = unserved_findings([UnservedView("render", "big one", "blender", 1, "")])
    assert found.todo.startswith("start one: rollq worker HOST PORT render --name 'big one';")


def test_labels_and_resources_that_nobody_has_are_told_as_such() -> None:
    lacks = "2 workers have 1 gpu, 4 needed"
    (found,) = unserved_findings([UnservedView("train", "", "fit", 3, "w1, w2", lacks)])
    assert found.what == (
        "3 jobs wait in queue train, some of them for a worker, and no connected worker has what "
        "these need: 2 workers have 1 gpu, 4 needed"
    )
    assert "--resource" in found.todo


def test_jobs_of_a_queue_are_not_counted_again_for_every_need() -> None:
    rows = [UnservedView("train", "", "fit", 2, "w1", lacks) for lacks in ("no a", "no b")]
    for found in unserved_findings(rows):
        assert found.what.startswith("2 jobs wait in queue train, some of them for a worker, and ")
    (alone,) = unserved_findings([UnservedView("train", "", "fit", 1, "w1", "no gpu")])
    assert alone.what == (
        "1 job waits in queue train, and no connected worker has what it needs: no gpu"
    )


def test_a_list_that_is_cut_says_so() -> None:
    rows = [UnservedView(f"q{n}", "", "blender", 1, "") for n in range(QUERY_ROWS_MAX)]
    *named, last = unserved_findings(rows)
    assert len(named) == QUERY_ROWS_MAX
    assert (last.severity, last.what) == (
        "note",
        f"the first {QUERY_ROWS_MAX} of such needs are told; there may be more",
    )
    assert len(unserved_findings(rows[:-1])) == QUERY_ROWS_MAX - 1
