"""GET of what the group is: the overview, queues, workers, members, settings, caches, topics."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rollq.base.counters import Family
from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import guid_to_text
from rollq.documents.federation import federation_document
from rollq.documents.grid import (
    cluster_document,
    queue_document,
    topic_document,
    worker_document,
)
from rollq.gossip.map import FederationView
from rollq.grid import views
from rollq.grid.commands import Settings
from rollq.grid.topic_views import TopicView
from rollq.roles.client.views import CacheView, HolderView
from rollq.roles.member.status import ClusterView
from rollq.web.call import Call, Page, Reply, fewer_rows, id_of
from rollq.web.errors import RequestError

ROWS_MAX: Final = 1_000


async def queues(call: Call) -> Reply:
    """Queues, by name."""
    page: Page = call.query
    rows = await call.links.read(
        list[views.RawQueueView], "queues", page.after.encode(), page.limit
    )
    after = rows[-1].name if len(rows) == page.limit else None
    ages_ms = await _ages_ms(call)
    found = [queue_document(row) | {"oldest_wait_ms": ages_ms.get(row.name)} for row in rows]
    return Reply({"queues": found, "after": after})


async def queue(call: Call) -> Reply:
    """One queue."""
    name = call.path["name"]
    row = await call.links.find(views.RawQueueView, "queue", name.encode())
    if row is None:
        raise RequestError(404, ErrorCode.BAD_SUBJECT, f"no queue {name[:64]!r}", "GET /queues")
    return Reply(queue_document(row))


async def workers(call: Call) -> Reply:
    """Workers, by id."""
    page: Page = call.query
    after = id_of(page.after) if page.after else b""
    kind = list[views.RawWorkerView]
    rows, asked = await fewer_rows(
        lambda limit: call.links.ask(kind, "workers", after, limit), page.limit
    )
    last = guid_to_text(rows[-1].worker_id) if len(rows) == asked else None
    return Reply({"workers": [worker_document(row) for row in rows], "after": last})


async def worker(call: Call) -> Reply:
    """One worker."""
    row = await call.links.client.query("worker", call.job_id)
    view = msgspec.msgpack.decode(row, type=views.RawWorkerView | None)
    if view is None:
        raise StateError(
            ErrorCode.UNKNOWN_WORKER, f"no worker {call.path['id']}", "GET /workers lists them"
        )
    return Reply(worker_document(view))


async def cluster(call: Call) -> Reply:
    """The members: who leads, who lags."""
    return Reply(cluster_document(await call.links.ask(ClusterView, "cluster")))


async def groups(call: Call) -> Reply:
    """The groups of the federation, as the member knows them that is asked."""
    return Reply(federation_document(await call.links.read(FederationView, "groups")))


async def settings(call: Call) -> Reply:
    """The cluster's settings."""
    found = await call.links.read(Settings, "settings")
    return Reply(msgspec.structs.asdict(found))


async def caches(call: Call) -> Reply:
    """Caches, by name."""
    page: Page = call.query
    rows = await call.links.read(list[CacheView], "caches", page.after.encode(), page.limit)
    after = rows[-1].cache_id if len(rows) == page.limit else None
    return Reply({"files": [_cache(row) for row in rows], "after": after})


async def topics(call: Call) -> Reply:
    """Topics, by name."""
    page: Page = call.query
    rows = await call.links.read(list[TopicView], "topics", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return Reply({"topics": [topic_document(row) for row in rows], "after": after})


async def topic(call: Call) -> Reply:
    """One topic."""
    name = call.path["name"]
    row = await call.links.find(TopicView, "topic", name.encode())
    if row is None:
        raise RequestError(404, ErrorCode.UNKNOWN_TOPIC, f"no topic {name[:64]!r}", "GET /topics")
    return Reply(topic_document(row))


async def holders(call: Call) -> Reply:
    """What every worker has of a cache."""
    told = await call.links.ask(
        list[views.RawHolderView], "holders", call.path["name"].encode(), ROWS_MAX
    )
    rows = [msgspec.structs.asdict(HolderView.of(one)) for one in told]
    return Reply({"holders": rows})


async def _ages_ms(call: Call) -> dict[str, int]:
    """How long the oldest job waits in each of the deepest queues; none for who may not look."""
    try:
        families = await call.links.read(list[Family], "metrics")
    except RollqError as error:
        if error.code is not ErrorCode.ACCESS_DENIED:
            raise
        return {}
    return {
        sample.labels[0]: int(1000 * sample.value)
        for family in families
        if family.name == "rollq_queue_oldest_seconds"
        for sample in family.samples
    }


def _cache(view: CacheView) -> dict[str, Any]:
    return {
        "id": view.cache_id,
        "files": view.file_count,
        "bytes": view.size_bytes,
        "targets": list(view.targets),
        "changed_ms": view.stamp_ms,
        "removed": view.removed,
        "users": view.users,
    }
