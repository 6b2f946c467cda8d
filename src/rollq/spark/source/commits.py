"""The driver's part of a write: accepts everything that the tasks sent.

A write that fits into one batch is accepted by one log entry. A larger one is accepted by several,
in order, exactly once as a whole: before the first batch, a plan that lists all segments is stored
in the group under the key of the write. A retry of the write, whatever its rows, finds the plan and
continues it. The plan is removed when everything is accepted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import guid_to_text
from rollq.base.limits import BATCH_KEY_BYTES_MAX, CACHE_ENTRIES_MAX
from rollq.base.staged import StagedPart, ids_of, keys_of
from rollq.roles.client.jobs.parts import PartBuilder
from rollq.spark.source.segments import SentSegment, StoredSegment, unpacked

if TYPE_CHECKING:
    from rollq.base.jobs import BlobRef
    from rollq.roles.client.blocking.clients import BlockingClient

NO_TARGET: Final = "job.assign"  # a target that matches no queue, so that no worker fetches a plan
PLAN: Final = "plan"
PART: Final = "rows"
# Error codes after which nothing of the write was accepted.
REFUSED: Final = (ErrorCode.BAD_OPTIONS, ErrorCode.JOB_CONFLICT, ErrorCode.BATCH_CONFLICT)


class CommitPlan(msgspec.Struct, frozen=True):
    """The batches of a large write, in order.

    Attributes:
        parts: Of the first batch, whose key is that of the write.
        kept: Further batches, one for each segment.
        holds: The number of caches that pin their blobs.
    """

    parts: tuple[StagedPart, ...]
    kept: tuple[StoredSegment, ...]
    holds: int = 0


class Commits:
    """Accepts one write.

    Args:
        client: A client.
        client_id: The client of the jobs.
        batch_key: The key of the write.
    """

    def __init__(self, client: BlockingClient, client_id: str, batch_key: str) -> None:
        self._client = client
        self._client_id = client_id
        self._key = batch_key
        digest = hashlib.sha256(f"{client_id}\0{batch_key}".encode()).hexdigest()
        self._cache_id = f"spark-write/{digest}"

    def accept(self, segments: Sequence[SentSegment]) -> None:
        """Accept segments, or continue an earlier attempt of this write.

        Raises:
            StateError: JOB_CONFLICT, if two rows are the same job, or one conflicts with a job of
                the grid; it names the rows.
        """
        plan = self._known_plan()
        if plan is not None and self._begin(plan):
            self._finish(plan)
            return
        parts = tuple(each.part for each in segments if each.part is not None)
        kept = tuple(each.kept for each in segments if each.kept is not None)
        if not kept:
            if parts:
                self._client.commit(self._key, parts, client_id=self._client_id)
            return
        self._check_duplicates(segments)
        plan = self._keep_plan(CommitPlan(parts, kept))
        try:
            self._begin(plan)
        except RollqError as error:
            if error.code in REFUSED:
                self._forget(plan)
            raise
        self._finish(plan)

    # --- the plan

    def _known_plan(self) -> CommitPlan | None:
        view = self._client.cache(self._cache_id)
        if view is None or view.removed:
            return None
        entry = next(one for one in view.entries if one.name == PLAN)
        return msgspec.json.decode(self._client.download(entry.blob), type=CommitPlan)

    def _keep_plan(self, plan: CommitPlan) -> CommitPlan:
        """Store the plan, after pinning the blobs it refers to. From here on every retry of the
        write continues this plan."""
        blobs: dict[BlobRef, None] = {}
        for each in plan.kept:
            blobs |= dict.fromkeys((each.blob, *each.files))
        named = list(blobs)
        pages = [
            named[at : at + CACHE_ENTRIES_MAX] for at in range(0, len(named), CACHE_ENTRIES_MAX)
        ]
        for number, page in enumerate(pages):
            files = {str(place): ref for place, ref in enumerate(page)}
            self._hold(f"{self._cache_id}/{number}", files)
        plan = msgspec.structs.replace(plan, holds=len(pages))
        self._hold(self._cache_id, {PLAN: msgspec.json.encode(plan)})
        return plan

    def _hold(self, cache_id: str, files: dict[str, BlobRef] | dict[str, bytes]) -> None:
        try:
            self._client.cache_put(cache_id, files, target=NO_TARGET, need=0)
        except StateError as error:
            if error.code is not ErrorCode.CACHE_CONFLICT:
                raise
            self._client.cache_remove(cache_id)  # left by an attempt that stored no plan
            self._client.cache_put(cache_id, files, target=NO_TARGET, need=0)

    def _forget(self, plan: CommitPlan) -> None:
        for cache_id in (self._cache_id, *(f"{self._cache_id}/{n}" for n in range(plan.holds))):
            try:
                self._client.cache_remove(cache_id)
            except StateError as error:
                if error.code is not ErrorCode.UNKNOWN_CACHE:
                    raise

    # --- its batches

    def _begin(self, plan: CommitPlan) -> bool:
        """Commit the first batch; false if nothing of the plan was accepted and its staged parts
        have expired."""
        try:
            self._client.commit(self._key, plan.parts, client_id=self._client_id)
        except StateError as error:
            if error.code is not ErrorCode.BATCH_INCOMPLETE:
                raise
            self._forget(plan)
            return False
        return True

    def _finish(self, plan: CommitPlan) -> None:
        for number, kept in enumerate(plan.kept, 1):
            key = self._key_of(number)
            groups = unpacked(self._client.download(kept.blob))
            builder = PartBuilder(self._client_id, key, PART)
            self._client.batches.stage_messages(list(builder.copies(groups)))
            self._client.commit(key, (builder.staged,), client_id=self._client_id)
        self._forget(plan)

    def _key_of(self, number: int) -> str:
        key = f"{self._key}/{number}"
        if len(key.encode()) <= BATCH_KEY_BYTES_MAX:
            return key
        return f"{hashlib.sha256(self._key.encode()).hexdigest()}/{number}"

    # --- duplicate rows

    def _check_duplicates(self, segments: Sequence[SentSegment]) -> None:
        """Find duplicate job ids. In a single batch the grid checks this; with several it must be
        checked before the first commit."""
        seen: dict[bytes, tuple[SentSegment, int]] = {}
        for segment in segments:
            for row, job_id in enumerate(ids_of(segment.ids)):
                first = seen.setdefault(job_id, (segment, row))
                if first != (segment, row):
                    raise self._duplicate(job_id, first, (segment, row))

    def _duplicate(self, job_id: bytes, *places: tuple[SentSegment, int]) -> StateError:
        key = next((key for segment, _ in places if (key := self._key_in(segment, job_id))), "")
        where = " and ".join(f"job {row + 1} of {segment.place!r}" for segment, row in places)
        named = f" (job_key {key!r})" if key else ""
        return StateError(
            ErrorCode.JOB_CONFLICT,
            f"{guid_to_text(job_id)}: the write names this job twice{named}: {where}",
            "nothing was submitted; dropDuplicates(['job_key']) leaves one of each",
        )

    def _key_in(self, segment: SentSegment, job_id: bytes) -> str:
        if segment.kept is None:
            return ""
        for groups in unpacked(self._client.download(segment.kept.blob)):
            for group in groups:
                ids = list(ids_of(group.job_ids))
                if job_id in ids:
                    return keys_of(group)[ids.index(job_id)]
        return ""
