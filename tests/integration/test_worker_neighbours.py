"""Blobs from one worker to another, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from rollq.base.errors import RollqError
from rollq.roles.blobs.client import BlobClient
from rollq.roles.worker import neighbours
from rollq.roles.worker.neighbours import Neighbours
from rollq.store.blobs.local import LocalBlobs
from tests.integration.blob_member import ref_of
from tests.integration.patience import DEADLINE_S

NOBODY = "127.0.0.1:1"


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


def store_of(folder: Path, *contents: bytes) -> LocalBlobs:
    store = LocalBlobs(folder)
    for data in contents:
        ref = ref_of(data)
        with store.begin(ref.digest, ref.size) as incoming:
            incoming.write(data)
            incoming.commit()
    return store


def test_who_does_not_answer_is_not_asked_for_every_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "PATIENCE_S", 0.01)
    monkeypatch.setattr(neighbours, "CLIENTS_MAX", 1)
    asked: list[str] = []

    class Counted(BlobClient):
        def __init__(self, addresses: tuple[str, ...], **more: Any) -> None:
            asked.extend(addresses)
            super().__init__(addresses, **more)

    monkeypatch.setattr(neighbours, "BlobClient", Counted)

    async def story() -> None:
        contents = [b"one", b"two", b"three"]
        there, here = store_of(tmp_path / "there", *contents), store_of(tmp_path / "here")
        serving, taking = Neighbours(), Neighbours()
        address = await serving.serve(there, (NOBODY,))
        for data in contents:
            assert await taking.fetch((NOBODY, address), ref_of(data), here, None)
            assert here.size(ref_of(data).digest) == len(data)
        assert asked == [NOBODY, address], "each is dialled once, and then one link is used"
        assert not await taking.fetch((address,), ref_of(b"nowhere"), here, None)
        for one in (taking, taking, serving, serving):
            await one.stop()
        there.close()
        here.close()

    run(story())


def test_a_worker_takes_nothing_from_others(tmp_path: Path) -> None:
    async def story() -> None:
        store = store_of(tmp_path)
        serving = Neighbours()
        address = await serving.serve(store, (NOBODY,))
        async with BlobClient((address,)) as client:
            with pytest.raises(RollqError, match="takes no blobs"):
                await client.put(b"a gift")
        assert store.size(ref_of(b"a gift").digest) is None
        await serving.stop()
        store.close()

    run(story())


def test_without_a_way_to_a_member_nothing_is_served(tmp_path: Path) -> None:
    async def story() -> None:
        store = store_of(tmp_path)
        serving = Neighbours()
        assert await serving.serve(store, ("no.such.host.invalid:1",)) == ""
        await serving.stop()
        store.close()

    run(story())


def test_other_machines_are_served_only_with_a_certificate_or_if_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(neighbours, "own_host", lambda _members: "0.0.0.0")

    async def story() -> None:
        store = store_of(tmp_path)
        for unsafe in (False, True):
            serving = Neighbours(unsafe_no_auth=unsafe)
            address = await serving.serve(store, (NOBODY,))
            assert bool(address) == unsafe
            await serving.stop()
        store.close()

    with caplog.at_level("WARNING", "rollq.worker"):
        run(story())
    refused, warned = (record.getMessage() for record in caplog.records)
    assert "without TLS" in refused
    assert "--unsafe-no-auth" in warned
