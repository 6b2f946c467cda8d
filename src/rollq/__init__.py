"""rollq: a durable, replicated job grid. Only what is named here is public API.

Names are imported when they are first used: a worker's process must not pay for the client.

The packages, from the lowest: `base`; `wire`, `subjects`, `raft`, `grid`, `policy` (pure);
`security`, `store`, `net`, `history`; `roles` (the processes); `backup`, `documents`, `observe`,
`web`; `spark` and `cli` on top. `testing` is the simulator. Beside them `tasks` is the decorator
`@task`, and `leash` ends a child process with its parent. Each package says in its head what lives
in it and in which order to read it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rollq.tasks import task

if TYPE_CHECKING:
    from rollq.base.access_rules import Rule
    from rollq.base.access_table import Ruling
    from rollq.base.errors import (
        DeadlineError,
        DialError,
        DiskError,
        ErrorCode,
        LocalError,
        RemoteError,
        RollqError,
        StateError,
    )
    from rollq.base.hints import ExecHint
    from rollq.base.ids import job_id_of_key
    from rollq.base.jobs import BlobRef, JobOptions
    from rollq.base.requests import Request, RequestFile
    from rollq.base.staged import StagedPart
    from rollq.roles.client.access import AccessDecision, AccountView, RoleView, TokenView
    from rollq.roles.client.batches import CommitOutcome
    from rollq.roles.client.blocking import (
        BlockingBatch,
        BlockingClient,
        BlockingJob,
        BlockingKeyedRun,
        BlockingMultiClient,
    )
    from rollq.roles.client.caches import CacheReport
    from rollq.roles.client.client import Client
    from rollq.roles.client.executor import Executor
    from rollq.roles.client.handles import Batch, Counts, Job
    from rollq.roles.client.keyed import Ended, KeyedRun
    from rollq.roles.client.multi import MultiClient
    from rollq.roles.client.outputs import Output
    from rollq.roles.client.parts import Redrive
    from rollq.roles.client.results import JobError, Result
    from rollq.roles.client.specs import CacheFile, JobSpec, Options
    from rollq.roles.client.streams import StreamPart
    from rollq.roles.client.views import (
        ArrayView,
        AttemptTold,
        AttemptView,
        CacheView,
        ClientView,
        DrainView,
        EndView,
        Explanation,
        HolderView,
        JobView,
        QueueView,
        Settings,
        TaskGroupView,
        WorkerView,
    )
    from rollq.roles.reader.reader import Reader

__version__ = "0.1.0"

__all__ = [
    "AccessDecision",
    "AccountView",
    "ArrayView",
    "AttemptTold",
    "AttemptView",
    "Batch",
    "BlobRef",
    "BlockingBatch",
    "BlockingClient",
    "BlockingJob",
    "BlockingKeyedRun",
    "BlockingMultiClient",
    "CacheFile",
    "CacheReport",
    "CacheView",
    "Client",
    "ClientView",
    "CommitOutcome",
    "Counts",
    "DeadlineError",
    "DialError",
    "DiskError",
    "DrainView",
    "EndView",
    "Ended",
    "ErrorCode",
    "ExecHint",
    "Executor",
    "Explanation",
    "HolderView",
    "Job",
    "JobError",
    "JobOptions",
    "JobSpec",
    "JobView",
    "KeyedRun",
    "LocalError",
    "MultiClient",
    "Options",
    "Output",
    "QueueView",
    "Reader",
    "Redrive",
    "RemoteError",
    "Request",
    "RequestFile",
    "Result",
    "RoleView",
    "RollqError",
    "Rule",
    "Ruling",
    "Settings",
    "StagedPart",
    "StateError",
    "StreamPart",
    "TaskGroupView",
    "TokenView",
    "WorkerView",
    "job_id_of_key",
    "task",
]

_HOMES = {
    "AccessDecision": "rollq.roles.client.access",
    "AccountView": "rollq.roles.client.access",
    "ArrayView": "rollq.roles.client.views",
    "AttemptTold": "rollq.roles.client.views",
    "AttemptView": "rollq.roles.client.views",
    "Batch": "rollq.roles.client.handles",
    "BlobRef": "rollq.base.jobs",
    "BlockingBatch": "rollq.roles.client.blocking",
    "BlockingClient": "rollq.roles.client.blocking",
    "BlockingJob": "rollq.roles.client.blocking",
    "BlockingKeyedRun": "rollq.roles.client.blocking",
    "BlockingMultiClient": "rollq.roles.client.blocking",
    "CacheFile": "rollq.roles.client.specs",
    "CacheReport": "rollq.roles.client.caches",
    "CacheView": "rollq.roles.client.views",
    "Client": "rollq.roles.client.client",
    "ClientView": "rollq.roles.client.views",
    "CommitOutcome": "rollq.roles.client.batches",
    "Counts": "rollq.roles.client.handles",
    "DeadlineError": "rollq.base.errors",
    "DialError": "rollq.base.errors",
    "DiskError": "rollq.base.errors",
    "EndView": "rollq.roles.client.views",
    "Ended": "rollq.roles.client.keyed",
    "ErrorCode": "rollq.base.errors",
    "ExecHint": "rollq.base.hints",
    "Executor": "rollq.roles.client.executor",
    "Explanation": "rollq.roles.client.views",
    "DrainView": "rollq.roles.client.views",
    "HolderView": "rollq.roles.client.views",
    "Job": "rollq.roles.client.handles",
    "JobError": "rollq.roles.client.results",
    "JobOptions": "rollq.base.jobs",
    "JobSpec": "rollq.roles.client.specs",
    "JobView": "rollq.roles.client.views",
    "KeyedRun": "rollq.roles.client.keyed",
    "LocalError": "rollq.base.errors",
    "MultiClient": "rollq.roles.client.multi",
    "Options": "rollq.roles.client.specs",
    "Output": "rollq.roles.client.outputs",
    "QueueView": "rollq.roles.client.views",
    "Reader": "rollq.roles.reader.reader",
    "Redrive": "rollq.roles.client.parts",
    "RemoteError": "rollq.base.errors",
    "Request": "rollq.base.requests",
    "RequestFile": "rollq.base.requests",
    "Result": "rollq.roles.client.results",
    "RoleView": "rollq.roles.client.access",
    "RollqError": "rollq.base.errors",
    "Rule": "rollq.base.access_rules",
    "Ruling": "rollq.base.access_table",
    "Settings": "rollq.roles.client.views",
    "StagedPart": "rollq.base.staged",
    "StateError": "rollq.base.errors",
    "StreamPart": "rollq.roles.client.streams",
    "TaskGroupView": "rollq.roles.client.views",
    "TokenView": "rollq.roles.client.access",
    "WorkerView": "rollq.roles.client.views",
    "job_id_of_key": "rollq.base.ids",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rollq' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """What completion offers: the public names, imported or not."""
    return [*__all__, "__version__"]
