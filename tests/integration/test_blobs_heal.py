"""A server that can bring back what it lacks: who waits for that, and what ends it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.roles.blobs.client import BlobClient
from tests.integration.test_blobs import MIB, Serving, digest_of, run


def test_what_is_missing_is_brought_back_once_for_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        data = os.urandom(MIB)
        async with Serving(tmp_path / "store") as serving:
            healed: list[Digest] = []
            waiting: list[Digest] = []
            both_wait = asyncio.Event()
            look, start = serving.server.healing, serving.server.start_healing

            def waits(digest: Digest) -> None:
                waiting.append(digest)
                if len(waiting) == 2:
                    both_wait.set()

            def healing(digest: Digest) -> asyncio.Task[None] | None:
                if (task := look(digest)) is not None:
                    waits(digest)
                return task

            def start_healing(digest: Digest) -> asyncio.Task[None] | None:
                waits(digest)
                return start(digest)

            async def heal(digest: Digest) -> None:
                healed.append(digest)
                await both_wait.wait()
                with serving.store.begin(digest, len(data)) as incoming:
                    incoming.write(data)
                    incoming.commit()

            serving.server.heal = heal
            monkeypatch.setattr(serving.server, "healing", healing)
            monkeypatch.setattr(serving.server, "start_healing", start_healing)
            async with (
                BlobClient([serving.address], "g") as one,
                BlobClient([serving.address], "g") as two,
                BlobClient([serving.address], "g", "member") as member,
            ):
                with pytest.raises(RollqError) as caught:  # it asks others itself
                    await member.fetch(digest_of(data), tmp_path / "0", len(data))
                assert caught.value.code is ErrorCode.BLOB_MISSING
                assert not healed
                await asyncio.gather(
                    one.fetch(digest_of(data), tmp_path / "1", len(data)),
                    two.fetch(digest_of(data), tmp_path / "2", len(data)),
                )
            assert healed == [digest_of(data)]

    run(story())


def test_what_cannot_be_brought_back_is_missing_and_a_stop_waits_for_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with Serving(tmp_path / "store") as serving:
            begun = asyncio.Event()
            ended: list[str] = []

            async def heal(digest: Digest) -> None:
                if not ended:
                    ended.append("failed")
                    raise StateError(ErrorCode.BLOB_MISSING, "nobody has it")
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("cancelled")

            serving.server.heal = heal
            async with BlobClient([serving.address], "g", patience_s=0.1) as client:
                with pytest.raises(RollqError) as caught:
                    await client.fetch(bytes(32), tmp_path / "0", 5)
                assert caught.value.code is ErrorCode.BLOB_MISSING
                fetching = asyncio.create_task(client.fetch(bytes(32), tmp_path / "1", 5))
                await begun.wait()
                await serving.server.stop()
                assert ended == ["failed", "cancelled"]
                fetching.cancel()
                await asyncio.gather(fetching, return_exceptions=True)

    run(story())
