"""Types of the standard library that msgpack does not support."""

from __future__ import annotations

import functools
import ipaddress
import pathlib
import zoneinfo
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

from rollq.values.codec import (
    FAMILIES,
    INNER_READERS,
    CannotTravelError,
    FileInput,
    Packer,
    Tag,
    Writer,
    tell_by,
)

IPS: Final[dict[str, Any]] = {
    one.__name__: one
    for one in (
        *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network),
        *(ipaddress.IPv6Network, ipaddress.IPv4Interface, ipaddress.IPv6Interface),
    )
}
PATHS: Final[dict[str, Any]] = {
    one.__name__: one for one in (pathlib.PurePosixPath, pathlib.PureWindowsPath)
}


def _zone_form(zone: tzinfo | None) -> Any:
    """A time zone: by its key, or its distance from UTC in microseconds."""
    if zone is None:
        return None
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key:
        return zone.key
    if type(zone) is timezone:
        return zone.utcoffset(None) // timedelta(microseconds=1)
    raise CannotTravelError(type(zone), "use a zone of zoneinfo, or datetime.timezone")


def _zone_of(form: Any) -> tzinfo | None:
    if form is None:
        return None
    if isinstance(form, str):
        try:
            return zoneinfo.ZoneInfo(form)
        except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
            raise ValueError(f"no time zone {form[:64]!r} is known here: {error}") from None
    return timezone(timedelta(microseconds=form)) if form else UTC


def _datetime_of(form: Any) -> datetime:
    text, zone, fold = form
    return datetime.fromisoformat(text).replace(tzinfo=_zone_of(zone), fold=fold)


def _time_of(form: Any) -> time:
    text, zone, fold = form
    return time.fromisoformat(text).replace(tzinfo=_zone_of(zone), fold=fold)


def _moment_form(value: datetime | time) -> tuple[str, Any, int]:
    return value.replace(tzinfo=None, fold=0).isoformat(), _zone_form(value.tzinfo), value.fold


def _dict_of(form: list[Any]) -> dict[Any, Any]:
    return dict(zip(form[::2], form[1::2], strict=True))


def _named_text(value: Any) -> list[str]:
    return [type(value).__name__, str(value)]


def _of_named(kinds: Mapping[str, Callable[[str], Any]], form: list[str]) -> Any:
    name, text = form
    return kinds[name](text)


tell_by(tuple, Tag.TUPLE, list, tuple)
tell_by(set, Tag.SET, list, set)
tell_by(frozenset, Tag.FROZENSET, list, frozenset)
tell_by(bytearray, Tag.BYTEARRAY, bytes, bytearray)
tell_by(complex, Tag.COMPLEX, lambda z: [z.real, z.imag], lambda form: complex(*form))
tell_by(datetime, Tag.DATETIME, lambda t: list(_moment_form(t)), _datetime_of)
tell_by(time, Tag.TIME, lambda t: list(_moment_form(t)), _time_of)
tell_by(date, Tag.DATE, date.isoformat, date.fromisoformat)
tell_by(
    timedelta,
    Tag.TIMEDELTA,
    lambda d: [d.days, d.seconds, d.microseconds],
    lambda form: timedelta(*form),
)
tell_by(Decimal, Tag.DECIMAL, str, Decimal)
tell_by(UUID, Tag.UUID, lambda one: one.bytes, lambda form: UUID(bytes=form))
tell_by(
    Fraction,
    Tag.FRACTION,
    lambda one: [one.numerator, one.denominator],
    lambda form: Fraction(*form),
)
tell_by(range, Tag.RANGE, lambda r: [r.start, r.stop, r.step], lambda form: range(*form))
tell_by(slice, Tag.SLICE, lambda s: [s.start, s.stop, s.step], lambda form: slice(*form))
tell_by(
    OrderedDict,
    Tag.ORDERED_DICT,
    lambda given: [one for pair in given.items() for one in pair],
    lambda form: OrderedDict(_dict_of(form)),
)
tell_by(deque, Tag.DEQUE, lambda d: [list(d), d.maxlen], lambda form: deque(*form))
tell_by(timezone, Tag.ZONE, _zone_form, _zone_of)
tell_by(zoneinfo.ZoneInfo, Tag.ZONE, _zone_form, _zone_of)
for _names, _tag in ((IPS, Tag.IP), (PATHS, Tag.PURE_PATH)):
    for _kind in _names.values():
        tell_by(_kind, _tag, _named_text, functools.partial(_of_named, _names))
INNER_READERS[Tag.DICT] = _dict_of


def _path_writer(kind: type) -> Writer | None:
    """A path: the file is sent with the call."""
    return _write_path if issubclass(kind, pathlib.Path) else None


def _write_path(packer: Packer, path: pathlib.Path) -> Any:
    return packer.file(FileInput(path.name or path.resolve().name, path))


FAMILIES.append(_path_writer)
