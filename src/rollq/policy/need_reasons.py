"""Why no worker has the labels and resources that a job needs, and which worker to start."""

from __future__ import annotations

from typing import Final

from rollq.base.needs import amount_text
from rollq.base.reasons import Reason
from rollq.policy import advice
from rollq.policy.array_reasons import StateReason
from rollq.policy.lacks import LackKind, lacks
from rollq.policy.lanes import Item
from rollq.policy.needs import AnyNeed, need_of
from rollq.policy.pools import DispatchSession

LACKS_MAX: Final = 5  # reasons in one explanation
# Of several kinds the first is reported: it is the easiest to resolve.
CODES: Final = {
    LackKind.ROOM: Reason.RESOURCES_BUSY,
    LackKind.RESERVED: Reason.RESOURCES_BUSY,
    LackKind.CAPACITY: Reason.RESOURCES,
    LackKind.LABEL: Reason.LABELS,
}


def need_reason(item: Item, sessions: list[DispatchSession], address: str) -> StateReason | None:
    """For a job that needs more than a program: why no session of its queue has that; None if one
    has, or if none has its program."""
    options = item.options
    found = lacks(need_of(item), sessions)
    kinds = [one.kind for one in found]
    code = next((code for kind, code in CODES.items() if kind in kinds), None)
    if code is None or LackKind.CREDIT in kinds or LackKind.NOTHING in kinds:
        return None
    needed = [*options.labels]
    needed += [f"{name} {amount_text(name, amount)}" for name, amount in options.resources]
    lacking = "; ".join([one.text for one in found[:LACKS_MAX]])
    text = f"it needs {', '.join(needed)}; for queue {item.queue}, {lacking}"
    return StateReason(code, text, (_start_worker(item, address),))


def lacks_text(need: AnyNeed, sessions: list[DispatchSession]) -> str:
    """What workers lack for a need of labels and resources; empty if it is only the program."""
    found = lacks(need, sessions)
    if all(one.kind is LackKind.PROGRAM for one in found):
        return ""
    return "; ".join([one.text for one in found[:LACKS_MAX]])


def _start_worker(item: Item, address: str) -> str:
    """The command for a worker that meets the need, except for excluded labels."""
    words: list[str] = []
    for label in item.options.labels:
        words += ["--label", label] if "!" not in label else []
    for name, amount in item.options.resources:
        words += ["--resource", f"{name}={amount_text(name, amount)}"]
    return advice.start_worker(address, item, *words)
