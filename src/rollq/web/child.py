"""Runs the web process as a child of a member, and restarts it. The member does not depend on
it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence

from rollq.base.log_events import WEB_ENDED, WEB_KILLED, tell
from rollq.leash import Leash
from rollq.web.limits import CHILD_AGAIN_MAX_S, CHILD_AGAIN_S, CHILD_STABLE_S, CHILD_STOP_S

log = logging.getLogger("rollq.web")


class WebChild:
    """`rollq web` as a child process.

    Args:
        words: Its options.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._leash = Leash()
        self._keeping: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    def start(self) -> None:
        """Start it, and restart it whenever it exits."""
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Stop it; running responses may finish within a time limit."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(CHILD_STOP_S):
                    await process.wait()
            except TimeoutError:
                tell(log, WEB_KILLED)
        self._leash.let_go()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        again_s = CHILD_AGAIN_S
        while True:
            started_at = loop.time()
            ended = await self._run()
            if loop.time() - started_at > CHILD_STABLE_S:
                again_s = CHILD_AGAIN_S
            tell(log, WEB_ENDED, cause=str(ended), again_s=f"{again_s:g}")
            await asyncio.sleep(again_s)
            again_s = min(2 * again_s, CHILD_AGAIN_MAX_S)

    async def _run(self) -> str:
        """Run it once; returns how it ended."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "rollq", "web", *self._words),
                stdin=asyncio.subprocess.DEVNULL,
                env=os.environ | self._leash.environment,
                pass_fds=(self._leash.handle,),
                start_new_session=True,  # Ctrl-C must not reach it: the member stops it
            )
        except OSError as error:
            return f"it could not be started: {error.strerror or error}"
        code = await self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"
