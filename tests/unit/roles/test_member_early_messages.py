from __future__ import annotations

import pytest

from rollq.base.jobs import AttemptRef, BulkItem
from rollq.base.staged import StagedPart
from rollq.roles.member.early_messages import EarlyMessages
from rollq.wire import messages as wire
from rollq.wire.output_messages import OutputChunk
from rollq.wire.staging_messages import CommitBatch, StageJobs

JOB = bytes(15) + b"j"
BODY = bytes(5_000)


@pytest.mark.parametrize(
    "message",
    [
        wire.SubmitJob(JOB, "ann", "", "exe", BODY),
        wire.SubmitArray(JOB, "ann", "", "exe", BODY, 3),
        wire.SubmitBulk(JOB, "ann", "", "exe", (BulkItem(JOB, BODY),)),
        wire.AckJob(JOB, 1, 1, 0, BODY),
        wire.Cancel(JOB, (JOB,) * 300),
        wire.Confirm((JOB,) * 300),
        wire.Heartbeat((AttemptRef(JOB, 1, 1),) * 300),
        wire.Admin(JOB, "purge", BODY),
        wire.CachePut(JOB, BODY),
        OutputChunk(JOB, 1, data=BODY),
        wire.SubmitJob(JOB, "ann", "", "exe", b"", job_key="k" * 5_000),
        wire.Nack(JOB, 1, 1, "d" * 5_000),
        StageJobs(JOB, "batch", "p" * 5_000, 0, ()),
        CommitBatch(JOB, "batch", (StagedPart("p" * 5_000, 1, 1),)),
    ],
)
def test_what_is_large_counts_as_such(message: wire.ToMemberMessage) -> None:
    assert not EarlyMessages(bytes_max=4_000).add(1, message)


def test_what_is_taken_makes_room() -> None:
    held = EarlyMessages(bytes_max=6_000)
    large = wire.SubmitJob(JOB, "ann", "", "exe", BODY)
    assert held.add(1, large)
    assert not held.add(2, large)
    held.add_end(3)
    assert held.add(4, wire.HelloClient("bob"))
    assert (held.take(), held.take()) == ((1, large), (3, None))
    assert held.add(5, large)
    assert len(held) == 2
