"""The table of routes: what HTTP may ask, by whom, with what, and what is answered. The server, its
OpenAPI document and the walk of the tests are made of it."""

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
        form: The same as `body`, as a form with files.
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
    Route("GET", "/openapi.json", openapi.openapi, None, is_open=True),
    Route("GET", "/me", me.me, None, answer=answers.Me),
    Route("POST", "/login", me.login, None, body=me.Login, is_open=True),
    Route("POST", "/logout", me.logout, None, is_open=True),
    Route("GET", "/overview", overview.overview, A.CLUSTER_READ, answer=answers.Overview),
    Route("GET", "/live", overview.live, A.CLUSTER_READ, overview.LiveQuery, answer=EVENTS),
    # jobs
    Route("GET", "/jobs", jobs.jobs, A.JOBS_READ, jobs.JobQuery, answer=answers.JobList),
    Route(
        *("POST", "/jobs", submits.submit, A.JOBS_SUBMIT),
        body=submits.PostedJob,
        form=submits.JobForm,
        answer=submits.Submitted,
        status=201,
    ),
    Route(
        "POST", "/jobs/cancel", orders.cancel_some, A.JOBS_CANCEL, body=orders.Chosen, answer=COUNT
    ),
    Route(
        *("POST", "/jobs/redrive", orders.redrive_some, A.JOBS_REDRIVE),
        body=orders.Chosen,
        answer=COUNT,
    ),
    Route("GET", "/jobs/{id}", jobs.job, A.JOBS_READ),
    Route("GET", "/jobs/{id}/timeline", jobs.timeline, A.JOBS_READ, answer=answers.Timeline),
    Route("GET", "/jobs/{id}/explain", jobs.explain, A.JOBS_READ, answer=answers.Explained),
    Route(
        *("GET", "/jobs/{id}/output/{stream}", job_output.output, A.OUTPUT_READ),
        job_output.OutputQuery,
        answer=TEXT,
    ),
    Route("GET", "/jobs/{id}/follow", job_output.follow, A.OUTPUT_READ, answer=EVENTS),
    Route("GET", "/jobs/{id}/files", job_output.files, A.JOBS_READ, answer=answers.Files),
    Route(
        *("GET", "/jobs/{id}/files/{name:path}", job_output.file, A.BLOBS_READ),
        job_output.FileQuery,
        answer=BYTES,
    ),
    Route("POST", "/jobs/{id}/cancel", orders.cancel, A.JOBS_CANCEL, answer=COUNT),
    Route(
        *("POST", "/jobs/{id}/redrive", submits.redrive, A.JOBS_REDRIVE),
        body=submits.Changes,
        answer=COUNT,
    ),
    Route(
        *("POST", "/jobs/{id}/again", submits.again, A.JOBS_SUBMIT),
        body=submits.Changes,
        answer=submits.Submitted,
        status=201,
    ),
    Route("GET", "/arrays", jobs.arrays, A.JOBS_READ, Page, answer=answers.ArrayList),
    Route("GET", "/arrays/{id}", jobs.array, A.JOBS_READ),
    Route("GET", "/arrays/{id}/failures", jobs.failures, A.JOBS_READ, answer=answers.Groups),
    Route(
        *("GET", "/batches", batches.batches, A.JOBS_READ, batches.BatchQuery),
        answer=answers.BatchList,
    ),
    Route("GET", "/batches/{id}", batches.batch, A.JOBS_READ),
    Route("GET", "/batches/{id}/failures", batches.failures, A.JOBS_READ, answer=answers.Groups),
    Route("GET", "/dead", jobs.dead, A.JOBS_READ, jobs.DeadQuery),
    Route(
        *("POST", "/dead/redrive", orders.redrive_dead, A.JOBS_REDRIVE),
        body=orders.DeadChosen,
        answer=COUNT,
    ),
    Route(
        *("POST", "/dead/purge", orders.purge_dead, A.JOBS_PURGE),
        body=orders.DeadChosen,
        answer=COUNT,
    ),
    # the grid
    Route("GET", "/workers", views.workers, A.WORKERS_READ, Page, answer=answers.WorkerList),
    Route("GET", "/workers/{id}", views.worker, A.WORKERS_READ),
    Route("POST", "/workers/{id}/drain", orders.drain, A.WORKERS_DRAIN, answer=COUNT),
    Route("POST", "/workers/{id}/undrain", orders.undrain, A.WORKERS_DRAIN, answer=COUNT),
    Route("POST", "/workers/{id}/dismiss", orders.dismiss, A.WORKERS_DISMISS, answer=COUNT),
    Route("GET", "/queues", views.queues, A.QUEUES_READ, Page, answer=answers.QueueList),
    Route("GET", "/queues/{name}", views.queue, A.QUEUES_READ),
    Route("POST", "/queues/{name}/pause", orders.pause, A.QUEUES_PAUSE, answer=COUNT),
    Route("POST", "/queues/{name}/resume", orders.resume, A.QUEUES_PAUSE, answer=COUNT),
    Route("GET", "/settings", views.settings, A.SETTINGS_READ, answer=orders.AllSettings),
    Route(
        *("PUT", "/settings", orders.put_settings, A.SETTINGS_WRITE),
        body=orders.SomeSettings,
        answer=orders.AllSettings,
    ),
    Route("GET", "/policies", rules.policies, A.SETTINGS_READ, Page, answer=rules.PolicyList),
    Route(
        *("PUT", "/policies", rules.put_policy, A.SETTINGS_WRITE),
        body=rules.PolicyBody,
        answer=COUNT,
    ),
    Route(
        *("POST", "/policies/remove", rules.remove_policy, A.SETTINGS_WRITE),
        body=rules.PatternBody,
        answer=COUNT,
    ),
    Route("GET", "/limits", rules.limits, A.SETTINGS_READ, Page, answer=rules.LimitList),
    Route(
        *("PUT", "/limits", rules.put_limit, A.SETTINGS_WRITE), body=rules.LimitBody, answer=COUNT
    ),
    Route(
        *("POST", "/limits/remove", rules.remove_limit, A.SETTINGS_WRITE),
        body=rules.LimitName,
        answer=COUNT,
    ),
    Route("GET", "/weights", rules.weights, A.SETTINGS_READ, Page, answer=rules.WeightList),
    Route(
        *("PUT", "/weights", rules.put_weight, A.SETTINGS_WRITE),
        body=rules.WeightBody,
        answer=COUNT,
    ),
    Route("GET", "/cluster", views.cluster, A.CLUSTER_READ),
    Route("GET", "/groups", views.groups, A.CLUSTER_READ),
    Route(
        *("POST", "/cluster/members", orders.add_member, A.CLUSTER_CHANGE),
        body=orders.MemberBody,
        answer=COUNT,
    ),
    Route(
        "DELETE", "/cluster/members/{member}", orders.remove_member, A.CLUSTER_CHANGE, answer=COUNT
    ),
    Route(
        *("POST", "/cluster/transfer", orders.transfer, A.CLUSTER_CHANGE),
        body=orders.MemberId,
        answer=COUNT,
    ),
    Route("GET", "/files", views.caches, A.CACHES_READ, Page, answer=answers.FileList),
    Route("GET", "/files/{name:path}/holders", views.holders, A.CACHES_READ),
    Route("GET", "/topics", views.topics, A.TOPICS_READ, Page, answer=answers.TopicList),
    Route("GET", "/topics/{name}", views.topic, A.TOPICS_READ),
    Route(
        *("GET", "/schedules", schedules.schedules, A.SCHEDULES_READ, Page),
        answer=schedules.ScheduleList,
    ),
    Route("PUT", "/schedules", schedules.put, A.SCHEDULES_WRITE, body=schedules.ScheduleBody),
    Route("GET", "/schedules/{name:path}", schedules.schedule, A.SCHEDULES_READ),
    Route(*("DELETE", "/schedules/{name:path}", schedules.remove, A.SCHEDULES_WRITE), answer=COUNT),
    Route(
        *("POST", "/schedules/{name:path}/pause", schedules.pause, A.SCHEDULES_WRITE), answer=COUNT
    ),
    Route("POST", "/schedules/{name:path}/resume", schedules.resume, A.SCHEDULES_WRITE),
    Route(
        *("POST", "/schedules/{name:path}/run", schedules.run, A.SCHEDULES_WRITE),
        answer=schedules.Fired,
        status=201,
    ),
    # access and history
    Route("GET", "/access/accounts", access.accounts, A.ACCESS_READ, Page),
    Route("GET", "/access/roles", access.roles, A.ACCESS_READ, Page),
    Route("GET", "/access/check", access.check, A.ACCESS_READ, access.CheckQuery),
    Route("GET", "/audit", access.audit, A.HISTORY_READ, Page, answer=answers.Acts),
    Route("GET", "/history", history.tables, A.HISTORY_READ, answer=answers.Tables),
    Route("GET", "/history/{name}", history.table, A.HISTORY_READ, Page, answer=answers.Table),
)
