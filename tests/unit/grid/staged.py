"""A grid with the verbs of staging."""

from __future__ import annotations

from typing import Any

from rollq.base.jobs import BlobRef
from rollq.base.staged import SAME_BODY, StagedGroup, StagedPart, chunk_crc, part_crc
from rollq.grid import commands as c
from rollq.grid.effects import Outcome
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from tests.unit.grid.kit import Grid, job_id, kinds

BLOB = BlobRef(b"\x01" * 32, 5)


def group(*names: str, queue: str = "q", **fields: Any) -> StagedGroup:
    """Jobs whose bodies are their names."""
    bodies = [name.encode() for name in names]
    ids = b"".join(map(job_id, names))
    return StagedGroup(queue, "exe", ids, tuple(map(len, bodies)), b"".join(bodies), **fields)


def again(*names: str, **bodies: str) -> StagedGroup:
    """Dead jobs to run again, some with another body."""
    sizes = tuple(len(bodies[name]) if name in bodies else SAME_BODY for name in names)
    data = "".join(bodies.get(name, "") for name in names).encode()
    ids = b"".join(map(job_id, names))
    return StagedGroup("", "", ids, sizes, data, redrives=True)


class Staged(Grid):
    """A grid with the verbs of staging. The client is ann, unless it is said."""

    def stage(
        self, part: str, *groups: StagedGroup, number: int = 0, key: str = "b", client: str = "ann"
    ) -> Outcome:
        return self.ask(c.StageJobs(client, key, part, number, groups))

    def commit(self, *parts: StagedPart, key: str = "b", client: str = "ann") -> Outcome:
        return self.ask(c.CommitBatch(client, key, parts))

    def unpack(self, key: str = "b", client: str = "ann") -> list[str]:
        """Unpack all of a batch; what happened."""
        said: list[str] = []
        while (batch := self.state.committed.get((client, key))) is not None:
            said += kinds(self.apply(c.UnpackBatch(client, key, batch.position)))
        return said

    def reload(self) -> None:
        """Go on from a snapshot."""
        self.state = decode_snapshot(encode_snapshot(self.state))


def part(name: str, *messages: tuple[StagedGroup, ...]) -> StagedPart:
    count = sum(len(one.sizes) for groups in messages for one in groups)
    return StagedPart(name, count, part_crc(chunk_crc(groups) for groups in messages))


def accepted() -> Staged:
    """A batch that is committed and not unpacked."""
    grid = Staged()
    grid.stage("p", group("a"))
    grid.commit(part("p", (group("a"),)))
    return grid
