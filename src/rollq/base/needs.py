"""Needs of jobs and offers of workers: their text form, validation and matching. Pure.

An amount is a whole number of thousandths: 1.5 CPUs are 1500, and 2G of memory are 1000 times its
bytes. A worker has labels, `gpu` or `zone=a`; a job requires `gpu` (there, with any value), `!gpu`
(not there), `zone=a` or `zone!=a`. Tuples are sorted, so that the same needs are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

from rollq.base.amounts import SIZES
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.need_limits import (
    AMOUNT_MAX,
    LABEL_VALUE_BYTES_MAX,
    LABELS_MAX,
    LIMITS_PER_JOB_MAX,
    NEED_NAME_BYTES_MAX,
    RATE_MAX,
    RESOURCES_MAX,
    TOKENS_MAX,
)

Said = TypeVar("Said")
Amounts: TypeAlias = tuple[tuple[str, int], ...]  # by name


class WorkerLoad(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The measured load of a worker's host. Used to compare candidates only. On the wire: fields
    may be appended."""

    cpu_permille: int  # in use, of all CPUs
    memory_used_bytes: int
    memory_total_bytes: int
    cache_bytes: int  # size of the blobs that it holds
    disk_free_bytes: int  # free space of its blob store


CPU: Final = "cpu"
MEMORY: Final = "memory"
PLACEMENTS: Final = ("least-load", "round-robin", "sticky", "locality", "score")
# What `score` may weigh: free credit, what runs, CPU and memory in use, bytes of inputs held.
SCORES: Final = ("credit", "running", "cpu", "memory", "held")
SCOPES: Final = ("exec", "queue", "client", "key")  # of limits

_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_./-]{{0,{NEED_NAME_BYTES_MAX - 1}}}")
_VALUE: Final = re.compile(rf"[A-Za-z0-9_./:-]{{1,{LABEL_VALUE_BYTES_MAX}}}")
_NAME_RULE: Final = (
    f"a name has up to {NEED_NAME_BYTES_MAX} of a-z, A-Z, 0-9 and _ . / -, and none of . / - first"
)
_LABEL_RULE: Final = f"{_NAME_RULE}; its value up to {LABEL_VALUE_BYTES_MAX} of these and :"
_AMOUNT: Final = re.compile(r"(\d{1,16})(?:\.(\d{1,3}))?([KMGT]?)")
_RATE: Final = re.compile(r"(\d{1,9})(?:\.(\d{1,3}))?(?:/(s|min|h|d))?")
_RATE_UNITS: Final = {"s": 86_400, "min": 1_440, "h": 24, "d": 1}  # in a day


def amount_of(name: str, said: str | float) -> int:
    """The thousandths of a text such as 1.5, or 2G of memory.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    found = None if isinstance(said, bool) else _AMOUNT.fullmatch(str(said).removesuffix(".0"))
    if found is None or (found[3] and name != MEMORY):
        hint = (
            "write bytes, or 512M, 1.5G" if name == MEMORY else "write 2, 0.5, up to three places"
        )
        raise _bad(f"{said!r} is not an amount of {name}", hint)
    whole, places, unit = found.groups()
    return (int(whole) * 1_000 + int((places or "").ljust(3, "0"))) * SIZES[unit]


def amount_text(name: str, amount: int) -> str:
    """The inverse of `amount_of`: memory in the largest unit that needs no places."""
    if name != MEMORY or amount % 1_000:
        whole, places = divmod(amount, 1_000)
        return f"{whole}.{places:03}".rstrip("0").rstrip(".")
    count = amount // 1_000
    unit = next(unit for unit in ("T", "G", "M", "K", "") if count % SIZES[unit] == 0)
    return f"{count // SIZES[unit]}{unit}" if count else "0"


def resources_of(said: Mapping[str, str | float]) -> Amounts:
    """Resources as they are stored, from what somebody wrote.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    amounts = tuple(sorted((name, amount_of(name, amount)) for name, amount in said.items()))
    return _good(amounts, why_bad_resources(amounts), "give amounts: cpu=0.5, memory=2G, gpu=1")


def resource_texts(resources: Amounts) -> dict[str, str]:
    """The inverse of `resources_of`."""
    return {name: amount_text(name, amount) for name, amount in resources}


def why_bad_resources(resources: Amounts) -> str:
    """Why these resources of a job or worker are not valid; empty: they are."""
    if len(resources) > RESOURCES_MAX:
        return f"more than {RESOURCES_MAX} resources"
    for name, amount in resources:
        if not is_name(name):
            return f"no resource can be called {name[:64]!r}: {_NAME_RULE}"
        if not 0 < amount <= AMOUNT_MAX:
            most = amount_text(name, AMOUNT_MAX)
            return f"{name} is {amount_text(name, amount)}, and must be above 0 and at most {most}"
    return _why_twice("resource", resources)


