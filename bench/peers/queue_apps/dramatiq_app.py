"""A Dramatiq actor that does nothing and keeps its result."""

from __future__ import annotations

import os
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.peers.redis_queues import URL


def noop(_payload: str) -> str:
    """Do nothing."""
    return "ok"


def make(url: str) -> Any:
    """The actor on this redis."""
    broker = RedisBroker(url=url)
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    dramatiq.set_broker(broker)
    return dramatiq.actor(noop, store_results=True)


actor = make(os.environ[URL]) if URL in os.environ else None
