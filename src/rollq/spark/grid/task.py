"""`grid_map` in a task of Spark: rows in, jobs on the way, rows out as they end.

Nothing here imports Spark but for the task's number: it is Arrow on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from rollq.roles.client.blocking import BlockingClient
from rollq.roles.client.client_ids import default_id
from rollq.spark.grid.flow import Flow, Plan
from rollq.spark.grid.guard import Guard

if TYPE_CHECKING:
    import pyarrow as pa

PUT_ROWS: Final = 256  # submitted at once


class GridTask:
    """What Spark calls with the rows of a partition."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task."""
        plan = self._plan
        own_id = default_id(plan.credentials, f"grid-map-{plan.call_id}-{_place()}")
        client_id = plan.client_id or own_id
        flow = Flow(plan, client_id)
        with (
            closing(Guard(plan.servers, client_id, plan.credentials)) as guard,
            BlockingClient(
                plan.servers,
                client_id=client_id,
                timeout=plan.timeout_s,
                shares_id=True,
                credentials=plan.credentials,
            ) as client,
            client.keyed_run(on_made=guard.opened) as run,
        ):

            def take() -> None:
                ended = run.take(flow.linger_s)
                guard.ended(one.job_id for one in ended)
                again = flow.settle(ended)
                if again:
                    run.put(again)

            for batch in batches:
                for first in range(0, batch.num_rows, PUT_ROWS):
                    run.put(flow.specs(batch, first, PUT_ROWS))
                    yield from flow.batches()  # rows of which no job came, which may be all
                    while flow.open_count >= plan.window:
                        take()
                        yield from flow.batches()
            while flow.open_count:
                take()
                yield from flow.batches()
            yield from flow.batches(all_of_them=True)


def _place() -> str:
    """Which part of the input this task has: the same for a task that is tried again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return "0"
    stream = context.getLocalProperty("streaming.sql.batchId")
    return f"{context.partitionId()}" + (f".{stream}" if stream else "")
