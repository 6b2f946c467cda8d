"""The arguments of admin verbs about schedules, with their bounds."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from rollq.base import schedule_limits
from rollq.base.jobs import JobOptions
from rollq.wire.fields import CacheIds, Duration, ExecName, Keyword, Subject
from rollq.wire.rules import Bytes, Text

ScheduleName: TypeAlias = Annotated[str, Text(schedule_limits.SCHEDULE_NAME_BYTES_MAX)]
CronText: TypeAlias = Annotated[str, Text(schedule_limits.CRON_BYTES_MAX)]
ZoneName: TypeAlias = Annotated[str, Text(schedule_limits.ZONE_BYTES_MAX)]
RequestBody: TypeAlias = Annotated[bytes, Bytes(schedule_limits.SCHEDULE_BODY_BYTES_MAX)]


class PutScheduleArguments(msgspec.Struct):
    """put_schedule"""

    name: ScheduleName
    queue: Subject
    exec_name: ExecName
    body: RequestBody
    cron: CronText = ""
    zone: ZoneName = "UTC"
    every_ms: Duration = 0
    jitter_ms: Duration = 0
    overlap: Keyword = "skip"
    catch_up: Keyword = "last"
    options: JobOptions | None = None
    caches: CacheIds = ()


class ScheduleArguments(msgspec.Struct):
    """remove_schedule, pause_schedule, resume_schedule, run_schedule"""

    name: ScheduleName
