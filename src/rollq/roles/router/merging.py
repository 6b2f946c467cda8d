"""Merges the answers of several groups to one view query. Pure.

Views are maps, merged by the names of their fields and not interpreted further. Lists that are
paged by a name or an id are merged in that order. Lists that are paged by a position in one group's
log are read group by group: the position that the client gets encodes the group to continue with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from rollq.base.counters import Family, Sample
from rollq.base.errors import ErrorCode
from rollq.grid.matching import JobFilter
from rollq.grid.pages import IdFilter

POSITION_BYTES: Final = 8
GROUP_SHIFT_BITS: Final = 48  # of a position in one group; the index of the group is above them
NO_SUCH_JOB: Final = "no such job"  # the text of the view `explain`

GroupValue: TypeAlias = tuple[str, Any]  # the name of a group, and its decoded answer
Merge: TypeAlias = Callable[[Sequence[GroupValue], int], Any]  # answers, and the limit of rows

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder().decode


class Paged(NamedTuple):
    """How a view that is read group by group is paged.

    Attributes:
        filter: The type of its key; None: the key is the position itself, big-endian.
        key_field: The field of the key that holds the position.
        answer_field: The field of the answer that holds the next position.
        rows: The field of the rows, if `answer_field` is always set; empty on the last page.
    """

    filter: Any
    key_field: str
    answer_field: str
    rows: str = ""


def first_found(answers: Sequence[GroupValue], _: int) -> Any:
    """The first answer that is not empty."""
    values = [value for _, value in answers]
    found = (value for value in values if value is not None and value != NO_SUCH_JOB)
    return next(found, values[0])


def summed(answers: Sequence[GroupValue], _: int) -> Any:
    """Integers are added up and booleans are or-ed; other fields are the first group's."""
    maps = [value for _, value in answers if value is not None]
    return _sum(maps) if maps else None


def sums_by(name: str) -> Merge:
    """Rows with the same key, added up, in the order of the key."""

    def merge(answers: Sequence[GroupValue], limit: int) -> Any:
        rows: dict[Any, list[Mapping[str, Any]]] = {}
        for _, value in answers:
            for row in value:
                rows.setdefault(row[name], []).append(row)
        return [_sum(rows[key]) for key in sorted(rows)[:limit]]

    return merge


def rows_by(name: str) -> Merge:
    """Rows by key; those of the same key are equal."""

    def merge(answers: Sequence[GroupValue], limit: int) -> Any:
        rows = {row[name]: row for _, value in answers for row in value}
        return [rows[key] for key in sorted(rows)[:limit]]

    return merge


def joined(answers: Sequence[GroupValue], limit: int) -> Any:
    """All rows, group after group."""
    return [row for _, value in answers for row in value][:limit]


def families(answers: Sequence[GroupValue], _: int) -> Any:
    """Metrics, added up by name and labels."""
    found: dict[str, tuple[Family, dict[tuple[str, ...], Sample]]] = {}
    for each in answers:
        for family in msgspec.convert(each[1], list[Family]):
            samples = found.setdefault(family.name, (family, {}))[1]
            for sample in family.samples:
                known = samples.get(sample.labels)
                samples[sample.labels] = sample if known is None else _add(known, sample)
    return [
        msgspec.structs.replace(family, samples=list(samples.values()))
        for family, samples in found.values()
    ]


def clusters(answers: Sequence[GroupValue], _: int) -> Any:
    """The members of all groups, with the name of the group before each address."""
    views = [(name, dict(value)) for name, value in answers]
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
    """The alarm for a group whose figures are missing from a merged view."""
    return {
        "code": int(ErrorCode.UNREACHABLE),
        "member_id": 0,
        "text": f"group {name} cannot be reached by the router, and nothing of it is shown",
        "todo": "start its members; `rollq doctor --servers` with one of them says more",
    }


def is_unknown(value: bytes) -> bool:
    """Whether an answer about a job means that the group does not have it."""
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
# Views of one job: the key begins with its id.
ONE_JOB: Final = frozenset({"job", "array", "explain", "explanation", "timeline", "progress"})
# Of these, the views whose empty answer means that there is no such job; `array` also takes jobs.
EMPTY_IF_UNKNOWN: Final = frozenset({"job", "explain", "explanation"})
PAGED: Final[Mapping[str, Paged]] = {
    "jobs": Paged(JobFilter, "after", "after"),
    "ids": Paged(IdFilter, "before", "before"),
    "dead": Paged(None, "", "after", rows="jobs"),
}


def position_in(paged: Paged, key: bytes) -> tuple[int, int]:
    """The index of the group to continue with, and the position in it.

    Raises:
        msgspec.MsgspecError: the key is malformed.
    """
    if paged.filter is None:
        place = int.from_bytes(key, "big")
    else:
        place = getattr(_filter(paged, key), paged.key_field)
    return place >> GROUP_SHIFT_BITS, place & ((1 << GROUP_SHIFT_BITS) - 1)


def key_at(paged: Paged, key: bytes, inner: int) -> bytes:
    """The key for one group, from this position on."""
    if paged.filter is None:
        return inner.to_bytes(POSITION_BYTES, "big")
    return encode(msgspec.structs.replace(_filter(paged, key), **{paged.key_field: inner}))


def _filter(paged: Paged, key: bytes) -> Any:
    return msgspec.msgpack.decode(key, type=paged.filter) if key else paged.filter()


def is_last(paged: Paged, value: Any) -> bool:
    """Whether this is the last page of a group."""
    return not value[paged.rows or paged.answer_field]


def with_position(paged: Paged, value: Any, number: int, *, has_more: bool) -> Any:
    """The page of a group, with the encoded position of the next page. `has_more`: whether a group
    behind it can be read."""
    if not is_last(paged, value):
        return {
            **value,
            paged.answer_field: (number << GROUP_SHIFT_BITS) + value[paged.answer_field],
        }
    after = (number + 1) << GROUP_SHIFT_BITS if has_more else 0
    return {**value, paged.answer_field: after}


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
