"""Every route of HTTP, asked by everybody who should not be heard: without a login, with a wrong or
an expired token, without the right; and by one who has it. A route that has no row here fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from rollq.base.access import Action
from rollq.base.access_rules import Rule
from rollq.base.ids import guid_to_text
from rollq.documents.jobs import batch_id
from rollq.roles.client.client import Client
from rollq.security.credentials import Credentials
from rollq.web import views
from rollq.web.routes import ROUTES, ApiRoute
from rollq.web.sessions import FailedLogins
from rollq.web.setup import WebSetup
from tests.integration.access_grid import AccessGrid, access_grid
from tests.integration.web_grid import client_of, code_of, ended, in_loop, serving

UNKNOWN: Final = "00000000-0000-0000-0000-000000000001"
WRONG: Final = "rollq_root_" + "0" * 48
Known = dict[str, str]  # ids of what is there


class Ask(NamedTuple):
    """How a route is asked, and what becomes of it.

    Attributes:
        path: Parts of the path.
        query: Behind the `?`.
        body: As JSON.
        allowed: The status for whoever has the right.
        denied: For whoever has every right but that one. A job that may not be seen is told as one
            that does not exist; of many, none is found.
    """

    path: Callable[[Known], dict[str, str]] = lambda _: {}
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    allowed: int = 200
    denied: tuple[int, str] = (403, "ACCESS_DENIED")


def job(known: Known) -> dict[str, str]:
    return {"id": known["job"]}


def named(known: Known) -> dict[str, str]:
    return {"name": "show"}


UNSEEN: Final = (404, "UNKNOWN_JOB")
NONE: Final = (200, "")
ASKS: Final[dict[str, Ask]] = {
    "GET /openapi.json": Ask(),
    "GET /me": Ask(),
    "POST /login": Ask(body={"token": WRONG}, allowed=401),
    "POST /logout": Ask(),
    "GET /overview": Ask(),
    "GET /live": Ask(),
    "GET /jobs": Ask(),
    "POST /jobs": Ask(body={"exec": "show"}, allowed=201),
    "POST /jobs/cancel": Ask(body={"ids": [UNKNOWN]}, denied=NONE),
    "POST /jobs/redrive": Ask(body={"filter": {"state": "dead", "queue": "nobody"}}, denied=NONE),
    "GET /jobs/{id}": Ask(job, denied=UNSEEN),
    "GET /jobs/{id}/timeline": Ask(job, denied=UNSEEN),
    "GET /jobs/{id}/explain": Ask(job, denied=UNSEEN),
    # Of a job that has ended it is part of the job, which may be read.
    "GET /jobs/{id}/output/{stream}": Ask(
        lambda known: job(known) | {"stream": "stdout"}, denied=NONE
    ),
    "GET /jobs/{id}/follow": Ask(job, denied=NONE),
    "GET /jobs/{id}/files": Ask(job, denied=UNSEEN),
    "GET /jobs/{id}/files/{name}": Ask(
        lambda known: job(known) | {"name": "big"}, denied=(404, "BLOB_MISSING")
    ),
    "POST /jobs/{id}/cancel": Ask(job, allowed=200, denied=NONE),
    "POST /jobs/{id}/redrive": Ask(job, allowed=409, denied=UNSEEN),
    "POST /jobs/{id}/again": Ask(job, body={"args": []}, allowed=201),
    "GET /arrays": Ask(),
    "GET /arrays/{id}": Ask(lambda known: {"id": known["array"]}, denied=UNSEEN),
    "GET /arrays/{id}/failures": Ask(lambda known: {"id": known["array"]}, denied=UNSEEN),
    "GET /batches": Ask(),
    "GET /batches/{id}": Ask(lambda known: {"id": known["batch"]}),
    "GET /batches/{id}/failures": Ask(lambda known: {"id": known["batch"]}),
    "GET /dead": Ask(),
    "POST /dead/redrive": Ask(body={"all": True}, denied=NONE),
    "POST /dead/purge": Ask(body={"all": True}, denied=NONE),
    "GET /workers": Ask(),
    "GET /workers/{id}": Ask(lambda known: {"id": known["worker"]}),
    "POST /workers/{id}/drain": Ask(lambda _: {"id": UNKNOWN}, allowed=404),
    "POST /workers/{id}/undrain": Ask(lambda _: {"id": UNKNOWN}),
    "POST /workers/{id}/dismiss": Ask(lambda _: {"id": UNKNOWN}, allowed=404),
    "GET /queues": Ask(),
    "GET /queues/{name}": Ask(named),
    "POST /queues/{name}/pause": Ask(named),
    "POST /queues/{name}/resume": Ask(named),
    "GET /settings": Ask(),
    "PUT /settings": Ask(body={"max_attempts": 5}),
    "GET /policies": Ask(),
    "PUT /policies": Ask(body={"pattern": "q", "placement": "sticky"}),
    "POST /policies/remove": Ask(body={"pattern": "q"}),
    "GET /limits": Ask(),
    "PUT /limits": Ask(body={"name": "exec:nothing", "running_max": 1, "rate": "3/s"}),
    "POST /limits/remove": Ask(body={"name": "exec:nothing"}),
    "GET /weights": Ask(),
    "PUT /weights": Ask(body={"client": "ann", "weight": 3}),
    "GET /cluster": Ask(),
    "GET /groups": Ask(),
    "POST /cluster/members": Ask(body={"id": "7", "address": "127.0.0.1:1"}),
    "DELETE /cluster/members/{member}": Ask(lambda _: {"member": "7"}),
    "POST /cluster/transfer": Ask(body={"id": "7"}, allowed=409),
    "GET /files": Ask(),
    "GET /files/{name}/holders": Ask(named),
    "GET /topics": Ask(),
    "GET /topics/{name}": Ask(named, allowed=404),
    "GET /schedules": Ask(),
    "PUT /schedules": Ask(body={"name": "walk", "every_ms": 3_600_000, "job": {"exec": "exe"}}),
    "GET /schedules/{name}": Ask(named, allowed=404),
    "DELETE /schedules/{name}": Ask(named, allowed=404),
    "POST /schedules/{name}/pause": Ask(named, allowed=404),
    "POST /schedules/{name}/resume": Ask(named, allowed=404),
    "POST /schedules/{name}/run": Ask(named, allowed=404),
    "GET /access/accounts": Ask(),
    "GET /access/roles": Ask(),
    "GET /access/check": Ask(
        query=(("account", "all"), ("action", "jobs.read"), ("resource", "client:all"))
    ),
    "GET /audit": Ask(),
    "GET /history": Ask(),
    "GET /history/{name}": Ask(lambda _: {"name": "gold_hourly"}, allowed=404),
}


# Served outside of the table, by the same rules.
METRICS: Final = ApiRoute("GET", "/metrics", views.cluster, Action.CLUSTER_READ)


def name_of(row: ApiRoute) -> str:
    return f"{row.method} {row.path.replace(':path', '')}"


@in_loop
async def test_walk(tmp_path: Path, capsys: Any) -> None:
    assert {name_of(row) for row in ROUTES} == set(ASKS), "every route has a row here"
    async with access_grid(tmp_path) as grid, grid.client("root") as root:
        tokens = await make_accounts(root)
        setup = WebSetup(grid.address, credentials=Credentials(ca=grid.credentials("root").ca))
        async with serving(setup) as server:
            server.web.failed_logins = Forgiving()
            known = await make_things(grid, root, client_of(server, tokens["all"]))
            wrong: list[str] = []
            cases = 0

            async def check(row: ApiRoute, token: str, status: int, code: str) -> None:
                nonlocal cases
                async with client_of(server, token) as client:
                    told = await said(client, row, ASKS[name_of(row)], known)
                who = next((name for name, one in tokens.items() if one == token), token[:20])
                if told != (status, code or told[1]):
                    wrong.append(f"{name_of(row)} by {who}: {told}")
                cases += 1

            walk = [
                (row, *case) for row in ROUTES for case in expected(row, ASKS[name_of(row)], tokens)
            ]
            # Who is not let in changes nothing, and is told so after a second dial, half a second
            # later: all of them ask at once. What the others do changes answers: they take turns.
            await asyncio.gather(*(check(*case) for case in walk if is_login_refused(*case)))
            for case in walk:
                if not is_login_refused(*case):
                    await check(*case)
            for token, status, _ in expected(METRICS, Ask(), tokens):
                async with client_of(server, token) as client:
                    told_status = (await client.get(server.url + "metrics")).status_code
                if told_status != status:
                    wrong.append(f"/metrics by {token[:20]}: {told_status}")
                cases += 1
            assert not wrong, "\n".join(wrong)
    with capsys.disabled():
        print(f"\n{len(ROUTES) + 1} routes of HTTP, {cases} cases")


def expected(row: ApiRoute, ask: Ask, tokens: dict[str, str]) -> list[tuple[str, int, str]]:
    """Whose token, and what it gets."""
    if row.is_open:
        return [(token, ask.allowed, "") for token in ("", WRONG, tokens["all"])]
    cases = [
        ("", 401, "LOGIN_REQUIRED"),
        (WRONG, 401, "LOGIN_FAILED"),
        ("rollq_short", 401, "LOGIN_FAILED"),
        (tokens["expired"], 401, "LOGIN_FAILED"),
        (tokens["all"], ask.allowed, ""),
    ]
    if row.action is not None:
        cases.append((tokens[row.action], *ask.denied))
    return cases


def is_login_refused(row: ApiRoute, token: str, status: int, code: str) -> bool:
    """Whether a case is one of somebody who is nobody to the grid."""
    return not row.is_open and status == 401


async def said(client: httpx.AsyncClient, row: ApiRoute, ask: Ask, known: Known) -> tuple[int, str]:
    """The status, and the code of a refusal."""
    path = row.path.replace(":path", "").format(**ask.path(known))
    # Of streams the first event is enough: some go on for ever.
    sent = {} if ask.body is None else {"json": ask.body}
    async with client.stream(row.method, path[1:], params=dict(ask.query), **sent) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, ""
        await answer.aread()
        return answer.status_code, code_of(answer)


async def make_accounts(root: Client) -> dict[str, str]:
    """Tokens: of one that may do everything, of one whose token is over, and for each action of one
    that may do everything else."""
    everything = Rule("allow", "*", "*")
    await root.access.add("all", rules=[everything])
    await root.access.add("late", rules=[everything])
    tokens = {
        "all": await root.access.new_token("all"),
        "expired": await root.access.new_token("late", expires_ms=int(time.time() * 1000) - 1_000),
    }
    for action in sorted({row.action for row in ROUTES if row.action is not None}):
        name = f"no-{action}"
        await root.access.add(name, rules=[everything, Rule("deny", str(action), "*")])
        tokens[action] = await root.access.new_token(name)
    return tokens


async def make_things(grid: AccessGrid, root: Client, client: httpx.AsyncClient) -> Known:
    """A job with a large file, an array, a batch, a worker."""
    async with client:
        posted = await client.post(
            "jobs",
            data={"job": '{"exec": "show", "args": ["big"]}'},
            files={"files": ("big", b"x" * 200_000)},
        )
        assert posted.status_code == 201, posted.text
        job_id = posted.json()["id"]
        assert (await ended(client, job_id))["state"] == "ok"
        array = await root.submit_array("show", 2)
        await array.wait()
        (worker,) = [one async for one in root.admin.workers()]
        await root.commit("load-7", [])
    return {
        "job": job_id,
        "array": guid_to_text(array.array_id),
        "batch": batch_id(root.client_id, "load-7"),
        "worker": worker.worker_id,
    }


class Forgiving(FailedLogins):
    """The walk fails to log in more often than anybody may."""

    def check(self, address: str, now: float) -> None:
        pass
