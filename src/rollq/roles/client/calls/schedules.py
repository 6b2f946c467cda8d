"""`client.schedules`: jobs that the grid submits by itself, by a cron expression or at an
interval."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Self, Unpack

import msgspec

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.ids import guid_to_text, job_id_of_key
from rollq.base.limits import DURATION_MS_MAX
from rollq.base.requests import Request
from rollq.base.schedules import LAST, SKIP
from rollq.grid.schedule_views import RawScheduleView
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.calls.facades import PAGE, GroupCalls
from rollq.roles.client.jobs.options import Options
from rollq.roles.client.jobs.specs import Input, JobSpec, Payload, draw_id
from rollq.roles.client.jobs.supply import SettledSpec
from rollq.wire import messages as wire

NOBODY: Final = "schedule"  # client id for the id in the body, which is replaced at every firing


class ScheduleView(msgspec.Struct, frozen=True):
    """A schedule and its state. Times are milliseconds since 1970; 0: none.

    Attributes:
        client_id: The client that owns the jobs: `rollq jobs --client` lists them.
        cron, zone: When it fires; if `cron` is empty, every `every_ms`.
        request: What its jobs run.
        next_ms: The next due time; 0: it is paused.
        fires_ms: When that is fired, including jitter.
        last_due_ms: The last due time that was fired.
        last_ms, last_job_id: When the last job was submitted, and its id; also by `run`.
        last_error: Why the last firing submitted no job.
        fired: Number of due times that submitted a job.
        missed: Number of due times skipped after an outage, by the catch-up rule.
        skipped: Number of firings without a job because the previous one had not ended.
        refused: Number of firings whose job the grid refused.
    """

    name: str
    client_id: str
    cron: str
    zone: str
    every_ms: int
    jitter_ms: int
    overlap: str
    catch_up: str
    queue: str
    exec_name: str
    request: Request
    by: str
    stamp_ms: int
    paused: bool
    next_ms: int
    fires_ms: int
    last_due_ms: int
    last_ms: int
    last_job_id: str
    last_error: str
    fired: int
    missed: int
    skipped: int
    refused: int

    @classmethod
    def of(cls, raw: RawScheduleView) -> Self:
        """Convert the view of a member."""
        fields = msgspec.structs.asdict(raw)
        job_id = raw.last_job_id
        return cls(**fields | {"last_job_id": guid_to_text(job_id) if job_id else ""})


class Schedules(GroupCalls):
    """The schedules of one group."""

    async def put(
        self,
        name: str,
        exec_name: str,
        args: Sequence[str] = (),
        *,
        cron: str = "",
        zone: str = "UTC",
        every: float | timedelta = 0,
        jitter: float | timedelta = 0,
        overlap: str = SKIP,
        catch_up: str = LAST,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        **options: Unpack[Options],
    ) -> ScheduleView:
        """Create or change a schedule; its counters are kept.

        Args:
            name: Of a-z, A-Z and 0-9, with `_ . / -` in between.
            exec_name: The program or function; `args`, `files`, `outputs`, `payload` and options
                are those of `submit`. Put large files into a cache.
            cron: `minute hour day month weekday`, or `@daily` and the like.
            zone: The time zone of `cron`: `Asia/Tokyo`.
            every: Instead of `cron`: the interval in whole seconds.
            jitter: The maximum delay of a firing; derived from its due time.
            overlap: If the previous job has not ended: `skip`, `queue` both, `cancel` the older.
            catch_up: Which due times to make up for after an outage: `none`, `last` or `all`.

        Raises:
            RemoteError: BAD_OPTIONS: an invalid expression or zone, or a value out of bounds.
            LocalError: BAD_OPTIONS: the files do not fit into a request.
        """
        spec = JobSpec(
            exec_name,
            args,
            files or {},
            payload,
            job_id=job_id_of_key(NOBODY, name),
            options=options,
            outputs=outputs,
        )
        settled = await self._engine.inputs.settle(spec) if spec.files else spec
        if isinstance(settled, SettledSpec) and settled.blobs:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "the files of a schedule do not fit into its request",
                "put them into a cache: `rollq cache put`",
            )
        request = self._engine.request_for(settled)
        await self._change(
            "put_schedule",
            name=name,
            queue=request.subject,
            exec_name=request.exec_name,
            body=request.body,
            options=request.options,
            caches=request.caches,
            cron=cron,
            zone=zone,
            every_ms=_whole_ms("every", every),
            jitter_ms=_whole_ms("jitter", jitter),
            overlap=overlap,
            catch_up=catch_up,
        )
        return await self._must_find(name)

    async def get(self, name: str) -> ScheduleView | None:
        """Return a schedule, or None if it does not exist."""
        raw = decode_known(await self._query("schedule", name.encode()), RawScheduleView)
        return None if raw is None else ScheduleView.of(raw)

    async def list(self) -> AsyncGenerator[ScheduleView, None]:
        """Iterate over all schedules, ordered by name."""
        after = ""
        kind = list[RawScheduleView]
        while page := decode_as(await self._query("schedules", after.encode(), PAGE), kind):
            for raw in page:
                yield ScheduleView.of(raw)
            after = page[-1].name

    async def remove(self, name: str) -> None:
        """Delete a schedule. Its jobs go on.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
        await self._change("remove_schedule", name=name)

    async def pause(self, name: str) -> None:
        """Stop firing until `resume`.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
        await self._change("pause_schedule", name=name)

    async def resume(self, name: str) -> ScheduleView:
        """Fire again from the next due time; those during the pause are skipped.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
        await self._change("resume_schedule", name=name)
        return await self._must_find(name)

    async def run(self, name: str) -> str:
        """Submit a job of a schedule now, also if it is paused or overlaps; returns the job's id.

        Raises:
            StateError: UNKNOWN_SCHEDULE, or the submit was refused.
        """
        job_id = draw_id()
        arguments: dict[str, Any] = {"name": name}
        request = wire.Admin(job_id, "run_schedule", msgspec.msgpack.encode(arguments))
        await self._engine.call(request)
        return guid_to_text(job_id)

    async def _must_find(self, name: str) -> ScheduleView:
        view = await self.get(name)
        if view is None:
            raise StateError(ErrorCode.UNKNOWN_SCHEDULE, f"{name[:64]!r} was removed meanwhile")
        return view


def _whole_ms(called: str, given: float | timedelta) -> int:
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    most = DURATION_MS_MAX // 1_000
    if not 0 <= seconds <= most or seconds != int(seconds):
        hint = f"use whole seconds, from 0 to {most}"
        raise LocalError(ErrorCode.BAD_OPTIONS, f"{called}={given!r}", hint)
    return int(seconds) * 1_000
