"""Groups of three by the command line: changes of members, hand-over, the demonstrations."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from typer.testing import CliRunner

from rollq.cli.fleet import Fleet
from rollq.cli.main import app
from rollq.net.ports import free_ports
from tests.integration.procs import until
from tests.integration.test_cli import Grid


def test_members_come_go_and_hand_over(tmp_path: Path) -> None:
    ports = free_ports(4)
    with Fleet(tmp_path / "grid") as fleet:
        fleet.start_members(ports[:3])
        grid = Grid(fleet)
        view = grid.json("cluster", "status")
        assert sorted(one["role"] for one in view["members"]) == ["follower", "follower", "leader"]
        follower = next(one for one in view["members"] if one["role"] == "follower")

        after = grid.json("cluster", "transfer", follower["address"])
        assert (after["leader"], after["term"] > view["term"]) == (follower["address"], True)
        assert grid.json("cluster", "transfer")["leader"] != follower["address"]

        newcomer = f"127.0.0.1:{ports[3]}"
        fleet.start_member(newcomer)
        fleet.await_line(newcomer, "serves on")
        grown = grid.json("cluster", "add", newcomer)
        assert len(grown["members"]) == 4
        assert "would" in grid.run("doctor")  # an even number of voters is noted

        gone = next(one for one in grown["members"] if one["role"] == "follower")
        shrunk = grid.json("cluster", "remove", gone["id"])
        assert gone["address"] not in [one["address"] for one in shrunk["members"]]
        assert len(shrunk["members"]) == 3
        grid.run("cluster", "remove", "127.0.0.1:1", code=2)
        assert shrunk["leader"] in grid.run("cluster", "status")


def test_a_replaced_disk_is_added_when_the_new_member_votes(tmp_path: Path) -> None:
    """The voter before has the same address: it does not count."""
    ports = free_ports(3)
    with Fleet(tmp_path / "grid") as fleet:
        fleet.start_members(ports)
        grid = Grid(fleet)
        view = grid.json("cluster", "status")
        old = next(one for one in view["members"] if one["role"] == "follower")
        fleet.kill(old["address"])
        grid.run("cluster", "add", old["address"], "--timeout", "1", code=3)
        shutil.rmtree(fleet.state_of(old["address"]))
        fleet.start_member(old["address"])
        grown = grid.json("cluster", "add", old["address"])
        (new,) = [one for one in grown["members"] if one["address"] == old["address"]]
        assert new["id"] != old["id"]
        assert new["role"] == "follower"
        assert len(grown["members"]) == 3


def test_a_leader_that_is_told_to_stop_hands_over(tmp_path: Path) -> None:
    with Fleet(tmp_path / "grid") as fleet:
        fleet.start_members(free_ports(3))
        grid = Grid(fleet)
        job_id = grid.run("submit", "calcA").strip()
        leader = grid.json("cluster", "status")["leader"]
        os.kill(fleet.pid_of(leader), signal.SIGTERM)
        grid.until(lambda: not fleet.is_alive(leader))
        assert fleet.exit_code_of(leader) == 0
        assert grid.json("cluster", "status")["leader"] != leader
        assert grid.json("job", job_id)["state"] == "waiting"
        assert f"member {leader} is down" in grid.run("doctor", code=1)
        assert "transferring leadership" in fleet.log_of(leader)
        second = grid.json("cluster", "status")["leader"]
        fleet.kill(second)
        told = grid.run("doctor", "--timeout", "1", code=3)
        assert f"{second} cannot be reached" in told
        assert "answers; it knows no leader" in told


def test_the_demonstration_checks_itself(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    result = CliRunner().invoke(
        app, ["demo", "--jobs", "120", "--keep", str(folder), "--no-report", "--json"]
    )
    document = json.loads(result.stdout)
    assert (result.exit_code, document["problems"]) == (0, [])
    assert (document["results"], document["lost"], document["ended_twice"]) == (120, 0, 0)
    assert document["leader"] != document["killed"]
    assert document["history_members"] == 3
    assert (folder / "state").is_dir()


def test_a_killed_demonstration_leaves_nothing_running(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with told.open("wb") as stderr:
        demo = subprocess.Popen(
            [sys.executable, "-m", "rollq", "demo3", "--keep", str(tmp_path / "demo")],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        until(lambda: "Ctrl-C ends it" in told.read_text() or demo.poll() is not None)
        children = psutil.Process(demo.pid).children(recursive=True)
        assert len(children) >= 5  # three members, two workers and their guards
    finally:
        demo.kill()
        demo.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


def test_three_members_to_play_with() -> None:
    result = CliRunner().invoke(app, ["demo3", "--once", "--count", "2", "--json"])
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(row["stdout"] for row in rows) == ["calcA(1) = 2\n", "calcA(2) = 4\n"]
