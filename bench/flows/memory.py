"""What a flow that waits takes of the state of a member and the leader's dispatch."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

from bench.flows.graph import CLIENT, QUEUE, node_id, parents
from bench.works.noop import PAYLOAD
from rollq.base.jobs import Condition, JobOptions, ParentRef
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import SubmitRun
from rollq.grid.state import GridState
from rollq.policy.dispatch import Dispatcher

ENTRY_JOBS = 1_000


def state_bytes(nodes: int, width: int) -> float:
    """Bytes a node, by the allocator, beside its arguments. If a layer has all nodes, none waits
    for another."""
    state = GridState()
    dispatcher = Dispatcher(state)
    gc.collect()
    tracemalloc.start()
    for index, first in enumerate(range(0, nodes, ENTRY_JOBS), 1):
        count = min(ENTRY_JOBS, nodes - first)
        data = encode_batch(0, list(submits(first, count, width)))
        dispatcher.observe(apply_entry(state, index, data).events)
        del data
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / nodes - len(PAYLOAD)


def submits(first: int, count: int, width: int) -> Iterator[SubmitRun]:
    """Nodes as commands, one by one."""
    for number in range(first, first + count):
        after = tuple(ParentRef(node_id(one), Condition.OK) for one in parents(number, width))
        options = JobOptions(after=after) if after else None
        yield SubmitRun(
            *(CLIENT, QUEUE, "noop", node_id(number), (PAYLOAD,)), options, keys=str(number)
        )
