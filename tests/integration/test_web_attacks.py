"""What was done to dashboards and HTTP interfaces of other systems, tried on ours. A test is named
after its case."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import httpx
import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.credentials import Credentials
from rollq.web.limits import BODY_BYTES_MAX, HEAD_BYTES_MAX
from rollq.web.routes import ROUTES
from rollq.web.server import check_protected
from rollq.web.setup import WebSetup
from tests.integration.access_grid import access_grid
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.test_web_walk import ASKS, UNKNOWN, name_of
from tests.integration.web_grid import client_of, code_of, ended, in_loop, serving

NOWHERE = WebSetup("127.0.0.1:1")  # no member: what is refused is refused before one is asked
TRICK = """#!/bin/sh
echo '<script>alert(1)</script>'
printf '<script>' > '<img src=x onerror=a>.html'
"""


def test_cve_2021_42343_a_server_listens_on_loopback_alone() -> None:
    assert WebSetup("127.0.0.1:1").host == "127.0.0.1"


def test_cve_2023_48022_nobody_serves_other_machines_without_tls_unless_told_to() -> None:
    for host in ("0.0.0.0", "::", "", "10.0.0.7", "example.com"):
        with pytest.raises(LocalError) as caught:
            check_protected(WebSetup("127.0.0.1:1", host=host))
        assert caught.value.code is ErrorCode.UNPROTECTED
        check_protected(WebSetup("127.0.0.1:1", host=host, is_unprotected=True))


@in_loop
async def test_cve_2023_48022_jobs_are_not_taken_from_strangers(tmp_path: Path) -> None:
    async with access_grid(tmp_path) as grid:
        setup = WebSetup(grid.address, credentials=Credentials(ca=grid.credentials("root").ca))
        async with serving(setup) as server, client_of(server) as client:
            answer = await client.post("jobs", json={"exec": "show"})
            assert (answer.status_code, code_of(answer)) == (401, "LOGIN_REQUIRED")


@in_loop
async def test_cve_2026_27482_every_method_that_changes_something_asks_where_from() -> None:
    """CSRF, with each method that there is, and also where nobody must log in."""
    async with serving(NOWHERE) as server:
        for row in ROUTES:
            if row.method == "GET":
                continue
            ask = ASKS[name_of(row)]
            path = row.path.replace(":path", "").format(id=UNKNOWN, name="a", member="7")[1:]
            for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
                async with client_of(server, Origin=origin) as client:
                    answer = await client.request(row.method, path, json=ask.body or {})
                    assert (answer.status_code, code_of(answer)) == (403, "ACCESS_DENIED"), path
        async with client_of(server, Origin="https://evil.example") as client:
            for method in ("PATCH", "OPTIONS", "TRACE", "FOO"):
                answer = await client.request(method, "jobs/cancel")
                assert answer.status_code in (404, 405), method
                assert "access-control-allow-origin" not in answer.headers


@in_loop
async def test_cve_2026_27482_a_form_of_another_page_is_no_json() -> None:
    """Browsers send these without asking first."""
    async with serving(NOWHERE) as server, client_of(server) as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            answer = await client.post(
                "login", content=b'{"token": "a"}', headers={"Content-Type": kind}
            )
            assert answer.status_code == 415


@in_loop
async def test_dns_rebinding_a_name_of_somebody_else_is_not_ours() -> None:
    async with serving(NOWHERE) as server:
        for host in ("evil.example", f"evil.example:{server.setup.port}", "127.0.0.1.evil.example"):
            async with client_of(server, Host=host) as client:
                for row in ROUTES:
                    path = row.path.replace(":path", "")
                    path = path.format(id=UNKNOWN, name="a", member="7", stream="stdout")[1:]
                    answer = await client.request(row.method, path)
                    assert (answer.status_code, code_of(answer)) == (403, "ACCESS_DENIED"), path


@in_loop
async def test_cve_2022_30034_a_made_up_session_opens_nothing(tmp_path: Path) -> None:
    async with access_grid(tmp_path) as grid:
        setup = WebSetup(grid.address, credentials=Credentials(ca=grid.credentials("root").ca))
        async with serving(setup) as server, client_of(server) as client:
            for value in ("", "a", "../../etc/passwd", "null", "0" * 43, "%00"):
                name = f"rollq_session_{server.setup.port}"
                answer = await client.get("jobs", headers={"Cookie": f"{name}={value}"})
                assert (answer.status_code, code_of(answer)) == (401, "LOGIN_REQUIRED")


@in_loop
async def test_cve_2026_33223_who_asks_is_not_said_by_a_header(tmp_path: Path) -> None:
    async with access_grid(tmp_path) as grid, grid.client("root") as root:
        await root.access.add("alice", roles=["client"])
        token = await root.access.new_token("alice")
        setup = WebSetup(grid.address, credentials=Credentials(ca=grid.credentials("root").ca))
        names = ("X-Forwarded-User", "X-Remote-User", "X-Account", "Rollq-Account", "Forwarded")
        async with serving(setup) as server:
            async with client_of(server, token, **dict.fromkeys(names, "root")) as client:
                assert (await client.get("me")).json()["account"] == "alice"
            async with client_of(server, **dict.fromkeys(names, "root")) as client:
                assert code_of(await client.get("me")) == "LOGIN_REQUIRED"
            lied = {"X-Forwarded-For": "10.9.9.9", "X-Real-IP": "10.9.9.9"}
            async with client_of(server, **lied) as client:
                for at in range(11):
                    answer = await client.post("login", json={"token": f"rollq_a_{at:048d}"})
                assert answer.status_code == 429
                assert "10.9.9.9" not in answer.text


@in_loop
async def test_cve_2023_46118_a_body_beyond_its_bound_is_not_read() -> None:
    async with serving(NOWHERE) as server, client_of(server) as client:
        body = b'{"token": "' + b"x" * BODY_BYTES_MAX + b'"}'
        json = {"Content-Type": "application/json"}
        answer = await client.post("login", content=body, headers=json)
        assert (answer.status_code, code_of(answer)) == (413, "FRAME_TOO_LARGE")

        async def endless() -> object:
            while True:
                yield b"x" * 65_536

        try:  # it hangs up on whoever goes on after the answer
            answer = await client.post("login", content=endless(), headers=json)  # type: ignore[arg-type]
            assert answer.status_code == 413
        except (httpx.WriteError, httpx.ReadError):
            pass


@in_loop
async def test_cve_2026_67414_small_bodies_do_not_grow_large() -> None:
    async with serving(NOWHERE) as server, client_of(server) as client:
        for body in (
            b"[" * 500_000,
            b'{"a":' * 100_000,
            b'"\xff\xfe"',
            b"\x00",
            b"",
            b"NaN",
            b"1e999",
        ):
            answer = await client.post(
                "login", content=body, headers={"Content-Type": "application/json"}
            )
            assert (answer.status_code, code_of(answer)) == (400, "BAD_OPTIONS")


@in_loop
async def test_cve_2026_27889_a_head_beyond_its_bound_ends_the_connection() -> None:
    async with serving(NOWHERE) as server:
        for head in (
            b"GET /" + b"a" * 2 * HEAD_BYTES_MAX,
            b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * HEAD_BYTES_MAX,
            b"\x16\x03\x01\x00\x00" + bytes(100),
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.setup.port)
            writer.write(head)
            told = b""
            async with asyncio.timeout(DEADLINE_S):
                with contextlib.suppress(ConnectionResetError):
                    told = await reader.read()
            assert told == b"" or told.startswith(b"HTTP/1.1 4"), told[:100]
            writer.close()
        async with client_of(server) as client:
            assert (await client.get("openapi.json")).status_code == 200


@in_loop
async def test_xss_what_jobs_write_is_never_a_page(tmp_path: Path) -> None:
    (tmp_path / "exec").mkdir()
    (tmp_path / "exec" / "trick").write_text(TRICK)
    (tmp_path / "exec" / "trick").chmod(0o755)
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            job_id = (await client.post("jobs", json={"exec": "trick"})).json()["id"]
            await ended(client, job_id)
            (made,) = (await client.get(f"jobs/{job_id}/files")).json()["outputs"]
            answers = [
                await client.get(f"jobs/{job_id}/output/stdout"),
                await client.get(f"jobs/{job_id}/files/{made['name']}"),
                await client.get(f"jobs/{job_id}"),
            ]
            kinds = [one.headers["content-type"].partition(";")[0] for one in answers]
            assert kinds == ["text/plain", "application/octet-stream", "application/json"]
            for answer in answers:
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert "script-src 'self'" in answer.headers["content-security-policy"]
                assert "unsafe" not in answer.headers["content-security-policy"]
            assert "<" not in answers[1].headers["content-disposition"]


@in_loop
async def test_cve_2024_6717_names_of_files_lead_nowhere_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with SmallGrid(tmp_path) as grid:
        async with serving(WebSetup(grid.address)) as server, client_of(server) as client:
            for name in (
                "../secret",
                "/etc/passwd",
                "a/../../secret",
                "a\\..\\b",
            ):
                answer = await client.post(
                    "jobs", data={"job": '{"exec": "show"}'}, files={"files": (name, b"x")}
                )
                assert answer.status_code == 400, (name, answer.text)
            assert secret.read_text() == "secret"
            for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd"):
                raw = httpx.URL(server.url.rstrip("/")).copy_with(raw_path=path.encode())
                assert (await client.get(raw)).status_code == 404


@in_loop
async def test_clickjacking_no_page_is_framed(tmp_path: Path) -> None:
    async with serving(NOWHERE) as server, client_of(server) as client:
        for path in ("", "jobs", "static/js/app.js", "api/v1/me", "nothing/here", "healthz"):
            answer = await client.get(server.url + path)
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "server" not in answer.headers
