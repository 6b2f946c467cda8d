"""Offsets: for every group the log index that is read next. Kafka's meanings, for indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.source.conditions import bad_option
from rollq.spark.source.options import EARLIEST, LATEST, Offsets
from rollq.spark.source.places import Extent

_NUMBERED: Final = {-2: EARLIEST, -1: LATEST}  # as in Kafka's JSON


def resolve(option: str, wanted: Offsets, extents: Sequence[Extent]) -> dict[str, int]:
    """The index of every group that an option means.

    Raises:
        LocalError: BAD_OPTIONS; it does not name exactly the groups that there are.
    """
    groups = [extent.group for extent in extents]
    if len(set(groups)) != len(groups):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"several groups have the same name: {', '.join(sorted(groups))}",
            "offsets are by group; give every group a name of its own when it is started",
        )
    if isinstance(wanted, str):
        return {extent.group: _at(wanted, extent) for extent in extents}
    if sorted(wanted) != sorted(groups):
        raise bad_option(option, str(wanted), f"it must name these groups: {', '.join(groups)}")
    return {
        extent.group: _at(_NUMBERED.get(wanted[extent.group], wanted[extent.group]), extent)
        for extent in extents
    }


def share(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """Ends that are at most so many indexes away in all, each group by how much it has to give;
    some of every group, so that none starves."""
    waiting = {group: max(end - begins.get(group, 0), 0) for group, end in ends.items()}
    total = sum(waiting.values())
    if total <= most:
        return dict(ends)
    return {
        group: end - waiting[group] + min(waiting[group], max(most * waiting[group] // total, 1))
        for group, end in ends.items()
    }


def _at(wanted: str | int, extent: Extent) -> int:
    if isinstance(wanted, int):
        return min(wanted, extent.end)
    return extent.first if wanted == EARLIEST else extent.end
