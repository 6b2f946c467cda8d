"""The asyncio client of one group.

    async with Client("127.0.0.1:5000") as client:
        job = await client.submit("calcA", ["1", "2"])
        print((await job.result()).raise_for_status().stdout)

It finds the leader, follows leader changes and reconnects by itself: unanswered requests are sent
again under the same ids, and the new leader sends the results that are still unconfirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.calls.access import AccessCalls
from rollq.roles.client.calls.admin import AdminCalls
from rollq.roles.client.calls.batches import Batches
from rollq.roles.client.calls.caches import CacheCalls, Caches
from rollq.roles.client.calls.facades import ClientCalls
from rollq.roles.client.calls.jobs import JobCalls, Jobs, SubmitCalls
from rollq.roles.client.calls.schedules import Schedules
from rollq.roles.client.calls.subjects import SubjectCalls
from rollq.roles.client.engine.one_group import GroupEngine
from rollq.roles.client.functions.calls import as_task
from rollq.roles.client.functions.chains import ChainCalls
from rollq.roles.client.results.handles import Job
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials


class PickledCalls(SubmitCalls):
    """Calls of a client with `allow_pickle`."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Job:
        """Submit a call of any function, such as a lambda or one of a notebook, with Python values.
        It is pickled by cloudpickle, and runs on workers with `--app rollq.pickled`.

        Raises:
            LocalError: BAD_SETUP, if the client was not created with `allow_pickle`, or cloudpickle
                is not installed.
            TypeError: the function cannot be pickled, or an argument cannot be serialized.
        """
        if not self._engine.allow_pickle:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                "this client sends no pickled functions",
                "create it with allow_pickle=True, and start workers with --app rollq.pickled",
            )
        task, more = as_task(function)
        return await self.submit_call(task, (*more, *args), kwargs)


class Client(
    ClientCalls,
    JobCalls,
    ChainCalls,
    CacheCalls,
    SubjectCalls,
    AdminCalls,
    PickledCalls,
):
    """A client of one group.

    Args:
        addresses: Members of the group, `host:port,host:port…`; one is enough to find the rest.
        client_id: The id that owns the jobs and receives their results. A process that reconnects
            with it receives the results that were not delivered before. Default: a new random id.
        desired_parallelism: How many of this client's jobs may run at once; 0: no limit.
        timeout: Default timeout of calls, in seconds.
        shares_id: Whether several processes use this client id at the same time: each receives
            only the results of jobs that it submitted. Otherwise each receives all of them.
        credentials: What it logs in with and verifies members by, or the directory that has it.
        allow_pickle: Whether `run` may send functions that no module registers, by cloudpickle.

    Attributes:
        jobs, batches, caches, admin: The same calls by topic, and low-level ones for tools.
        access: Accounts and roles.
        schedules: Jobs that the grid submits by itself, by cron or interval.
    """

    jobs: Jobs
    batches: Batches
    caches: Caches
    admin: AdminCalls
    access: AccessCalls
    schedules: Schedules

    def __init__(
        self,
        addresses: str,
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        timeout: float = 30.0,
        shares_id: bool = False,
        credentials: Credentials | str | Path = NONE,
        allow_pickle: bool = False,
    ) -> None:
        engine = GroupEngine(
            addresses,
            client_id,
            desired_parallelism=desired_parallelism,
            timeout_s=timeout,
            shares_id=shares_id,
            credentials=as_credentials(credentials),
        )
        engine.allow_pickle = allow_pickle
        super().__init__(engine)
        self.jobs = Jobs(engine)
        self.batches = Batches(engine)
        self.caches = Caches(engine)
        self.admin = AdminCalls(engine)
        self.access = AccessCalls(engine)
        self.schedules = Schedules(engine)

    @property
    def is_connected(self) -> bool:
        """Whether the session with a leader is open."""
        return self._engine.session.is_open

    @property
    def has_submitted(self) -> bool:
        """Whether jobs were ever sent: without an answer they may have been accepted. Files of a
        job are sent before it."""
        return self._engine.session.has_submitted

    @property
    def leader(self) -> str:
        """The address of the leader of the open session; empty if there is none."""
        return self._engine.session.leader

    def __repr__(self) -> str:
        return f"<Client {self.client_id} {f'at {self.leader}' if self.leader else 'no leader'}>"
