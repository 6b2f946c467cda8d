"""The command line against real members and workers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq.base.hints import ExecHint
from rollq.cli.fleet import Fleet, write_program
from rollq.cli.main import app
from rollq.cli.waiting import EXIT_DEAD
from rollq.net.ports import free_ports
from rollq.roles.client.blocking.clients import BlockingClient
from tests.integration.patience import DEADLINE_S, read_in_time

GONE = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


class Grid:
    """A fleet, and commands run against it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.stderr = ""  # of the last command
        self._runner = CliRunner()

    @property
    def _env(self) -> dict[str, str]:
        # On a busy machine an answer may take longer than a person would wait for it.
        return {"ROLLQ_SERVERS": self.fleet.servers, "ROLLQ_TIMEOUT": "60"}

    def run(self, *arguments: str, code: int = 0) -> str:
        """Stdout of a command that must end with this exit code."""
        result = self._runner.invoke(app, arguments, env=self._env)
        assert result.exit_code == code, f"{arguments}: {result.exit_code}\n{result.output}"
        self.stderr = result.stderr
        return result.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one document that a command writes."""
        return json.loads(self.run(*arguments, "--json", code=code))

    def lines(self, *arguments: str, code: int = 0) -> list[Any]:
        """The documents that a command writes, one a line."""
        return [json.loads(line) for line in self.run(*arguments, "--json", code=code).splitlines()]

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for what no command waits for."""
        deadline = time.monotonic() + DEADLINE_S
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not come about in time:\n{self._story()}")
            time.sleep(0.02)
        return value

    def running(self) -> list[str]:
        """The jobs that run, of the program that does not end by itself: what other tests left
        behind may still be on its way."""
        return [job["id"] for job in self.lines("jobs", "--state", "running", "--exec", "forever")]

    def clear(self) -> None:
        """End what a test left running: it would take a slot of the next one."""
        while ids := [
            job["id"]
            for state in ("waiting", "running")
            for job in self.lines("jobs", "--state", state, "--exec", "forever")
        ]:
            self._runner.invoke(app, ["cancel", *ids], env=self._env)
            self.until(lambda: not self.running())

    def _story(self) -> str:
        """The grid as it stands, and the last words of everybody in it."""
        names = (*self.fleet.addresses, "w1")
        logs = "\n".join(f"--- {name}\n{self.fleet.log_of(name)[-3000:]}" for name in names)
        status = self._runner.invoke(app, ["status"], env=self._env).output
        jobs = self._runner.invoke(app, ["jobs", "--limit", "1000"], env=self._env).output
        return f"{status}\n{jobs}\n{logs}"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """One member and one worker for all tests that break neither."""
    root = tmp_path_factory.mktemp("grid")
    write_program(root / "exec", "calcA", 'echo "got $*"\necho made > made.txt\n[ "$1" != bad ]')
    write_program(root / "exec", "forever", "sleep 600")
    write_program(root / "exec", "talks", "echo begun; exec sleep 600")
    write_program(root / "exec", "show", "cat held.txt")
    write_program(root / "exec", "crash", "kill -SEGV $$")
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        yield Grid(fleet)


@pytest.fixture
def clear(grid: Grid) -> Iterator[None]:
    """Nothing is left running, whether the test succeeds or not."""
    yield
    grid.clear()


def test_a_job_is_submitted_awaited_and_looked_at(grid: Grid, tmp_path: Path) -> None:
    assert grid.run("submit", "calcA", "1", "2", "--wait", "--out", str(tmp_path)) == "got 1 2\n"
    assert (tmp_path / "made.txt").read_text() == "made\n"
    result = grid.json("submit", "calcA", "7", "--wait")
    assert (result["status"], result["stdout"], result["files"]) == ("OK", "got 7\n", ["made.txt"])
    document = grid.json("job", result["id"])
    assert (document["state"], document["end"]["stdout"]) == ("ok", "got 7\n")
    assert "got 7" in grid.run("job", result["id"])
    assert result["id"] in [job["id"] for job in grid.lines("jobs", "--state", "ok")]
    (row, *_) = grid.run("jobs").splitlines()[1:]
    assert row.split()[:3] == [result["id"][:8], "ok", "calcA"]
    grid.run("jobs", "--limit", "1")
    assert "shown: 1; there may be more (--limit)" in grid.stderr
    assert grid.json("explain", result["id"])["code"] == "ok"


