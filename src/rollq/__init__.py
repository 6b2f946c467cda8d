"""rollq: a durable, replicated job grid. Only what is named here is public API.

Names are imported on first use, so that a worker's process does not load the client.

The packages, from the lowest: `base`; `wire`, `subjects`, `raft`, `grid`, `policy` (pure);
`security`, `store`, `net`, `gossip`, `history`; `roles` (the processes); `backup`, `documents`,
`observe`, `web`; `spark` and `cli` on top. `testing` is the simulator. The modules: `tasks` has the
decorator `@task`, `progress` and `context`; `values` encodes Python values; `pickled` runs
functions that no module registers; `webhook` posts the outcome of jobs; `celery`, `dask` and
`joblib_backend` are adapters for code written for these; `airflow` is an operator, and `prefect` a
task runner; `leash` ends a child process with its parent; `release` is the version; `local_grid` is
a grid in this process, and `pytest_plugin` its fixture. The docstring of each package describes its
modules and their reading order.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rollq.tasks import Context, Task, context, progress, task

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
    from rollq.base.job_events import JobEvent, JobProgress
    from rollq.base.jobs import BlobRef, JobOptions
    from rollq.base.parents import Parent
    from rollq.base.requests import Request, RequestFile
    from rollq.base.staged import StagedPart
    from rollq.local_grid import LocalGrid
    from rollq.roles.client.access import AccessDecision, AccountView, RoleView, TokenView
    from rollq.roles.client.batches import CommitOutcome
    from rollq.roles.client.blocking import (
        BlockingBatch,
        BlockingClient,
        BlockingJob,
        BlockingJobGroup,
        BlockingKeyedRun,
        BlockingMultiClient,
        BlockingPublication,
        BlockingSubscription,
    )
    from rollq.roles.client.caches import CacheReport
    from rollq.roles.client.chains import JobGroup, Signature, chain, chord, group
    from rollq.roles.client.client import Client
    from rollq.roles.client.current import connect
    from rollq.roles.client.executor import Executor
    from rollq.roles.client.followers import Webhook
    from rollq.roles.client.handles import Batch, Counts, Job
    from rollq.roles.client.job_files import JobFile
    from rollq.roles.client.keyed import Ended, KeyedRun
    from rollq.roles.client.multi import MultiClient
    from rollq.roles.client.outputs import Output
    from rollq.roles.client.parts import Redrive
    from rollq.roles.client.results import JobError, Result
    from rollq.roles.client.schedules import ScheduleView
    from rollq.roles.client.specs import CacheFile, JobSpec, Options
    from rollq.roles.client.streams import StreamPart
    from rollq.roles.client.subscriptions import Publication, Subscription
    from rollq.roles.client.topics import CursorView, TopicView
    from rollq.roles.client.views import (
        ArrayView,
        AttemptTold,
        AttemptView,
        BatchView,
        CacheView,
        ClientView,
        DrainView,
        EndView,
        Explanation,
        FederationView,
        GroupView,
        HolderView,
        JobView,
        LimitView,
        NodeView,
        PolicyView,
        QueueView,
        Settings,
        TaskGroupView,
        WeightView,
        WorkerLoad,
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
    "BatchView",
    "BlobRef",
    "BlockingBatch",
    "BlockingClient",
    "BlockingJob",
    "BlockingJobGroup",
    "BlockingKeyedRun",
    "BlockingMultiClient",
    "BlockingPublication",
    "BlockingSubscription",
    "CacheFile",
    "CacheReport",
    "CacheView",
    "Client",
    "ClientView",
    "CommitOutcome",
    "Context",
    "Counts",
    "CursorView",
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
    "FederationView",
    "GroupView",
    "HolderView",
    "Job",
    "JobError",
    "JobEvent",
    "JobFile",
    "JobGroup",
    "JobOptions",
    "JobProgress",
    "JobSpec",
    "JobView",
    "KeyedRun",
    "LimitView",
    "LocalError",
    "LocalGrid",
    "MultiClient",
    "NodeView",
    "Options",
    "Output",
    "Parent",
    "PolicyView",
    "Publication",
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
    "ScheduleView",
    "Settings",
    "Signature",
    "StagedPart",
    "StateError",
    "StreamPart",
    "Subscription",
    "Task",
    "TaskGroupView",
    "TokenView",
    "TopicView",
    "Webhook",
    "WeightView",
    "WorkerLoad",
    "WorkerView",
    "chain",
    "chord",
    "connect",
    "context",
    "group",
    "job_id_of_key",
    "progress",
    "task",
]

_HOMES = {
    "AccessDecision": "rollq.roles.client.access",
    "AccountView": "rollq.roles.client.access",
    "ArrayView": "rollq.roles.client.views",
    "AttemptTold": "rollq.roles.client.views",
    "AttemptView": "rollq.roles.client.views",
    "Batch": "rollq.roles.client.handles",
    "BatchView": "rollq.roles.client.views",
    "BlobRef": "rollq.base.jobs",
    "BlockingBatch": "rollq.roles.client.blocking",
    "BlockingClient": "rollq.roles.client.blocking",
    "BlockingJob": "rollq.roles.client.blocking",
    "BlockingJobGroup": "rollq.roles.client.blocking",
    "BlockingKeyedRun": "rollq.roles.client.blocking",
    "BlockingMultiClient": "rollq.roles.client.blocking",
    "BlockingPublication": "rollq.roles.client.blocking",
    "BlockingSubscription": "rollq.roles.client.blocking",
    "CacheFile": "rollq.roles.client.specs",
    "CacheReport": "rollq.roles.client.caches",
    "CacheView": "rollq.roles.client.views",
    "Client": "rollq.roles.client.client",
    "ClientView": "rollq.roles.client.views",
    "CommitOutcome": "rollq.roles.client.batches",
    "Counts": "rollq.roles.client.handles",
    "CursorView": "rollq.roles.client.topics",
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
    "FederationView": "rollq.roles.client.views",
    "GroupView": "rollq.roles.client.views",
    "HolderView": "rollq.roles.client.views",
    "Job": "rollq.roles.client.handles",
    "JobError": "rollq.roles.client.results",
    "JobEvent": "rollq.base.job_events",
    "JobFile": "rollq.roles.client.job_files",
    "JobGroup": "rollq.roles.client.chains",
    "JobOptions": "rollq.base.jobs",
    "JobProgress": "rollq.base.job_events",
    "JobSpec": "rollq.roles.client.specs",
    "JobView": "rollq.roles.client.views",
    "KeyedRun": "rollq.roles.client.keyed",
    "LimitView": "rollq.roles.client.views",
    "LocalError": "rollq.base.errors",
    "LocalGrid": "rollq.local_grid",
    "MultiClient": "rollq.roles.client.multi",
    "NodeView": "rollq.roles.client.views",
    "Options": "rollq.roles.client.specs",
    "Output": "rollq.roles.client.outputs",
    "Parent": "rollq.base.parents",
    "PolicyView": "rollq.roles.client.views",
    "Publication": "rollq.roles.client.subscriptions",
    "QueueView": "rollq.roles.client.views",
    "Reader": "rollq.roles.reader.reader",
    "Redrive": "rollq.roles.client.parts",
    "group": "rollq.roles.client.chains",
    "chord": "rollq.roles.client.chains",
    "chain": "rollq.roles.client.chains",
    "Signature": "rollq.roles.client.chains",
    "RemoteError": "rollq.base.errors",
    "Request": "rollq.base.requests",
    "RequestFile": "rollq.base.requests",
    "Result": "rollq.roles.client.results",
    "RoleView": "rollq.roles.client.access",
    "RollqError": "rollq.base.errors",
    "Rule": "rollq.base.access_rules",
    "Ruling": "rollq.base.access_table",
    "ScheduleView": "rollq.roles.client.schedules",
    "Settings": "rollq.roles.client.views",
    "StagedPart": "rollq.base.staged",
    "StateError": "rollq.base.errors",
    "StreamPart": "rollq.roles.client.streams",
    "Subscription": "rollq.roles.client.subscriptions",
    "TaskGroupView": "rollq.roles.client.views",
    "TokenView": "rollq.roles.client.access",
    "TopicView": "rollq.roles.client.topics",
    "Webhook": "rollq.roles.client.followers",
    "WeightView": "rollq.roles.client.views",
    "WorkerLoad": "rollq.roles.client.views",
    "WorkerView": "rollq.roles.client.views",
    "connect": "rollq.roles.client.current",
    "job_id_of_key": "rollq.base.ids",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rollq' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """The public names, imported or not, for completion."""
    return [*__all__, "__version__"]
