"""Files in the simulator: the blobs that the group lacks, and those that each worker has.

A blob is its digest; no bytes are stored. The group may lack one for a while, and fetches may be
corrupt; a worker's copy may rot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.testing.jitter import SeededJitter


class GroupFiles:
    """The blobs of the group: all except the `missing` ones. Also the leader's knowledge of them.

    Attributes:
        missing: Blobs with too few copies, until a client uploads them again.
        damaged_per_mille: The share of corrupt fetches.
    """

    def __init__(self) -> None:
        self.missing: dict[Digest, None] = {}
        self.damaged_per_mille = 0

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """The blobs that the group lacks."""
        return [ref.digest for ref in refs if ref.digest in self.missing]

    def upload(self, refs: Iterable[BlobRef]) -> None:
        """A client uploads blobs."""
        for ref in refs:
            self.missing.pop(ref.digest, None)

    def heal(self) -> None:
        """End all faults."""
        self.missing.clear()
        self.damaged_per_mille = 0


class WorkerFiles:
    """The blobs on one worker's disk. They survive its process."""

    def __init__(self, group: GroupFiles) -> None:
        self._group = group
        self._is_sound: dict[Digest, bool] = {}

    def holds(self, refs: Iterable[BlobRef]) -> bool:
        """Whether all are present and intact."""
        return all(self._is_sound.get(ref.digest, False) for ref in refs)

    def fetch(self, refs: Sequence[BlobRef], chance: SeededJitter) -> RollqError | None:
        """Fetch missing and corrupt blobs; stops at the first error, as in the product."""
        for ref in refs:
            if self._is_sound.get(ref.digest, False):
                continue
            self._is_sound.pop(ref.digest, None)
            name = digest_to_text(ref.digest)
            if ref.digest in self._group.missing:
                return StateError(ErrorCode.BLOB_MISSING, f"no blob {name}")
            if chance.chance(self._group.damaged_per_mille):
                return RemoteError(ErrorCode.BLOB_CORRUPT, f"blob {name} came damaged")
            self._is_sound[ref.digest] = True
        return None

    def rot(self, chance: SeededJitter) -> bool:
        """Corrupt a random blob; False if there is none."""
        if not self._is_sound:
            return False
        self._is_sound[chance.pick(list(self._is_sound))] = False
        return True

    def lose(self) -> None:
        """The disk is lost."""
        self._is_sound.clear()
