"""The blocking client: the asyncio one in a thread of its own. Any thread may call it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from rollq.base.hints import ExecHint
from rollq.base.ids import JobId, MemberId, WorkerId
from rollq.base.jobs import BlobRef
from rollq.base.staged import StagedPart
from rollq.roles.client.blocking_many import BlockingJob, BlockingKeyedRun, BlockingSubmitter
from rollq.roles.client.bulk import PAGE_JOBS
from rollq.roles.client.caching import PUT_TIMEOUT_S, CacheReport
from rollq.roles.client.client import Client
from rollq.roles.client.keyed import OnMade
from rollq.roles.client.parts import Message, PartBuilder, Redrive
from rollq.roles.client.results import Result
from rollq.roles.client.specs import JobSpec
from rollq.roles.client.staging import CommitOutcome
from rollq.roles.client.streams import StreamPart
from rollq.roles.client.supply import Piece
from rollq.roles.client.views import (
    ArrayView,
    CacheView,
    ClientView,
    HolderView,
    JobView,
    QueueView,
    Settings,
    WorkerView,
)

Value = TypeVar("Value")


class BlockingClient(BlockingSubmitter):
    """The same as `Client`, for code without an event loop. Arguments as there."""

    def __init__(
        self,
        addresses: str,
        *,
        client_id: str = "",
        desired_parallelism: int = 0,
        timeout: float = 30.0,
        shares_id: bool = False,
    ) -> None:
        self._client = Client(
            addresses,
            client_id=client_id,
            desired_parallelism=desired_parallelism,
            timeout=timeout,
            shares_id=shares_id,
        )
        super().__init__(self._client, self._client)

    @property
    def is_connected(self) -> bool:
        """Whether a leader has welcomed us."""
        return self._client.is_connected

    @property
    def leader(self) -> str:
        """The address of the member that welcomed us; empty if none has."""
        return self._client.leader

    # --- jobs

    def attach(self, job_id: JobId | str, *, timeout: float | None = None) -> BlockingJob:
        """A handle on a job of another process; see `Client.attach`."""
        return BlockingJob(
            self._thread, self._thread.run(self._client.attach(job_id, timeout=timeout))
        )

    def result_of(self, job_id: JobId | str, *, timeout: float | None = None) -> Result:
        """How a job ended, whoever submitted it; see `Client.result_of`."""
        return self._thread.run(self._client.result_of(job_id, timeout=timeout))

    def keyed_run(self, *, on_made: OnMade | None = None) -> BlockingKeyedRun:
        """For jobs with ids of their own; see `KeyedRun`. `on_made` is called in another thread."""
        run = self._thread.run(call_there(partial(self._client.keyed_run, on_made=on_made)))
        return BlockingKeyedRun(self._thread, run)

    def unclaimed(self) -> list[Result]:
        """Results that have come so far of jobs of an earlier process; see `Client.unclaimed`."""
        return self._thread.run(call_there(self._client.unclaimed))

    def output(
        self,
        job_id: JobId | str,
        *,
        follow: bool = True,
        stream: str = "",
        tail: int | None = None,
    ) -> Iterator[StreamPart]:
        """What a job writes; see `Client.output`."""
        return self._thread.iterate(
            self._client.output(job_id, follow=follow, stream=stream, tail=tail)
        )

    # --- staged batches

    def stage(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[JobSpec],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Send jobs of a batch ahead, unseen until it is committed; see `Client.stage`. The
        iterable is read in this thread."""
        builder = PartBuilder(client_id or self.client_id, batch_key, part)
        left = iter(jobs)
        with self._staging(timeout) as put:
            while page := list(islice(left, PAGE_JOBS)):
                if any(spec.files for spec in page):
                    page = list(self._thread.run(self._client.settle_all(page)))
                put(builder.messages(page))
            put(builder.rest())
        return builder.staged

    def stage_messages(
        self, messages: Iterable[Message], *, waits: bool = True, timeout: float | None = None
    ) -> None:
        """Send what a `PartBuilder` made.

        Args:
            messages: Of any parts.
            waits: Where there is no room for what is staged, whether to wait for it.
            timeout: How many seconds nothing may be accepted.

        Raises:
            RollqError: GRID_FULL if there is no room, BAD_OPTIONS if the batch is full.
        """
        with self._staging(timeout, waits=waits) as put:
            put(messages)

    def settle(self, jobs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Read the files of jobs, as far as they are not in them."""
        return self._thread.run(self._client.settle_all(jobs))

    def stage_redrives(
        self,
        batch_key: str,
        part: str,
        jobs: Iterable[Redrive],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> StagedPart:
        """Send dead jobs ahead that are to run again; see `Client.stage_redrives`. The iterable is
        read in this thread."""
        builder = PartBuilder(client_id or self.client_id, batch_key, part)
        with self._staging(timeout) as put:
            put(builder.redrives(jobs))
        return builder.staged

    def commit(
        self,
        batch_key: str,
        parts: Sequence[StagedPart],
        *,
        client_id: str = "",
        timeout: float | None = None,
    ) -> CommitOutcome:
        """Accept every job of these parts, all or none; see `Client.commit`."""
        return self._thread.run(
            self._client.commit(batch_key, parts, client_id=client_id, timeout=timeout)
        )

    def drop_batch(
        self, batch_key: str, *, client_id: str = "", timeout: float | None = None
    ) -> bool:
        """Forget what was staged for a batch; see `Client.drop_batch`."""
        return self._thread.run(
            self._client.drop_batch(batch_key, client_id=client_id, timeout=timeout)
        )

    # --- questions

    def status(self, job_id: JobId | str, *, timeout: float | None = None) -> JobView | None:
        """One job or task; None if it is not known (any more)."""
        return self._thread.run(self._client.status(job_id, timeout=timeout))

    def array(self, array_id: JobId | str) -> ArrayView | None:
        """One array, by what its tasks do."""
        return self._thread.run(self._client.array(array_id))

    def explain(self, job_id: JobId | str) -> Any:
        """Why a job waits."""
        return self._thread.run(self._client.explain(job_id))

    def counts(self) -> QueueView:
        """All queues added up."""
        return self._thread.run(self._client.counts())

    def queue(self, name: str) -> QueueView | None:
        """One queue."""
        return self._thread.run(self._client.queue(name))

    def queues(self) -> Iterator[QueueView]:
        """Every queue, by name."""
        return self._thread.iterate(self._client.queues())

    def client(self, client_id: str = "") -> ClientView | None:
        """One client; this one if none is named."""
        return self._thread.run(self._client.client(client_id))

    def workers(self) -> Iterator[WorkerView]:
        """Every worker that the group knows, by id."""
        return self._thread.iterate(self._client.workers())

    def dead(self) -> Iterator[JobView]:
        """Every dead job, oldest first."""
        return self._thread.iterate(self._client.dead())

    def settings(self) -> Settings:
        """The cluster's settings."""
        return self._thread.run(self._client.settings())

    def hints(self) -> list[ExecHint]:
        """What the grid was told of the run times of programs, by name."""
        return self._thread.run(self._client.hints())

    def cluster(self) -> dict[str, Any]:
        """The members of the group: who leads, who lags."""
        return self._thread.run(self._client.cluster())

    def query(
        self, what: str, key: bytes = b"", limit: int = 100, *, timeout: float | None = None
    ) -> bytes:
        """A view by its name, as msgpack."""
        return self._thread.run(self._client.query(what, key, limit, timeout=timeout))

    # --- changes

    def pause(self, queue: str) -> None:
        """Assign nothing of this queue for now."""
        self._thread.run(self._client.pause(queue))

    def resume(self, queue: str) -> None:
        """Assign again."""
        self._thread.run(self._client.resume(queue))

    def redrive(self, *job_ids: JobId | str) -> int:
        """Give dead jobs new attempts; returns how many were dead."""
        return self._thread.run(self._client.redrive(*job_ids))

    def purge(self, *job_ids: JobId | str) -> int:
        """Forget dead jobs for good; returns how many there were."""
        return self._thread.run(self._client.purge(*job_ids))

    def set_settings(self, settings: Settings) -> None:
        """Replace the cluster's settings."""
        self._thread.run(self._client.set_settings(settings))

    def set_hints(self, hints: Iterable[ExecHint]) -> int:
        """Replace what the grid knows of the run times of programs; see `Client.set_hints`."""
        return self._thread.run(self._client.set_hints(hints))

    def dismiss(self, *worker_ids: WorkerId | str) -> int:
        """Tell workers to end now; see `Client.dismiss`."""
        return self._thread.run(self._client.dismiss(*worker_ids))

    def add_member(self, member_id: MemberId, address: str) -> None:
        """Let a member in; it votes as soon as it has caught up."""
        self._thread.run(self._client.add_member(member_id, address))

    def remove_member(self, member_id: MemberId) -> None:
        """Take a member out."""
        self._thread.run(self._client.remove_member(member_id))

    def transfer(self, member_id: MemberId) -> None:
        """Hand leadership to a member."""
        self._thread.run(self._client.transfer(member_id))

    # --- caches

    def cache_put(
        self,
        cache_id: str,
        files: Mapping[str, Any],
        *,
        target: str = "",
        need: int | str = "all",
        timeout: float = PUT_TIMEOUT_S,
    ) -> CacheReport:
        """Keep files under a name, and wait until workers hold them; see `Client.cache_put`."""
        return self._thread.run(
            self._client.cache_put(cache_id, files, target=target, need=need, timeout=timeout)
        )

    def upload(self, content: bytes) -> BlobRef:
        """Keep bytes in the group, by their digest; see `Client.upload`."""
        return self._thread.run(self._client.upload(content))

    def supply(self, pieces: Sequence[Piece]) -> None:
        """As `upload`, of files that were read before."""
        if pieces:
            self._thread.run(self._client.supply(pieces))

    def download(self, ref: BlobRef) -> bytes:
        """Bytes that the group keeps, verified."""
        with TemporaryDirectory() as folder:
            path = Path(folder, "content")
            self._thread.run(self._client.fetch(ref, path))
            return path.read_bytes()

    def cache_remove(self, cache_id: str) -> None:
        """Let workers forget a cache, as soon as no job needs it."""
        self._thread.run(self._client.cache_remove(cache_id))

    def cache(self, cache_id: str) -> CacheView | None:
        """One cache, with its files; None if there is none."""
        return self._thread.run(self._client.cache(cache_id))

    def caches(self) -> Iterator[CacheView]:
        """Every cache, by name, without its files."""
        return self._thread.iterate(self._client.caches())

    def cache_holders(self, cache_id: str) -> list[HolderView]:
        """What every worker that is there, and meant to hold a cache, has of it."""
        return self._thread.run(self._client.cache_holders(cache_id))

    @contextmanager
    def _staging(
        self, timeout: float | None, *, waits: bool = True
    ) -> Iterator[Callable[[Iterable[Message]], None]]:
        """Messages of a part on their way; all are accepted when this is left. They are made in
        this thread, and one is sent while the next is made."""
        run = self._thread.run
        stage = run(call_there(partial(self._client.stage_run, timeout, waits=waits)))

        def put(messages: Iterable[Message]) -> None:
            for message in messages:
                run(stage.put((message,)))

        try:
            yield put
            run(stage.finish())
        finally:
            run(call_there(stage.close))


async def call_there(function: Callable[[], Value]) -> Value:
    """A function in the loop's own time."""
    await asyncio.sleep(0)
    return function()
