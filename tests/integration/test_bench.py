"""The benchmark as a command: it measures, writes what it found, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
WAIT_S_MAX = 60
FILES_S_MAX = 180


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "bench", "--quick", "--dir", str(folder), *arguments]
    return subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


def living(folder: Path) -> list[str]:
    """Command lines of processes that name the folder, without the benchmark's own."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        is_dead = process.info["status"] == psutil.STATUS_ZOMBIE
        if f"{folder}/rollq-bench-" in line and not is_dead:
            found.append(line)
    return found


def test_it_measures_and_cleans_up(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    report, plot = tmp_path / "report.json", tmp_path / "plot.svg"
    peers = "local:overwrite,rollq:r1"
    bench = start(
        data, "--only", "submit", "--peers", peers, "--json", str(report), "--plot", str(plot)
    )
    assert bench.wait(WAIT_S_MAX) == 0
    document = json.loads(report.read_text())
    ratios = {key for key, value in document["ratios"].items() if value is not None}
    assert ratios == {"submit_many_jobs_per_s", "staged_jobs_per_s", "submit1_p50_vs_fdatasync"}
    assert document["versions"]["rollq:r1"].startswith("rollq ")
    assert plot.read_text().startswith("<svg")
    assert list(data.iterdir()) == []
    assert living(data) == []


def test_no_op_jobs_are_told_with_the_cpu_of_every_process(tmp_path: Path) -> None:
    data, report = tmp_path / "data", tmp_path / "report.json"
    data.mkdir()
    bench = start(
        data, "--only", "noop,latency,beside", "--peers", "rollq:r1", "--json", str(report)
    )
    assert bench.wait(WAIT_S_MAX) == 0
    figures = json.loads(report.read_text())["figures"]
    noop = {name: cell["median"] for name, cell in figures["noop"]["rollq:r1"].items()}
    parts = [noop[f"cpu_{role}_us"] for role in ("server", "upkeep", "worker", "client")]
    assert all(part > 0 for part in (parts[0], parts[2], parts[3]))
    assert sum(parts) <= noop["cpu_all_us"] + 1
    assert noop["p99_ms"] >= noop["p50_ms"] > 0
    assert figures["latency"]["rollq:r1"]["half_p99_ms"]["median"] > 0
    assert {"many_p99_ms", "commit_p99_ms"} <= set(figures["beside"]["rollq:r1"])
    assert living(data) == []


def test_files_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    data, report = tmp_path / "data", tmp_path / "files.json"
    data.mkdir()
    argv = [sys.executable, "-m", "bench.files", "--quick", "--dir", str(data)]
    done = subprocess.run(
        [*argv, "--json", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=FILES_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(report.read_text())
    assert document["failures"] == {}
    assert all(one["measured"] is not None for one in document["targets"])
    # Those that do not depend on how busy the machine is.
    timed = {"spread_vs_copies", "assign_p99_vs_idle"}
    assert set(document["missed"]) <= timed
    assert document["figures"]["spread_worker_writes"] == 4
    assert list(data.iterdir()) == []
    assert living(data) == []


def test_told_to_end_it_stops_what_it_started(tmp_path: Path) -> None:
    bench = start(tmp_path, "--only", "noop", "--peers", "rollq:r1")
    try:
        wait_until(lambda: any(" leader " in line for line in living(tmp_path)), "a member")
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(WAIT_S_MAX) == 1
        wait_until(lambda: living(tmp_path) == [], "all to end")
        assert list(tmp_path.iterdir()) == []
    finally:
        bench.kill()


def test_interrupted_it_reports_what_it_has_and_leaves_nothing(tmp_path: Path) -> None:
    data, report = tmp_path / "data", tmp_path / "report.json"
    data.mkdir()
    peers = "local:append,rollq:r1"
    bench = start(data, "--only", "submit", "--peers", peers, "--json", str(report))
    try:
        wait_until(lambda: any(" leader " in line for line in living(data)), "a member")
        os.killpg(bench.pid, signal.SIGINT)  # as Ctrl-C does: everybody in the foreground
        assert bench.wait(WAIT_S_MAX) == 130
        wait_until(lambda: living(data) == [], "all to end")
        assert list(data.iterdir()) == []
        assert list(json.loads(report.read_text())["figures"]["submit"]) == ["local:append"]
    finally:
        bench.kill()


def refusal(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    return done.stderr


def test_an_unknown_work_or_peer_is_refused() -> None:
    assert "noop" in refusal("--only", "nothing")
    assert "nobody" in refusal("--only", "noop", "--peers", "nobody")
