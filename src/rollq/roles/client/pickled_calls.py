"""Calls of functions that no module registers: see `rollq.pickled`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.function_calls import as_task
from rollq.roles.client.handles import Job
from rollq.roles.client.jobs import SubmitCalls


class PickledCalls(SubmitCalls):
    """What a client can do that was made with `allow_pickle`."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Job:
        """Submit a call of any function, a lambda or one of a notebook, with Python values. It goes
        as it is (cloudpickle), and runs on workers with `--app rollq.pickled`.

        Raises:
            LocalError: BAD_SETUP, if the client was not made with `allow_pickle`, or cloudpickle is
                not installed.
            TypeError: the function cannot be pickled, or an argument cannot be serialized.
        """
        if not self._engine.allow_pickle:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                "this client sends no pickled functions",
                "make it with allow_pickle=True, and start workers with --app rollq.pickled",
            )
        task, more = as_task(function)
        return await self.submit_call(task, (*more, *args), kwargs)
