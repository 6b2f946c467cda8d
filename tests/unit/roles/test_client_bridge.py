"""What people see of the blocking clients: signatures, documentation, and objects as text."""

from __future__ import annotations

import inspect

import pytest

from rollq import BlockingClient, BlockingMultiClient, Client
from rollq.roles.client.blocking.bridge import BRIDGED
from rollq.roles.client.blocking.clients import BlockingBatch, BlockingJob
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.client.results.handles import Batch, Job

ID = bytes(range(16))
GIVEN = {
    "map": "Iterator[Any]",
    "output": "Iterator[StreamPart]",
    "dead": "Iterator[JobView]",
    "queues": "Iterator[QueueView]",
    "workers": "Iterator[WorkerView]",
    "submit": "BlockingJob",
    "submit_many": "BlockingBatch",
    "status": "JobView | None",
}


@pytest.mark.parametrize(("name", "given"), GIVEN.items())
def test_a_signature_tells_what_the_blocking_call_returns(name: str, given: str) -> None:
    call = getattr(BlockingClient, name)
    assert inspect.signature(call).return_annotation == given
    assert call.__annotations__["return"] == given
    ours = inspect.signature(getattr(Client, name))
    assert inspect.signature(call).parameters == ours.parameters
    assert ours.return_annotation == getattr(Client, name).__annotations__["return"]


def test_no_blocking_call_says_that_it_returns_something_of_asyncio() -> None:
    for cls in (BlockingClient, BlockingMultiClient, BlockingJob, BlockingBatch):
        for _, call in inspect.getmembers(cls, inspect.isfunction):
            said = str(inspect.signature(call).return_annotation)
            assert "Async" not in said
            assert said not in ("Job", "Batch", "KeyedRun")


@pytest.mark.parametrize("name", ["jobs", "batches", "caches", "admin"])
def test_what_the_calls_are_about_is_documented(name: str) -> None:
    assert (inspect.getdoc(getattr(BlockingClient, name)) or "").startswith(f"`client.{name}`: ")


def test_blocking_objects_as_text() -> None:
    thread = LoopThread("never started")
    client = Client("127.0.0.1:5000", client_id="me")
    job = Job(client._engine, ID)
    batch = Batch(client._engine, ID, keeps=True)
    batch.extend(3)
    batch.cut(0, 1)
    assert repr(BlockingClient("127.0.0.1:5000", client_id="me")) == "<BlockingClient me no leader>"
    assert repr(BRIDGED[Job](thread, job)) == f"<BlockingJob {job.id}>"
    assert repr(BRIDGED[Batch](thread, batch)) == f"<BlockingBatch {batch.id} 1 of 3 ended>"
