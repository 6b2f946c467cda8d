"""What nobody foresaw does not keep a job on a worker for ever, before it runs or after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest

from rollq.base.jobs import AttemptRef, BlobRef
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.roles.worker.capture import SpooledTail, Tail
from rollq.roles.worker.directories import Directory
from rollq.roles.worker.output_uploads import LargeOutputs, OutputUploads
from rollq.roles.worker.outputs import ExecutionEnd, SeparatePart
from rollq.roles.worker.pending_uploads import PendingUploads
from rollq.roles.worker.preparations import Preparations
from rollq.roles.worker.signals import ResultStored, StoredResult, UploadFailed
from rollq.wire.messages import AssignJob

BODY = b'{"JobId": "00000000-0000-0000-0000-000000000001", "ClientId": "me", "ExecName": "calc"}'
BLOBS = (BlobRef(bytes(32), 5),)
JOB = AssignJob(bytes(15) + b"\x01", 1, 1, 1_000, "q", "calc", BODY, blobs=BLOBS)
REF = AttemptRef(JOB.job_id, JOB.attempt, JOB.fence)


class Surprising:
    """Blobs of which nothing comes and nothing goes, and those that are pinned."""

    def __init__(self) -> None:
        self.pinned: list[BlobRef] = []

    def pin(self, blobs: Iterable[BlobRef]) -> None:
        self.pinned += blobs

    def unpin(self, blobs: Iterable[BlobRef]) -> None:
        for blob in blobs:
            self.pinned.remove(blob)

    async def bring(self, blobs: Sequence[BlobRef]) -> int:
        raise KeyError(f"{len(blobs)} blobs")

    async def give(self, blobs: Sequence[BlobRef]) -> None:
        raise OSError(24, f"no descriptor is left for {len(blobs)} blobs")


def test_a_job_that_cannot_be_prepared_is_refused_whatever_the_reason() -> None:
    blobs = Surprising()
    told: list[tuple[AttemptRef, Exception]] = []

    async def story() -> None:
        failed = asyncio.Event()

        def on_failed(ref: AttemptRef, error: Exception) -> None:
            told.append((ref, error))
            failed.set()

        preparing = Preparations(
            cast(WorkerBlobs, blobs),
            allow_shipped_execs=False,
            on_ready=lambda *_: None,
            on_failed=on_failed,
        )
        assert preparing.begin(JOB, REF, is_call=False)
        await failed.wait()
        assert not preparing._under_way

    asyncio.run(asyncio.wait_for(story(), 30))
    [(ref, error)] = told
    assert ref == REF
    assert "KeyError('1 blobs')" in str(error)
    assert blobs.pinned == []


def test_inputs_that_are_still_being_written_at_a_stop_are_removed_before_it_ends() -> None:
    directories = MagicMock()

    async def story() -> None:
        is_writing, may_end = asyncio.Event(), asyncio.Event()

        async def on_thread(*_: Any) -> list[Any]:
            is_writing.set()
            await may_end.wait()
            return []

        blobs = MagicMock(bring=AsyncMock(return_value=0), on_thread=on_thread)
        preparing = Preparations(
            blobs, allow_shipped_execs=False, on_ready=MagicMock(), on_failed=MagicMock()
        )
        preparing.open(directories)
        assert preparing.begin(JOB, REF, is_call=False)
        await is_writing.wait()
        closing = asyncio.ensure_future(preparing.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        may_end.set()
        await closing
        directories.discard.assert_called_once_with(directories.take.return_value)

    asyncio.run(asyncio.wait_for(story(), 30))


def test_what_a_job_left_and_cannot_be_handed_over_is_told_whatever_the_reason() -> None:
    told: list[tuple[AttemptRef, str]] = []

    async def story() -> None:
        failed = asyncio.Event()

        def on_failed(ref: AttemptRef, reason: str) -> None:
            told.append((ref, reason))
            failed.set()

        handing = OutputUploads(cast(WorkerBlobs, Surprising()), lambda *_: None, on_failed)
        nothing = LargeOutputs(cast(Directory, None), None, (Tail(), Tail()))
        handing.begin(JOB, REF, ExecutionEnd(), nothing)
        await failed.wait()
        assert not handing._under_way

    asyncio.run(asyncio.wait_for(story(), 30))
    [(ref, reason)] = told
    assert ref == REF
    assert "no descriptor is left" in reason


@pytest.mark.parametrize("is_value", [False, True])
def test_a_stream_or_value_without_room_gives_the_attempt_back(
    tmp_path: Path, is_value: bool
) -> None:
    """A result without it would say that the job is done."""
    told: list[tuple[AttemptRef, str]] = []
    lost = SpooledTail(str(tmp_path / "gone"))
    lost.feed(b"x" * 30_000)

    async def story() -> None:
        failed = asyncio.Event()

        def on_failed(ref: AttemptRef, reason: str) -> None:
            told.append((ref, reason))
            failed.set()

        handing = OutputUploads(cast(WorkerBlobs, Surprising()), lambda *_: None, on_failed)
        ending, outputs = ExecutionEnd(), None
        if is_value:
            ending.separate = (SeparatePart("data", lost),)
        else:
            outputs = LargeOutputs(cast(Directory, None), None, (Tail(), lost))
        handing.begin(JOB, REF, ending, outputs)
        await failed.wait()

    asyncio.run(asyncio.wait_for(story(), 30))
    what = "a returned value" if is_value else "stderr"
    [(ref, reason)] = told
    assert ref == REF
    assert reason.startswith("its outputs cannot be uploaded: disk_failed (401): ")
    assert f"cannot keep 30000 bytes of {what}: No such file or directory" in reason


def test_outputs_that_cannot_be_uploaded_again_are_told_whatever_the_reason() -> None:
    told: list[ResultStored | UploadFailed] = []

    async def story() -> None:
        is_told = asyncio.Event()

        def feed(event: ResultStored | UploadFailed) -> None:
            told.append(event)
            is_told.set()

        pending = PendingUploads(Surprising(), feed)
        pending.upload(StoredResult(REF, 1_000, blobs=BLOBS))
        await is_told.wait()
        await pending.stop()

    asyncio.run(asyncio.wait_for(story(), 10))
    [event] = told
    assert isinstance(event, UploadFailed)
    assert "no descriptor is left" in event.detail
