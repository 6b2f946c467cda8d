"""A Celery application in its durable setting."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from bench.peers import pool_tasks
from bench.peers.redis_queues import URL


def noop(_payload: str) -> str:
    """Do nothing."""
    return "ok"


def make(url: str) -> Any:
    """The task that does nothing, of an application on this redis; another one squares."""
    app = Celery("bench", broker=url, backend=url)
    app.conf.update(
        task_acks_late=True, worker_prefetch_multiplier=64, broker_connection_retry=True
    )
    app.task(pool_tasks.squared, name="bench.squared")
    return app.task(noop, name="bench.noop")


app = make(os.environ[URL]).app if URL in os.environ else None
