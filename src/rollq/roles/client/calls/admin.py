"""`client.admin`: the group's queues, workers, clients, settings, topics and members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

import msgspec

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RemoteError, StateError
from rollq.base.hints import ExecHint
from rollq.base.ids import MemberId, WorkerId, guid_from_text, guid_to_text
from rollq.grid import views
from rollq.net.dialer import split_address
from rollq.roles.client.answers import ArgumentTypeError, decode_as, decode_known
from rollq.roles.client.calls.facades import PAGE
from rollq.roles.client.calls.rules import RuleCalls
from rollq.roles.client.calls.topics import TopicCalls
from rollq.roles.client.jobs.specs import as_id
from rollq.roles.client.results.views import (
    ClientView,
    DrainView,
    FederationView,
    QueueView,
    Settings,
    WorkerView,
)
from rollq.subjects.grammar import fold

SHORT_DIGITS: Final = 8  # of a worker id, at least
IDLE_LOOK_S: Final = 0.25  # poll interval while drained workers still run jobs


class AdminCalls(TopicCalls, RuleCalls):
    """Queries and administrative changes of a group."""

    async def counts(self) -> QueueView:
        """Return the counts of all queues, added up."""
        return QueueView.of(decode_as(await self._query("counts"), views.RawQueueView))

    async def queue(self, name: str) -> QueueView | None:
        """Return the counts of a queue, or None if it does not exist."""
        view = decode_known(await self._query("queue", name.encode()), views.RawQueueView)
        return None if view is None else QueueView.of(view)

    async def queues(self) -> AsyncGenerator[QueueView, None]:
        """Iterate over all queues, ordered by name."""
        after = ""
        kind = list[views.RawQueueView]
        while page := decode_as(await self._query("queues", after.encode(), PAGE), kind):
            for view in page:
                yield QueueView.of(view)
            after = page[-1].name

    async def client(self, client_id: str = "") -> ClientView | None:
        """Return the view of a client, by default of this one; None if it is unknown."""
        key = (client_id or self._engine.client_id).encode()
        return decode_known(await self._query("client", key), ClientView)

    async def workers(self) -> AsyncGenerator[WorkerView, None]:
        """Iterate over all connected workers, ordered by id."""
        after = b""
        kind = list[views.RawWorkerView]
        while page := decode_as(await self._query("workers", after, PAGE), kind):
            for view in page:
                yield WorkerView.of(view)
            after = page[-1].worker_id

    async def settings(self) -> Settings:
        """Return the cluster's settings."""
        return decode_as(await self._query("settings"), Settings)

    async def hints(self) -> list[ExecHint]:
        """Return the expected run times of programs, as set by `set_hints`, ordered by name."""
        return decode_as(await self._query("hints"), list[ExecHint])

    async def cluster(self) -> dict[str, Any]:
        """Return the members of the group: the leader, addresses, replication lag and disk."""
        return decode_as(await self._query("cluster"), dict[str, Any])

    async def groups(self) -> FederationView:
        """Return the federation's groups, as this group's leader knows them."""
        return decode_as(await self._query("groups"), FederationView)

    async def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """Return a view by its wire name, encoded as msgpack."""
        return await self._query(what, key, limit, timeout=timeout)

    async def pause(self, queue: str) -> None:
        """Stop assigning jobs of a queue until `resume`. Running jobs go on."""
        await self._change("pause", queue=queue)

    async def resume(self, queue: str) -> None:
        """Assign jobs of a queue again."""
        await self._change("resume", queue=queue)

    async def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings. To change some, replace fields of `settings`."""
        await self._change("settings", settings=_checked(settings))

    async def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace the expected run times of programs; with none they are cleared. Returns how many
        there are now. They are used while the setting `use_hints` is on."""
        return await self._change("set_hints", hints=tuple(hints))

    async def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Stop workers at once: their running jobs are killed and run again elsewhere. Returns how
        many were stopped; a worker that is not connected at the moment is not."""
        return await self._change("dismiss", worker_ids=tuple(as_id(one) for one in worker_ids))

    async def drain(
        self, *workers: WorkerId | str, wait: bool = False, timeout: float | None = None
    ) -> int:
        """Assign no new jobs to workers until `undrain`, also after a restart. Running jobs go on;
        jobs that were assigned but not started run elsewhere. Returns how many were not drained
        before.

        Args:
            workers: Names, ids, or the first digits of an id (8 at least); a name means all
                workers that have it.
            wait: Whether to wait until none of them runs a job.
            timeout: How many seconds to wait for that; None: without limit.

        Raises:
            StateError: UNKNOWN_WORKER.
            DeadlineError: TIMED_OUT: they still run jobs. They stay drained.
        """
        ids = await self._worker_ids(workers)
        count = await self._change("drain", worker_ids=ids)
        if wait:
            try:
                async with asyncio.timeout(timeout):
                    await self._await_idle(ids)
            except DeadlineError:
                raise
            except TimeoutError:
                raise DeadlineError(
                    ErrorCode.TIMED_OUT,
                    f"drained workers still run jobs after {timeout:g} s",
                    "they stay drained: wait again, or cancel the jobs",
                ) from None
        return count

    async def undrain(self, *workers: WorkerId | str) -> int:
        """Assign jobs to drained workers again. Returns how many were drained."""
        return await self._change("undrain", worker_ids=await self._worker_ids(workers))

    async def drained(self) -> AsyncGenerator[DrainView, None]:
        """Iterate over all drained workers, also those not connected, ordered by id."""
        after = b""
        kind = list[views.RawDrainView]
        while page := decode_as(await self._query("drained", after, PAGE), kind):
            for view in page:
                yield DrainView.of(view)
            after = page[-1].worker_id

    async def _worker_ids(self, workers: Iterable[WorkerId | str]) -> tuple[WorkerId, ...]:
        """Resolve ids and names to worker ids, without duplicates."""
        by_name: dict[str, list[WorkerId]] | None = None
        ids: dict[WorkerId, None] = {}
        for one in workers:
            if isinstance(one, bytes) or _is_id(one):
                ids[as_id(one)] = None
                continue
            if by_name is None:
                by_name = await self._workers_by_name()
            known = by_name.get(fold(one)) or _beginning_with(one, by_name)
            if not known:
                raise StateError(
                    ErrorCode.UNKNOWN_WORKER,
                    f"no worker is named {one[:64]!r}",
                    "`rollq status --workers` lists them",
                )
            ids.update(dict.fromkeys(known))
        return tuple(ids)

    async def _workers_by_name(self) -> dict[str, list[WorkerId]]:
        found: dict[str, list[WorkerId]] = {}
        async for worker in self.workers():
            found.setdefault(fold(worker.name), []).append(as_id(worker.worker_id))
        async for drained in self.drained():
            found.setdefault(fold(drained.name), []).append(as_id(drained.worker_id))
        return found

    async def _await_idle(self, worker_ids: tuple[WorkerId, ...]) -> None:
        wanted = {guid_to_text(one) for one in worker_ids}
        while True:
            busy = [one async for one in self.drained() if one.worker_id in wanted and one.held]
            if not busy:
                return
            await asyncio.sleep(IDLE_LOOK_S)

    async def add_member(self, member_id: MemberId, address: str) -> None:
        """Add a member to the group. It votes as soon as it has caught up.

        Raises:
            LocalError: BAD_ADDRESS, if the address is not host:port.
        """
        split_address(address)
        await self._change("add_member", member_id=member_id, address=address)

    async def remove_member(self, member_id: MemberId) -> None:
        """Remove a member from the group."""
        await self._change("remove_member", member_id=member_id)

    async def transfer(self, member_id: MemberId) -> None:
        """Transfer leadership to a member."""
        await self._change("transfer", member_id=member_id)


def _beginning_with(text: str, by_name: dict[str, list[WorkerId]]) -> list[WorkerId]:
    """The worker whose id begins so; none if there are several."""
    if len(text) < SHORT_DIGITS:
        return []
    known = {one for ids in by_name.values() for one in ids}
    fits = [one for one in known if guid_to_text(one).startswith(text.lower())]
    return fits if len(fits) == 1 else []


def _is_id(text: str) -> bool:
    try:
        guid_from_text(text)
    except RemoteError:
        return False
    return True


def _checked(settings: object) -> Settings:
    """Check the types of settings. Their bounds are checked by the group.

    Raises:
        ArgumentTypeError: BAD_OPTIONS, naming the field.
        LocalError: BAD_OPTIONS, if a number exceeds 64 bits.
    """
    if not isinstance(settings, Settings):
        raise ArgumentTypeError(
            ErrorCode.BAD_OPTIONS,
            f"settings is {type(settings).__name__}",
            "give the Settings that `settings` returned, changed by `msgspec.structs.replace`",
        )
    for field in msgspec.structs.fields(Settings):
        value = getattr(settings, field.name)
        if type(value) is not field.type:
            kind = type(value).__name__
            hint = f"give {'True or False' if field.type is bool else 'a whole number'}"
            raise ArgumentTypeError(ErrorCode.BAD_OPTIONS, f"{field.name} is {kind}", hint)
        if not abs(value) < 1 << 63:
            raise LocalError(ErrorCode.BAD_OPTIONS, f"{field.name} is beyond 64 bits")
    return settings
