"""Offsets: the next log index to read, by group. The semantics are those of Spark's Kafka
source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.source.conditions import bad_option
from rollq.spark.source.options import EARLIEST, LATEST, Offsets
from rollq.spark.source.places import Extent, Sealed

_NUMBERED: Final = {-2: EARLIEST, -1: LATEST}  # as in Kafka's JSON
INDEX_BYTES: Final = 256  # assumed size of an index where no sealed segment is known


def resolve(option: str, wanted: Offsets, extents: Sequence[Extent]) -> dict[str, int]:
    """The offset of every group that an option specifies.

    Raises:
        LocalError: BAD_OPTIONS; it does not name exactly the existing groups.
    """
    check_groups(extents)
    if isinstance(wanted, str):
        return {extent.group: _at(wanted, extent) for extent in extents}
    check_named(option, wanted, extents)
    return {
        extent.group: _at(_NUMBERED.get(wanted[extent.group], wanted[extent.group]), extent)
        for extent in extents
    }


def check_groups(extents: Sequence[Extent]) -> None:
    """Check that group names are unique.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    groups = [extent.group for extent in extents]
    if len(set(groups)) != len(groups):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"several groups have the same name: {', '.join(sorted(groups))}",
            "offsets are by group; give every group a name of its own when it is started",
        )


def check_named(option: str, wanted: Mapping[str, int], extents: Sequence[Extent]) -> None:
    """Check that an option with a value per group names exactly the existing groups.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    groups = [extent.group for extent in extents]
    if sorted(wanted) != sorted(groups):
        hint = f"it must name these groups: {', '.join(groups)}"
        raise bad_option(option, str(dict(wanted)), hint)


def share(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """Limit ends to `most` indexes in total, in proportion to the backlog of each group; each group
    with a backlog gets at least one, so that none starves."""
    waiting = {group: max(end - begins.get(group, 0), 0) for group, end in ends.items()}
    total = sum(waiting.values())
    if total <= most:
        return dict(ends)
    return {
        group: end - waiting[group] + min(waiting[group], max(most * waiting[group] // total, 1))
        for group, end in ends.items()
    }


def share_bytes(
    waiting: Mapping[str, Sequence[Sealed]], ends: Mapping[str, int], most: int
) -> dict[str, int]:
    """Limit ends to about `most` bytes in total, in proportion to the backlog of each group; each
    gets at least one index.

    Args:
        waiting: the backlog of each group (`with_estimate`).
        ends: of all groups; those without a backlog are unchanged.
        most: bytes.
    """
    sizes = {group: sum(each.size_bytes for each in pieces) for group, pieces in waiting.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    return dict(ends) | {
        group: _end_of(pieces, most * sizes[group] // total) for group, pieces in waiting.items()
    }


def with_estimate(sealed: Sequence[Sealed], first: int, last: int) -> list[Sealed]:
    """The sealed part of a range, and an estimate for the rest, based on the sealed part."""
    pieces = list(sealed)
    reached = pieces[-1].last if pieces else first - 1
    if reached < last:
        covered = sum(each.last - each.first + 1 for each in pieces)
        mean = sum(each.size_bytes for each in pieces) / covered if covered else INDEX_BYTES
        pieces.append(Sealed(reached + 1, last, max(round(mean * (last - reached)), 1)))
    return pieces


def _end_of(pieces: Sequence[Sealed], most: int) -> int:
    """The offset after so many bytes; at least one index is included."""
    first, room = pieces[0].first, most
    for piece in pieces:
        if piece.size_bytes > room:
            count = (piece.last - piece.first + 1) * room // piece.size_bytes
            return max(piece.first + count, first + 1)
        room -= piece.size_bytes
    return pieces[-1].last + 1


def _at(wanted: str | int, extent: Extent) -> int:
    if isinstance(wanted, int):
        return min(wanted, extent.end)
    return extent.first if wanted == EARLIEST else extent.end
