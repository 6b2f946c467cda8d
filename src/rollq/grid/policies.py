"""Handlers of queue policies and of client weights, which `policy` applies."""

from __future__ import annotations

from rollq.base.limits import CLIENT_ID_BYTES_MAX, PATTERN_BYTES_MAX
from rollq.base.need_limits import CLIENT_WEIGHT_MAX, SCORE_WEIGHT_MAX
from rollq.base.needs import PLACEMENTS, SCORES
from rollq.grid.admission import is_long, refused_bounds
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.events import POLICY_PUT, POLICY_REMOVED, WEIGHT_PUT, Event, asked_by
from rollq.grid.outcomes import DONE_NONE, DONE_ONE, DUPLICATE_OPEN, POLICIES_FULL, WEIGHTS_FULL
from rollq.grid.rule_commands import PutPolicy, PutWeight, RemovePolicy
from rollq.grid.state import GridState, QueuePolicy


def put_policy(state: GridState, command: PutPolicy, out: Applied) -> Outcome:
    """Set the placement of the queues of a pattern."""
    refusal = refuse_policy(command)
    known = state.policies.get(command.pattern)
    if refusal is None and known is None and len(state.policies) >= state.bounds.policies:
        refusal = POLICIES_FULL
    if refusal is not None:
        return refusal
    policy = QueuePolicy(command.pattern, command.placement, tuple(sorted(command.weights)))
    if policy == known:
        return DUPLICATE_OPEN
    state.policies[command.pattern] = policy
    out.events.append(_policy_fact(POLICY_PUT, policy, command.by))
    return DONE_ONE


def remove_policy(state: GridState, command: RemovePolicy, out: Applied) -> Outcome:
    """Delete the policy of a pattern."""
    policy = state.policies.pop(command.pattern, None)
    if policy is None:
        return DONE_NONE
    out.events.append(_policy_fact(POLICY_REMOVED, policy, command.by))
    return DONE_ONE


def refuse_policy(command: PutPolicy) -> Refused | None:
    """Why this policy is not valid."""
    if not command.pattern or is_long(command.pattern, PATTERN_BYTES_MAX):
        return refused_bounds("pattern is empty or too long")
    if command.placement not in PLACEMENTS:
        return refused_bounds(f"placement is not one of {', '.join(PLACEMENTS)}")
    if command.weights and command.placement != "score":
        return refused_bounds("weights are those of the placement score")
    names = [name for name, _ in command.weights]
    for name, weight in command.weights:
        if name not in SCORES or names.count(name) > 1:
            return refused_bounds(f"a weight is not one of {', '.join(SCORES)}, each once")
        if not 0 <= weight <= SCORE_WEIGHT_MAX:
            return refused_bounds(f"weight of {name} is not 0 to {SCORE_WEIGHT_MAX}")
    return None


def put_weight(state: GridState, command: PutWeight, out: Applied) -> Outcome:
    """Set the weight of a client, which need not exist; 1 is the default."""
    client_id, weight = command.client_id, command.weight
    if not client_id or is_long(client_id, CLIENT_ID_BYTES_MAX):
        return refused_bounds("client_id is empty or too long")
    if not 1 <= weight <= CLIENT_WEIGHT_MAX:
        return refused_bounds(f"weight is not 1 to {CLIENT_WEIGHT_MAX}")
    known = state.weights.get(client_id, 1)
    if weight == known:
        return DUPLICATE_OPEN
    if known == 1 and len(state.weights) >= state.bounds.weights:
        return WEIGHTS_FULL
    if weight == 1:
        del state.weights[client_id]
    else:
        state.weights[client_id] = weight
    out.events.append(
        Event(WEIGHT_PUT, client_id=client_id, count=weight, access=asked_by(command.by))
    )
    return DONE_ONE


def _policy_fact(kind: str, policy: QueuePolicy, by: str) -> Event:
    weights = [f"{name}={weight}" for name, weight in policy.weights]
    said = " ".join((policy.placement, *weights))
    return Event(kind, queue=policy.pattern, detail=said, access=asked_by(by))