def test_what_a_job_was_asked_to_run_can_be_asked_after_its_end(grid: Grid, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("12345")
    files = ("--file", str(tmp_path / "in.txt"))
    ended = grid.json("submit", "calcA", "1", "two words", *files, "--wait")["id"]
    wanted = {"args": ["1", "two words"], "files": [{"name": "in.txt", "bytes": 5}]}
    assert grid.json("job", ended)["request"] == wanted
    (listed, *_) = grid.lines("jobs", "--exec", "calcA", "--limit", "1")
    assert (listed["id"], listed["request"]) == (ended, wanted)
    shown = grid.run("job", ended).splitlines()
    assert "1 'two words'" in next(line for line in shown if line.startswith("args"))
    rows = grid.run("history", "tail", "--from", "1", "--job", ended)
    assert "runs: calcA 1 'two words', files: in.txt" in rows
    (row,) = grid.lines("history", "tail", "--from", "1", "--job", ended, "--type", "enqueue")
    assert json.loads(row["request"]) == wanted
    paused = grid.json("submit", "calcA", "x", "--queue", "asked", "--delay", "99")
    assert grid.run("cancel", paused["id"][:8]) == "cancelling 1 job\n"
    assert grid.json("job", paused["id"])["request"] == {"args": ["x"]}


def test_the_first_digits_of_an_id_will_do(grid: Grid, tmp_path: Path) -> None:
    job = grid.json("submit", "calcA", "7", "--wait")["id"]
    for digits in (job[:8], job[:13], f"{job[:4]}..{job[-6:]}"):
        assert grid.json("job", digits)["id"] == job
    assert grid.json("explain", job[:8])["id"] == job
    assert grid.run("logs", job[:8]) == "got 7\n"
    assert grid.json("fetch", job[:8], "--save", str(tmp_path))["id"] == job
    rows = tmp_path / "jobs.csv"
    rows.write_text("1\n2\n")
    one, two = (each["id"] for each in grid.lines("submit", "calcA", "--from-file", str(rows)))
    grid.run("job", one[:8], code=4)
    assert "[ambiguous_id]\n  give more digits" in grid.stderr
    assert two in grid.stderr
    assert grid.json("job", f"{two[:8]}..{two[-8:]}")["id"] == two
    array = grid.json("submit", "calcA", "--array", "3")["id"]
    grid.until(lambda: grid.json("job", array[:8])["array"]["ok"] == 3)
    grid.run("job", "0000", code=4)


def test_what_failed_is_told_from_what_went_well(grid: Grid) -> None:
    failed = grid.json("submit", "crash", "--wait", code=139)
    told = [failed["state"], failed["exit_code"], failed["signal_name"]]
    assert told == ["failed", 139, "SIGSEGV (11)"]
    assert grid.json("job", failed["id"])["state"] == "failed"
    (listed,) = grid.lines("jobs", "--state", "failed", "--exec", "crash")
    assert (listed["id"], listed["state"]) == (failed["id"], "failed")
    assert grid.lines("jobs", "--state", "ok", "--exec", "crash") == []
    array = grid.json("submit", "crash", "--array", "3")
    grid.until(lambda: grid.json("job", array["id"])["array"]["failed"] == 3)
    assert grid.json("job", array["id"])["array"]["ok"] == 0


def test_a_failed_job_is_exit_code_1_and_an_unknown_one_4(grid: Grid) -> None:
    assert grid.run("submit", "calcA", "bad", "--wait", code=1) == "got bad\n"
    assert grid.json("submit", "calcA", "bad", "--wait", code=1)["exit_code"] == 1
    grid.run("job", GONE, code=4)
    grid.run("explain", GONE, code=4)
    assert grid.json("cancel", GONE, code=1) == {"cancelled": 0}


def test_an_id_of_ones_own_runs_once(grid: Grid) -> None:
    own = "11111111-2222-3333-4444-555555555555"
    ask = ("submit", "calcA", "x", "--id", own, "--wait")
    assert grid.json(*ask) == grid.json(*ask)
    grid.run(*ask, "--client-id", "me", code=4)
    assert f"the id belongs to a job of client cli-{own} [job_conflict]" in grid.stderr
    assert len(grid.lines("history", "tail", "--from", "1", "--job", own, "--type", "assign")) == 1


def test_a_key_of_a_client_runs_once_and_is_told(grid: Grid) -> None:
    ask = ("submit", "calcA", "x", "--key", "row-1", "--client-id", "me", "--wait")
    first = grid.json(*ask)
    assert grid.json(*ask) == first
    assert first["key"] == "row-1"
    assert grid.json("job", first["id"])["key"] == "row-1"
    rows = grid.lines("history", "tail", "--from", "1", "--job", first["id"])
    assert {row["jobKey"] for row in rows} == {"row-1"}
    assert [row["type"] for row in rows].count("assign") == 1


def test_keys_in_a_file_run_once_and_are_told_with_their_lines(grid: Grid, tmp_path: Path) -> None:
    lines = tmp_path / "jobs.jsonl"
    words = ("a", "bad", "c")
    jobs = [{"exec": "calcA", "args": [word], "key": f"file-{word}"} for word in words]
    lines.write_text("\n".join(map(json.dumps, jobs)))
    ask = ("submit", "--from-file", str(lines), "--client-id", "me")
    accepted = grid.lines(*ask)
    assert [job["line"] for job in accepted] == [1, 2, 3]
    assert grid.run(*ask).split() == [job["id"] for job in accepted]
    assert "2 ok, 1 failed" in grid.run(*ask, "--wait", code=1)
    assert "line 2: calcA" in grid.stderr
    # What is known as it was: the grid refuses the same key for something else.
    lines.write_text(json.dumps(jobs[0] | {"args": ["b"]}))
    grid.run(*ask, code=4)
    assert "job_conflict" in grid.stderr
    for job, line in zip(jobs, accepted, strict=True):
        told = grid.json("job", line["id"])
        assert (told["key"], told["attempt"]) == (job["key"], 1)


def test_arrays_and_files_of_jobs(grid: Grid, tmp_path: Path) -> None:
    assert "5 ok" in grid.run("submit", "calcA", "n", "--array", "5", "--wait")
    results = grid.lines("submit", "calcA", "--array", "3", "--wait")
    assert [result["status"] for result in results] == ["OK"] * 3
    assert sorted(result["task"] for result in results) == [0, 1, 2]
    array = grid.json("submit", "calcA", "--array", "4")
    assert array["accepted"] == 4
    grid.until(lambda: grid.json("job", array["id"])["array"]["ok"] == 4)
    rows = tmp_path / "jobs.csv"
    rows.write_text("1,2\nbad,3\n4,5\n")
    told = grid.run("submit", "calcA", "--from-file", str(rows), "--wait", code=1)
    assert "2 ok, 1 failed" in told
    assert "line 2: calcA" in grid.stderr
    lines = tmp_path / "jobs.jsonl"
    lines.write_text('{"exec": "calcA", "args": ["a"]}\n\n{"exec": "calcA", "args": ["b"]}\n')
    found = grid.lines("submit", "--from-file", str(lines), "--wait")
    assert {result["line"]: result["stdout"] for result in found} == {1: "got a\n", 3: "got b\n"}
    accepted = grid.lines("submit", "--from-file", str(lines))
    assert [job["line"] for job in accepted] == [1, 3]
    ids = grid.run("submit", "--from-file", str(lines)).split()
    for job_id in (*ids, *(job["id"] for job in accepted)):
        assert grid.json("job", job_id)["exec"] == "calcA"
    assert len(ids) == 2
    empty = tmp_path / "none.jsonl"
    empty.write_text("\n")
    grid.run("submit", "--from-file", str(empty), code=2)


def test_options_of_a_job_are_on_the_command_line(grid: Grid, tmp_path: Path) -> None:
    again = ("--retry-exit-code", "1", "--retry-exit-code", "75", "--max-attempts", "2")
    dead = grid.json("submit", "calcA", "bad", *again, "--wait", code=EXIT_DEAD)
    assert (dead["state"], dead["cause"], dead["attempts"]) == ("dead", "exit_code", 2)
    grid.run("dlq", "purge", dead["id"])
    ended = grid.json("submit", "forever", "--soft-limit", "0.05", "--wait", code=143)
    assert (ended["state"], ended["signal_name"]) == ("failed", "SIGTERM (15)")
    (tmp_path / "held.txt").write_text("held\n")
    grid.run("cache", "put", "cli-cache", str(tmp_path / "held.txt"))
    asked = ("--cached", "cli-cache:held.txt", "--lease", "7", "--result-ttl", "60")
    job = grid.json("submit", "show", *asked, "--wait")
    assert job["stdout"] == "held\n"
    options = grid.json("job", job["id"])["options"]
    assert options == {"lease_ms": 7_000, "result_ttl_ms": 60_000}


def test_a_file_with_bad_rows_is_refused_as_a_whole(grid: Grid, tmp_path: Path) -> None:
    rows = [json.dumps([str(number)]) for number in range(5_000)]
    rows[4_000] = '["1", {}]'
    rows[4_999] = '["1", '
    lines = tmp_path / "jobs.jsonl"
    lines.write_text("\n".join(rows))
    ask = ("submit", "calcA", "--from-file", str(lines), "--queue", "bad-file")
    grid.run(*ask, code=2)
    assert "2 invalid lines" in grid.stderr
    assert "line 4001" in grid.stderr
    assert "line 5000, column 7" in grid.stderr
    assert "bad-file" not in [queue["name"] for queue in grid.lines("queue", "list")]


def test_a_file_is_accepted_once_under_its_batch_key(grid: Grid, tmp_path: Path) -> None:
    rows = tmp_path / "jobs.csv"
    rows.write_text("1\n2\nbad\n")
    ask = ("submit", "calcA", "--from-file", str(rows), "--client-id", "filer", "--batch", "b1")
    first = grid.lines(*ask)
    assert [one["line"] for one in first] == [1, 2, 3]
    assert grid.lines(*ask) == first
    again = grid.lines(*ask, "--wait", code=1)
    assert sorted((one["line"], one["id"]) for one in again) == [
        (one["line"], one["id"]) for one in first
    ]
    assert len(grid.lines("jobs", "--client", "filer")) == 3


def test_whoever_stops_waiting_is_told_what_goes_on(grid: Grid) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "rollq", "submit", "talks", "--wait", "-s", grid.fleet.servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stdout is not None
    with read_in_time(waiting):
        begun = waiting.stdout.readline()
        waiting.send_signal(signal.SIGINT)
        _, told = waiting.communicate(timeout=DEADLINE_S)
    (job,) = grid.lines("jobs", "--state", "running", "--exec", "talks")
    grid.run("cancel", job["id"])
    assert (begun, waiting.returncode) == ("begun\n", 130)
    assert f"rollq job {job['id']}" in told


@pytest.mark.usefixtures("clear")
def test_a_running_job_is_listed_and_cancelled(grid: Grid) -> None:
    job_id = grid.run("submit", "forever").strip()
    grid.until(lambda: grid.running() == [job_id])
    (worker,) = grid.json("status")["workers"]
    assert job_id in worker["jobs"]
    document = grid.json("job", job_id)
    assert (document["worker"], document["worker_name"]) == (worker["id"], "w1")
    assert f"{worker['id']} (w1)" in grid.run("job", job_id)
    assert grid.json("cancel", job_id) == {"cancelled": 1}
    grid.until(lambda: grid.json("job", job_id)["state"] == "cancelled")


@pytest.mark.usefixtures("clear")
def test_waiting_ends_before_the_jobs_do(grid: Grid) -> None:
    short = ("--wait", "--wait-timeout", "0.2")
    grid.run("submit", "forever", *short, code=124)
    grid.run("submit", "forever", "--array", "2", *short, code=124)
    grid.run("submit", "forever", "--array", "1", *short, "--json", code=124)
    grid.until(lambda: len(grid.running()) == 4)  # as many as the worker has slots


def test_a_paused_queue_explains_itself(grid: Grid) -> None:
    assert grid.json("queue", "pause", "night") == {"queue": "night", "paused": True}
    job_id = grid.run("submit", "calcA", "--queue", "night").strip()
    assert "paused" in grid.run("explain", job_id)
    assert "night" in grid.run("doctor")
    (queue,) = [one for one in grid.lines("queue", "list") if one["name"] == "night"]
    assert (queue["paused"], queue["waiting"]) == (True, 1)
    grid.run("queue", "resume", "night")
    grid.until(lambda: grid.json("job", job_id)["state"] == "ok")


def test_dead_jobs_are_listed_redriven_and_purged(grid: Grid) -> None:
    grid.run("submit", "missing", "--expire", "0.2", "--wait", code=125)
    (dead,) = grid.lines("dlq", "list")
    assert dead["end"]["cause"] == "expired"
    assert "missing" in grid.run("dlq", "show", dead["id"])
    assert "dead" in grid.run("doctor", code=1)
    assert grid.json("dlq", "redrive", dead["id"]) == {"redrive": 1}
    grid.until(lambda: grid.lines("dlq", "list"))
    assert grid.json("dlq", "redrive", "--all", "--queue", "other") == {"redrive": 0}
    assert grid.json("dlq", "purge", "--all", "--yes") == {"purge": 1}
    assert grid.run("dlq", "list", "--json") == ""
    for action in ("purge", "redrive"):
        grid.run("dlq", action, dead["id"], code=4)
        assert f"no job or array has id {dead['id']}" in grid.stderr
    grid.run("dlq", "show", dead["id"], code=4)


def test_a_job_that_is_not_dead_is_named_by_whoever_wants_dead_ones(grid: Grid) -> None:
    job_id = grid.json("submit", "calcA", "--wait")["id"]
    for action in ("show", "redrive", "purge"):
        grid.run("dlq", action, job_id, code=4)
        assert job_id in grid.stderr
        assert "not dead" in grid.stderr
        assert "rollq dlq list" in grid.stderr
    grid.run("dlq", "show", job_id, code=4)
    assert "it is ok" in grid.stderr


def test_hints_are_shown_switched_off_and_forgotten(grid: Grid) -> None:
    with BlockingClient(grid.fleet.servers) as client:
        assert client.set_hints([ExecHint("calcA", 5, 20, 90_000, 7)]) == 1
        assert client.hints() == [ExecHint("calcA", 5, 20, 90_000, 7)]
    (hint,) = grid.json("hints", "show")["hints"]
    assert (hint["exec"], hint["p99_ms"], hint["count"]) == ("calcA", 90_000, 7)
    assert "90000" in grid.run("hints", "show")
    assert grid.run("hints", "use", "off") == "hints are off\n"
    assert grid.json("settings", "show")["use_hints"] is False
    assert "hints are off" in grid.run("hints", "show")
    assert grid.json("settings", "set", "use_hints=1")["use_hints"] is True
    grid.run("hints", "use", "maybe", code=2)
    grid.run("hints", "clear")
    assert grid.json("hints", "show") == {"use_hints": True, "hints": []}


def test_settings_are_shown_and_changed(grid: Grid) -> None:
    before = grid.json("settings", "show")
    after = grid.json("settings", "set", "max_attempts=4", "client_cap=100")
    assert after == before | {"max_attempts": 4, "client_cap": 100}
    assert grid.json("settings", "show") == after
    assert "max_attempts" in grid.run("settings", "show")


def test_the_sample_clients(grid: Grid) -> None:
    host, _, port = grid.fleet.addresses[0].partition(":")
    results = grid.lines("client", host, port, "clientA", "8", "--count", "4")
    assert sorted(one["stdout"] for one in results) == [f"got {n}\n" for n in range(1, 5)]
    assert "OK" in grid.run("clientx", "clientB", grid.fleet.addresses[0], "12")
    grid.run("client", host, port, "clientA", "--exec", "calcA", "--count", "1")


def test_history_is_followed(grid: Grid) -> None:
    command = [sys.executable, "-m", "rollq", "history", "tail", "-n", "1", "--follow", "--json"]
    command += ["-s", grid.fleet.servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tail, read_in_time(tail):
        assert tail.stdout is not None
        json.loads(tail.stdout.readline())
        job_id = grid.json("submit", "calcA", "--wait")["id"]
        seen = []
        while "ack" not in seen:
            row = json.loads(tail.stdout.readline())
            if row.get("jobId") == job_id:
                seen.append(row["type"])
        tail.terminate()
    assert seen == ["enqueue", "assign", "ack"]


def test_the_log_of_a_running_member_can_be_read(grid: Grid) -> None:
    grid.run("submit", "calcA", "--wait")
    state = str(grid.fleet.state_of(grid.fleet.addresses[0]))
    records = [
        json.loads(line)
        for line in CliRunner().invoke(app, ["wal", "dump", state, "--json"]).stdout.splitlines()
    ]
    assert records[0]["kind"] == "head"
    commands = [name for one in records for e in one.get("entries", ()) for name in e["commands"]]
    assert "SubmitRun" in commands
    findings = grid.json("doctor", "--state", state)
    assert any("is using the directory" in one["what"] for one in findings["findings"])


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "rollq", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )


def test_a_member_that_must_not_start_says_why(grid: Grid, tmp_path: Path) -> None:
    address = grid.fleet.addresses[0]
    busy = start("leader", "0", "--state", str(grid.fleet.state_of(address)), "--json")
    assert (busy.returncode, busy.stdout) == (1, "")
    assert json.loads(busy.stderr.splitlines()[-1])["error"]["name"] == "disk_busy"
    taken = start("leader", address.rpartition(":")[2], "--state", str(tmp_path / "state"))
    assert taken.returncode == 1
    assert "cannot listen" in taken.stderr
    assert "Traceback" not in busy.stderr + taken.stderr


def test_a_member_whose_disk_fails_ends_with_words(tmp_path: Path) -> None:
    limited = f"ulimit -f 64; exec {sys.executable} -m rollq leader 0 --state {tmp_path / 'state'}"
    done = subprocess.run(
        ["/bin/bash", "-c", limited],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "disk_full" in done.stderr
    assert "make room" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_with_nothing_to_run_does_not_start(tmp_path: Path) -> None:
    done = start("worker", "127.0.0.1", "1", "--app", "json", "--state", str(tmp_path))
    assert done.returncode == 2
    assert "no @task function in json" in done.stderr


def test_a_member_stops_when_told_and_remembers(tmp_path: Path) -> None:
    with Fleet(tmp_path / "grid") as fleet:
        fleet.start_members(free_ports(1), "--group", "g1")
        grid = Grid(fleet)
        job_id = grid.run("submit", "calcA").strip()
        assert "no workers" in grid.run("doctor", code=1)
        fleet.stop()
        state = fleet.state_of(fleet.addresses[0])
        rows = grid.lines("history", "tail", "--state", str(state))
        assert job_id in [row.get("jobId") for row in rows]
        assert "no problems" in start("doctor", "--state", str(state)).stdout
        other = start("leader", "0", "--state", str(state), "--group", "g2")
        assert (other.returncode, other.stdout) == (1, "")
        assert "belongs to group 'g1'" in other.stderr
        assert "start it with --group g1" in other.stderr
        fleet.start_member(fleet.addresses[0], "--group", "g1")
        fleet.await_line(fleet.addresses[0], "serves on")
        assert grid.json("job", job_id)["state"] == "waiting"
    assert not (tmp_path / "grid").exists()