def requirements_of(said: Iterable[str]) -> tuple[str, ...]:
    """Labels that a job requires, as they are stored.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    required = tuple(sorted({*said}))
    return _good(required, why_bad_requirements(required), "write zone=a, zone!=a, ssd or !spot")


def why_bad_requirements(required: tuple[str, ...]) -> str:
    """Why these label requirements are not valid; empty: they are."""
    plain = (
        one.removeprefix("!") if "=" not in one else one.replace("!=", "=", 1) for one in required
    )
    return why_bad_labels(tuple(plain))


def labels_of(said: Iterable[str]) -> tuple[str, ...]:
    """Labels of a worker, as they are stored.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    labels = tuple(sorted({*said}))
    return _good(labels, why_bad_labels(labels), "write zone=a, or ssd alone")


def why_bad_labels(labels: tuple[str, ...]) -> str:
    """Why these labels of a worker are not valid; empty: they are."""
    if len(labels) > LABELS_MAX:
        return f"more than {LABELS_MAX} labels"
    for label in labels:
        name, equals, value = label.partition("=")
        if not is_name(name) or (equals and not _VALUE.fullmatch(value)):
            return f"no label can be {label[:64]!r}: {_LABEL_RULE}"
    return ""


def labels_match(required: Iterable[str], labels: Iterable[str]) -> bool:
    """Whether a worker with these labels has all required ones, and none of the excluded ones."""
    has = {*labels}
    names = {label.partition("=")[0] for label in has}
    return all(_fits(one, has, names) for one in required)


def _fits(required: str, has: set[str], names: set[str]) -> bool:
    if "!=" in required:
        return required.replace("!=", "=", 1) not in has
    if "=" in required:
        return required in has
    return required[1:] not in names if required.startswith("!") else required in names


def tokens_of(said: Iterable[str | tuple[str, int]]) -> Amounts:
    """The tokens that a job holds while it runs, from `matlab`, `db=2` or ("db", 2).

    Raises:
        LocalError: BAD_OPTIONS.
    """
    named = [_named(one) if isinstance(one, str) else (one[0], one[1]) for one in said]
    tokens = tuple(sorted(named))
    return _good(tokens, why_bad_tokens(tokens), "write matlab, or db=2 for two of its tokens")


def token_texts(tokens: Amounts) -> list[str]:
    """The inverse of `tokens_of`."""
    return [name if count == 1 else f"{name}={count}" for name, count in tokens]


def why_bad_tokens(tokens: Amounts) -> str:
    """Why these tokens are not valid; empty: they are."""
    if len(tokens) > LIMITS_PER_JOB_MAX:
        return f"more than {LIMITS_PER_JOB_MAX} limits"
    for name, count in tokens:
        if not is_name(name):
            return f"no limit can be called {name[:64]!r}: {_NAME_RULE}"
        if not 0 < count <= TOKENS_MAX:
            return f"a job holds 1 to {TOKENS_MAX} tokens of a limit, not {count} of {name}"
    return _why_twice("limit", tokens)


def is_name(name: str) -> bool:
    """Whether a resource, a label or a key of a limit can have this name."""
    return _NAME.fullmatch(name) is not None


def rate_of(said: str) -> int:
    """Starts a day, from `3`, `3/s`, `90/min`, `0.5/s` or `10/h`, rounded down: it is never more
    than was said.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    found = _RATE.fullmatch(said)
    if found is None:
        raise _bad(f"{said!r} is not a rate", "write 3/s, 90/min, 10/h or 5/d")
    whole, places, unit = found.groups()
    thousandths = int(whole) * 1_000 + int((places or "").ljust(3, "0"))
    rate = thousandths * _RATE_UNITS[unit or "s"] // 1_000
    if not 0 < rate <= RATE_MAX:
        most = f"{RATE_MAX // _RATE_UNITS['s']}/s"
        raise _bad(f"{said!r} is not a rate that can be kept", f"use 1/d to {most}")
    return rate


def rate_text(rate: int) -> str:
    """A rate for people: in the shortest unit of time in which it is one or more."""
    unit, in_a_day = next(row for row in _RATE_UNITS.items() if rate >= row[1])
    return f"{rate / in_a_day:.3f}".rstrip("0").rstrip(".") + f"/{unit}"


def _named(said: str) -> tuple[str, int]:
    name, equals, count = said.partition("=")
    if equals and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise _bad(f"{said!r} is not a limit", "write matlab, or db=2 for two of its tokens")
    return name, int(count) if equals else 1


def _why_twice(what: str, amounts: Amounts) -> str:
    names = [name for name, _ in amounts]
    twice = next((name for name in names if names.count(name) > 1), None)
    return "" if twice is None else f"{what} {twice} is named twice"


def _good(value: Said, why: str, hint: str) -> Said:
    if why:
        raise _bad(why, hint)
    return value


def _bad(what: str, hint: str) -> LocalError:
    return LocalError(ErrorCode.BAD_OPTIONS, what, hint)
