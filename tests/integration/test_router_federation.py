"""A router that finds its groups by gossip, serves HTTP, and hands tokens on."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from pathlib import Path

import pytest

from rollq import BlockingClient, Client, ErrorCode, RollqError
from rollq.net.ports import free_ports
from rollq.roles.client.several_groups.routes import GroupTable
from rollq.roles.router.node import RouterNode, RouterSetup
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.secret import Secret
from tests.integration.access_grid import access_grid
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, until
from tests.integration.routed import CliProcess, RoutedGrid

HOST = "127.0.0.1"


def ask(url: str, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
    """What the HTTP interface answers."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE_S)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1{path}", data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def _is_there(url: str) -> bool:
    try:
        return ask(url, "GET", "/me")[0] == 200
    except ConnectionError:
        return False


def test_jobs_are_submitted_looked_at_and_cancelled_by_http(tmp_path: Path) -> None:
    grid = RoutedGrid(tmp_path, 2, "--http", "0")
    with grid.running():
        line = grid.router.until_line("are served on")
        url = re.findall(r"http://[0-9.:]+", line)[0]
        until(lambda: _is_there(url))
        ids = []
        for number in range(4):
            status, answer = ask(url, "POST", "/jobs", {"exec": "calc", "args": [str(number)]})
            assert status in (200, 201), answer
            ids.append(answer["id"])

        def ended(job_id: object) -> bool:
            return ask(url, "GET", f"/jobs/{job_id}")[1].get("state") == "ok"

        until(lambda: all(map(ended, ids)))
        _, answer = ask(url, "POST", "/jobs", {"exec": "nap", "args": ["600"]})
        status, counted = ask(url, "POST", f"/jobs/{answer['id']}/cancel", {})
        assert (status, counted) == (200, {"count": 1})
        status, cluster = ask(url, "GET", "/cluster")
        assert status == 200
        assert f"g0/127.0.0.1:{grid.members[0].port}" in str(cluster)
        status, overview = ask(url, "GET", "/overview")
        assert status == 200, overview
        status, refused = ask(url, "GET", "/settings")
        assert status == 400
        assert "ask a member of one group" in str(refused)


def test_groups_of_a_federation_are_found_and_followed(tmp_path: Path) -> None:
    key = tmp_path / "federation.key"
    made = CliProcess(tmp_path, 0, "federation", "key", str(key)).spawn()
    assert made.wait() == 0
    port, *ports = free_ports(4)
    seeds = f"127.0.0.1:{ports[0]}"

    gossip = ("--federation-key", str(key), "--seeds", seeds)

    def member(number: int) -> MemberProcess:
        words = ("leader", str(ports[number]), "--group", f"g{number}", "--state", "state")
        return CliProcess(tmp_path / f"g{number}", ports[number], *words, *gossip)

    members = [member(number) for number in range(3)]
    router = CliProcess(
        tmp_path / "router", port, "router", "--listen", f"127.0.0.1:{port}", *gossip
    )
    try:
        for one in members[:2]:
            one.spawn().until_line("serves on")
        router.spawn().until_line("serves on")
        router.until_line("group g0 can be reached")
        router.until_line("group g1 can be reached")
        members[2].spawn().until_line("serves on")
        router.until_line("group g2 can be reached")
        with BlockingClient(f"127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            jobs = [client.submit("calc") for _ in range(6)]
            assert len(jobs) == 6
            found = until(lambda: client.groups().groups)
            assert {group.name for group in found} <= {"g0", "g1", "g2"}
        with BlockingClient(seeds, timeout=DEADLINE_S) as client:
            routers = until(lambda: client.groups().routers)
        assert [(one.address, one.standing) for one in routers] == [(f"127.0.0.1:{port}", "alive")]
    finally:
        for one in (*members, router):
            one.kill()


def test_a_router_speaks_tls_and_shows_the_groups_nothing_but_the_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with access_grid(tmp_path) as grid:
            async with grid.client("root", timeout=DEADLINE_S) as root:
                await root.access.add("ann", roles=("client",))
                token = await root.access.new_token("ann")
            shown = grid.cluster.credentials(CertificateRole.MEMBER, "router")
            table = GroupTable()
            node = RouterNode(RouterSetup({"one": grid.address}, table, credentials=shown), HOST, 0)
            await node.start()
            address = f"{HOST}:{node.port}"
            right = Credentials(shown.directory, ca=shown.ca, token=Secret(token.encode()))
            async with Client(address, credentials=right, timeout=DEADLINE_S) as ann:
                job = await ann.submit("show", ["in.txt"], files={"in.txt": b"hello"})
                assert (await job.result(DEADLINE_S)).stdout == "hello"
            nobody = Credentials(shown.directory, ca=shown.ca)
            async with Client(address, credentials=nobody, timeout=DEADLINE_S) as stranger:
                with pytest.raises(RollqError) as refused:
                    await stranger.submit("show")
                assert refused.value.code is ErrorCode.LOGIN_REQUIRED
            async with Client(address, timeout=DEADLINE_S) as plain:
                with pytest.raises(RollqError) as refused:
                    await plain.submit("show")
                assert refused.value.code is ErrorCode.TLS_REQUIRED
            await node.stop()

    asyncio.run(story())


@pytest.fixture
def guarded(tmp_path: Path) -> object:
    """A member that asks everybody who they are, a router before it, and a token."""
    member = MemberProcess(tmp_path / "state", auth="allow").start()
    with BlockingClient(member.address, timeout=DEADLINE_S) as client:
        client.access.add("ann", roles=("client",))
        token = client.access.new_token("ann")
    assert member.stop() == 0
    member.change(auth="require")
    member.start()
    (port,) = free_ports(1)
    words = ("router", "--listen", f"127.0.0.1:{port}", "--group", f"one={member.address}")
    router = CliProcess(tmp_path / "router", port, *words, "--group", "gone=127.0.0.1:1")
    router.spawn().until_line("serves on")
    yield router, token
    router.kill()
    member.kill()


def test_a_client_is_in_the_groups_what_its_token_says(
    guarded: tuple[MemberProcess, str],
) -> None:
    router, token = guarded

    async def story() -> None:
        right = Credentials(token=Secret(token.encode()))
        async with Client(router.address, credentials=right, timeout=DEADLINE_S) as client:
            job = await client.submit("calc", files={"in.bin": b"x" * 200_000})
            assert (await client.jobs.status(job.job_id)) is not None
            with pytest.raises(RollqError) as denied:
                await client.query("clients")
            assert denied.value.code is ErrorCode.ACCESS_DENIED
        wrong = Credentials(token=Secret(token[:-4].encode() + b"AAAA"))
        for given, code in ((wrong, ErrorCode.LOGIN_FAILED), (NONE, ErrorCode.LOGIN_REQUIRED)):
            async with Client(router.address, credentials=given, timeout=DEADLINE_S) as client:
                with pytest.raises(RollqError) as refused:
                    await client.submit("calc")
                assert refused.value.code is code

    asyncio.run(story())
