"""Where events come from: members of groups, or folders of history segments, read as
`format("rollq")` reads them.

The manifest says how far each group was read, and nothing else does: a run begins where the
manifest ends, whatever became of the runs before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.bronze import Reading
from rollq.spark.source.batch import slices_of
from rollq.spark.source.options import read_options
from rollq.spark.source.places import Extent, HistoryPlace
from rollq.spark.source.planning import place_of

READER: Final = "pipeline"  # the name under which members keep history for us


@dataclass(frozen=True, slots=True)
class Feed:
    """What to read. Several groups are told apart by semicolons, as the source has it."""

    servers: str = ""
    path: str = ""
    group: str = ""
    reader: str = READER
    fail_on_data_loss: bool = True
    credentials: str = ""  # a directory, which is on every executor

    @property
    def name(self) -> str:
        """What the manifest remembers, so that two sources are not mixed in one folder."""
        if self.servers:
            return "servers " + ",".join(sorted(self.servers.replace(";", ",").split(",")))
        places = (
            place if "://" in place else str(Path(place).absolute())
            for place in self.path.split(";")
        )
        return "path " + ";".join(places)

    def is_same(self, name: str) -> bool:
        """Whether this may be the source of that name: addresses of members come and go."""
        ours, theirs = self.name, name
        if ours == theirs:
            return True
        mine, others = ours.removeprefix("servers "), theirs.removeprefix("servers ")
        both = ours != mine and theirs != others
        return both and bool({*mine.split(",")} & {*others.split(",")})

    def extents(self) -> list[Extent]:
        """What there is now, by group.

        Raises:
            DialError: no member answers.
            LocalError: there is no such folder.
        """
        return [place.extent() for place in self._places()]

    def reading(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> Reading:
        """The events of a range of indexes, by group: from, and up to but without.

        Raises:
            DialError: no member answers.
            StateError: HISTORY_GONE; some of it is gone, and that matters.
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
        size_bytes = sum(piece.end - piece.start for piece in pieces)
        missing = {} if self.fail_on_data_loss else self._missing(starts, ends)
        return Reading(options, slices, count, size_bytes, starts, missing)

    def hold(self, starts: Mapping[str, int]) -> None:
        """Members keep what comes after this for us; what was read may go."""
        if self.servers and self.reader:
            for place in self._places():
                group = place.extent().group
                if group in starts:
                    place.hold(self.reader, starts[group])

    def _missing(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, int]:
        """By group how many indexes are gone that should be read."""
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
