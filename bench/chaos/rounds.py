"""What happens in a round, and what is counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from bench.chaos.grid import CLIENT, MEMBERS, WORKERS, Grid
from bench.chaos.wires import make_wires

STEADY_S: Final = 2.0
AFTER_S: Final = 5.0  # of load after the fault is over
NEXT_S_MAX: Final = 90.0


@dataclass(slots=True, frozen=True)
class Round:
    """A fault: what it does to a grid for so long. It is undone by `Wires.heal` and SIGCONT."""

    name: str
    what: str
    seconds: float
    strike: Callable[[Grid], None]


@dataclass(slots=True, frozen=True)
class Figures:
    """What a round came to. Times in seconds."""

    name: str
    accepted: int
    lost: int  # accepted, and no result at the end
    failed: int  # refused, or with another result than OK
    ended_twice: int
    run_again: int  # programs started beyond once a job: all of them end well, so there is no need
    gap_ack_s: float  # the longest time without an acknowledgement, from the fault on
    gap_result_s: float  # and without a result
    healed_ack_s: float  # from the end of the fault to the next one
    healed_result_s: float

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, ended twice or run in vain."""
        return not (self.lost or self.failed or self.ended_twice or self.run_again)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def all_rounds() -> dict[str, Round]:
    """Every round by its name, in the order in which they run."""
    rounds: list[Round] = []
    targets: tuple[tuple[str, str, Callable[[Grid], str]], ...] = (
        ("leader", "the leader", lambda grid: grid.leader()),
        ("follower", "a follower", _follower),
        ("worker", "a worker", lambda grid: WORKERS[0]),
    )
    for target, text, choose in targets:
        rounds += [
            Round(f"{target}-stop", f"SIGSTOP of {text}", 20, _stop(choose)),
            Round(f"{target}-gone", f"host of {text} gone", 25, _cut(choose, "both")),
            Round(f"{target}-cut", f"cable of {text} cut", 15, _cut(choose, "both")),
            Round(f"{target}-mute", f"{text} is heard by nobody", 15, _cut(choose, "out")),
            Round(f"{target}-deaf", f"{text} hears nobody", 15, _cut(choose, "in")),
        ]
    rounds += [
        Round("stranded", "workers cut off from the leader alone", 15, _strand),
        Round("minority", "leader and client cut off from the rest", 15, _minority),
        Round("apart", "all members apart", 30, _apart),
        Round("asleep", "SIGSTOP of all members", 6, lambda grid: grid.stop(*MEMBERS)),
    ]
    return {one.name: one for one in rounds}


def run_round(
    one: Round, folder: Path, *, relay: bool, share: float = 1.0, until_result: bool = False
) -> Figures:
    """Start everything, strike, heal, and count.

    Args:
        one: The round.
        folder: For the processes; it must not exist, and is removed.
        relay: Use relays also where there are namespaces.
        share: Of the seconds that the fault is on.
        until_result: The fault is on until a job that was submitted during it has its result,
            however long that takes; an error if it has none after NEXT_S_MAX.
    """
    wires = make_wires([*MEMBERS], [*WORKERS, CLIENT], relay=relay)
    with Grid(folder, wires) as grid:
        time.sleep(STEADY_S * share)
        began = time.monotonic()
        one.strike(grid)
        if until_result:
            grid.until(
                lambda notes: _has_new(notes.asks, notes.results, began), "a new result", NEXT_S_MAX
            )
        else:
            time.sleep(one.seconds * share)
        healed = time.monotonic()
        grid.wires.heal()
        grid.go_on(*grid.processes)
        grid.until(lambda notes: notes.results[-1][0] > healed, "a result", NEXT_S_MAX)
        time.sleep(AFTER_S * share)
        ended = time.monotonic()
        grid.end_load()
        notes = grid.notes()
        grid.stop_members()
        done = {key for _, key in notes.results}
        return Figures(
            name=one.name,
            accepted=len(notes.acks),
            lost=sum(key not in done for _, key in notes.acks),
            failed=len(notes.bad),
            ended_twice=grid.ended_twice(),
            run_again=grid.runs_again(),
            gap_ack_s=_gap(notes.acks, began, ended),
            gap_result_s=_gap(notes.results, began, ended),
            healed_ack_s=_next(notes.acks, healed),
            healed_result_s=_next(notes.results, healed),
        )


def _follower(grid: Grid) -> str:
    leader = grid.leader()
    return next(name for name in MEMBERS if name != leader)


def _stop(choose: Callable[[Grid], str]) -> Callable[[Grid], None]:
    return lambda grid: grid.stop(choose(grid))


def _cut(choose: Callable[[Grid], str], direction: str) -> Callable[[Grid], None]:
    def strike(grid: Grid) -> None:
        name = choose(grid)
        others = grid.others(name)
        out = [(name, other) for other in others if direction != "in"]
        back = [(other, name) for other in others if direction != "out"]
        grid.wires.swallow(out + back)

    return strike


def _strand(grid: Grid) -> None:
    grid.cut([grid.leader()], [*WORKERS])


def _minority(grid: Grid) -> None:
    small = [grid.leader(), CLIENT]
    grid.cut(small, [name for name in (*MEMBERS, *WORKERS) if name not in small])


def _apart(grid: Grid) -> None:
    for name in MEMBERS:
        grid.cut([name], [other for other in MEMBERS if other != name])


def _has_new(asks: list[tuple[float, str]], results: list[tuple[float, str]], at: float) -> bool:
    new = {key for when, key in asks if when > at}
    return any(key in new for _, key in results)


def _gap(noted: list[tuple[float, str]], began: float, ended: float) -> float:
    """The longest time without anything, from the last one before the fault on."""
    before = max((at for at, _ in noted if at <= began), default=began)
    times = [before, *sorted(at for at, _ in noted if began < at <= ended), ended]
    return round(max(b - a for a, b in pairwise(times)), 2)


def _next(noted: list[tuple[float, str]], at: float) -> float:
    return round(min((when for when, _ in noted if when > at), default=at + NEXT_S_MAX) - at, 2)
