from __future__ import annotations

import asyncio

import pytest

from rollq.base.errors import ErrorCode, RollqError
from rollq.cli.submitting import tell_reasons


def test_whoever_waits_is_told_each_reason_once() -> None:
    told: list[tuple[str, str] | RollqError] = [
        ("no_worker", "no worker serves queue calca"),
        ("no_worker", "no worker serves queue calca"),
        RollqError(ErrorCode.UNREACHABLE, "away"),
        ("no_slot", "jobs there now: 4"),
        ("no_slot", "jobs there now: 3"),
        ("", ""),
        ("delayed", "delayed for 500 ms"),
    ]
    answers = iter(told)
    said: list[str] = []

    async def ask() -> tuple[str, str]:
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
        "job 1 waits: jobs there now: 4",
        "job 1 waits: delayed for 500 ms",
    ]
