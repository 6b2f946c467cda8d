"""One answer out of those of several groups: what a view of all of them is. Pure.

Views are maps, as the groups made them; they are put together by the names of their fields, and not
read any further. Lists that are paged by a name or an id are merged in its order. Those that are
paged by a place in one group's log are read group by group: the place that the client is told also
says which group is next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from rollq.base.counters import Family, Sample
from rollq.base.errors import ErrorCode
from rollq.grid.matching import JobFilter
from rollq.grid.pages import IdFilter

PLACE_BYTES: Final = 8
PLACE_BITS: Final = 48  # of a place in one group; the number of the group is above them
NO_SUCH_JOB: Final = "no such job"  # how the view `explain` says it

Told: TypeAlias = tuple[str, Any]  # the name of a group, and what it answered
Merge: TypeAlias = Callable[[Sequence[Told], int], Any]  # of these, and the limit of rows

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder().decode


class Paged(NamedTuple):
    """A view that is read group by group.

    Attributes:
        filter: The type of its key; None: that is the place itself, big-endian.
        asked: Which field of the key is the place.
        told: Which field of the answer is the next one.
        rows: Of an answer that always has one: the field that is empty at the end.
    """

    filter: Any
    asked: str
    told: str
    rows: str = ""


def first_found(told: Sequence[Told], _: int) -> Any:
    """What the group says that knows it."""
    values = [value for _, value in told]
    found = (value for value in values if value is not None and value != NO_SUCH_JOB)
    return next(found, values[0])


def summed(told: Sequence[Told], _: int) -> Any:
    """The numbers of all added up; what is no number is that of the first."""
    maps = [value for _, value in told if value is not None]
    return _sum(maps) if maps else None


def sums_by(name: str) -> Merge:
    """Rows that all groups may have, added up, in the order of this field."""

    def merge(told: Sequence[Told], limit: int) -> Any:
        rows: dict[Any, list[Mapping[str, Any]]] = {}
        for _, value in told:
            for row in value:
                rows.setdefault(row[name], []).append(row)
        return [_sum(rows[key]) for key in sorted(rows)[:limit]]

    return merge


def rows_by(name: str) -> Merge:
    """Rows of which each is in one group, or the same in all, in the order of this field."""

    def merge(told: Sequence[Told], limit: int) -> Any:
        rows = {row[name]: row for _, value in told for row in value}
        return [rows[key] for key in sorted(rows)[:limit]]

    return merge


def joined(told: Sequence[Told], limit: int) -> Any:
    """The rows of one group after those of another."""
    return [row for _, value in told for row in value][:limit]


def families(told: Sequence[Told], _: int) -> Any:
    """What all count, added up by name and labels."""
    found: dict[str, tuple[Family, dict[tuple[str, ...], Sample]]] = {}
    for each in told:
        for family in msgspec.convert(each[1], list[Family]):
            samples = found.setdefault(family.name, (family, {}))[1]
            for sample in family.samples:
                known = samples.get(sample.labels)
                samples[sample.labels] = sample if known is None else _add(known, sample)
    return [
        msgspec.structs.replace(family, samples=list(samples.values()))
        for family, samples in found.values()
    ]


def clusters(told: Sequence[Told], _: int) -> Any:
    """The members of all groups, each with the name of its group before its address."""
    views = [(name, dict(value)) for name, value in told]
    leads = [f"{name}/{view['leader']}" if view["leader"] else "" for name, view in views]
    every = dict(views[0][1])
    every |= {"leader": ", ".join(filter(None, leads)), "leader_id": 0, "log_hash": b""}
    every |= {"state_hash": b"", "term": max(view["term"] for _, view in views)}
    every |= {key: sum(view[key] for _, view in views) for key in ("commit", "applied")}
    every["last_index"] = sum(view["last_index"] for _, view in views)
    every["members"] = [
        {**member, "address": f"{name}/{member['address']}"}
        for name, view in views
        for member in view["members"]
    ]
    every["alarms"] = [alarm for _, view in views for alarm in view.get("alarms", ())]
    return every


def away_alarm(name: str) -> dict[str, Any]:
    """What is said of a group that the figures of all lack."""
    return {
        "code": int(ErrorCode.UNREACHABLE),
        "member_id": 0,
        "text": f"group {name} cannot be reached by the router, and nothing of it is shown",
        "todo": "start its members; `rollq doctor --servers` with one of them says more",
    }


def is_unknown(value: bytes) -> bool:
    """Whether an answer about a job says that there is none."""
    return decode(value) in (None, NO_SUCH_JOB)


CLUSTER: Final = "cluster"
MERGED: Final[Mapping[str, Merge]] = {
    "job": first_found,
    "array": first_found,
    "explain": first_found,
    "explanation": first_found,
    "timeline": first_found,
    "progress": first_found,
    "account": first_found,
    "groups": first_found,
    "worker": first_found,
    "cache": first_found,
    "client": summed,
    "queue": summed,
    "counts": summed,
    "queues": sums_by("name"),
    "clients": sums_by("client_id"),
    "workers": rows_by("worker_id"),
    "drained": rows_by("worker_id"),
    "arrays": rows_by("array_id"),
    "caches": rows_by("cache_id"),
    "holders": joined,
    "unserved": joined,
    CLUSTER: clusters,
    "metrics": families,
}
# The key begins with its id.
ONE_JOB: Final = frozenset({"job", "array", "explain", "explanation", "timeline", "progress"})
# Of those: where nothing means that there is no such job. `array` is asked of jobs as well.
SAYS_UNKNOWN: Final = frozenset({"job", "explain", "explanation"})
PAGED: Final[Mapping[str, Paged]] = {
    "jobs": Paged(JobFilter, "after", "after"),
    "ids": Paged(IdFilter, "before", "before"),
    "dead": Paged(None, "", "after", rows="jobs"),
}


def place_in(paged: Paged, key: bytes) -> tuple[int, int]:
    """Which group is next, by its place in the order of groups, and where in that group.

    Raises:
        msgspec.MsgspecError: it is no key.
    """
    if paged.filter is None:
        place = int.from_bytes(key, "big")
    else:
        place = getattr(_filter(paged, key), paged.asked)
    return place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1)


def key_at(paged: Paged, key: bytes, inner: int) -> bytes:
    """The key for a group that is read from this place on."""
    if paged.filter is None:
        return inner.to_bytes(PLACE_BYTES, "big")
    return encode(msgspec.structs.replace(_filter(paged, key), **{paged.asked: inner}))


def _filter(paged: Paged, key: bytes) -> Any:
    return msgspec.msgpack.decode(key, type=paged.filter) if key else paged.filter()


def is_last(paged: Paged, value: Any) -> bool:
    """Whether a group has no more than this page, or nothing at all on it."""
    return not value[paged.rows or paged.told]


def with_place(paged: Paged, value: Any, number: int, count: int) -> Any:
    """The page of a group, with the place at which the next one begins."""
    if not is_last(paged, value):
        return {**value, paged.told: (number << PLACE_BITS) + value[paged.told]}
    number += 1
    return {**value, paged.told: number << PLACE_BITS if number < count else 0}


def _add(one: Sample, other: Sample) -> Sample:
    counts = tuple(map(sum, zip(one.counts, other.counts, strict=False)))
    return Sample(one.labels, one.value + other.value, counts)


def _sum(maps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    every = dict(maps[0])
    for one in maps[1:]:
        for name, value in one.items():
            if isinstance(value, bool):
                every[name] = every.get(name, False) or value
            elif isinstance(value, int):
                every[name] = every.get(name, 0) + value
    return every
