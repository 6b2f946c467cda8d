"""Views of what operators set: policies of queues, limits, weights of clients."""

from __future__ import annotations

from heapq import nsmallest

import msgspec

from rollq.base.ids import ClientId
from rollq.grid.limits import due_of, limit_text
from rollq.grid.state import GridState


class PolicyView(msgspec.Struct, frozen=True):
    """The placement of the queues of a pattern."""

    pattern: str
    placement: str
    weights: tuple[tuple[str, int], ...]  # of a score


class LimitView(msgspec.Struct, frozen=True):
    """A limit, and its use."""

    name: str  # exec:render
    running_max: int  # 0: any number
    rate: int  # starts a day; 0: any number
    burst: int
    running: int  # tokens that are taken
    due_ms: int  # when the next start is allowed, in the group's time; 0: now


class WeightView(msgspec.Struct, frozen=True):
    """The weight of a client."""

    client_id: ClientId
    weight: int


def policy_page(state: GridState, after: str, limit: int) -> list[PolicyView]:
    """Up to `limit` policies whose patterns come after this one, by pattern."""
    patterns = nsmallest(limit, (each for each in state.policies if each > after))
    policies = [state.policies[pattern] for pattern in patterns]
    return [PolicyView(one.pattern, one.placement, one.weights) for one in policies]


def limit_page(state: GridState, after: str, limit: int) -> list[LimitView]:
    """Up to `limit` limits whose names come after this one, by name."""
    named = {limit_text(one): one for one in state.limits.values()}
    names = nsmallest(limit, (each for each in named if each > after))
    now_us = state.time_ms * 1_000
    views: list[LimitView] = []
    for name in names:
        one = named[name]
        due_us = due_of(one)
        views.append(
            LimitView(
                name,
                running_max=one.running_max,
                rate=one.rate,
                burst=one.burst,
                running=one.running,
                due_ms=-(-due_us // 1_000) if due_us > now_us else 0,
            )
        )
    return views


def weight_page(state: GridState, after: ClientId, limit: int) -> list[WeightView]:
    """Up to `limit` weights of clients whose ids come after this one, by id."""
    ids = nsmallest(limit, (each for each in state.weights if each > after))
    return [WeightView(each, state.weights[each]) for each in ids]
