"""Runs functions that no module registers, such as those of a notebook, by cloudpickle.

A worker runs them only if it is started with `--app rollq.pickled`: every client that may submit to
it can execute any code on it. A client sends them only with `allow_pickle`. Arguments and return
values are encoded as for any function: a client never unpickles anything.
"""

from __future__ import annotations

import pickle
from typing import Any

from rollq.tasks import task


@task("rollq.run")
def run_pickled(function: bytes, /, *args: Any, **kwargs: Any) -> Any:
    """Call a pickled function."""
    return pickle.loads(function)(*args, **kwargs)
