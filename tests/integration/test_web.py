"""The HTTP interface over real members and workers: jobs, output, files, live events, sessions."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from rollq.net.ports import free_ports
from rollq.security.credentials import Credentials
from rollq.web.server import WebServer
from rollq.web.setup import WebSetup
from tests.integration.access_grid import access_grid
from tests.integration.patience import DEADLINE_S
from tests.integration.receiver import Receiver
from tests.integration.small_grid import SmallGrid
from tests.integration.web_grid import client_of, code_of, ended, events, in_loop, serving

SLOW = '#!/bin/sh\necho one\nwhile [ ! -e "$1" ]; do sleep 0.05; done\necho two\n'
LEAVE = '#!/bin/sh\ncat "$@"\nprintf made > "re<b>sult \\"1\\".txt"\n'
FAIL = "#!/bin/sh\necho no >&2\nexit 3\n"


def programs(directory: Path) -> None:
    (directory / "exec").mkdir(exist_ok=True)
    for name, text in (("slow", SLOW), ("leave", LEAVE), ("fail", FAIL)):
        (directory / "exec" / name).write_text(text)
        (directory / "exec" / name).chmod(0o755)


@in_loop
async def test_a_job_from_the_form_to_its_files(tmp_path: Path) -> None:
    programs(tmp_path)
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            large = os.urandom(300_000)
            posted = await client.post(
                "jobs",
                data={"job": '{"exec": "leave", "args": ["a.txt"], "key": "k"}'},
                files=[("files", ("a.txt", b"small\n")), ("files", ("dir/large", large))],
            )
            assert posted.status_code == 201
            job_id = posted.json()["id"]
            assert posted.headers["location"] == f"/api/v1/jobs/{job_id}"
            job = await ended(client, job_id)
            assert job["state"] == "ok"
            assert (await client.get(f"jobs/{job_id}/output/stdout")).text == "small\n"
            listed = (await client.get(f"jobs/{job_id}/files")).json()
            assert [one["name"] for one in listed["outputs"]] == ['re<b>sult "1".txt']
            assert [one["kept"] for one in listed["inputs"]] == [False, True]
            made = await client.get(f'jobs/{job_id}/files/re<b>sult "1".txt')
            assert made.content == b"made"
            assert made.headers["content-disposition"].startswith("attachment; ")
            assert made.headers["content-type"] == "application/octet-stream"
            given = await client.get(
                f"jobs/{job_id}/files/dir/large", headers={"Range": "bytes=5-9"}
            )
            assert (given.status_code, given.content) == (206, large[5:10])
            whole = await client.get(f"jobs/{job_id}/files/dir/large")
            assert whole.content == large
            told = (await client.get(f"jobs/{job_id}/timeline")).json()
            assert told["whole"]
            assert [one["event"] for one in told["events"]][:3] == ["accepted", "assigned", "ok"]


@in_loop
async def test_a_key_is_accepted_once(tmp_path: Path) -> None:
    programs(tmp_path)
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            body = {"exec": "slow", "args": [str(tmp_path / "go")], "key": "k"}
            first = await client.post("jobs", json=body)
            again = await client.post("jobs", json=body)  # while the first one runs
            assert (first.status_code, again.status_code) == (201, 201)
            assert first.json() == again.json()
            other = await client.post("jobs", json=body | {"args": []})
            assert (other.status_code, code_of(other)) == (409, "JOB_CONFLICT")
            (tmp_path / "go").touch()
            assert (await ended(client, first.json()["id"]))["attempt"] == 1


@in_loop
async def test_a_url_is_told_how_a_job_ended(tmp_path: Path) -> None:
    programs(tmp_path)
    with SmallGrid(tmp_path, "rollq.webhook") as grid, Receiver() as receiver:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            body = {"exec": "fail", "key": "k", "notify": [receiver.url]}
            first = await client.post("jobs", json=body)
            again = await client.post("jobs", json=body)
            assert (first.status_code, first.json()) == (201, again.json())
            (posted,) = await asyncio.to_thread(receiver.until_told)
            (told,) = posted.told["jobs"]
            assert (told["id"], told["exit_code"]) == (first.json()["id"], 3)
            assert (await ended(client, posted.key))["state"] == "ok"
            assert len(receiver.requests) == 1
            refused = await client.post("jobs", json=body | {"notify": ["ftp://a/"]})
            assert code_of(refused) == "BAD_OPTIONS"


@in_loop
async def test_output_comes_while_a_job_runs(tmp_path: Path) -> None:
    programs(tmp_path)
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            go = tmp_path / "go"
            posted = await client.post("jobs", json={"exec": "slow", "args": [str(go)]})
            job_id = posted.json()["id"]
            said = ""
            async with client.stream("GET", f"jobs/{job_id}/follow") as answer:
                async for kind, told in events(answer):
                    if kind == "end":
                        break
                    said += told["text"]
                    if said == "one\n":
                        go.touch()
            assert said == "one\ntwo\n"


@in_loop
async def test_what_ended_badly_is_grouped_cancelled_and_made_again(tmp_path: Path) -> None:
    programs(tmp_path)
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            body = {"exec": "fail", "options": {"max_attempts": 1, "retry_exit_codes": [3]}}
            ids = [(await client.post("jobs", json=body)).json()["id"] for _ in range(3)]
            for job_id in ids:
                assert (await ended(client, job_id))["state"] == "dead"
            (group,) = (await client.get("dead?group_by=cause")).json()["groups"]
            assert (group["cause"], group["count"], group["exec"]) == ("exit_code", 3, "fail")
            assert sorted(group["ids"]) == sorted(ids)
            redriven = await client.post("dead/redrive", json={"ids": ids[:1]})
            assert redriven.json() == {"count": 1}
            assert (await ended(client, ids[0]))["attempt"] == 2
            other = await client.post(f"jobs/{ids[0]}/redrive", json={"args": ["other"]})
            assert other.json() == {"count": 1}
            assert (await ended(client, ids[0]))["request"]["args"] == ["other"]
            again = await client.post(f"jobs/{ids[0]}/again", json={"args": ["x"]})
            assert again.status_code == 201
            assert again.json()["id"] not in ids
            assert (await ended(client, again.json()["id"]))["request"]["args"] == ["x"]
            purged = await client.post("dead/purge", json={"filter": {"exec": "fail"}})
            assert purged.json() == {"count": 4}
            await client.post("queues/fail/pause")
            for _ in range(3):
                await client.post("jobs", json={"exec": "fail"})
            cancelled = await client.post("jobs/cancel", json={"filter": {"queue": "fail"}})
            assert cancelled.json() == {"count": 3}
            assert (await client.post("jobs/cancel", json={"filter": {}})).status_code == 400


@in_loop
async def test_pages_of_one_account_are_looked_at_for_once(tmp_path: Path) -> None:
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            seen: list[list[int]] = []

            async def watch() -> None:
                numbers: list[int] = []
                seen.append(numbers)
                async with client_of(server) as own, own.stream("GET", "live") as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("id: "):
                            numbers.append(int(line[4:]))
                        if len(numbers) == 3:
                            return

            await asyncio.wait_for(asyncio.gather(*(watch() for _ in range(10))), DEADLINE_S)
            assert {tuple(one) for one in seen} <= {(1, 2, 3), (2, 3, 4)}, "one count for all"
            overview = (await client.get("overview")).json()
            assert overview["member"] == grid.address
            assert len(overview["history"]) >= 3


@in_loop
async def test_a_stream_goes_on_while_the_member_is_away(tmp_path: Path) -> None:
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            kinds: list[str] = []
            async with asyncio.timeout(DEADLINE_S), client.stream("GET", "live") as answer:
                async for kind, _ in events(answer):
                    if kind == "overview" and not kinds:
                        await asyncio.to_thread(grid.stop_member)
                    if kind == "gone" and "gone" not in kinds:
                        await asyncio.to_thread(grid.start_member)
                    kinds.append(kind)
                    if "back" in kinds and kind == "overview":
                        break
            assert kinds.index("gone") < kinds.index("back")


@in_loop
async def test_pages_without_a_name_are_of_the_group_of_the_members(tmp_path: Path) -> None:
    with SmallGrid(tmp_path, member={"group": "trio"}) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            assert (await client.get("me")).json()["group"] == "trio"
        setup = WebSetup(grid.address, group="other")
        async with serving(setup) as server, client_of(server) as client:
            refused = await client.get("me")
            assert (refused.status_code, code_of(refused)) == (503, "BAD_HANDSHAKE")


@in_loop
async def test_a_session_is_opened_with_a_token_and_closed(tmp_path: Path) -> None:
    async with access_grid(tmp_path) as grid, grid.client("root") as root:
        await root.access.add("alice", roles=["client"])
        token = await root.access.new_token("alice")
        setup = WebSetup(grid.address, credentials=Credentials(ca=grid.credentials("root").ca))
        async with serving(setup) as server, client_of(server) as client:
            origin = {"Origin": server.url.rstrip("/")}
            assert code_of(await client.get("me")) == "LOGIN_REQUIRED"
            opened = await client.post("login", json={"token": token}, headers=origin)
            assert opened.json() == {"account": "alice"}
            cookie = opened.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            me = (await client.get("me")).json()
            assert (me["account"], me["auth"]) == ("alice", "require")
            assert "jobs.submit" in me["actions"]
            assert "cluster.change" not in me["actions"]
            posted = await client.post("jobs", json={"exec": "show"}, headers=origin)
            assert posted.json()["client"] == "alice/web"
            assert code_of(await client.post("jobs", json={"exec": "show"})) == "ACCESS_DENIED"
            await root.access.set_disabled("alice", True)
            refused = await client.get("jobs")
            assert refused.status_code in (401, 403)
            await root.access.set_disabled("alice", False)
            await client.post("logout", json={}, headers=origin)
            assert code_of(await client.get("me")) == "LOGIN_REQUIRED"


@in_loop
async def test_logins_are_refused_after_too_many(tmp_path: Path) -> None:
    async with access_grid(tmp_path) as grid:
        setup = WebSetup(grid.address, credentials=Credentials(ca=grid.credentials("root").ca))
        async with serving(setup) as server, client_of(server) as client:
            statuses = [
                (await client.post("login", json={"token": f"rollq_eve_{n:048d}"})).status_code
                for n in range(11)
            ]
            assert statuses == [401] * 10 + [429]


@in_loop
async def test_pages_come_with_https_where_there_is_a_certificate(tmp_path: Path) -> None:
    async with access_grid(tmp_path) as grid, grid.client("root") as root:
        await root.access.add("alice", roles=["client"])
        token = await root.access.new_token("alice")
        member = grid.members[0].setup.credentials
        setup = WebSetup(grid.address, host="0.0.0.0", credentials=member)
        server = WebServer(setup)
        server.start()
        try:
            base = server.url.replace("0.0.0.0", "127.0.0.1")
            assert base.startswith("https://")
            async with httpx.AsyncClient(base_url=base, verify=False, timeout=DEADLINE_S) as client:
                assert code_of(await client.get("api/v1/jobs")) == "LOGIN_REQUIRED"
                opened = await client.post("api/v1/login", json={"token": token})
                assert "Secure" in opened.headers["set-cookie"]
                assert opened.headers["set-cookie"].startswith("__Host-")
                assert "max-age" in opened.headers["strict-transport-security"]
                assert (await client.get("api/v1/me")).json()["account"] == "alice"
        finally:
            await server.stop()


@in_loop
async def test_beyond_loopback_a_group_must_ask_who_somebody_is(tmp_path: Path) -> None:
    """Where it asks nobody, it takes any token for good."""
    with SmallGrid(tmp_path) as grid:
        setup = WebSetup(grid.address, host="0.0.0.0")
        server = WebServer(setup)
        server.start()
        try:
            base = server.url.replace("0.0.0.0", "127.0.0.1") + "api/v1/"
            async with httpx.AsyncClient(base_url=base, timeout=DEADLINE_S) as client:
                assert code_of(await client.get("jobs")) == "LOGIN_REQUIRED"
                made_up = {"Authorization": f"Bearer rollq_root_{'1' * 48}"}
                answer = await client.get("jobs", headers=made_up)
                assert (answer.status_code, code_of(answer)) == (403, "UNPROTECTED")
        finally:
            await server.stop()


@in_loop
async def test_a_head_that_does_not_come_ends_its_connection(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("rollq.web.server.HEAD_S", 0.2)
    async with serving(WebSetup("127.0.0.1:1")) as server:
        host, port = "127.0.0.1", server.setup.port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        await writer.drain()
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b""
        writer.close()


@in_loop
async def test_a_server_stops_with_streams_open(tmp_path: Path) -> None:
    with SmallGrid(tmp_path) as grid:
        async with (
            serving(WebSetup(grid.address)) as server,
            client_of(server) as client,
            client.stream("GET", "live") as answer,
        ):
            told = events(answer)
            assert (await anext(told))[0] == "overview"
            stopping = asyncio.create_task(server.stop())
            kinds = [kind async for kind, _ in told]  # it ends cleanly, not by a cut
            assert set(kinds) <= {"overview", "gone", "back"}
            await asyncio.wait_for(stopping, DEADLINE_S)


def metrics_client(server: WebServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, timeout=DEADLINE_S)


@in_loop
async def test_metrics_are_those_of_the_member_that_is_asked(tmp_path: Path) -> None:
    with SmallGrid(tmp_path) as grid:
        setup = WebSetup(grid.address)
        async with serving(setup) as server, metrics_client(server) as client:
            told = await client.get("/metrics")
            assert told.status_code == 200
            assert told.headers["content-type"].startswith("text/plain")
            names = {family.name for family in text_string_to_metric_families(told.text)}
            assert {"rollq_raft_term", "rollq_links", "rollq_build_info"} <= names
            accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
            told = await client.get("/metrics", headers=accept)
            assert told.text.endswith("# EOF\n")
        gone = WebSetup(grid.address, prefer=f"127.0.0.1:{free_ports(1)[0]}")
        async with serving(gone) as server, metrics_client(server) as client:
            told = await client.get("/metrics")
            assert (told.status_code, code_of(told)) == (503, "UNREACHABLE")


@in_loop
async def test_metrics_need_an_account_where_members_ask_for_one(tmp_path: Path) -> None:
    async with access_grid(tmp_path) as grid, grid.client("root") as root:
        await root.access.add("alice", roles=["reader"])
        token = await root.access.new_token("alice")
        setup = WebSetup(grid.address, credentials=Credentials(ca=grid.credentials("root").ca))
        async with serving(setup) as server, metrics_client(server) as client:
            told = await client.get("/metrics")
            assert (told.status_code, code_of(told)) == (401, "LOGIN_REQUIRED")
            bearer = {"Authorization": f"Bearer {token}"}
            told = await client.get("/metrics", headers=bearer)
            assert (told.status_code, "rollq_raft_term" in told.text) == (200, True)
