"""Which jobs and blobs a principal can see. Hidden ones are treated as nonexistent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rollq.base.access import Action, Principal
from rollq.base.access_rules import ANY
from rollq.base.digests import DIGEST_BYTES, Digest, digest_to_text
from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import JobId, guid_to_text
from rollq.roles.access import Decisions
from rollq.roles.member.guard.names import ALL_JOBS, AccessRequest, K
from rollq.roles.member.guard.targets import Targets

NO_BLOB: Final[Digest] = bytes(DIGEST_BYTES)  # a digest that no blob has
ALL_CLIENTS: Final = f"{K.CLIENT}:{ANY}"


class Sight:
    """Visibility of jobs and blobs, by rules and owners."""

    def __init__(self, decisions: Decisions, targets: Targets) -> None:
        self.decisions = decisions
        self.targets = targets

    def authorize(self, principal: Principal, requests: Iterable[AccessRequest]) -> None:
        """Check that a principal is permitted all of these requests.

        Raises:
            StateError: ACCESS_DENIED.
        """
        for action, names in requests:
            self.decisions.authorize(principal, action, names)

    def hidden_jobs(
        self, principal: Principal, action: Action, job_ids: Sequence[JobId], *, early: bool = False
    ) -> Collection[JobId]:
        """The job ids that are hidden from a principal or unknown.

        Args:
            principal: Of the request.
            action: That it wants to do with them.
            job_ids: Of jobs, arrays and tasks.
            early: Whether jobs count that are proposed and not applied.
        """
        may = self.decisions.may
        if all(may(principal, action, name) for name in ALL_JOBS):
            return ()
        hidden: dict[JobId, None] = {}
        refused: dict[str, None] = {}
        pending: dict[JobId, tuple[str, ...]] | None = None
        for job_id in job_ids:
            names: tuple[str, ...] | None = self.targets.of_job(job_id)
            if names is None and early:
                if pending is None:
                    pending = self.targets.pending_jobs()
                names = pending.get(job_id)
            if names is None:
                hidden[job_id] = None
                continue
            denied = [name for name in names if not may(principal, action, name)]
            if denied:
                hidden[job_id] = None
                refused[denied[0]] = None
        for name in refused:
            self.decisions.on_refused(principal, action, name)
        return hidden

    def sees_blob(self, principal: Principal, digest: Digest) -> bool:
        """Whether a principal can see a blob: it may read one of its references."""
        may = self.decisions.may
        names = self.targets.of_blob(digest)
        if any(may(principal, READ_BY[name.partition(":")[0]], name) for name in names):
            return True
        return may(principal, Action.BLOBS_READ, ALL_CLIENTS)

    def hidden_blobs(self, principal: Principal, digests: Iterable[Digest]) -> list[Digest]:
        """The blobs that are hidden from a principal. Refusals of others' blobs are reported."""
        hidden = [one for one in dict.fromkeys(digests) if not self.sees_blob(principal, one)]
        for name in dict.fromkeys(self.targets.of_blob(one)[:1] for one in hidden):
            if name:
                self.decisions.on_refused(principal, Action.BLOBS_READ, name[0])
        return hidden


READ_BY: Final = {K.CLIENT.value: Action.BLOBS_READ, K.CACHE.value: Action.CACHES_READ}


def unknown_job(job_id: JobId) -> StateError:
    """The grid's error for a job that does not exist."""
    return StateError(ErrorCode.UNKNOWN_JOB, f"{guid_to_text(job_id)}: no such job")


def missing(hidden: Sequence[Digest], count: int) -> StateError:
    """The leader's error for missing blobs: whoever has the bytes can upload them."""
    return StateError(
        ErrorCode.BLOB_MISSING,
        f"{len(hidden)} of {count} blobs are missing (first: {digest_to_text(hidden[0])})",
        "upload them, then send the same request again",
    )
