"""The executor: whoever waits for a future is told how it ended, whatever happens to it."""

from __future__ import annotations

from concurrent.futures import Future, wait

import pytest

from rollq.base.digests import digest_to_text
from rollq.roles.client.blocking.executor import Executor
from rollq.roles.client.results.result import Result
from rollq.wire import messages as wire
from rollq.wire.models import JobResult, StreamBlob, encode_model

NOWHERE = "127.0.0.1:1"
DEADLINE_S = 20.0


def test_a_cancelled_future_is_done_for_those_who_wait_for_it() -> None:
    executor = Executor(NOWHERE)
    future = executor.submit("calc", "1")
    assert future.cancel()
    done, left = wait([future], timeout=DEADLINE_S)
    assert (done, left) == ({future}, set())
    executor.shutdown()


def test_a_cancelled_map_lets_the_executor_end() -> None:
    executor = Executor(NOWHERE)
    values = executor.map("calc", ["1", "2"])
    values.close()  # type: ignore[attr-defined]
    executor.shutdown(cancel_futures=True)


def test_a_large_value_that_cannot_be_stored_fails_its_future(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder for temporary files is gone, which is no error of ours."""

    async def no_folder(result: Result) -> Result:
        raise FileNotFoundError("no folder for temporary files")

    monkeypatch.setattr(Result, "aload", no_folder)
    executor = Executor(NOWHERE)
    future: Future[object] = executor.submit("calc", "1")
    blob = StreamBlob(digest_to_text(bytes(32)), 1)
    report = encode_model(JobResult("", None, None, "OK", data_blob=blob))

    def deliver() -> None:
        (job_id,) = executor._futures
        executor.deliver([wire.Result(job_id, "done", result=report)])

    executor._thread.call(deliver)
    assert isinstance(future.exception(DEADLINE_S), FileNotFoundError)
    executor.shutdown()
