from __future__ import annotations

from rollq.cli.health import unserved_findings
from rollq.grid.views import UnservedView


def test_a_queue_that_nobody_serves_is_a_problem_with_a_remedy() -> None:
    (found,) = unserved_findings([UnservedView("render", "", "blender", 3, "")])
    assert found.severity == "problem"
    assert found.what == "3 jobs wait in queue render, and no connected worker serves it"
    assert "rollq worker HOST PORT render" in found.todo


def test_a_program_that_nobody_has_is_named_with_those_who_lack_it() -> None:
    (found,) = unserved_findings([UnservedView("render", "w1", "blender", 2, "w1")])
    assert "no connected worker named w1 has program blender" in found.what
    assert "put blender into the exec directory" in found.todo
