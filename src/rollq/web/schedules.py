"""Schedules: jobs that the grid makes by itself, at given times."""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.schedules import LAST, SKIP
from rollq.documents.schedules import schedule_document
from rollq.grid.schedule_views import RawScheduleView
from rollq.roles.client.schedules import ScheduleView
from rollq.web.answers import Document
from rollq.web.call import Call, Page, Reply
from rollq.web.errors import RequestError
from rollq.web.submits import JobBody, spec_of


class ScheduleList(msgspec.Struct, frozen=True):
    """Schedules."""

    schedules: list[Document]
    after: str | None


class ScheduleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When it fires, and what its jobs are, which have no key. Either `cron` or `every_ms`, in
    whole seconds."""

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
    """The job that was made."""

    id: str


async def schedules(call: Call) -> Reply:
    """Schedules, by name."""
    page: Page = call.query
    asked = "schedules", page.after.encode(), page.limit
    rows = await call.links.read(list[RawScheduleView], *asked)
    after = rows[-1].name if len(rows) == page.limit else None
    found = [schedule_document(ScheduleView.of(row)) for row in rows]
    return Reply({"schedules": found, "after": after})


async def schedule(call: Call) -> Reply:
    """One schedule."""
    name = call.path["name"]
    row = await call.links.find(RawScheduleView, "schedule", name.encode())
    if row is None:
        text = f"no schedule {name[:64]!r}"
        raise RequestError(404, ErrorCode.UNKNOWN_SCHEDULE, text, "GET /schedules")
    return Reply(schedule_document(ScheduleView.of(row)))


async def put(call: Call) -> Reply:
    """Make a schedule, or change it."""
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
    return Reply(schedule_document(view))


async def remove(call: Call) -> Reply:
    """Forget a schedule; its jobs stay."""
    await call.links.client.schedules.remove(call.path["name"])
    return Reply({"count": 1})


async def pause(call: Call) -> Reply:
    """Fire nothing for now."""
    await call.links.client.schedules.pause(call.path["name"])
    return Reply({"count": 1})


async def resume(call: Call) -> Reply:
    """Go on with the next instant."""
    view = await call.links.client.schedules.resume(call.path["name"])
    return Reply(schedule_document(view))


async def run(call: Call) -> Reply:
    """Make a job of a schedule now."""
    job_id = await call.links.client.schedules.run(call.path["name"])
    return Reply({"id": job_id}, 201, {"Location": f"/api/v1/jobs/{job_id}"})
