"""What docs/operations.md says of a lost disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from rollq.cli.fleet import Fleet
from rollq.net.ports import free_ports
from tests.integration.test_cli import Grid


def test_a_member_that_lost_its_disk_takes_its_own_place(tmp_path: Path) -> None:
    with Fleet(tmp_path / "grid") as fleet:
        fleet.start_members(free_ports(3))
        grid = Grid(fleet)
        job_id = grid.run("submit", "calcA").strip()
        before = grid.json("cluster", "status")
        lost = before["leader"]
        fleet.kill(lost)
        shutil.rmtree(fleet.state_of(lost))
        fleet.start_member(lost)
        fleet.await_line(lost, "serves on")
        known = {one["id"] for one in before["members"]}

        def replaced() -> bool:
            members = grid.json("cluster", "status")["members"]
            fresh = [one for one in members if one["id"] not in known]
            return len(members) == 3 and [one["role"] for one in fresh] == ["follower"]

        grid.until(replaced)
        assert len(grid.json("cluster", "add", lost)["members"]) == 3
        assert grid.json("job", job_id)["state"] == "waiting"
