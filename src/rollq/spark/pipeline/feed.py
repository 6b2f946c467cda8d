"""Where events come from: members of groups, or folders of history segments, by `format("rollq")`.

The manifest says how far each group was read, and nothing else does: a run begins where the
manifest ends, whatever became of the runs before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.manifest import Mark
from rollq.spark.source.options import read_options
from rollq.spark.source.planning import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READER: Final = "pipeline"  # the name under which members keep history for us
EARLIEST: Final = -2


@dataclass(frozen=True, slots=True)
class Feed:
    """What to read. Several groups are told apart by semicolons, as the source has it."""

    servers: str = ""
    path: str = ""
    group: str = ""
    reader: str = READER
    fail_on_data_loss: bool = True

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

    def ends(self) -> dict[str, int]:
        """By group the index at which its history ends now.

        Raises:
            DialError: no member answers.
            LocalError: there is no such folder.
        """
        options = read_options(self._options(), is_stream=True)
        extents = [place_of(options, n).extent() for n in range(len(options.origins))]
        return {extent.group: extent.end for extent in extents}

    def stream(
        self, spark: SparkSession, marks: Mapping[str, Mark], groups: Mapping[str, int], most: int
    ) -> DataFrame:
        """All that comes after the marks.

        Args:
            spark: the session.
            marks: how far groups were read.
            groups: those that there are.
            most: indexes a batch; 0: no bound.
        """
        return spark.readStream.format("rollq").options(**self._from(marks, groups, most)).load()

    def read(
        self, spark: SparkSession, marks: Mapping[str, Mark], ends: Mapping[str, int]
    ) -> DataFrame:
        """What comes after the marks, up to but without these indexes."""
        options = self._from(marks, ends, 0) | {"endingOffsets": json.dumps(dict(ends))}
        return spark.read.format("rollq").options(**options).load()

    def _from(
        self, marks: Mapping[str, Mark], groups: Mapping[str, int], most: int
    ) -> dict[str, str]:
        starts = {group: marks[group].index + 1 if group in marks else EARLIEST for group in groups}
        limit = {"maxOffsetsPerTrigger": str(most)} if most else {}
        return self._options() | limit | {"startingOffsets": json.dumps(starts)}

    def _options(self) -> dict[str, str]:
        if bool(self.servers) == bool(self.path):
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "events come from members or from a folder",
                "give either --servers or --path",
            )
        options = {"servers": self.servers} if self.servers else {"path": self.path}
        if self.servers and self.reader:
            options["readerName"] = self.reader
        if self.group:
            options["group"] = self.group
        return options | {"failOnDataLoss": str(self.fail_on_data_loss).lower()}
