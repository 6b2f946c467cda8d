"""A function that is there when the worker announces it, and no more in its warm processes: as if
the module had been changed in between."""

from __future__ import annotations

import sys

from rollq import task

if "rollq.roles.worker.warm_main" not in sys.orig_argv:

    @task
    def gone() -> None:
        """Nothing."""
