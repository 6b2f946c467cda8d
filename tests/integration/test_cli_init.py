"""A cluster as `rollq init` makes it: its commands work as printed, and certificates change while
it runs."""

from __future__ import annotations

import hashlib
import json
import shlex
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rollq.cli.main import app
from rollq.net.ports import free_ports
from rollq.roles.client.blocking.clients import BlockingClient
from rollq.security.authority import read_pem
from rollq.security.certificates import facts_of
from tests.integration.patience import DEADLINE_S
from tests.integration.processes import Processes
from tests.integration.procs import until

PATIENT = {"ROLLQ_TIMEOUT": "60"}
MEMBERS = ("member-1", "member-2", "member-3")


class Made:
    """A cluster that runs by the printed commands."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.directory = processes.directory / "cluster"
        ports = free_ports(3)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        told = run("init", str(self.directory), "--hosts", ",".join(self.addresses)).stdout
        self.printed = [
            shlex.split(line)[1:] for line in told.splitlines() if line.startswith("  rollq ")
        ]

    def start(self) -> None:
        for words in self.printed:
            # On a busy machine a member may be silent for longer than 250 ms: that somebody is
            # elected must not be taken for what a change of certificates does.
            calm = ["--election-ms", "4000"] if words[2] == "leader" else []
            if words[2] in ("leader", "worker"):
                self.processes.start(Path(words[1]).parent.name, *words, *calm)
        self.processes.until_said("worker-1", "connected to leader")

    def command(self, who: str, *words: str, code: int = 0) -> Result:
        return run("--config", str(self.directory / who / "rollq.toml"), *words, code=code)

    def is_up_to_date(self) -> bool:
        """Whether members show the certificates of their directories."""
        files = [facts_of(read_pem(self.directory / name / "cert.pem")) for name in MEMBERS]
        return [one.fingerprint for one in files] == list(map(self._shown, self.addresses))

    def _shown(self, address: str) -> str:
        """The fingerprint of the certificate that a member shows now."""
        client = self.directory / "client"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(client / "ca.pem")
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), DEADLINE_S) as plain,
            context.wrap_socket(plain) as link,
        ):
            shown = link.getpeercert(binary_form=True)
        assert shown is not None
        return hashlib.sha256(shown).hexdigest()

    def alarms(self) -> list[str]:
        document = json.loads(self.command("admin", "cluster", "status", "--json").stdout)
        return [alarm["text"] for alarm in document["alarms"]]

    def term(self) -> Any:
        return json.loads(self.command("admin", "cluster", "status", "--json").stdout)["term"]


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, words, env=PATIENT)
    assert result.exit_code == code, f"{words}: {result.exit_code}\n{result.output}"
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with Processes(tmp_path_factory.mktemp("init")) as processes:
        cluster = Made(processes)
        cluster.start()
        yield cluster


def test_the_first_administrator_gives_others_tokens_as_printed(made: Made) -> None:
    add, token = made.printed[-2:]
    assert run(*add).exit_code == 0
    assert run(*token).stdout.startswith("rollq_alice_")


def test_the_first_job_runs_as_printed(made: Made) -> None:
    submit, status, *_ = made.printed[-4:]
    assert run(*submit).stdout == "hello, world\n"
    told = run(*status).stdout
    assert "worker-1" in told
    assert all(address in told for address in made.addresses)
    assert made.alarms() == []


def test_who_has_no_credentials_is_told_so(made: Made) -> None:
    refused = CliRunner().invoke(app, ["status", "-s", made.addresses[0]], env=PATIENT)
    assert refused.exit_code != 0
    assert "[tls_required]" in refused.stderr
    assert "--credentials" in refused.stderr


def test_certificates_are_renewed_under_a_running_cluster(made: Made) -> None:
    term = made.term()
    ca = str(made.directory / "ca")
    holders = [str(made.directory / name) for name in (*MEMBERS, "worker-1", "client")]
    with BlockingClient(
        ",".join(made.addresses), client_id="client/1", credentials=made.directory / "client"
    ) as client:
        assert client.submit("hello", ["before"]).result(timeout=DEADLINE_S).ok
        run("tls", "rotate", *holders, "--ca", ca)
        for name in (*MEMBERS, "worker-1"):
            made.processes.send(name, signal.SIGHUP)
        until(made.is_up_to_date)
        assert client.submit("hello", ["after"]).result(timeout=DEADLINE_S).ok
    assert run(*made.printed[-4]).stdout == "hello, world\n"
    assert made.term() == term, "no link between members was dropped"
    assert made.processes.said("worker-1").count("connected to leader") == 1


def test_the_authority_is_replaced_under_a_running_cluster(made: Made) -> None:
    term = made.term()
    ca = str(made.directory / "ca")
    everybody = [str(made.directory / name) for name in (*MEMBERS, "worker-1", "client", "admin")]
    for step in (
        ["--new-ca"],
        [*everybody, "--trust-only"],
        everybody,
        ["--drop-old-ca"],
        [*everybody, "--trust-only"],
    ):
        run("tls", "rotate", *step, "--ca", ca)
        for name in (*MEMBERS, "worker-1"):
            made.processes.send(name, signal.SIGHUP)
        if step == everybody:
            until(made.is_up_to_date)
        until(lambda: run(*made.printed[-4]).stdout == "hello, world\n")
    assert made.term() == term
    assert made.processes.said("worker-1").count("connected to leader") == 1


def test_a_certificate_that_expires_soon_is_told_of_by_status_and_doctor(made: Made) -> None:
    ca = str(made.directory / "ca")
    run("tls", "rotate", str(made.directory / "member-2"), "--ca", ca, "--days", "10")
    run("tls", "rotate", str(made.directory / "admin"), "--ca", ca, "--days", "5")
    member = f"the certificate of member {made.addresses[1]} expires in 9 days"
    until(lambda: made.alarms() == [member])
    own = "the certificate of rollq://rollq/admin/admin"
    status = made.command("admin", "status")
    assert f"ALARM {member}" in status.stdout
    assert own in status.stderr
    doctor = made.command("admin", "doctor", code=1)
    assert f"problem: {member}" in doctor.stdout
    assert f"problem: {own}" in doctor.stdout
    run("tls", "rotate", *(str(made.directory / one) for one in ("member-2", "admin")), "--ca", ca)
    until(lambda: made.alarms() == [])
    assert "expires" not in made.command("admin", "doctor").stdout
