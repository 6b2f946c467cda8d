from __future__ import annotations

import asyncio

import pytest

from rollq.base.errors import ErrorCode, RollqError
from rollq.cli.submitting import tell_reasons


def test_whoever_waits_is_told_each_reason_once() -> None:
    told: list[str | RollqError] = [
        "no worker serves queue calca",
        "no worker serves queue calca",
        RollqError(ErrorCode.UNREACHABLE, "away"),
        "no connected worker has program calcA; workers serving the queue: w1",
        "being assigned",
        "it is running",
        "delayed for 500 ms",
    ]
    answers = iter(told)
    said: list[str] = []

    async def ask() -> str:
        answer = next(answers)
        if isinstance(answer, RollqError):
            raise answer
        return answer

    async def pause() -> None:
        if not answers.__length_hint__():  # type: ignore[attr-defined]
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(tell_reasons(ask, said.append, pause, "job 1 waits"))
    assert said == [
        "job 1 waits: no worker serves queue calca",
        "job 1 waits: no connected worker has program calcA; workers serving the queue: w1",
        "job 1 waits: delayed for 500 ms",
    ]
