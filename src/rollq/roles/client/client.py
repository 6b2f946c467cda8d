"""The asyncio client of one group.

    async with Client("127.0.0.1:5000") as client:
        job = await client.submit("calcA", ["1", "2"])
        print((await job.result()).raise_for_status().stdout)

It finds the leader, follows it, and comes back after a broken connection without the caller
noticing: what was asked is asked again under the same ids, and results that came meanwhile are
sent by whoever leads then.
"""

from __future__ import annotations

from pathlib import Path

from rollq.roles.client.access import AccessCalls
from rollq.roles.client.admin import AdminCalls
from rollq.roles.client.asking import ClientCalls
from rollq.roles.client.batches import Batches
from rollq.roles.client.caches import CacheCalls, Caches
from rollq.roles.client.chains import ChainCalls
from rollq.roles.client.group_engine import GroupEngine
from rollq.roles.client.jobs import JobCalls, Jobs
from rollq.roles.client.pickled_calls import PickledCalls
from rollq.roles.client.schedules import Schedules
from rollq.roles.client.subject_calls import SubjectCalls
from rollq.security.credentials import NONE, Credentials
from rollq.security.files import as_credentials


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
        client_id: The name that results are owed to. A process that comes back under its name
            gets what ended meanwhile. Left out, a new name is drawn.
        desired_parallelism: How many of this client's jobs may run at once; 0: no wish.
        timeout: How many seconds a call waits for an answer, unless it says otherwise.
        shares_id: Others work under this client id at the same time, and results of jobs that one
            of them submits are for it alone. Otherwise every one is sent all results.
        credentials: What it proves itself with, and checks members by: a directory that has them.
        allow_pickle: Whether `run` may send functions that no module registers.

    Attributes:
        jobs, batches, caches, admin: The same calls by what they are about, and some for tools.
        access: Accounts and roles: who may do what.
        schedules: Jobs that the grid makes by itself, at given times.
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
        """Whether a leader has welcomed us."""
        return self._engine.session.is_open

    @property
    def leader(self) -> str:
        """The address of the member that welcomed us; empty if none has."""
        return self._engine.session.leader

    def __repr__(self) -> str:
        return f"<Client {self.client_id} {f'at {self.leader}' if self.leader else 'no leader'}>"
