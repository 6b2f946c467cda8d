"""`rollq cron` and `client.schedules` with real members; a leader is killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq import BlockingClient, ErrorCode, RollqError
from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.procs import until
from tests.integration.test_cli import Grid


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    """A member, and a worker."""
    write_program(tmp_path / "exec", "hi", "echo hi $1")
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(tmp_path / "exec"))
        yield Grid(fleet)


def test_a_schedule_from_the_command_line(grid: Grid) -> None:
    told = grid.run("cron", "add", "nightly", "0 2 * * *", "hi", "you", "--zone", "Pacific/Chatham")
    assert told.startswith("schedule nightly: next ")
    assert told.endswith(" 02:00:00.000 Pacific/Chatham)\n"), "as its own clocks show it"
    grid.run("cron", "add", "beat", "--every", "1s", "--jitter", "0s", "hi")
    until(lambda: grid.json("cron", "show", "beat")["fired"] >= 2)
    view = grid.json("cron", "show", "beat")
    job = grid.json("job", view["last_job"])
    assert (job["exec"], job["client"]) == ("hi", "schedule.beat")
    assert job["key"].startswith("beat@")
    assert "every 1 s" in grid.run("cron", "list")
    assert grid.run("cron", "pause", "beat") == "schedule beat: paused\n"
    assert grid.json("cron", "show", "beat")["next_ms"] is None
    made = grid.run("cron", "run", "nightly").strip()
    until(lambda: grid.json("job", made)["state"] == "ok")
    assert "hi you" in grid.run("cron", "show", "nightly")
    assert grid.run("cron", "resume", "beat").startswith("schedule beat: next ")
    assert grid.run("cron", "remove", "beat") == "schedule beat: removed\n"
    assert grid.run("cron", "show", "beat", code=4) == ""


REFUSED = {
    ("61 * * * *", "hi"): "'61' is not a valid minute",
    ("0 0 30 2 *", "hi"): "never fires",
    ("@daily", "hi", "--zone", "Mars/Olympus"): "time zone 'Mars/Olympus'",
    ("@daily",): "no program given",
    ("--every", "0.5s", "hi"): "--every",
    ("hi", "--every", "5s", "--jitter", "9s"): "a jitter of 9 s is longer than the interval of 5 s",
    ("0 2 * * *", "hi", "--every", "10s"): "both a cron line, '0 2 * * *', and --every",
    ("@daily", "hi", "--every", "10s"): "both a cron line",
    ("@daily", "hi", "--overlap", "both"): "skip, queue, cancel",
    ("@daily", "hi", "--catch-up", "some"): "none, last, all",
}


def test_what_is_refused(grid: Grid) -> None:
    for words, told in REFUSED.items():
        assert grid.run("cron", "add", "bad", *words, code=2) == ""
        assert told in grid.stderr
    assert grid.run("cron", "list").startswith("no schedules")


def test_no_instant_is_lost_or_doubled_when_the_leader_is_killed(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(3))
        with BlockingClient(fleet.servers) as client:
            first = client.schedules.put("beat", "hi", every=1, overlap="queue", catch_up="all")
            client.schedules.put("beat", "hi", every=1, overlap="queue", catch_up="all")

            def fired() -> int:
                view = client.schedules.get("beat")
                assert view is not None
                return view.fired

            until(lambda: fired() >= 1)
            fleet.kill(client.leader)
            until(lambda: fired() >= 4)
            view = client.schedules.get("beat")
            assert view is not None
            assert (view.missed, view.skipped, view.refused) == (0, 0, 0)
            assert view.next_ms == first.next_ms + 1_000 * view.fired
            assert client.counts().waiting >= view.fired  # there is no worker
            client.schedules.remove("beat")
            with pytest.raises(RollqError) as unknown:
                client.schedules.run("beat")
            assert unknown.value.code is ErrorCode.UNKNOWN_SCHEDULE
