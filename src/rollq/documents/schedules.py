"""Schedules."""

from __future__ import annotations

from typing import Any

from rollq.base.requests import request_document
from rollq.roles.client.calls.schedules import ScheduleView


def schedule_document(view: ScheduleView) -> dict[str, Any]:
    """A schedule. What is not set is null."""
    return {
        "name": view.name,
        "cron": view.cron or None,
        "zone": view.zone or None,
        "every_ms": view.every_ms or None,
        "jitter_ms": view.jitter_ms,
        "overlap": view.overlap,
        "catch_up": view.catch_up,
        "exec": view.exec_name,
        "queue": view.queue,
        "request": request_document(view.request),
        "client": view.client_id,
        "by": view.by,
        "changed_ms": view.stamp_ms,
        "paused": view.paused,
        "next_ms": view.next_ms or None,
        "fires_ms": view.fires_ms or None,
        "last_due_ms": view.last_due_ms or None,
        "last_ms": view.last_ms or None,
        "last_job": view.last_job_id or None,
        "last_error": view.last_error or None,
        "fired": view.fired,
        "missed": view.missed,
        "skipped": view.skipped,
        "refused": view.refused,
    }
