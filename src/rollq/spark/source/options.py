"""The options of reads with `format("rollq")`, validated before anything is read.

Names and semantics follow Spark's Kafka source where it has such an option. Names are not case
sensitive, as in Spark.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.limits import READER_NAME_BYTES_MAX
from rollq.history.columns import Column
from rollq.spark.schemas import TABLES, columns_of
from rollq.spark.source.conditions import RowCondition, bad_option, from_option, from_time, millis

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
FILTER: Final = "filter."
TIMEOUT_S: Final = 30.0
EVENTS_TABLE: Final = "events"
STREAMS: Final = (EVENTS_TABLE, "results")
OF_EVENTS: Final = ("since", "until")
OF_STREAMS: Final = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    "readerName",
)
OF_BATCHES: Final = ("endingTimestamp", "endingOffsetsByTimestamp")
OF_HISTORY: Final = (
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    "startingOffsetsByTimestampStrategy",
    *("endingOffsets", *OF_BATCHES, "failOnDataLoss", "minPartitions", "subscribePattern"),
)
READ_NAMES: Final = (
    *("servers", "path", "group", "table", "columns", *OF_EVENTS, "timeout", "credentials"),
    *(*OF_HISTORY, *OF_STREAMS),
)
# Options that Spark adds to ours.
SPARKS_NAMES: Final = ("checkpointLocation", "queryName", "mergeSchema")

Offsets = str | dict[str, int]  # EARLIEST, LATEST, or the next index by group
# Milliseconds since 1970, for all groups or by group; None: not given.
Moments = int | dict[str, int] | None
TRIGGER_DELAY_S: Final = 900.0  # the default of Spark's Kafka source
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(slots=True, frozen=True)
class SourceOrigin:
    """The location of a group's history: addresses of its members, or a folder of segments."""

    servers: str = ""
    path: str = ""
    group: str = ""  # the name of a folder's group, or the required name of the members' group
    credentials: str = ""  # a directory on every executor


@dataclass(slots=True, frozen=True)
class ReadOptions:
    """Validated options of a read."""

    origins: tuple[SourceOrigin, ...]
    table: str
    columns: tuple[Column, ...]
    conditions: tuple[RowCondition, ...]
    starting: Offsets
    ending: Offsets
    starting_at: Moments  # overrides `starting`
    ending_at: Moments  # overrides `ending`
    is_early_an_error: bool  # fail if there are no events since `starting_at`; else use LATEST
    fail_on_data_loss: bool
    offsets_max: int  # indexes per micro-batch; 0: unlimited
    bytes_max: int  # bytes on disk per micro-batch; 0: unlimited
    offsets_min: int  # least backlog in indexes for a micro-batch, until the delay; 0: any
    trigger_delay_s: float
    group_pattern: str  # selects groups of the origin's federation; empty: the origins
    partitions: int  # the approximate number; 0: a few per core
    reader_name: str
    timeout_s: float


