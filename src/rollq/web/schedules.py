"""Schedules: jobs that the grid submits by itself, by cron expression or interval."""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.schedules import LAST, SKIP
from rollq.documents.schedules import schedule_document
from rollq.grid.schedule_views import RawScheduleView
from rollq.roles.client.calls.schedules import ScheduleView
from rollq.web.answers import Document
from rollq.web.call import ApiCall, ApiReply, Page
from rollq.web.errors import RequestError
from rollq.web.submits import JobBody, spec_of


class ScheduleList(msgspec.Struct, frozen=True):
    """Schedules."""

    schedules: list[Document]
    after: str | None


class ScheduleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When it fires, and its job, which has no key. Either `cron` or `every_ms`, in whole
    seconds."""

    name: str
    job: JobBody
    cron: str = ""
    zone: str = "UTC"
    every_ms: int = 0
    jitter_ms: int = 0
    overlap: str = SKIP
    catch_up: str = LAST

    def __post_init__(self) -> None:
        if self.job.key:
            raise ValueError("the job of a schedule cannot have a key: the schedule makes them")


class Fired(msgspec.Struct, frozen=True):
    """The job that was submitted."""

    id: str


async def schedules(call: ApiCall) -> ApiReply:
    """Schedules, by name."""
    page: Page = call.query
    arguments = "schedules", page.after.encode(), page.limit
    rows = await call.links.read(list[RawScheduleView], *arguments)
    after = rows[-1].name if len(rows) == page.limit else None
    found = [schedule_document(ScheduleView.of(row)) for row in rows]
    return ApiReply({"schedules": found, "after": after})


async def schedule(call: ApiCall) -> ApiReply:
    """One schedule."""
    name = call.path["name"]
    row = await call.links.find(RawScheduleView, "schedule", name.encode())
    if row is None:
        text = f"no schedule {name[:64]!r}"
        raise RequestError(404, ErrorCode.UNKNOWN_SCHEDULE, text, "GET /schedules")
    return ApiReply(schedule_document(ScheduleView.of(row)))


async def put(call: ApiCall) -> ApiReply:
    """Create or change a schedule."""
    body: ScheduleBody = call.body
    spec = spec_of(body.job, {})
    view = await call.links.client.schedules.put(
        body.name,
        spec.exec_name,
        spec.args,
        cron=body.cron,
        zone=body.zone,
        every=body.every_ms / 1_000,
        jitter=body.jitter_ms / 1_000,
        overlap=body.overlap,
        catch_up=body.catch_up,
        outputs=spec.outputs,
        payload=spec.payload,
        **spec.options,
    )
    return ApiReply(schedule_document(view))


async def remove(call: ApiCall) -> ApiReply:
    """Delete a schedule; its jobs go on."""
    await call.links.client.schedules.remove(call.path["name"])
    return ApiReply({"count": 1})


async def pause(call: ApiCall) -> ApiReply:
    """Pause a schedule: it does not fire."""
    await call.links.client.schedules.pause(call.path["name"])
    return ApiReply({"count": 1})


async def resume(call: ApiCall) -> ApiReply:
    """Resume a schedule, from its next due time."""
    view = await call.links.client.schedules.resume(call.path["name"])
    return ApiReply(schedule_document(view))


async def run(call: ApiCall) -> ApiReply:
    """Submit a job of a schedule now."""
    job_id = await call.links.client.schedules.run(call.path["name"])
    return ApiReply({"id": job_id}, 201, {"Location": f"/api/v1/jobs/{job_id}"})
