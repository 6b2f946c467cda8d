"""The flow that is measured: layers of no-op jobs, each of which waits for two of the layer before.

Its jobs are known by their numbers, which are their keys. One more, the last, waits for the whole
last layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from bench.works.noop import PAYLOAD
from rollq import Client, JobSpec
from rollq.base.ids import JobId, job_id_of_key
from rollq.roles.client.results.handles import Job

NODES: Final = 100_000
WIDTH: Final = 1_000  # of a layer; also what one job may wait for
QUEUE: Final = "flow"
CLIENT: Final = "flow"
RESULT_S_MAX: Final = 1_800.0
LOOK_S: Final = 0.1


async def submit_flow(client: Client, nodes: int, width: int) -> None:
    """All jobs but the last: accepted together or not at all."""
    part = await client.stage("flow", "all", layers(nodes, width))
    await client.commit("flow", (part,))


async def submit_last(client: Client, nodes: int, width: int) -> Job:
    """The job that waits for the last layer."""
    after = [node_id(number) for number in range(nodes - width, nodes)]
    return await client.submit("noop", payload=PAYLOAD, queue=QUEUE, after=after)


def layers(nodes: int, width: int) -> Iterator[JobSpec]:
    """The jobs, each with its number as key."""
    for number in range(nodes):
        options = {"queue": QUEUE, "after": [node_id(one) for one in parents(number, width)]}
        yield JobSpec("noop", payload=PAYLOAD, key=str(number), options=options)  # type: ignore[arg-type]


def parents(number: int, width: int) -> tuple[int, ...]:
    """What a node waits for."""
    above = number - width
    return (above, above + 1) if above >= 0 else ()


def node_id(number: int) -> JobId:
    """The id of a node's job."""
    return job_id_of_key(CLIENT, str(number))


async def all_in_queue(client: Client, nodes: int) -> None:
    """Until the members have made jobs of all that was accepted; the queue is paused."""
    while True:
        queue = await client.queue(QUEUE)
        assert queue is not None
        if queue.waiting + queue.blocked >= nodes:
            return
        await asyncio.sleep(LOOK_S)
