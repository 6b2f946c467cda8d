"""The overview: how much there is of everything, now and in the last two minutes."""

from __future__ import annotations

from typing import Any

import msgspec

from rollq.base.errors import RollqError
from rollq.documents.grid import cluster_document, queue_document
from rollq.grid import views
from rollq.roles.member.status import ClusterView
from rollq.web.call import Call, Reply
from rollq.web.links import Links

WORKERS_MAX = 1_000
UNSERVED_MAX = 20


async def overview(call: Call) -> Reply:
    """How the group stands now, and the curves of the last two minutes."""
    return Reply(await overview_document(call.links))


async def overview_document(links: Links) -> dict[str, Any]:
    """The same for one account."""
    counts = await links.read(views.CountsView, "counts")
    document: dict[str, Any] = {
        "counts": queue_document(counts),
        "rates": {"accepted": 0.0, "started": 0.0, "ended": 0.0, "failed": 0.0},
        "history": [],
        "oldest_wait_ms": 0,
        "workers": None,
        "cluster": None,
        "alarms": [],
        "unserved": [],
    }
    try:
        cluster = await links.ask(ClusterView, "cluster")
        workers = await links.ask(list[views.RawWorkerView], "workers", b"", WORKERS_MAX)
        unserved = await links.ask(list[views.UnservedView], "unserved", b"", UNSERVED_MAX)
    except RollqError as error:
        document["trouble"] = error.message  # nobody leads: the rest is shown
        return document
    described = cluster_document(cluster)
    return document | {
        "cluster": described,
        "alarms": described["alarms"],
        "workers": {
            "connected": len(workers),
            "slots": sum(one.slots for one in workers),
            "running": sum(len(one.held) for one in workers),
            "draining": 0,
        },
        "unserved": [msgspec.structs.asdict(one) for one in unserved],
    }
