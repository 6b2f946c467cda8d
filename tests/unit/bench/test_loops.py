"""Which event loop a benchmark's client runs on."""

from __future__ import annotations

import asyncio
import os

import pytest

from bench import loops


async def loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loops.LOOP, loops.UVLOOP)
    monkeypatch.setattr(loops, "_used", {})


def test_the_chosen_loop_is_taken_and_told() -> None:
    assert loops.used() == ""
    assert loops.run(loop_module()).startswith("uvloop")
    loops.choose(loops.ASYNCIO)
    assert os.environ[loops.LOOP] == loops.ASYNCIO  # what workers see
    assert loops.run(loop_module()).startswith("asyncio")
    assert loops.used() == "uvloop, asyncio"


def test_a_peer_may_insist_on_one() -> None:
    assert loops.run(loop_module(), loops.ASYNCIO).startswith("asyncio")
    assert loops.used() == "asyncio"
