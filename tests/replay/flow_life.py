"""What a golden log holds of jobs that wait for others."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rollq.base.jobs import JobOptions, ParentRef
from rollq.grid import commands as c
from rollq.grid import flow_commands as f
from rollq.grid.state import GridState


def flows(rng: random.Random, state: GridState, turn: int) -> Iterator[c.Command]:
    """Jobs that wait for others, some of which have ended."""
    parents = rng.sample(list(state.jobs), min(3, len(state.jobs)))
    for count in range(1, 1 + len(parents)):
        refs = tuple(ParentRef(one, rng.randrange(4)) for one in parents[:count])
        options = JobOptions(after=refs, delay_ms=30 * (turn % 2))
        yield c.SubmitJob(rng.randbytes(16), "ann", "flow", "exe", b"child", options)
    if turn % 10 == 9:
        yield f.SettleChildren(state.edges.position)
