"""A federation of real processes: five groups of one member each, found from one address."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rollq import BlockingClient, BlockingMultiClient, ErrorCode, FederationView, LocalError
from rollq.cli.fleet import write_program
from rollq.net.ports import free_ports
from rollq.observe.catalog import CATALOG, GOSSIP
from tests.integration.patience import DEADLINE_S
from tests.integration.processes import Processes
from tests.integration.procs import until

GROUPS = 5


class Federation:
    """The groups by their numbers; the first is the seed of the others."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.ports = free_ports(GROUPS)
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports]
        self.rollq("federation", "key", "federation.key")
        for number in range(GROUPS):
            self.start(number)
        self.until_all(dict.fromkeys(range(GROUPS), "up"))

    def start(self, number: int) -> None:
        """Start a member, again or for the first time."""
        seeds = ("--seeds", self.addresses[0]) if number else ()
        self.member(number, "--federation-key", "federation.key", *seeds)

    def member(self, number: int, *words: str) -> None:
        port, state = str(self.ports[number]), f"m{number}"
        self.processes.start(
            state, "leader", port, "--group", f"g{number}", "--state", state, *words
        )

    def rollq(self, *words: str, code: int = 0) -> str:
        """What a command writes."""
        done = subprocess.run(
            [sys.executable, "-m", "rollq", *words],
            cwd=self.processes.directory,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def view(self, number: int) -> FederationView:
        """What a member knows."""
        with BlockingClient(self.addresses[number], timeout=DEADLINE_S) as client:
            return client.groups()

    def until_all(self, wanted: dict[int, str], among: list[int] | None = None) -> None:
        """Wait until all of these members, or those that are to be up, see the groups so."""
        named = {f"g{number}": state for number, state in wanted.items()}
        for number in among or [number for number, state in wanted.items() if state == "up"]:
            until(partial(self._sees, number, named))

    def _sees(self, number: int, named: dict[str, str]) -> bool:
        return {group.name: group.state for group in self.view(number).groups} == named


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with Processes(tmp_path_factory.mktemp("federation")) as processes:
        yield Federation(processes)


def test_all_groups_are_shown_from_any_address(federation: Federation) -> None:
    document = json.loads(
        federation.rollq("groups", "--json", "--address", federation.addresses[3])
    )
    assert document["gossip"]
    assert document["asked"] == federation.addresses[3]
    assert [group["leader"] for group in document["groups"]] == federation.addresses
    assert [group["members_known"] for group in document["groups"]] == [1] * GROUPS
    table = federation.rollq("groups", "--address", federation.addresses[2]).splitlines()
    assert table[0].split()[:4] == ["group", "state", "leader", "members"]
    assert [line.split()[:4] for line in table[1:]] == [
        [f"g{number}", "up", address, "1/1"] for number, address in enumerate(federation.addresses)
    ]


def test_metrics_are_those_of_the_catalog(federation: Federation) -> None:
    told = federation.rollq("metrics", "show", "--servers", federation.addresses[1])
    families = {family.name: family for family in text_string_to_metric_families(told)}
    rows = {name: row for name, row in CATALOG.items() if row.exporter == GOSSIP}
    assert len(rows) == 6
    for name, row in rows.items():
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (row.kind, row.meaning)
        assert all(set(sample.labels) == set(row.labels) for sample in family.samples)
    alive = [one for one in families["rollq_gossip_nodes"].samples if one.value]
    assert [(one.labels["standing"], one.value) for one in alive] == [("alive", GROUPS)]


def test_a_group_that_is_killed_is_down_for_all_and_comes_back(federation: Federation) -> None:
    up = dict.fromkeys(range(GROUPS), "up")
    federation.processes.kill("m4")
    federation.until_all(up | {4: "down"})
    federation.start(4)
    federation.until_all(up)


def test_a_group_that_is_stopped_is_down_for_all_and_comes_back(federation: Federation) -> None:
    up = dict.fromkeys(range(GROUPS), "up")
    federation.processes.send("m0", signal.SIGSTOP)  # the seed: nobody needs it any more
    try:
        federation.until_all(up | {0: "down"})
    finally:
        federation.processes.send("m0", signal.SIGCONT)
    federation.until_all(up)


def test_a_group_that_leaves_is_down_at_once(federation: Federation) -> None:
    up = dict.fromkeys(range(GROUPS), "up")
    federation.processes.stop("m3")
    federation.until_all(up | {3: "down"})
    (group,) = [group for group in federation.view(1).groups if group.name == "g3"]
    assert [member.standing for member in group.members] == ["left"]
    federation.start(3)
    federation.until_all(up)


def test_without_the_key_nobody_is_heard(federation: Federation, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    federation.rollq("federation", "key", str(tmp_path / "other.key"))
    words = ("--group", "stranger", "--state", "stranger", "--seeds", federation.addresses[0])
    key = ("--federation-key", str(tmp_path / "other.key"))
    federation.processes.start("stranger", "leader", str(port), *words, *key)
    federation.processes.until_said("m0", "is signed with a key that is not in the key file here")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
        for _ in range(10):  # they fit its buffer: none is lost
            flood.sendto(b"\x01" + bytes(2_000), ("127.0.0.1", federation.ports[0]))
    metrics = ("metrics", "show", "--servers", federation.addresses[0])

    def is_counted() -> bool:
        told = federation.rollq(*metrics)
        return 'reason="too_long"} 10.0' in told and 'reason="no_key"} 0.0' not in told

    until(is_counted)
    names = [group.name for group in federation.view(0).groups]
    assert names == [f"g{number}" for number in range(GROUPS)]
    with BlockingClient(f"127.0.0.1:{port}", timeout=DEADLINE_S) as client:
        assert [group.name for group in client.groups().groups] == ["stranger"]
    federation.processes.kill("stranger")


def test_without_a_key_there_is_no_socket_and_no_map(federation: Federation) -> None:
    port = free_ports(1)[0]
    federation.processes.start("alone", "leader", str(port), "--state", "alone")
    federation.processes.until_said("alone", "is the leader in term")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", port))
    told = federation.rollq("groups", "--address", f"127.0.0.1:{port}")
    assert "does not gossip: start members with --federation-key" in told
    with (
        pytest.raises(LocalError) as error,
        BlockingMultiClient.discover(f"127.0.0.1:{port}", timeout=DEADLINE_S),
    ):
        pass
    assert error.value.code is ErrorCode.BAD_SETUP
    federation.processes.kill("alone")


def test_a_client_finds_all_groups_and_follows_one_that_comes(federation: Federation) -> None:
    processes = federation.processes
    (processes.directory / "exec").mkdir()
    write_program(processes.directory / "exec", "echo", 'echo "$1"')
    port = free_ports(1)[0]

    def worker(name: str, port: int) -> None:
        where = ("127.0.0.1", str(port), "--exec-dir", "exec", "--state", name)
        processes.start(name, "worker", *where)
        processes.until_said(name, "connected to leader")

    for number in (1, 2):
        worker(f"w{number}", federation.ports[number])
    with BlockingMultiClient.discover(
        federation.addresses[1], routes=[">=g1,g2,g9"], timeout=DEADLINE_S
    ) as client:
        assert set(client.spread) == {f"g{number}" for number in range(GROUPS)}
        results = client.map("echo", [[str(number)] for number in range(20)])
        assert {result.stdout for result in results} == {f"{number}\n" for number in range(20)}
        assert client.spread["g1"] + client.spread["g2"] == 20
        seeds = ("--seeds", federation.addresses[2], "--federation-key", "federation.key")
        processes.start("m9", "leader", str(port), "--group", "g9", "--state", "m9", *seeds)
        until(lambda: "g9" in client.spread)
        worker("w9", port)

        def has_share() -> bool:
            list(client.map("echo", [[str(number)] for number in range(20)]))
            return client.spread["g9"] > 0

        until(has_share)
    processes.stop("m9")
