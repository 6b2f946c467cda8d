"""`client.schedules`: jobs that the grid makes by itself, at the times of a cron line or at an
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
from rollq.roles.client.asking import PAGE, GroupCalls
from rollq.roles.client.specs import Input, JobSpec, Options, Payload, draw_id
from rollq.roles.client.supply import SettledSpec
from rollq.wire import messages as wire

NOBODY: Final = "schedule"  # whose id is in the body of a job: those of the jobs are not known yet


class ScheduleView(msgspec.Struct, frozen=True):
    """A schedule, and what became of it so far. Times are milliseconds since 1970; 0: none.

    Attributes:
        client_id: Whose jobs they are: `rollq jobs --client` lists them.
        cron, zone: When it fires; an empty line: every `every_ms`.
        request: What its jobs run, as far as it is shown.
        next_ms: The next instant; 0: it is paused.
        fires_ms: When that is fired, with the jitter.
        last_due_ms: The last instant that was fired.
        last_ms, last_job_id: When a job was made last, and which; also by `run`.
        last_error: Why the last firing made no job.
        fired: Instants that made a job.
        missed: Instants that were passed over after an outage, by the catch-up rule.
        skipped: Firings that made no job because the one before had not ended.
        refused: Firings whose job the grid refused.
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
        """The same as the members tell it."""
        fields = msgspec.structs.asdict(raw)
        job_id = raw.last_job_id
        return cls(**fields | {"last_job_id": guid_to_text(job_id) if job_id else ""})


class Schedules(GroupCalls):
    """Schedules of one group."""

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
        """Make a schedule, or change one: what it fired before is kept.

        Args:
            name: Letters, digits and `_ . / -` in between.
            exec_name: The program or function of its jobs; `args`, `files`, `outputs`, `payload`
                and options are as for `submit`. Large files belong into a cache.
            cron: `minute hour day month weekday`, or `@daily` and the like.
            zone: Whose clocks the line means: `Asia/Tokyo`.
            every: In place of a line: whole seconds between two firings.
            jitter: Each firing is so much later at most; how much follows from its instant.
            overlap: If the job before has not ended: `skip`, `queue` as well, `cancel` the older.
            catch_up: After an outage, of the instants that were missed: `none`, `last` or `all`.

        Raises:
            RemoteError: BAD_OPTIONS: the line or the zone is none, or something is out of bounds.
            LocalError: BAD_OPTIONS: files that do not fit into a request.
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
        """One schedule."""
        raw = decode_known(await self._query("schedule", name.encode()), RawScheduleView)
        return None if raw is None else ScheduleView.of(raw)

    async def list(self) -> AsyncGenerator[ScheduleView, None]:
        """Every schedule, by name."""
        after = ""
        kind = list[RawScheduleView]
        while page := decode_as(await self._query("schedules", after.encode(), PAGE), kind):
            for raw in page:
                yield ScheduleView.of(raw)
            after = page[-1].name

    async def remove(self, name: str) -> None:
        """Forget a schedule. Its jobs stay, and those that run go on.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
        await self._change("remove_schedule", name=name)

    async def pause(self, name: str) -> None:
        """Fire nothing for now.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
        await self._change("pause_schedule", name=name)

    async def resume(self, name: str) -> ScheduleView:
        """Go on with the next instant; those since the pause are not made up for.

        Raises:
            StateError: UNKNOWN_SCHEDULE.
        """
        await self._change("resume_schedule", name=name)
        return await self._must_find(name)

    async def run(self, name: str) -> str:
        """Make a job of a schedule now, whatever runs, also if it is paused; the id of the job.

        Raises:
            StateError: UNKNOWN_SCHEDULE, or as a submit is refused.
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
