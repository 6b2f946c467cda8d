"""Compressed frames between real processes: members, a worker and a client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from rollq.cli.fleet import write_program
from rollq.net.ports import free_ports
from tests.integration.processes import Processes
from tests.integration.procs import until

LINES = "".join(f"line {n} of some text\n" for n in range(1_000))
SAVED = re.compile(r"^rollq_link_saved_bytes_total (\S+)$", re.MULTILINE)


def rollq(directory: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rollq", "--compress", "always", *words],
        cwd=directory,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def saved_bytes(directory: Path, address: str) -> float:
    """What compression has spared a member of what it sent."""
    (found,) = SAVED.findall(rollq(directory, "metrics", "show", "--servers", address))
    return float(found)


def test_members_workers_and_clients_compress_for_each_other(tmp_path: Path) -> None:
    ports = free_ports(2)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    servers = ",".join(addresses)
    (tmp_path / "exec").mkdir()
    with Processes(tmp_path) as processes:
        for number in (0, 1):
            more = "--peers", addresses[1 - number], "--state", f"m{number}"
            leader = "--compress", "always", "leader", str(ports[number])
            processes.start(f"m{number}", *leader, *more)
        arguments = rollq(tmp_path, "submit", "echo", LINES, "--servers", servers).strip()
        leads = json.loads(rollq(tmp_path, "status", "--json", "--servers", servers))
        address = leads["cluster"]["leader"]
        # No worker is there yet: what is saved was saved on the way to the other member.
        until(lambda: saved_bytes(tmp_path, address) > len(LINES) // 2)
        write_program(tmp_path / "exec", "echo", 'printf "%s" "$1"')
        where = "127.0.0.1", str(ports[0]), "--servers", servers, "--exec-dir", "exec"
        processes.start("w", "--compress", "always", "worker", *where)
        result = json.loads(rollq(tmp_path, "wait", arguments, "--json", "--servers", servers))
        assert result["state"] == "ok"
        assert rollq(tmp_path, "logs", arguments, "--servers", servers) == LINES
        until(lambda: saved_bytes(tmp_path, address) > len(LINES))
