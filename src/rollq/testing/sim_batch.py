"""A staged batch in the simulator: parts, some of them twice, then a commit, a drop, or neither.

Its application persists its progress, so that it continues after a crash; sometimes it stages and
commits the same batch again, like an application that has lost it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollq.base.ids import JobId, MessageId
from rollq.base.jobs import JobOptions
from rollq.base.staged import (
    SAME_BODY,
    StagedGroup,
    StagedPart,
    bodies_of,
    chunk_crc,
    ids_of,
    join_keys,
    part_crc,
)
from rollq.roles.client.session.signals import Request
from rollq.testing.jitter import SeededJitter
from rollq.testing.sim_client import SimClient
from rollq.testing.workload import inputs_of
from rollq.wire.messages import Accepted, SubmitJob
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs


class SimBatch:
    """One batch and its progress.

    Args:
        client: Sends the requests.
        chance: Randomness.
        body: Draws the body of a job.
        queue: Of all jobs.
        options: Of all jobs.
        on_accept: Called with the id of each accepted job.
    """

    def __init__(
        self,
        client: SimClient,
        chance: SeededJitter,
        *,
        body: Callable[[], bytes],
        queue: str,
        options: JobOptions | None,
        on_accept: Callable[[JobId], None],
    ) -> None:
        self._client = client
        self._chance = chance
        self._body = body
        self._queue = queue
        self._options = options
        self._on_accept = on_accept
        self._key = chance.draw_id().hex()
        self._parts: dict[str, list[tuple[StagedGroup, ...]]] = {}
        self._named: list[str] = []
        self._open: dict[MessageId, None] = {}
        self._is_refused = False
        self._lives = 0

    def start(self, dead: list[JobId]) -> None:
        """Stage all parts, which include redrives of some dead jobs."""
        self._client.on_answers.append(self._on_answer)
        self._stage(dead)

    def _stage(self, dead: list[JobId]) -> None:
        chance = self._chance
        self._parts, self._named = {}, []
        for number in range(chance.draw(1, 4)):
            name = f"{number}.{self._lives}"
            self._named.append(name)
            self._parts[name] = [(self._group(),) for _ in range(chance.draw(1, 7))]
            if chance.chance(300):  # a speculative retry of the same task
                self._parts[f"{name}+"] = self._parts[name]
            if chance.chance(300):
                self._parts[f"{name}-"] = [(self._group(), self._group())]
        if dead:
            ids = b"".join(dead)
            group = StagedGroup("", "", ids, (SAME_BODY,) * len(dead), b"", redrives=True)
            self._named.append("again")
            self._parts["again"] = [(group,)]
        for name, messages in self._parts.items():
            for number, groups in enumerate(messages):
                self._ask(StageJobs(chance.draw_id(), self._key, name, number, groups))

    def _group(self) -> StagedGroup:
        chance = self._chance
        bodies = [self._body() for _ in range(chance.draw(1, 4))]
        blobs = tuple(map(inputs_of, bodies))
        keys = [f"key-{chance.draw(0, 99)}" if chance.chance(500) else "" for _ in bodies]
        return StagedGroup(
            self._queue,
            "tool",
            b"".join(chance.draw_id() for _ in bodies),
            tuple(map(len, bodies)),
            b"".join(bodies),
            self._options,
            keys=join_keys(keys),
            blobs=blobs if any(blobs) else (),
        )

    def _ask(self, request: StageJobs | CommitBatch | DropBatch) -> None:
        self._open[request.request_id] = None
        self._client.ask(request)

    def _on_answer(self, request: Request, answer: Any) -> None:
        if not isinstance(request, StageJobs | CommitBatch | DropBatch):
            return
        if self._open.pop(request.request_id, self) is self:
            return  # of another batch
        if isinstance(request, StageJobs):
            self._is_refused |= not isinstance(answer, Accepted)
            if not self._open:
                self._decide()
        elif isinstance(request, CommitBatch):
            self._committed(is_accepted=isinstance(answer, Accepted))
        else:
            self._client.on_answers.remove(self._on_answer)

    def _decide(self) -> None:
        chance = self._chance
        if self._is_refused or chance.chance(150):
            self._ask(DropBatch(chance.draw_id(), self._key))
        elif chance.chance(900):
            parts = tuple(self._whole(name) for name in self._named)
            self._ask(CommitBatch(chance.draw_id(), self._key, parts))
        # else it is abandoned

    def _whole(self, name: str) -> StagedPart:
        messages = self._parts[name]
        count = sum(len(group.sizes) for groups in messages for group in groups)
        return StagedPart(name, count, part_crc(map(chunk_crc, messages)))

    def _committed(self, *, is_accepted: bool) -> None:
        chance = self._chance
        self._lives += 1
        if not is_accepted:  # a job to redrive is not dead any more
            self._ask(DropBatch(chance.draw_id(), self._key))
            return
        if self._lives == 1:
            self._accepted()
        if self._lives < 3 and chance.chance(400):
            self._stage([])
        else:
            self._client.on_answers.remove(self._on_answer)

    def _accepted(self) -> None:
        group = self._parts[self._named[0]][-1][0]  # it is unpacked late
        job_ids = list(ids_of(group.job_ids))
        for job_id in job_ids:
            self._on_accept(job_id)
        if self._chance.chance(400):
            body, key = next(bodies_of(group)), group.keys.split("\0")[0]
            names = (self._client.client_id, self._queue, "tool", body)
            request = SubmitJob(job_ids[0], *names, self._options, inputs_of(body), (), key)
            self._client.ask(request)  # a duplicate of the job
