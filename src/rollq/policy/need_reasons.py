"""Why no worker has what a job needs of it, labels and resources, and which worker would help."""

from __future__ import annotations

from typing import Final

from rollq.base.needs import amount_text
from rollq.base.reasons import Reason
from rollq.policy import advice
from rollq.policy.array_reasons import Why
from rollq.policy.lacks import LackKind, lacks
from rollq.policy.lanes import Item
from rollq.policy.needs import AnyNeed, need_of
from rollq.policy.pools import DispatchSession

LACKS_MAX: Final = 5  # that are told
# Of several that are true of workers, the first is told: it is the nearest to being mended.
CODES: Final = {
    LackKind.ROOM: Reason.RESOURCES_BUSY,
    LackKind.KEPT: Reason.RESOURCES_BUSY,
    LackKind.CAPACITY: Reason.RESOURCES,
    LackKind.LABEL: Reason.LABELS,
}


def need_reason(item: Item, sessions: list[DispatchSession], address: str) -> Why | None:
    """For a job that needs more than a program: why none of these, who serve its queue, has that;
    None if one has, or none has its program."""
    options = item.options
    found = lacks(need_of(item), sessions)
    kinds = [one.kind for one in found]
    code = next((code for kind, code in CODES.items() if kind in kinds), None)
    if code is None or LackKind.CREDIT in kinds or LackKind.NOTHING in kinds:
        return None
    needed = [*options.labels]
    needed += [f"{name} {amount_text(name, amount)}" for name, amount in options.resources]
    told = "; ".join([one.text for one in found[:LACKS_MAX]])
    text = f"it needs {', '.join(needed)}; for queue {item.queue}, {told}"
    return Why(code, text, (_start_worker(item, address),))


def lacks_text(need: AnyNeed, sessions: list[DispatchSession]) -> str:
    """What workers lack for a need of labels and resources; empty if it is the program alone."""
    found = lacks(need, sessions)
    if all(one.kind is LackKind.PROGRAM for one in found):
        return ""
    return "; ".join([one.text for one in found[:LACKS_MAX]])


def _start_worker(item: Item, address: str) -> str:
    """One that has what it needs; what it may not have, one has to see to."""
    words: list[str] = []
    for label in item.options.labels:
        words += ["--label", label] if "!" not in label else []
    for name, amount in item.options.resources:
        words += ["--resource", f"{name}={amount_text(name, amount)}"]
    return advice.start_worker(address, item, *words)
