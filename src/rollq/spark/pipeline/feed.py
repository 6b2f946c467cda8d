"""The source of events: members of groups, or folders of history segments, read like
`format("rollq")`.

Only the manifest holds the offsets of the groups: a run starts where the newest manifest ends,
whatever earlier runs did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.history.segments import PACKED_SUFFIX
from rollq.spark.pipeline.bronze import Reading
from rollq.spark.source.batch import slices_of
from rollq.spark.source.folder import FolderPiece
from rollq.spark.source.offsets import share_bytes, with_estimate
from rollq.spark.source.options import SourceOrigin, read_options
from rollq.spark.source.places import Extent, HistoryPlace, Sealed
from rollq.spark.source.planning import place_of

READER: Final = "pipeline"  # the name of the hold on the members' history
LINES_OF_PACKED: Final = 10  # bytes of JSON lines for a packed byte, about


@dataclass(frozen=True, slots=True)
class Feed:
    """The source of a pipeline. Several groups are separated by semicolons, as in the data
    source."""

    servers: str = ""
    path: str = ""
    group: str = ""
    reader: str = READER
    fail_on_data_loss: bool = True
    credentials: str = ""  # a directory on every executor

    @property
    def name(self) -> str:
        """Recorded in the manifest, so that two sources are not mixed in one folder."""
        if self.servers:
            return "servers " + ",".join(sorted(self.servers.replace(";", ",").split(",")))
        places = (
            place if "://" in place else str(Path(place).absolute())
            for place in self.path.split(";")
        )
        return "path " + ";".join(places)

    def is_same(self, name: str) -> bool:
        """Whether this may be the recorded source: members' addresses may change, if one is
        common."""
        ours, theirs = self.name, name
        if ours == theirs:
            return True
        mine, others = ours.removeprefix("servers "), theirs.removeprefix("servers ")
        both = ours != mine and theirs != others
        return both and bool({*mine.split(",")} & {*others.split(",")})

    def origins(self) -> tuple[SourceOrigin, ...]:
        """The groups as they were given, in the order of `extents`.

        Raises:
            LocalError: BAD_OPTIONS; they cannot be read so.
        """
        return read_options(self._options(), is_stream=False).origins

    def extents(self) -> list[Extent]:
        """The available history by group.

        Raises:
            DialError: no member answers.
            LocalError: there is no such folder.
        """
        return [place.extent() for place in self._places()]

    def bounded(
        self, starts: Mapping[str, int], ends: Mapping[str, int], most: int
    ) -> dict[str, int]:
        """Limit ends so that about `most` bytes of history, as it is stored, are before them.

        Raises:
            DialError: no member answers.
        """
        waiting: dict[str, list[Sealed]] = {}
        for place in self._places():
            extent = place.extent()
            first = max(starts.get(extent.group, 0), extent.first)
            last = ends.get(extent.group, 0) - 1
            if first <= last:
                waiting[extent.group] = with_estimate(place.sealed(first, last), first, last)
        return share_bytes(waiting, ends, most)

    def reading(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> Reading:
        """A range of events, by group from `starts` (inclusive) to `ends` (exclusive).

        Raises:
            DialError: no member answers.
            StateError: HISTORY_GONE; some of it was deleted, with `fail_on_data_loss`.
        """
        options = read_options(
            self._options()
            | {
                "startingOffsets": json.dumps(dict(starts)),
                "endingOffsets": json.dumps(dict(ends)),
            },
            is_stream=False,
        )
        count = sum(end - starts[group] for group, end in ends.items())
        slices = slices_of(options)
        pieces = [piece for each in slices for piece in each.part or ()]
        size_bytes = sum(_lines_bytes(piece) for piece in pieces)
        missing = {} if self.fail_on_data_loss else self._missing(starts, ends)
        return Reading(options, slices, count, size_bytes, starts, missing)

    def hold(self, starts: Mapping[str, int]) -> None:
        """Move the hold on the members' history to these offsets."""
        if self.servers and self.reader:
            for place in self._places():
                group = place.extent().group
                if group in starts:
                    place.hold(self.reader, starts[group])

    def _missing(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, int]:
        """By group the number of missing indexes in a range."""
        missing = {}
        for place in self._places():
            extent = place.extent()
            first, end = starts[extent.group], ends[extent.group]
            begins = min(max(first, extent.first), end)
            gaps = place.gaps(begins, end - 1)
            missing[extent.group] = begins - first + sum(b - a + 1 for a, b in gaps)
        return missing

    def _places(self) -> list[HistoryPlace]:
        options = read_options(self._options(), is_stream=False)
        return [place_of(options, origin) for origin in options.origins]

    def _options(self) -> dict[str, str]:
        if bool(self.servers) == bool(self.path):
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "events come from members or from a folder",
                "give either --servers or --path",
            )
        options = {"servers": self.servers} if self.servers else {"path": self.path}
        if self.group:
            options["group"] = self.group
        if self.credentials and self.servers:
            options["credentials"] = self.credentials
        return options | {"failOnDataLoss": str(self.fail_on_data_loss).lower()}


def _lines_bytes(piece: FolderPiece) -> int:
    """The size of a piece as JSON lines; an estimate if it is packed."""
    size = piece.end - piece.start
    return size * LINES_OF_PACKED if piece.name.endswith(PACKED_SUFFIX) else size
