"""Settings of operators: queue policies, limits, client weights."""

from __future__ import annotations

from typing import Any

from rollq.base.needs import rate_text
from rollq.grid.rule_views import LimitView, PolicyView, WeightView


def policy_document(view: PolicyView) -> dict[str, Any]:
    """The placement policy of a pattern of queues."""
    return {"pattern": view.pattern, "placement": view.placement, "weights": dict(view.weights)}


def limit_document(view: LimitView) -> dict[str, Any]:
    """A limit and its use. A bound that is not set is null."""
    return {
        "name": view.name,
        "running": view.running,
        "running_max": view.running_max or None,
        "rate": rate_text(view.rate) if view.rate else None,
        "burst": view.burst if view.rate else None,
        "due_ms": view.due_ms or None,
    }


def weight_document(view: WeightView) -> dict[str, Any]:
    """The weight of a client."""
    return {"client": view.client_id, "weight": view.weight}
