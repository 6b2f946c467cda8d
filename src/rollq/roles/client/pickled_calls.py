"""Calls of functions that no module registers, by pickle: see `rollq.pickled`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.function_calls import as_task
from rollq.roles.client.handles import Job
from rollq.roles.client.jobs import SubmitCalls


class PickledCalls(SubmitCalls):
    """Calls of a client with `allow_pickle`."""

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Job:
        """Submit a call of any function, such as a lambda or one of a notebook, with Python values.
        It is pickled by cloudpickle, and runs on workers with `--app rollq.pickled`.

        Raises:
            LocalError: BAD_SETUP, if the client was not created with `allow_pickle`, or cloudpickle
                is not installed.
            TypeError: the function cannot be pickled, or an argument cannot be serialized.
        """
        if not self._engine.allow_pickle:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                "this client sends no pickled functions",
                "create it with allow_pickle=True, and start workers with --app rollq.pickled",
            )
        task, more = as_task(function)
        return await self.submit_call(task, (*more, *args), kwargs)
