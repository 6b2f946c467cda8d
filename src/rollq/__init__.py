"""rollq: a durable, replicated job grid. Only what is named here is public API.

Names are imported on first use, so that a worker's process does not load the client, and the
command line sees to Ctrl-C before it imports a library: msgspec crashes after one in its import.

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

TYPE_CHECKING = False  # `typing` has it too, and takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

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
    from rollq.roles.client.blocking.clients import (
        BlockingBatch,
        BlockingClient,
        BlockingJob,
        BlockingJobGroup,
        BlockingKeyedRun,
        BlockingMultiClient,
        BlockingPublication,
        BlockingSubscription,
    )
    from rollq.roles.client.blocking.current import connect
    from rollq.roles.client.blocking.executor import Executor
    from rollq.roles.client.calls.access import AccessDecision, AccountView, RoleView, TokenView
    from rollq.roles.client.calls.batches import CommitOutcome
    from rollq.roles.client.calls.caches import CacheReport
    from rollq.roles.client.calls.followers import Webhook
    from rollq.roles.client.calls.schedules import ScheduleView
    from rollq.roles.client.calls.topics import CursorView, TopicView
    from rollq.roles.client.client import Client
    from rollq.roles.client.functions.chains import JobGroup, Signature, chain, chord, group
    from rollq.roles.client.jobs.options import Options
    from rollq.roles.client.jobs.parts import Redrive
    from rollq.roles.client.jobs.specs import CacheFile, JobFile, JobSpec
    from rollq.roles.client.many.keyed import Ended, KeyedRun
    from rollq.roles.client.results.handles import Batch, Counts, Job
    from rollq.roles.client.results.outputs import Output
    from rollq.roles.client.results.result import JobError, Result
    from rollq.roles.client.results.streams import StreamPart
    from rollq.roles.client.results.views import (
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
    from rollq.roles.client.several_groups.client import MultiClient
    from rollq.roles.client.topics.subscriptions import Publication, Subscription
    from rollq.roles.reader.reader import Reader
    from rollq.tasks import Context, Task, context, progress, task

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
    "AccessDecision": "rollq.roles.client.calls.access",
    "AccountView": "rollq.roles.client.calls.access",
    "ArrayView": "rollq.roles.client.results.views",
    "AttemptTold": "rollq.roles.client.results.views",
    "AttemptView": "rollq.roles.client.results.views",
    "Batch": "rollq.roles.client.results.handles",
    "BatchView": "rollq.roles.client.results.views",
    "BlobRef": "rollq.base.jobs",
    "BlockingBatch": "rollq.roles.client.blocking.clients",
    "BlockingClient": "rollq.roles.client.blocking.clients",
    "BlockingJob": "rollq.roles.client.blocking.clients",
    "BlockingJobGroup": "rollq.roles.client.blocking.clients",
    "BlockingKeyedRun": "rollq.roles.client.blocking.clients",
    "BlockingMultiClient": "rollq.roles.client.blocking.clients",
    "BlockingPublication": "rollq.roles.client.blocking.clients",
    "BlockingSubscription": "rollq.roles.client.blocking.clients",
    "CacheFile": "rollq.roles.client.jobs.specs",
    "CacheReport": "rollq.roles.client.calls.caches",
    "CacheView": "rollq.roles.client.results.views",
    "Client": "rollq.roles.client.client",
    "ClientView": "rollq.roles.client.results.views",
    "CommitOutcome": "rollq.roles.client.calls.batches",
    "Context": "rollq.tasks",
    "Counts": "rollq.roles.client.results.handles",
    "CursorView": "rollq.roles.client.calls.topics",
    "DeadlineError": "rollq.base.errors",
    "DialError": "rollq.base.errors",
    "DiskError": "rollq.base.errors",
    "DrainView": "rollq.roles.client.results.views",
    "EndView": "rollq.roles.client.results.views",
    "Ended": "rollq.roles.client.many.keyed",
    "ErrorCode": "rollq.base.errors",
    "ExecHint": "rollq.base.hints",
    "Executor": "rollq.roles.client.blocking.executor",
    "Explanation": "rollq.roles.client.results.views",
    "FederationView": "rollq.roles.client.results.views",
    "GroupView": "rollq.roles.client.results.views",
    "HolderView": "rollq.roles.client.results.views",
    "Job": "rollq.roles.client.results.handles",
    "JobError": "rollq.roles.client.results.result",
    "JobEvent": "rollq.base.job_events",
    "JobFile": "rollq.roles.client.jobs.specs",
    "JobGroup": "rollq.roles.client.functions.chains",
    "JobOptions": "rollq.base.jobs",
    "JobProgress": "rollq.base.job_events",
    "JobSpec": "rollq.roles.client.jobs.specs",
    "JobView": "rollq.roles.client.results.views",
    "KeyedRun": "rollq.roles.client.many.keyed",
    "LimitView": "rollq.roles.client.results.views",
    "LocalError": "rollq.base.errors",
    "LocalGrid": "rollq.local_grid",
    "MultiClient": "rollq.roles.client.several_groups.client",
    "NodeView": "rollq.roles.client.results.views",
    "Options": "rollq.roles.client.jobs.options",
    "Output": "rollq.roles.client.results.outputs",
    "Parent": "rollq.base.parents",
    "PolicyView": "rollq.roles.client.results.views",
    "Publication": "rollq.roles.client.topics.subscriptions",
    "QueueView": "rollq.roles.client.results.views",
    "Reader": "rollq.roles.reader.reader",
    "Redrive": "rollq.roles.client.jobs.parts",
    "RemoteError": "rollq.base.errors",
    "Request": "rollq.base.requests",
    "RequestFile": "rollq.base.requests",
    "Result": "rollq.roles.client.results.result",
    "RoleView": "rollq.roles.client.calls.access",
    "RollqError": "rollq.base.errors",
    "Rule": "rollq.base.access_rules",
    "Ruling": "rollq.base.access_table",
    "ScheduleView": "rollq.roles.client.calls.schedules",
    "Settings": "rollq.roles.client.results.views",
    "Signature": "rollq.roles.client.functions.chains",
    "StagedPart": "rollq.base.staged",
    "StateError": "rollq.base.errors",
    "StreamPart": "rollq.roles.client.results.streams",
    "Subscription": "rollq.roles.client.topics.subscriptions",
    "Task": "rollq.tasks",
    "TaskGroupView": "rollq.roles.client.results.views",
    "TokenView": "rollq.roles.client.calls.access",
    "TopicView": "rollq.roles.client.calls.topics",
    "Webhook": "rollq.roles.client.calls.followers",
    "WeightView": "rollq.roles.client.results.views",
    "WorkerLoad": "rollq.roles.client.results.views",
    "WorkerView": "rollq.roles.client.results.views",
    "chain": "rollq.roles.client.functions.chains",
    "chord": "rollq.roles.client.functions.chains",
    "connect": "rollq.roles.client.blocking.current",
    "context": "rollq.tasks",
    "group": "rollq.roles.client.functions.chains",
    "job_id_of_key": "rollq.base.ids",
    "progress": "rollq.tasks",
    "task": "rollq.tasks",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rollq' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """The public names, imported or not, for completion."""
    return [*__all__, "__version__"]
