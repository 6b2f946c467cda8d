"""`grid_map` in a Spark task: submits a job per row, and yields rows as jobs end.

Imports Spark only for the id of the task: input and output are Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from rollq.roles.client.blocking.clients import BlockingClient
from rollq.roles.client.engine.base import default_id
from rollq.spark.grid.flow import Flow, MapPlan
from rollq.spark.grid.guard import TaskGuard

if TYPE_CHECKING:
    import pyarrow as pa

PUT_ROWS: Final = 256  # rows submitted together


class GridTask:
    """The function that Spark calls with the rows of a partition."""

    def __init__(self, plan: MapPlan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task."""
        plan = self._plan
        own_id = default_id(plan.credentials, f"grid-map-{plan.call_id}-{_partition_key()}")
        client_id = plan.client_id or own_id
        flow = Flow(plan, client_id)
        with (
            closing(TaskGuard(plan.servers, client_id, plan.credentials)) as guard,
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
                    yield from flow.batches()  # rows without a job, perhaps all
                    while flow.open_count >= plan.window:
                        take()
                        yield from flow.batches()
            while flow.open_count:
                take()
                yield from flow.batches()
            yield from flow.batches(all_of_them=True)


def _partition_key() -> str:
    """Identifies the partition, and the micro-batch of a stream; the same in a retried task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return "0"
    stream = context.getLocalProperty("streaming.sql.batchId")
    return f"{context.partitionId()}" + (f".{stream}" if stream else "")
