"""Files in the simulator: which blobs the group lacks just now, and what each worker has of them.

A blob is its digest; no bytes are kept. The group may lack one for a while, and what it sends may
come damaged; what a worker has may rot on its disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.testing.jitter import SeededJitter


class GroupFiles:
    """What the group has: everything, but for what is `missing`. Also what its leader knows.

    Attributes:
        missing: Blobs that too few members hold, until a client uploads them again.
        damaged_per_mille: How often a fetch brings other bytes.
    """

    def __init__(self) -> None:
        self.missing: dict[Digest, None] = {}
        self.damaged_per_mille = 0

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """Those that the group lacks."""
        return [ref.digest for ref in refs if ref.digest in self.missing]

    def upload(self, refs: Iterable[BlobRef]) -> None:
        """A client uploads these to the group."""
        for ref in refs:
            self.missing.pop(ref.digest, None)

    def heal(self) -> None:
        """Nothing is missing, and nothing comes damaged."""
        self.missing.clear()
        self.damaged_per_mille = 0


class WorkerFiles:
    """The blobs on one worker's disk. They outlive its process."""

    def __init__(self, group: GroupFiles) -> None:
        self._group = group
        self._is_sound: dict[Digest, bool] = {}

    def holds(self, refs: Iterable[BlobRef]) -> bool:
        """Whether all are here, and sound."""
        return all(self._is_sound.get(ref.digest, False) for ref in refs)

    def fetch(self, refs: Sequence[BlobRef], chance: SeededJitter) -> RollqError | None:
        """Bring what is not here or is rotten; the first error ends it, as in the product."""
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
        """A bit of a blob flips; False: there is none."""
        if not self._is_sound:
            return False
        self._is_sound[chance.pick(list(self._is_sound))] = False
        return True

    def lose(self) -> None:
        """The disk is lost."""
        self._is_sound.clear()