def read_options(given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Validate the options of a read.

    Raises:
        LocalError: BAD_OPTIONS; it names the option and its allowed values.
    """
    options = {name.lower(): value for name, value in given.items()}
    table = options.get("table", EVENTS_TABLE)
    if table not in TABLES:
        raise bad_option("table", table, f"the tables are {', '.join(TABLES)}")
    every = TABLES[table]
    check_names(options, (*READ_NAMES, *(f"{FILTER}{each.name}" for each in every), *SPARKS_NAMES))
    conditions = [
        from_option(column, options[f"{FILTER}{column.name.lower()}"])
        for column in every
        if f"{FILTER}{column.name.lower()}" in options
    ]
    conditions += [from_time(name, options[name]) for name in ("since", "until") if name in options]
    return ReadOptions(
        origins=_origins(options),
        table=table,
        columns=_columns(options, table),
        conditions=tuple(conditions),
        starting=_offsets(options, "startingOffsets", LATEST if is_stream else EARLIEST),
        ending=_offsets(options, "endingOffsets", LATEST),
        starting_at=_moments(options, "startingTimestamp", "startingOffsetsByTimestamp"),
        ending_at=_moments(options, "endingTimestamp", "endingOffsetsByTimestamp"),
        is_early_an_error=_strategy(options) == "error",
        fail_on_data_loss=_truth(options, "failOnDataLoss", True),
        offsets_max=_count(options, "maxOffsetsPerTrigger"),
        bytes_max=_count(options, "maxBytesPerTrigger"),
        offsets_min=_count(options, "minOffsetsPerTrigger"),
        trigger_delay_s=_delay_s(options),
        group_pattern=_pattern(options),
        partitions=_count(options, "minPartitions"),
        reader_name=check_length(
            "readerName", options.get("readername", ""), READER_NAME_BYTES_MAX
        ),
        timeout_s=seconds(options),
    )


def check_table(given: Mapping[str, str], *, is_stream: bool) -> None:
    """Check that the table supports this kind of read and these options.

    Raises:
        LocalError: BAD_OPTIONS; it names the option and its allowed values.
    """
    options = {name.lower(): value for name, value in given.items()}
    table = options.get("table", EVENTS_TABLE)
    if is_stream and table not in STREAMS:
        raise bad_option("table", table, f"as a stream, {' and '.join(STREAMS)} can be read")
    hints: dict[str, str] = {}
    if is_stream:
        hints |= dict.fromkeys(OF_BATCHES, "a stream has no end; it is for batch reads")
    else:
        hints |= dict.fromkeys(OF_STREAMS, "it is for streams")
    if table != EVENTS_TABLE:
        hints |= dict.fromkeys(OF_EVENTS, "it is for events")
        hints["path"] = f"a folder of history has no table {table}: give servers"
        if not is_stream:
            hints |= dict.fromkeys(OF_HISTORY, f"the table {table} is read as it is now")
    for name, hint in hints.items():
        if name.lower() in options:
            raise bad_option(name, options[name.lower()], hint)


def check_servers(servers: str) -> None:
    """Check the addresses of the members of one group.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    from rollq.roles.reader.reader import addresses_in

    try:
        addresses_in(servers)
    except LocalError as error:
        raise bad_option(
            "servers", servers, f"{error.message}: write host:port,host:port"
        ) from None


def check_length(name: str, value: str, bytes_max: int) -> str:
    """Check the length of a text that the grid stores.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    if len(value.encode()) > bytes_max:
        raise bad_option(name, f"{value[:40]}…", f"use up to {bytes_max} bytes")
    return value


def check_names(options: Mapping[str, str], known: Sequence[str]) -> None:
    """Reject unknown options, so that a misspelt one is not ignored."""
    lowered = {name.lower(): name for name in known}
    for name in options:
        if name not in lowered:
            near = difflib.get_close_matches(name, lowered, n=1)
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"there is no option {name!r}",
                f"did you mean {lowered[near[0]]}?" if near else f"there are {', '.join(known)}",
            )


def _columns(options: Mapping[str, str], table: str) -> tuple[Column, ...]:
    text = options.get("columns", "")
    try:
        return columns_of(table, [part.strip() for part in text.split(",") if part.strip()])
    except LocalError as error:
        raise bad_option("columns", text, f"{error.message}: {error.hint}") from None


def _origins(options: Mapping[str, str]) -> tuple[SourceOrigin, ...]:
    """Groups are separated by semicolons; `group` names them in the same order."""
    servers, path = options.get("servers", ""), options.get("path", "")
    if bool(servers) == bool(path):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "both servers and path are given" if servers else "nothing says where to read",
            "give servers='host:port,host:port' for a running grid, or path for a folder of history"
            " segments",
        )
    places = [part.strip() for part in (servers or path).split(";") if part.strip()]
    names = [part.strip() for part in options.get("group", "").split(",") if part.strip()]
    if not names:
        names = [""] * len(places)
    if path and not any(names) and len(places) == 1:
        names = ["default"]
    if len(names) != len(places) or (path and not all(names)):
        raise bad_option(
            "group", options.get("group", ""), f"name {len(places)} groups, with commas between"
        )
    if servers:
        for place in places:
            check_servers(place)
        return tuple(
            SourceOrigin(servers=place, group=name, credentials=options.get("credentials", ""))
            for place, name in zip(places, names, strict=True)
        )
    return tuple(
        SourceOrigin(path=place, group=name) for place, name in zip(places, names, strict=True)
    )


def _offsets(options: Mapping[str, str], name: str, default: str) -> Offsets:
    """`earliest`, `latest`, or JSON such as `{"default": 1234}`: the first index to read, or the
    first not to read."""
    text = options.get(name.lower(), default).strip()
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    hint = 'it is earliest, latest, or JSON such as {"default": 1234}'
    try:
        offsets = json.loads(text)
    except ValueError:
        raise bad_option(name, text, hint) from None
    if not isinstance(offsets, dict) or not offsets:
        raise bad_option(name, text, hint)
    if not all(type(index) is int and index >= -2 for index in offsets.values()):
        raise bad_option(name, text, "an index is a whole number; -2 is earliest, -1 latest")
    return offsets


def _moments(options: Mapping[str, str], name: str, name_by_group: str) -> Moments:
    """The plain option overrides the one by group, as in Kafka."""
    if name.lower() in options:
        return millis(name, options[name.lower()])
    text = options.get(name_by_group.lower(), "")
    if not text:
        return None
    hint = 'it is JSON with milliseconds since 1970, such as {"default": 1769860800000}'
    try:
        found = json.loads(text)
    except ValueError:
        raise bad_option(name_by_group, text, hint) from None
    if not isinstance(found, dict) or not found:
        raise bad_option(name_by_group, text, hint)
    if not all(type(moment) is int and moment >= 0 for moment in found.values()):
        raise bad_option(name_by_group, text, hint)
    return found


def _strategy(options: Mapping[str, str]) -> str:
    name = "startingOffsetsByTimestampStrategy"
    text = options.get(name.lower(), "error").lower()
    if text not in ("error", LATEST):
        raise bad_option(name, text, "it is error or latest")
    return text


def _delay_s(options: Mapping[str, str]) -> float:
    text = options.get("maxtriggerdelay", "")
    if not text:
        return TRIGGER_DELAY_S
    if "minoffsetspertrigger" not in options:
        raise bad_option("maxTriggerDelay", text, "it goes with minOffsetsPerTrigger")
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d)", text.strip())
    if found is None:
        raise bad_option("maxTriggerDelay", text, "it is a number with ms, s, m, h or d: 15m")
    return int(found[1]) * _UNITS_S[found[2]]


def _pattern(options: Mapping[str, str]) -> str:
    name = "subscribePattern"
    text = options.get(name.lower(), "")
    if not text:
        return ""
    if "path" in options or "group" in options or ";" in options.get("servers", ""):
        hint = "groups are found by the members of one, which servers names; leave out the others"
        raise bad_option(name, text, hint)
    try:
        re.compile(text)
    except re.error as error:
        raise bad_option(name, text, f"it is no regular expression: {error}") from None
    return text


def _truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise bad_option(name, text, "it is true or false")
    return text == "true"


def _count(options: Mapping[str, str], name: str) -> int:
    text = options.get(name.lower(), "")
    if not text:
        return 0
    if not text.isdecimal() or not int(text):
        raise bad_option(name, text, "it is a whole number above 0")
    return int(text)


def seconds(options: Mapping[str, str]) -> float:
    """`timeout`: how long to wait for members that cannot answer."""
    text = options.get("timeout", str(TIMEOUT_S))
    try:
        given = float(text)
    except ValueError:
        given = 0.0
    if not 0 < given < float("inf"):
        raise bad_option("timeout", text, "it is a number of seconds above 0")
    return given
