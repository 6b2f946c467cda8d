"""`rollq history` beside a real member: what is sealed and what is not, as lines."""

from __future__ import annotations

import json
from pathlib import Path

from rollq.cli.fleet import Fleet
from rollq.net.ports import free_ports
from tests.integration.test_cli import Grid


def test_the_whole_history_is_exported_of_a_group_and_of_a_directory(tmp_path: Path) -> None:
    out = tmp_path / "events.jsonl"
    with Fleet(tmp_path / "grid") as fleet:
        fleet.start_members(free_ports(1))
        grid = Grid(fleet)
        ids = [grid.run("submit", "calcA", str(number)).strip() for number in range(3)]
        rows = grid.lines("history", "tail", "--from", "1")
        said = grid.json("history", "export", "--out", str(out))
        exported = [json.loads(line) for line in out.read_text().splitlines()]
        assert exported[: len(rows)] == rows
        assert said == {"out": str(out), "rows": len(exported)}
        assert [row["jobId"] for row in exported if row["type"] == "enqueue"] == ids
        last = exported[-1]["index"]
        later = grid.run("history", "export", "--from", str(last)).splitlines()
        assert {json.loads(line)["index"] >= last for line in later} == {True}
        fleet.stop()
        state = fleet.state_of(fleet.addresses[0])
        sealed = grid.run("history", "export", "--state", str(state)).splitlines()
        assert [json.loads(line) for line in sealed][: len(exported)] == exported
