"""What operators set: policies of queues, limits, shares of clients."""

from __future__ import annotations

from typing import Any

from rollq.base.needs import rate_text
from rollq.grid.rule_views import LimitView, PolicyView, WeightView


def policy_document(view: PolicyView) -> dict[str, Any]:
    """How the queues of a pattern choose workers."""
    return {"pattern": view.pattern, "placement": view.placement, "weights": dict(view.weights)}


def limit_document(view: LimitView) -> dict[str, Any]:
    """A limit, and what is taken of it. What it does not bound is null."""
    return {
        "name": view.name,
        "running": view.running,
        "running_max": view.running_max or None,
        "rate": rate_text(view.rate) if view.rate else None,
        "burst": view.burst if view.rate else None,
        "due_ms": view.due_ms or None,
    }


def weight_document(view: WeightView) -> dict[str, Any]:
    """The share of a client."""
    return {"client": view.client_id, "weight": view.weight}
