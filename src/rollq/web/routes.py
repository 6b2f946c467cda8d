"""The table of routes of the HTTP API. The server, the OpenAPI document and tests are generated
from it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rollq.base.access import Action
from rollq.web import (
    access,
    answers,
    batches,
    history,
    job_output,
    jobs,
    me,
    openapi,
    orders,
    overview,
    rules,
    schedules,
    submits,
    views,
)
from rollq.web.answers import BYTES, EVENTS, TEXT
from rollq.web.call import Handler, Page

API: Final = "/api/v1"


class ApiRoute(NamedTuple):
    """A route.

    Attributes:
        method: The HTTP method.
        path: Below `API`; names in braces are parameters.
        handler: Makes the response.
        action: The action that the group checks; None: every user is allowed.
        query: The type of the query parameters.
        body: The type of the JSON body.
        answer: The type of the JSON response; a text: a content type.
        is_open: Whether it needs no login.
        status: The status of a success.
        form: The type of a form body with files.
    """

    method: str
    path: str
    handler: Handler
    action: Action | None
    query: type | None = None
    body: Any = None
    answer: Any = dict[str, Any]
    is_open: bool = False
    status: int = 200
    form: Any = None


A = Action
COUNT: Final = orders.Count
ROUTES: Final = (
    ApiRoute("GET", "/openapi.json", openapi.openapi, None, is_open=True),
    ApiRoute("GET", "/me", me.me, None, answer=answers.Me),
    ApiRoute("POST", "/login", me.login, None, body=me.LoginBody, is_open=True),
    ApiRoute("POST", "/logout", me.logout, None, is_open=True),
    ApiRoute("GET", "/overview", overview.overview, A.CLUSTER_READ, answer=answers.Overview),
    ApiRoute("GET", "/live", overview.live, A.CLUSTER_READ, overview.LiveQuery, answer=EVENTS),
    # jobs
    ApiRoute("GET", "/jobs", jobs.jobs, A.JOBS_READ, jobs.JobQuery, answer=answers.JobList),
    ApiRoute(
        *("POST", "/jobs", submits.submit, A.JOBS_SUBMIT),
        body=submits.PostedJob,
        form=submits.JobForm,
        answer=submits.AcceptedJob,
        status=201,
    ),
    ApiRoute(
        "POST",
        "/jobs/cancel",
        orders.cancel_some,
        A.JOBS_CANCEL,
        body=orders.JobSelection,
        answer=COUNT,
    ),
    ApiRoute(
        *("POST", "/jobs/redrive", orders.redrive_some, A.JOBS_REDRIVE),
        body=orders.JobSelection,
        answer=COUNT,
    ),
    ApiRoute("GET", "/jobs/{id}", jobs.job, A.JOBS_READ),
    ApiRoute("GET", "/jobs/{id}/timeline", jobs.timeline, A.JOBS_READ, answer=answers.Timeline),
    ApiRoute("GET", "/jobs/{id}/explain", jobs.explain, A.JOBS_READ, answer=answers.Explained),
    ApiRoute(
        *("GET", "/jobs/{id}/output/{stream}", job_output.output, A.OUTPUT_READ),
        job_output.OutputQuery,
        answer=TEXT,
    ),
    ApiRoute("GET", "/jobs/{id}/follow", job_output.follow, A.OUTPUT_READ, answer=EVENTS),
    ApiRoute("GET", "/jobs/{id}/files", job_output.files, A.JOBS_READ, answer=answers.JobFiles),
    ApiRoute(
        *("GET", "/jobs/{id}/files/{name:path}", job_output.file, A.BLOBS_READ),
        job_output.FileQuery,
        answer=BYTES,
    ),
    ApiRoute("POST", "/jobs/{id}/cancel", orders.cancel, A.JOBS_CANCEL, answer=COUNT),
    ApiRoute(
        *("POST", "/jobs/{id}/redrive", submits.redrive, A.JOBS_REDRIVE),
        body=submits.Changes,
        answer=COUNT,
    ),
    ApiRoute(
        *("POST", "/jobs/{id}/again", submits.again, A.JOBS_SUBMIT),
        body=submits.Changes,
        answer=submits.AcceptedJob,
        status=201,
    ),
    ApiRoute("GET", "/arrays", jobs.arrays, A.JOBS_READ, Page, answer=answers.ArrayList),
    ApiRoute("GET", "/arrays/{id}", jobs.array, A.JOBS_READ),
    ApiRoute(
        "GET", "/arrays/{id}/failures", jobs.failures, A.JOBS_READ, answer=answers.FailureList
    ),
    ApiRoute(
        *("GET", "/batches", batches.batches, A.JOBS_READ, batches.BatchQuery),
        answer=answers.BatchList,
    ),
    ApiRoute("GET", "/batches/{id}", batches.batch, A.JOBS_READ),
    ApiRoute(
        "GET", "/batches/{id}/failures", batches.failures, A.JOBS_READ, answer=answers.FailureList
    ),
    ApiRoute("GET", "/dead", jobs.dead, A.JOBS_READ, jobs.DeadQuery),
    ApiRoute(
        *("POST", "/dead/redrive", orders.redrive_dead, A.JOBS_REDRIVE),
        body=orders.DeadJobSelection,
        answer=COUNT,
    ),
    ApiRoute(
        *("POST", "/dead/purge", orders.purge_dead, A.JOBS_PURGE),
        body=orders.DeadJobSelection,
        answer=COUNT,
    ),
    # the grid
    ApiRoute("GET", "/workers", views.workers, A.WORKERS_READ, Page, answer=answers.WorkerList),
    ApiRoute("GET", "/workers/{id}", views.worker, A.WORKERS_READ),
    ApiRoute("POST", "/workers/{id}/drain", orders.drain, A.WORKERS_DRAIN, answer=COUNT),
    ApiRoute("POST", "/workers/{id}/undrain", orders.undrain, A.WORKERS_DRAIN, answer=COUNT),
    ApiRoute("POST", "/workers/{id}/dismiss", orders.dismiss, A.WORKERS_DISMISS, answer=COUNT),
    ApiRoute("GET", "/queues", views.queues, A.QUEUES_READ, Page, answer=answers.QueueList),
    ApiRoute("GET", "/queues/{name}", views.queue, A.QUEUES_READ),
    ApiRoute("POST", "/queues/{name}/pause", orders.pause, A.QUEUES_PAUSE, answer=COUNT),
    ApiRoute("POST", "/queues/{name}/resume", orders.resume, A.QUEUES_PAUSE, answer=COUNT),
    ApiRoute("GET", "/settings", views.settings, A.SETTINGS_READ, answer=orders.AllSettings),
    ApiRoute(
        *("PUT", "/settings", orders.put_settings, A.SETTINGS_WRITE),
        body=orders.SomeSettings,
        answer=orders.AllSettings,
    ),
    ApiRoute("GET", "/policies", rules.policies, A.SETTINGS_READ, Page, answer=rules.PolicyList),
    ApiRoute(
        *("PUT", "/policies", rules.put_policy, A.SETTINGS_WRITE),
        body=rules.PolicyBody,
        answer=COUNT,
    ),
    ApiRoute(
        *("POST", "/policies/remove", rules.remove_policy, A.SETTINGS_WRITE),
        body=rules.PatternBody,
        answer=COUNT,
    ),
    ApiRoute("GET", "/limits", rules.limits, A.SETTINGS_READ, Page, answer=rules.LimitList),
    ApiRoute(
        *("PUT", "/limits", rules.put_limit, A.SETTINGS_WRITE), body=rules.LimitBody, answer=COUNT
    ),
    ApiRoute(
        *("POST", "/limits/remove", rules.remove_limit, A.SETTINGS_WRITE),
        body=rules.LimitName,
        answer=COUNT,
    ),
    ApiRoute("GET", "/weights", rules.weights, A.SETTINGS_READ, Page, answer=rules.WeightList),
    ApiRoute(
        *("PUT", "/weights", rules.put_weight, A.SETTINGS_WRITE),
        body=rules.WeightBody,
        answer=COUNT,
    ),
    ApiRoute("GET", "/cluster", views.cluster, A.CLUSTER_READ, answer=answers.Cluster),
    ApiRoute("GET", "/groups", views.groups, A.CLUSTER_READ),
    ApiRoute(
        *("POST", "/cluster/members", orders.add_member, A.CLUSTER_CHANGE),
        body=orders.MemberBody,
        answer=COUNT,
    ),
    ApiRoute(
        "DELETE", "/cluster/members/{member}", orders.remove_member, A.CLUSTER_CHANGE, answer=COUNT
    ),
    ApiRoute(
        *("POST", "/cluster/transfer", orders.transfer, A.CLUSTER_CHANGE),
        body=orders.MemberId,
        answer=COUNT,
    ),
    ApiRoute("GET", "/files", views.caches, A.CACHES_READ, Page, answer=answers.FileList),
    ApiRoute("GET", "/files/{name:path}/holders", views.holders, A.CACHES_READ),
    ApiRoute("GET", "/topics", views.topics, A.TOPICS_READ, Page, answer=answers.TopicList),
    ApiRoute("GET", "/topics/{name}", views.topic, A.TOPICS_READ),
    ApiRoute(
        *("GET", "/schedules", schedules.schedules, A.SCHEDULES_READ, Page),
        answer=schedules.ScheduleList,
    ),
    ApiRoute("PUT", "/schedules", schedules.put, A.SCHEDULES_WRITE, body=schedules.ScheduleBody),
    ApiRoute("GET", "/schedules/{name:path}", schedules.schedule, A.SCHEDULES_READ),
    ApiRoute(
        *("DELETE", "/schedules/{name:path}", schedules.remove, A.SCHEDULES_WRITE), answer=COUNT
    ),
    ApiRoute(
        *("POST", "/schedules/{name:path}/pause", schedules.pause, A.SCHEDULES_WRITE), answer=COUNT
    ),
    ApiRoute("POST", "/schedules/{name:path}/resume", schedules.resume, A.SCHEDULES_WRITE),
    ApiRoute(
        *("POST", "/schedules/{name:path}/run", schedules.run, A.SCHEDULES_WRITE),
        answer=schedules.Fired,
        status=201,
    ),
    # access and history
    ApiRoute("GET", "/access/accounts", access.accounts, A.ACCESS_READ, Page),
    ApiRoute("GET", "/access/roles", access.roles, A.ACCESS_READ, Page),
    ApiRoute("GET", "/access/check", access.check, A.ACCESS_READ, access.CheckQuery),
    ApiRoute("GET", "/audit", access.audit, A.HISTORY_READ, Page, answer=answers.Acts),
    ApiRoute("GET", "/history", history.tables, A.HISTORY_READ, answer=answers.Tables),
    ApiRoute("GET", "/history/{name}", history.table, A.HISTORY_READ, Page, answer=answers.Table),
)
