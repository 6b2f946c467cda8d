"""The groups of a federation."""

from __future__ import annotations

from typing import Any

import msgspec

from rollq.gossip.map import FederationView, GroupView


def federation_document(view: FederationView) -> dict[str, Any]:
    """All groups and routers. `gossip` is false if the queried process has no federation key, and
    so knows no group."""
    return {
        "gossip": view.is_on,
        "asked": view.address,
        "groups": [_group_document(group) for group in view.groups],
        "routers": [msgspec.structs.asdict(router) for router in view.routers],
    }


def _group_document(group: GroupView) -> dict[str, Any]:
    document = msgspec.structs.asdict(group)
    del document["is_conflict"], document["members"]
    members = [msgspec.structs.asdict(member) for member in group.members]
    return document | {"conflict": group.is_conflict, "members": members}
