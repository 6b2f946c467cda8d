"""Streams of jobs that have ended: where the bytes that are there begin, and how many they are."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from rollq.roles.client.results.result import Result
from rollq.web.call import ApiCall
from rollq.web.job_output import _ended
from rollq.wire import messages as wire
from rollq.wire.models import JobResult, encode_model


def test_of_a_stream_that_was_not_kept_the_end_is_given_as_the_end() -> None:
    report = encode_model(JobResult("id", "me", "calc", "OK", "end", stdout_size=9))
    result = Result(wire.Result(bytes(16), "done", 0, report, "calc"))

    async def result_of(_: bytes) -> Result:
        return result

    client = SimpleNamespace(result_of=result_of)
    call = SimpleNamespace(links=SimpleNamespace(client=client), job_id=bytes(16))
    content = asyncio.run(_ended(cast(ApiCall, call), "stdout"))
    with content.file as file:
        assert (content.begin, file.read(), content.total) == (6, b"end", 9)
