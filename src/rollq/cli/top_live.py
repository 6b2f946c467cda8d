"""The main loop of `rollq top` on a terminal: queries, key presses and drawing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import Final

from rollq.base.errors import ErrorCode, RollqError
from rollq.cli.failures import EXIT_UNREACHABLE, exit_code_of
from rollq.cli.grid import connected
from rollq.cli.terminal import Terminal
from rollq.cli.top_look import Looker
from rollq.cli.top_screen import Screen, frame

TICK_S: Final = 0.5  # redraw interval without events
LATE_S: Final = 2.0  # a longer query is shown as late


async def run_live(servers: str, timeout_s: float, interval: float) -> None:
    """Run until the user quits, or a signal arrives."""
    async with connected(servers, timeout_s) as client:
        with Terminal() as terminal:
            await _Live(Looker(client), terminal, interval).run()


class _Live:
    def __init__(self, looker: Looker, terminal: Terminal, interval: float) -> None:
        self._looker = looker
        self._terminal = terminal
        self._interval = interval
        self._screen = Screen()
        self._changed = asyncio.Event()  # redraw
        self._wanted = asyncio.Event()  # query at once
        self._asked_s = 0.0  # when the current query began; 0: there is none
        self._lost_s = 0.0  # when the leader stopped responding; 0: it responds

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        asking = loop.create_task(self._ask_forever())
        loop.add_reader(0, self._on_keys)
        handlers = {
            signal.SIGTERM: self._stop,
            signal.SIGINT: self._stop,
            signal.SIGHUP: self._stop,
            signal.SIGWINCH: self._resized,
            signal.SIGTSTP: self._suspend,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            while not self._screen.is_over and not asking.done():
                self._draw()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), TICK_S)
                self._changed.clear()
            if asking.done():
                asking.result()  # raises any error that is not of the network
        finally:
            loop.remove_reader(0)
            for number in handlers:
                loop.remove_signal_handler(number)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking

    async def _ask_forever(self) -> None:
        while True:
            if not self._screen.is_paused or self._wanted.is_set():
                self._wanted.clear()
                await self._ask()
                self._changed.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), self._interval)

    async def _ask(self) -> None:
        screen, place = self._screen, self._screen.place
        self._asked_s = time.time()
        try:
            if place.kind == "job":
                lines = await self._looker.job(place.job)
                if screen.place == place:
                    screen.lines = lines
            elif place.kind == "jobs":
                jobs = await self._looker.jobs(place.queue, place.worker)
                if screen.place == place:
                    screen.jobs, screen.are_jobs_cut = jobs
            screen.look = await self._looker.look()
            self._lost_s, screen.trouble = 0.0, ""
        except RollqError as error:
            is_away = exit_code_of(error) == EXIT_UNREACHABLE or error.retryable
            if not is_away and error.code is not ErrorCode.UNKNOWN_JOB:
                raise
            self._lost_s = self._lost_s or self._asked_s
        self._asked_s = 0.0

    # --- events

    def _on_keys(self) -> None:
        for key in self._terminal.pressed():
            if self._screen.press(key):
                self._wanted.set()
        self._changed.set()

    def _stop(self) -> None:
        self._screen.is_over = True
        self._changed.set()

    def _resized(self) -> None:
        self._terminal.forget()
        self._changed.set()

    def _suspend(self) -> None:
        """Ctrl-Z: restore the terminal until this process continues."""
        self._terminal.__exit__(None, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._terminal.__enter__()
        self._changed.set()

    def _draw(self) -> None:
        now_s = time.time()
        late = self._asked_s if self._asked_s and now_s - self._asked_s > LATE_S else 0.0
        since_s = self._lost_s or late
        if since_s:
            clock = time.strftime("%H:%M:%S", time.localtime(since_s))
            self._screen.trouble = f"no leader, since {clock} ({int(now_s - since_s)} s)"
        elif not self._asked_s:
            self._screen.trouble = ""
        self._terminal.draw(frame(self._screen, *self._terminal.size, int(now_s * 1000)))
