"""rollq: a durable, replicated job grid. Only what is named here is public API.

Names are imported when they are first used: a worker's process must not pay for the client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rollq.tasks import task

if TYPE_CHECKING:
    from rollq.base.errors import (
        DeadlineError,
        DialError,
        ErrorCode,
        LocalError,
        RemoteError,
        RollqError,
        StateError,
    )
    from rollq.base.jobs import BlobRef
    from rollq.roles.client.blocking import BlockingClient
    from rollq.roles.client.blocking_multi import BlockingMultiClient
    from rollq.roles.client.client import Client
    from rollq.roles.client.executor import Executor
    from rollq.roles.client.multi import MultiClient
    from rollq.roles.client.outputs import Output
    from rollq.roles.client.results import JobError, Result
    from rollq.roles.client.specs import CacheFile, JobSpec

__version__ = "0.1.0"

__all__ = [
    "BlobRef",
    "BlockingClient",
    "BlockingMultiClient",
    "CacheFile",
    "Client",
    "DeadlineError",
    "DialError",
    "ErrorCode",
    "Executor",
    "JobError",
    "JobSpec",
    "LocalError",
    "MultiClient",
    "Output",
    "RemoteError",
    "Result",
    "RollqError",
    "StateError",
    "task",
]

_HOMES = {
    "BlobRef": "rollq.base.jobs",
    "BlockingClient": "rollq.roles.client.blocking",
    "BlockingMultiClient": "rollq.roles.client.blocking_multi",
    "CacheFile": "rollq.roles.client.specs",
    "Client": "rollq.roles.client.client",
    "DeadlineError": "rollq.base.errors",
    "DialError": "rollq.base.errors",
    "ErrorCode": "rollq.base.errors",
    "Executor": "rollq.roles.client.executor",
    "JobError": "rollq.roles.client.results",
    "JobSpec": "rollq.roles.client.specs",
    "LocalError": "rollq.base.errors",
    "MultiClient": "rollq.roles.client.multi",
    "Output": "rollq.roles.client.outputs",
    "RemoteError": "rollq.base.errors",
    "Result": "rollq.roles.client.results",
    "RollqError": "rollq.base.errors",
    "StateError": "rollq.base.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rollq' has no attribute {name!r}")
    return getattr(import_module(home), name)
