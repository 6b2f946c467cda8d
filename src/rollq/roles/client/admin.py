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
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.asking import PAGE
from rollq.roles.client.rules import RuleCalls
from rollq.roles.client.specs import ArgumentTypeError, as_id
from rollq.roles.client.topics import TopicCalls
from rollq.roles.client.views import (
    ClientView,
    DrainView,
    FederationView,
    QueueView,
    Settings,
    WorkerView,
)
from rollq.subjects.grammar import fold

IDLE_LOOK_S: Final = 0.25  # between two looks at drained workers that still run jobs


class AdminCalls(TopicCalls, RuleCalls):
    """Questions to a group, and an operator's changes."""

    async def counts(self) -> QueueView:
        """All queues added up."""
        return QueueView.of(decode_as(await self._query("counts"), views.RawQueueView))

    async def queue(self, name: str) -> QueueView | None:
        """One queue."""
        view = decode_known(await self._query("queue", name.encode()), views.RawQueueView)
        return None if view is None else QueueView.of(view)

    async def queues(self) -> AsyncGenerator[QueueView, None]:
        """Every queue, by name."""
        after = ""
        kind = list[views.RawQueueView]
        while page := decode_as(await self._query("queues", after.encode(), PAGE), kind):
            for view in page:
                yield QueueView.of(view)
            after = page[-1].name

    async def client(self, client_id: str = "") -> ClientView | None:
        """One client; this one if none is named."""
        key = (client_id or self._engine.client_id).encode()
        return decode_known(await self._query("client", key), ClientView)

    async def workers(self) -> AsyncGenerator[WorkerView, None]:
        """Every worker that the group knows, by id."""
        after = b""
        kind = list[views.RawWorkerView]
        while page := decode_as(await self._query("workers", after, PAGE), kind):
            for view in page:
                yield WorkerView.of(view)
            after = page[-1].worker_id

    async def settings(self) -> Settings:
        """The cluster's settings."""
        return decode_as(await self._query("settings"), Settings)

    async def hints(self) -> list[ExecHint]:
        """What the grid was told of the run times of programs, by name."""
        return decode_as(await self._query("hints"), list[ExecHint])

    async def cluster(self) -> dict[str, Any]:
        """The members of the group: who leads, who lags."""
        return decode_as(await self._query("cluster"), dict[str, Any])

    async def groups(self) -> FederationView:
        """The groups of the federation that this one belongs to, as its leader knows them."""
        return decode_as(await self._query("groups"), FederationView)

    async def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """A view by its name, as msgpack."""
        return await self._query(what, key, limit, timeout=timeout)

    async def pause(self, queue: str) -> None:
        """Assign nothing of this queue for now."""
        await self._change("pause", queue=queue)

    async def resume(self, queue: str) -> None:
        """Assign again."""
        await self._change("resume", queue=queue)

    async def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings. To change some, replace fields of `settings`."""
        await self._change("settings", settings=_checked(settings))

    async def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace what the grid knows of the run times of programs; none: it knows nothing. Returns
        how many it knows now. They count while the setting `use_hints` is on."""
        return await self._change("set_hints", hints=tuple(hints))

    async def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Tell workers to end now: what they run is cut off, and runs again elsewhere. Returns how
        many were told; one that is looking for a leader just now is not."""
        return await self._change("dismiss", worker_ids=tuple(as_id(one) for one in worker_ids))

    async def drain(
        self, *workers: WorkerId | str, wait: bool = False, timeout: float | None = None
    ) -> int:
        """Give workers no new jobs, also if they are started anew, until `undrain`. What they run
        goes on; what they have not begun runs elsewhere. Returns how many were not drained before.

        Args:
            workers: Their ids or names; a name means all workers that have it.
            wait: Return when none of them runs anything.
            timeout: How many seconds to wait for that; None: for ever.

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
        """Give drained workers jobs again. Returns how many were drained."""
        return await self._change("undrain", worker_ids=await self._worker_ids(workers))

    async def drained(self) -> AsyncGenerator[DrainView, None]:
        """Every worker that gets no new jobs, by id; also those that are not connected."""
        after = b""
        kind = list[views.RawDrainView]
        while page := decode_as(await self._query("drained", after, PAGE), kind):
            for view in page:
                yield DrainView.of(view)
            after = page[-1].worker_id

    async def _worker_ids(self, workers: Iterable[WorkerId | str]) -> tuple[WorkerId, ...]:
        """The ids of workers that are given by id or name, each once."""
        by_name: dict[str, list[WorkerId]] | None = None
        ids: dict[WorkerId, None] = {}
        for one in workers:
            if isinstance(one, bytes) or _is_id(one):
                ids[as_id(one)] = None
                continue
            if by_name is None:
                by_name = await self._workers_by_name()
            if fold(one) not in by_name:
                raise StateError(
                    ErrorCode.UNKNOWN_WORKER,
                    f"no worker is named {one[:64]!r}",
                    "`rollq status --workers` lists them",
                )
            ids.update(dict.fromkeys(by_name[fold(one)]))
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
        """Let a member in; it votes as soon as it has caught up."""
        await self._change("add_member", member_id=member_id, address=address)

    async def remove_member(self, member_id: MemberId) -> None:
        """Take a member out."""
        await self._change("remove_member", member_id=member_id)

    async def transfer(self, member_id: MemberId) -> None:
        """Hand leadership to a member."""
        await self._change("transfer", member_id=member_id)


def _is_id(text: str) -> bool:
    try:
        guid_from_text(text)
    except RemoteError:
        return False
    return True


def _checked(settings: object) -> Settings:
    """Settings whose fields have their types; whether values are within bounds, the group says.

    Raises:
        ArgumentTypeError: BAD_OPTIONS, naming the field.
        LocalError: BAD_OPTIONS, if a number is beyond what a message holds.
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
