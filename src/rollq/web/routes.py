"""The table of routes: what HTTP may ask, by whom, with what, and what is answered. The server, its
OpenAPI document and the walk of the tests are made of it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rollq.base.access import Action
from rollq.web import jobs, me, overview, views
from rollq.web.call import Handler, Page

API: Final = "/api/v1"


class Route(NamedTuple):
    """One row.

    Attributes:
        method: Of HTTP.
        path: Below `API`; names in braces are parts of it.
        handler: Makes the answer.
        action: What the group is asked to allow; None: whoever is let in may.
        query: The parameters behind the `?`.
        body: What is sent, as JSON.
        answer: What is answered, as JSON; a text: bytes of this type.
        is_open: Nobody is asked who they are.
        status: Of a success.
    """

    method: str
    path: str
    handler: Handler
    action: Action | None
    query: type | None = None
    body: type | None = None
    answer: Any = dict[str, Any]
    is_open: bool = False
    status: int = 200


A = Action
ROUTES: Final = (
    Route("GET", "/me", me.me, None),
    Route("POST", "/login", me.login, None, body=me.Login, is_open=True),
    Route("POST", "/logout", me.logout, None, is_open=True),
    Route("GET", "/overview", overview.overview, A.CLUSTER_READ),
    Route("GET", "/jobs", jobs.jobs, A.JOBS_READ, jobs.JobQuery),
    Route("GET", "/jobs/{id}", jobs.job, A.JOBS_READ),
    Route("GET", "/jobs/{id}/explain", jobs.explain, A.JOBS_READ),
    Route("GET", "/arrays", jobs.arrays, A.JOBS_READ, Page),
    Route("GET", "/arrays/{id}", jobs.array, A.JOBS_READ),
    Route("GET", "/workers", views.workers, A.WORKERS_READ, Page),
    Route("GET", "/workers/{id}", views.worker, A.WORKERS_READ),
    Route("GET", "/queues", views.queues, A.QUEUES_READ, Page),
    Route("GET", "/queues/{name}", views.queue, A.QUEUES_READ),
    Route("GET", "/settings", views.settings, A.SETTINGS_READ),
    Route("GET", "/cluster", views.cluster, A.CLUSTER_READ),
    Route("GET", "/files", views.caches, A.CACHES_READ, Page),
    Route("GET", "/files/{name}/holders", views.holders, A.CACHES_READ),
)
