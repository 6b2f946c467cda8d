"""Which jobs and blobs are there for a principal. Those of others are as those that nobody has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rollq.base.access import Action, Principal
from rollq.base.access_rules import ANY
from rollq.base.digests import DIGEST_BYTES, Digest, digest_to_text
from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import JobId, guid_to_text
from rollq.roles.access import Decisions
from rollq.roles.member.guard.names import ALL_JOBS, Ask, K
from rollq.roles.member.guard.targets import Targets

NO_BLOB: Final[Digest] = bytes(DIGEST_BYTES)  # in place of a digest: nothing has it
ALL_CLIENTS: Final = f"{K.CLIENT}:{ANY}"


class Sight:
    """What principals may act on, by the rules and by whose the targets are."""

    def __init__(self, decisions: Decisions, targets: Targets) -> None:
        self.decisions = decisions
        self.targets = targets

    def authorize(self, principal: Principal, asks: Iterable[Ask]) -> None:
        """Let a principal do all of this, or say why not.

        Raises:
            StateError: ACCESS_DENIED.
        """
        for action, names in asks:
            self.decisions.authorize(principal, action, names)

    def hidden_jobs(
        self, principal: Principal, action: Action, job_ids: Sequence[JobId], *, early: bool = False
    ) -> Collection[JobId]:
        """Those that are not there for a principal: of others, or of nobody.

        Args:
            principal: Who asks.
            action: What it wants to do with them.
            job_ids: Of jobs, arrays and tasks.
            early: Jobs count also while they are on their way into the log.
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
        """Whether a blob is there for a principal: it may read one of those that refer to it."""
        may = self.decisions.may
        names = self.targets.of_blob(digest)
        if any(may(principal, READ_BY[name.partition(":")[0]], name) for name in names):
            return True
        return may(principal, Action.BLOBS_READ, ALL_CLIENTS)

    def hidden_blobs(self, principal: Principal, digests: Iterable[Digest]) -> list[Digest]:
        """Those that are not there for a principal. That somebody else has one is noted."""
        hidden = [one for one in dict.fromkeys(digests) if not self.sees_blob(principal, one)]
        for name in dict.fromkeys(self.targets.of_blob(one)[:1] for one in hidden):
            if name:
                self.decisions.on_refused(principal, Action.BLOBS_READ, name[0])
        return hidden


READ_BY: Final = {K.CLIENT.value: Action.BLOBS_READ, K.CACHE.value: Action.CACHES_READ}


def unknown_job(job_id: JobId) -> StateError:
    """As the grid says it of one that does not exist."""
    return StateError(ErrorCode.UNKNOWN_JOB, f"{guid_to_text(job_id)}: no such job")


def missing(hidden: Sequence[Digest], count: int) -> StateError:
    """As the leader says it of blobs that nobody has: whoever has the bytes can bring them."""
    return StateError(
        ErrorCode.BLOB_MISSING,
        f"{len(hidden)} of {count} blobs are missing (first: {digest_to_text(hidden[0])})",
        "upload them, then send the same request again",
    )
