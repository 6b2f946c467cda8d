"""The registry of mutants. A mutant replaces functions of the product inside a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rollq.testing.network import NetFaults

Swap: TypeAlias = tuple[Any, str, Callable[[Any], Any]]  # owner, attribute, old -> new


@dataclass(slots=True, frozen=True)
class Mutant:
    """A deliberate bug: attributes to replace, and overrides of the swarm."""

    name: str
    swaps: tuple[Swap, ...]
    overrides: dict[str, Any] = field(default_factory=dict)


MUTANTS: dict[str, Mutant] = {}


def mutant(name: str, owner: Any, attribute: str, **overrides: Any) -> Callable[[Any], Any]:
    """Register a function old -> new as a mutant that replaces one attribute."""

    def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        known = MUTANTS.get(name)
        swaps = known.swaps if known is not None else ()
        MUTANTS[name] = Mutant(name, (*swaps, (owner, attribute, make)), overrides)
        return make

    return register


@contextmanager
def applied_mutant(bug: Mutant) -> Iterator[None]:
    """Apply a mutant inside the block."""
    with ExitStack() as stack:
        for owner, attribute, make in bug.swaps:
            stack.enter_context(_swapped(owner, attribute, make))
        yield


@contextmanager
def _swapped(owner: Any, attribute: str, make: Callable[[Any], Any]) -> Iterator[None]:
    if isinstance(owner, dict):
        key = next(kind for kind in owner if kind.__name__ == attribute)
        old = owner[key]
        owner[key] = make(old)
        try:
            yield
        finally:
            owner[key] = old
        return
    old = vars(owner)[attribute]
    plain = getattr(owner, attribute) if isinstance(old, staticmethod | classmethod) else old
    setattr(owner, attribute, make(plain))
    try:
        yield
    finally:
        setattr(owner, attribute, old)


# Faults and networks that several mutants need.
CRASHES = ("crash_power", "crash_point", "crash_disk_op", "crash_all")
SPLITS = ("partition", "isolate_leader", "flap", "one_way")
LOSSY = NetFaults(loss_per_mille=100, delay_ms_max=20)
