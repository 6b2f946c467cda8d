"""Why the workers of a queue cannot run a job now, counted by reason. Reads sessions only."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rollq.base.needs import amount_text, labels_match
from rollq.policy.needs import SHIPPED, AnyNeed, Need, program_in
from rollq.policy.pools import DispatchSession


class LackKind(enum.IntEnum):
    """What a worker lacks; the first that applies counts."""

    PROGRAM = 0
    LABEL = 1
    CAPACITY = 2  # its capacity is too small
    ROOM = 3  # its capacity suffices, but attempts hold it
    RESERVED = 4  # enough is free, but reserved for jobs of another need
    CREDIT = 5
    NOTHING = 6  # it can take the job now


class Lack(NamedTuple):
    """One reason, and the number of workers that it applies to."""

    kind: LackKind
    worker_count: int
    text: str  # with the count, such as "3 workers lack label zone=a"

    @property
    def is_for_good(self) -> bool:
        """Whether these could not run the job even if they were idle."""
        return self.kind <= LackKind.CAPACITY


def lacks(need: AnyNeed, sessions: Iterable[DispatchSession]) -> list[Lack]:
    """Why these sessions do not run an item of this need, the most frequent reason first."""
    reasons = Counter(_lack(need, session) for session in sessions)
    counted = sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    return [Lack(kind, count, _sentence(count, *words)) for (kind, *words), count in counted]


_Reason = tuple[LackKind, str, str]  # kind, text for one worker, text for several


def _lack(need: AnyNeed, session: DispatchSession) -> _Reason:
    program = program_in(need)
    if not session.programs.has(program):
        name = program.removeprefix(SHIPPED)
        if program.startswith(SHIPPED):
            words = f"does not run programs that come with jobs, as {name} does"
            return LackKind.PROGRAM, words, words.replace("does not", "do not", 1)
        return LackKind.PROGRAM, f"lacks program {name}", f"lack program {name}"
    labels, resources = (need.labels, need.resources) if isinstance(need, Need) else ((), ())
    for label in labels:
        if not labels_match((label,), session.labels):
            return LackKind.LABEL, *_label_words(label)
    capacity, free = session.room.capacity, session.room.free
    for name, amount in resources:
        if capacity.get(name, 0) < amount:
            has = f"{_amount(name, capacity.get(name, 0))}, {amount_text(name, amount)} needed"
            return LackKind.CAPACITY, f"has {has}", f"have {has}"
    for name, amount in resources:
        if free.get(name, 0) < amount:
            left = _amount(name, max(0, free.get(name, 0)))
            of = f"{left} free of {amount_text(name, capacity[name])}"
            words = f"{of}, {amount_text(name, amount)} needed"
            return LackKind.ROOM, f"has {words}", f"have {words}"
    reserved_for = session.reserved_for
    if reserved_for is not None and resources and reserved_for.need != need:
        text = "reserved for a job that needs more resources at once"
        return LackKind.RESERVED, f"is {text}", f"are {text}"
    if not session.credit:
        busy = "no free slot, and could run it"
        return LackKind.CREDIT, f"has {busy}", f"have {busy}"
    return LackKind.NOTHING, "could run it now", "could run it now"


def _label_words(label: str) -> tuple[str, str]:
    if label.startswith("!") or "!=" in label:
        has = label.removeprefix("!").replace("!=", "=", 1)
        return f"has the excluded label {has}", f"have the excluded label {has}"
    return f"lacks label {label}", f"lack label {label}"


def _amount(name: str, amount: int) -> str:
    return f"{amount_text(name, amount) if amount else 'no'} {name}"


def _sentence(count: int, one: str, several: str) -> str:
    return f"1 worker {one}" if count == 1 else f"{count} workers {several}"
