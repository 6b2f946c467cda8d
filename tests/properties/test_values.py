"""Every kind of value comes back as what it was, alone, in containers and beside others."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import math
import pathlib
import uuid
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.values.codec import pack, unpack
from tests.effort import examples


class Colour(enum.Enum):
    RED = "red"
    BLUE = (0, 0, 255)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


@dataclass
class Order:
    item: str
    counts: tuple[int, ...] = ()
    inner: Order | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    at: dt.datetime
    tags: set[str] = field(default_factory=set)


class Pair(NamedTuple):
    left: Any
    right: Any


class Row(msgspec.Struct, frozen=True):
    name: str
    values: Any = ()


class OddError(Exception):
    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(text)
        self.code = code


def in_zone(at: Any, zone: dt.tzinfo) -> Any:
    return at.replace(tzinfo=zone)


ZONES = [zoneinfo.ZoneInfo(name) for name in ("Asia/Tokyo", "Australia/Lord_Howe", "UTC")]
texts = st.text()
small = st.integers(-3, 3)
moments = st.datetimes(timezones=st.sampled_from([None, dt.UTC, *ZONES]))
offsets = st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).map(dt.timezone)

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "none": st.none(),
    "bool": st.booleans(),
    "small int": small,
    "int of 64 bits": st.integers(-(2**63), 2**64 - 1),
    "int beyond": st.integers(-(2**200), -(2**63) - 1) | st.integers(2**64, 2**200),
    "float": st.floats(allow_nan=False),
    "infinity": st.sampled_from([math.inf, -math.inf, -0.0]),
    "complex": st.complex_numbers(allow_nan=False),
    "text": texts,
    "ascii": st.text(st.characters(max_codepoint=127)),
    "bytes": st.binary(),
    "date": st.dates(),
    "naive datetime": st.datetimes(),
    "datetime of a zone": moments,
    "datetime of an offset": st.builds(
        lambda at, zone: at.replace(tzinfo=zone), st.datetimes(), offsets
    ),
    "second of two": st.builds(lambda at: at.replace(fold=1), moments),
    "naive time": st.times(),
    "time of an offset": st.builds(in_zone, st.times(), offsets),
    "timedelta": st.timedeltas(),
    "timezone": offsets,
    "zone": st.sampled_from(ZONES),
    "decimal": st.decimals(allow_nan=False),
    "fraction": st.fractions(),
    "uuid": st.uuids(),
    "range": st.builds(range, small, small, st.sampled_from([1, 2, -1])),
    "pure path": texts.map(lambda text: pathlib.PurePosixPath(text.replace("\0", ""))),
    "windows path": st.just(pathlib.PureWindowsPath("c:/a/b")),
    "ip 4": st.ip_addresses(v=4),
    "ip 6": st.ip_addresses(v=6),
    "network": st.just(ipaddress.ip_network("10.0.0.0/8")),
    "enum": st.sampled_from(Colour),
    "int enum": st.sampled_from(Level),
    "str enum": st.sampled_from(Word),
    "flag": st.sampled_from([Right.READ, Right.READ | Right.WRITE, Right(0)]),
    "int flag": st.sampled_from([Bits.ONE, Bits.ONE | Bits.TWO]),
    "numpy scalar": st.sampled_from([np.float64(1.5), np.int32(3), np.bool_(True), np.str_("é")]),
    "numpy date": st.sampled_from([np.datetime64("2024-02-29"), np.timedelta64(3, "s")]),
}
keys = st.one_of(*(SCALARS[name] for name in ("none", "small int", "text", "uuid", "enum", "date")))
CONTAINERS: dict[str, Callable[[Any], st.SearchStrategy[Any]]] = {
    "list": st.lists,
    "tuple": lambda inner: st.lists(inner).map(tuple),
    "dict": lambda inner: st.dictionaries(texts, inner),
    "dict of other keys": lambda inner: st.dictionaries(keys, inner),
    "dict of tuples": lambda inner: st.dictionaries(st.tuples(keys, keys), inner),
    "set": lambda inner: st.sets(keys),
    "frozenset": lambda inner: st.frozensets(keys),
    "set of frozensets": lambda inner: st.sets(st.frozensets(keys)),
    "ordered dict": lambda inner: st.dictionaries(keys, inner).map(collections.OrderedDict),
    "deque": lambda inner: st.lists(inner).map(lambda them: collections.deque(them, 9)),
    "dataclass": lambda inner: st.builds(Order, texts, st.tuples(small), st.builds(Order, texts)),
    "frozen dataclass": lambda inner: st.builds(Frozen, at=moments, tags=st.sets(texts)),
    "named tuple": lambda inner: st.builds(Pair, inner, inner),
    "struct": lambda inner: st.builds(Row, texts, inner),
    "bytearray": lambda inner: st.binary().map(bytearray),
    "slice": lambda inner: st.builds(slice, small, small),
}
values = st.recursive(
    st.one_of(*SCALARS.values()),
    lambda inner: st.one_of(*(make(inner) for make in CONTAINERS.values())),
    max_leaves=8,
)
same_array = np.testing.assert_array_equal
table = pa.table({"n": [1, None, 3], "text": ["a", "é", None]})
frame = pd.DataFrame(
    {"n": [1, 2], "when": pd.to_datetime(["2024-01-01", None]), "kind": pd.Categorical(["a", "b"])},
    index=pd.Index(["x", "y"], name="key"),
)
TABLES: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "array": (np.arange(12.0).reshape(3, 4), same_array),
    "large array": (np.arange(50_000), same_array),
    "array by columns": (
        np.asfortranarray(np.arange(20_000).reshape(4, -1)),
        same_array,
    ),
    "part of an array": (np.arange(24).reshape(2, 3, 4)[:, ::2], same_array),
    "empty array": (np.zeros((0, 3), "f4"), same_array),
    "array of no dimension": (np.array(7), same_array),
    "array of records": (
        np.zeros(3, [("a", "i4"), ("b", "f8", (2,))]),
        same_array,
    ),
    "array of dates": (np.array(["2024-02-29"], "M8[D]"), same_array),
    "array of text": (np.array(["a", "é"]), same_array),
    "table": (table, lambda a, b: a.equals(b)),
    "record batch": (table.to_batches()[0], lambda a, b: a.equals(b)),
    "empty record batch": (table.to_batches()[0][:0], lambda a, b: a.equals(b)),
    "arrow array": (pa.array([1, None]), lambda a, b: a.equals(b)),
    "chunks": (pa.chunked_array([[1], [2, 3]]), lambda a, b: a.equals(b)),
    "pandas frame": (frame, pd.testing.assert_frame_equal),
    "pandas series": (frame["n"], pd.testing.assert_series_equal),
    "polars frame": (pl.DataFrame({"a": [1, None], "b": ["x", "y"]}), lambda a, b: a.equals(b)),
    "polars series": (pl.Series("s", [1.5, None]), lambda a, b: a.equals(b)),
}


def round_trip(value: Any) -> Any:
    return unpack(b"".join(pack(value)))


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(map(type, left)) == list(map(type, right)) and all(
            same(a, b) for a, b in zip(left.items(), right.items(), strict=True)
        )
    if isinstance(left, list | tuple | collections.deque):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dt.datetime | dt.time):
        told = (left.replace(tzinfo=None), left.tzinfo, left.fold)
        return told == (right.replace(tzinfo=None), right.tzinfo, right.fold)
    return bool(left == right)


def test_there_are_sixty_kinds() -> None:
    assert len(SCALARS) + len(CONTAINERS) + len(TABLES) >= 60


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_comes_back(name: str) -> None:
    @settings(max_examples=examples(20))
    @given(SCALARS[name])
    def check(value: Any) -> None:
        assert same(round_trip(value), value)

    check()


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_comes_back(name: str) -> None:
    @settings(max_examples=examples(20))
    @given(CONTAINERS[name](st.one_of(*SCALARS.values())))
    def check(value: Any) -> None:
        assert same(round_trip(value), value)

    check()


@given(values)
def test_whatever_is_in_whatever_comes_back(value: Any) -> None:
    assert same(round_trip(value), value)


@pytest.mark.parametrize("name", TABLES)
def test_an_array_or_a_table_comes_back(name: str) -> None:
    value, equal = TABLES[name]
    for made in (round_trip(value), round_trip({"in": [value]})["in"][0]):
        assert type(made) is type(value)
        assert equal(made, value) in (True, None)  # False if they say so, else they raise
        if isinstance(value, np.ndarray):
            assert made.dtype == value.dtype
            assert made.flags.writeable
            assert made.flags.f_contiguous == value.flags.f_contiguous or not value.size


@pytest.mark.parametrize("size", [0, 1, 2**14 - 1, 2**14, 2**17])
def test_bytes_of_any_length_come_back(size: int) -> None:
    value = [bytes(size), bytearray(size), "x" * size]
    assert same(round_trip(value), value)


@given(st.binary(max_size=64), st.data())
def test_damaged_bytes_are_an_error_and_nothing_else(junk: bytes, data: st.DataObject) -> None:
    whole = b"".join(pack([Order("x", (1,)), Colour.RED, {1: 2}, np.arange(3)]))
    at = data.draw(st.integers(0, len(whole)))
    for damaged in (junk, whole[:at], whole[:at] + junk + whole[at:]):
        try:
            unpack(damaged)
        except ValueError:
            continue


def test_an_exception_comes_back_with_what_it_has() -> None:
    error = round_trip(OddError("late", code=7))
    assert (type(error), error.args, error.code) == (OddError, ("late",), 7)
    with pytest.raises(FileNotFoundError) as missing:
        pathlib.Path("nowhere at all").read_bytes()
    again = round_trip(missing.value)
    assert type(again) is FileNotFoundError
    assert (again.errno, again.filename) == (missing.value.errno, "nowhere at all")
    with pytest.raises(UnicodeDecodeError) as garbled:
        b"\xff".decode()
    assert str(round_trip(garbled.value)) == str(garbled.value)
    group = round_trip(ExceptionGroup("two", [ValueError(1), OddError("x", code=2)]))
    assert [type(one) for one in group.exceptions] == [ValueError, OddError]


def test_numbers_that_are_not_equal_to_themselves_come_back() -> None:
    assert math.isnan(round_trip(math.nan))
    assert round_trip(decimal.Decimal("NaN")).is_nan()
    assert round_trip(fractions.Fraction(1, 3)) == fractions.Fraction(1, 3)
    assert round_trip(uuid.UUID(int=5)).int == 5
