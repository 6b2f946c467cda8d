"""Questions to the grid, and an operator's changes."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterable
from typing import Any, TypeVar

import msgspec

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.hints import ExecHint
from rollq.base.ids import JobId, MemberId, WorkerId
from rollq.grid import views
from rollq.grid.commands import RedriveItem
from rollq.roles.client.specs import as_id
from rollq.roles.client.submitter import Submitter
from rollq.roles.client.views import (
    ArrayView,
    ClientView,
    JobView,
    QueueView,
    Settings,
    WorkerView,
)
from rollq.wire import messages as wire

PAGE = 1_000


class Operator(Submitter):
    """Reads that are never stale, and changes.

    A change that was sent and whose answer was lost is not sent again: it raises OUTCOME_UNKNOWN,
    and whoever asked must look.
    """

    # --- questions

    async def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """One job or task; None if it is not known (any more)."""
        view = await self.job_view(job_id, timeout=timeout)
        return None if view is None else JobView.of(view)

    async def job_view(
        self, job_id: JobId | str, *, timeout: float | None = None
    ) -> views.JobView | None:
        """The same as a member tells it, for tools."""
        value = await self.query("job", as_id(job_id), timeout=timeout)
        return decode_known(value, views.JobView)

    async def array(self, array_id: JobId | str) -> ArrayView | None:
        """One array, by what its tasks do."""
        view = decode_known(await self.query("array", as_id(array_id)), views.ArrayView)
        return None if view is None else ArrayView.of(view)

    async def explain(self, job_id: JobId | str) -> Any:
        """Why a job waits."""
        return msgspec.msgpack.decode(await self.query("explain", as_id(job_id)))

    async def counts(self) -> QueueView:
        """All queues added up."""
        return QueueView.of(decode_as(await self.query("counts"), views.QueueView))

    async def queue(self, name: str) -> QueueView | None:
        """One queue."""
        view = decode_known(await self.query("queue", name.encode()), views.QueueView)
        return None if view is None else QueueView.of(view)

    async def queues(self) -> AsyncGenerator[QueueView, None]:
        """Every queue, by name."""
        after = ""
        kind = list[views.QueueView]
        while page := decode_as(await self.query("queues", after.encode(), PAGE), kind):
            for view in page:
                yield QueueView.of(view)
            after = page[-1].name

    async def client(self, client_id: str = "") -> ClientView | None:
        """One client; this one if none is named."""
        key = (client_id or self.client_id).encode()
        return decode_known(await self.query("client", key), ClientView)

    async def workers(self) -> AsyncGenerator[WorkerView, None]:
        """Every worker that the group knows, by id."""
        after = b""
        while page := decode_as(await self.query("workers", after, PAGE), list[views.WorkerView]):
            for view in page:
                yield WorkerView.of(view)
            after = page[-1].worker_id

    async def dead(self) -> AsyncGenerator[JobView, None]:
        """Every dead job, oldest first."""
        after = 0
        while True:
            key = after.to_bytes(8, "big")
            page = decode_as(await self.query("dead", key, PAGE), views.DeadPage)
            for view in page.jobs:
                yield JobView.of(view)
            if not page.jobs:
                return
            after = page.after

    async def settings(self) -> Settings:
        """The cluster's settings."""
        return decode_as(await self.query("settings"), Settings)

    async def hints(self) -> list[ExecHint]:
        """What the grid was told of the run times of programs, by name."""
        return decode_as(await self.query("hints"), list[ExecHint])

    async def cluster(self) -> dict[str, Any]:
        """The members of the group: who leads, who lags."""
        return decode_as(await self.query("cluster"), dict[str, Any])

    async def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """A view by its name, as msgpack."""
        request = wire.Query(secrets.token_bytes(16), what, key, limit)
        return bytes((await self._call(request, timeout)).value)

    # --- changes

    async def pause(self, queue: str) -> None:
        """Assign nothing of this queue for now."""
        await self.change("pause", queue=queue)

    async def resume(self, queue: str) -> None:
        """Assign again."""
        await self.change("resume", queue=queue)

    async def redrive(self, *job_ids: JobId | str) -> int:
        """Give dead jobs new attempts; returns how many were dead."""
        items = tuple(RedriveItem(as_id(one)) for one in job_ids)
        return await self.change("redrive", items=items)

    async def purge(self, *job_ids: JobId | str) -> int:
        """Forget dead jobs for good; returns how many there were."""
        return await self.change("purge", job_ids=tuple(as_id(one) for one in job_ids))

    async def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings."""
        await self.change("settings", settings=settings)

    async def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace what the grid knows of the run times of programs; none: it knows nothing. Returns
        how many it knows now. They count while the setting `use_hints` is on."""
        return await self.change("set_hints", hints=tuple(hints))

    async def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Tell workers to end now: what they run is cut off, and runs again elsewhere. Returns how
        many were told; one that is looking for a leader just now is not."""
        return await self.change("dismiss", worker_ids=tuple(as_id(one) for one in worker_ids))

    async def add_member(self, member_id: MemberId, address: str) -> None:
        """Let a member in; it votes as soon as it has caught up."""
        await self.change("add_member", member_id=member_id, address=address)

    async def remove_member(self, member_id: MemberId) -> None:
        """Take a member out."""
        await self.change("remove_member", member_id=member_id)

    async def transfer(self, member_id: MemberId) -> None:
        """Hand leadership to a member."""
        await self.change("transfer", member_id=member_id)

    async def change(self, action: str, **arguments: Any) -> int:
        """A change by its name; returns how many things it changed."""
        request = wire.Admin(secrets.token_bytes(16), action, msgspec.msgpack.encode(arguments))
        return int((await self._call(request)).count)


Kind = TypeVar("Kind")


def decode_as(value: bytes, kind: type[Kind]) -> Kind:
    """A view out of msgpack.

    Raises:
        RemoteError: BAD_PAYLOAD, if the member speaks of something else.
    """
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except msgspec.DecodeError as error:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"the member's answer: {error}",
            "use the same rollq on both sides",
        ) from None


def decode_known(value: bytes, kind: type[Kind]) -> Kind | None:
    """A view out of msgpack, or None if what was asked for is not known."""
    return None if value == MSGPACK_NIL else decode_as(value, kind)


MSGPACK_NIL = b"\xc0"
