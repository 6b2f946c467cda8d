"""Words to a service manager: a loop that stands still says none of them."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.cli.notify import ServiceNotes


def heard(end: socket.socket) -> list[str]:
    words: list[str] = []
    while True:
        try:
            words += end.recv(4_096).decode().split("\n")
        except BlockingIOError:
            return words


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "n"))
        end.setblocking(False)
        yield end


def environment(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(manager.getsockname())} | more


def test_a_stalled_loop_gives_no_sign_of_life(manager: socket.socket) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        notes = ServiceNotes(environment(manager, WATCHDOG_USEC="30000"))
        with notes.running():
            notes.serving(lambda: "works")
            heard(manager)
            assert "WATCHDOG=1" in (await loop.sock_recv(manager, 4_096)).decode()
            stalled: list[list[str]] = []

            def stall() -> None:
                heard(manager)
                time.sleep(0.2)
                stalled.append(heard(manager))

            loop.call_soon(stall)
            assert "WATCHDOG=1" in (await loop.sock_recv(manager, 4_096)).decode()
            assert stalled == [[]]

    asyncio.run(story())


def test_ready_is_told_once_and_when_it_is(manager: socket.socket) -> None:
    async def story() -> None:
        is_ready = False
        notes = ServiceNotes(environment(manager))
        with notes.running():
            notes.serving(lambda: "one\ntwo", is_ready=lambda: is_ready)
            words = heard(manager)
            assert "READY=1" not in words
            assert "STATUS=one two" in words  # a line break would be another word
            is_ready = True
            notes.serving(lambda: "three")
            notes.serving(lambda: "three")
            assert heard(manager) == ["READY=1", "STATUS=three"]
            notes.ending()
            assert heard(manager)[0] == "STOPPING=1"

    asyncio.run(story())


def test_variables_are_not_for_children(manager: socket.socket) -> None:
    environ = environment(manager, WATCHDOG_USEC="1000000", WATCHDOG_PID="1", OTHER="x")
    ServiceNotes(environ)
    assert environ == {"OTHER": "x"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "relative"},
        {"NOTIFY_SOCKET": "/nowhere/at/all", "WATCHDOG_USEC": "nonsense"},
        {"NOTIFY_SOCKET": "/" + "x" * 200},
        {"NOTIFY_SOCKET": "@", "WATCHDOG_USEC": "-1"},
    ],
    ids=["none", "empty", "relative", "gone", "long", "nameless"],
)
def test_nobody_who_listens_is_no_error(variables: dict[str, str]) -> None:
    async def story() -> None:
        with ServiceNotes(dict(variables)).running() as notes:
            notes.serving(lambda: "works")
            notes.ending()

    asyncio.run(story())


def test_a_watchdog_of_another_process_is_not_fed(manager: socket.socket) -> None:
    async def story(pid: int) -> int:
        variables = environment(manager, WATCHDOG_USEC="1000000", WATCHDOG_PID=str(pid))
        with ServiceNotes(variables).running():
            return heard(manager).count("WATCHDOG=1")

    assert asyncio.run(story(os.getpid())) == 1
    assert asyncio.run(story(1)) == 0
