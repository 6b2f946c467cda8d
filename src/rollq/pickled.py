"""Functions that no module registers, such as those of a notebook, by cloudpickle.

A worker runs them only if it is started with `--app rollq.pickled`: whoever may submit to it can
run any code there. A client sends them only if it was made with `allow_pickle`. What they return,
and their arguments, are values as of any function: nothing that comes from a worker is unpickled.
"""

from __future__ import annotations

import pickle
from typing import Any

from rollq.tasks import task


@task("rollq.run")
def run_pickled(function: bytes, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that came with the call."""
    return pickle.loads(function)(*args, **kwargs)
