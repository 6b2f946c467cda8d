"""Rules for the bounds of fields, and the checks compiled from them.

Every field of a struct has a rule: in the type of the field (`bounds_of`), or, for structs that
other packages own, in a table (`bounds`). `compile_bounds` makes one function from the rules of a
struct, sorted by kind in advance, because it runs for every message.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, get_args, get_type_hints

import msgspec

from rollq.base.digests import DIGEST_BYTES
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import GUID_BYTES, NIL_ID

INT64_MAX: Final = 2**63 - 1
HEAD_BYTES: Final = 5  # of a msgpack array, text or byte string
NUMBER_BYTES: Final = 9  # of a msgpack number
CHARS_SHOWN: Final = 40  # of a value that is refused, in the error


class OutOfBoundsError(RemoteError):
    """A message is well formed, but a field is out of its bounds.

    Attributes:
        request_id: The request id of the message; nil: no answer is expected.
        is_job: It submits one job, whose answer may be a result.
    """

    def __init__(self, code: ErrorCode, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.request_id = NIL_ID
        self.is_job = False


class Int(NamedTuple):
    """A number, both ends included."""

    low: int
    high: int


class Measured(NamedTuple):
    """A measured number, clamped to its bounds: the result that comes with it is worth more than
    the number."""

    low: int
    high: int


class Bytes(NamedTuple):
    """So many bytes."""

    high: int
    low: int = 0


class Text(NamedTuple):
    """So many bytes as UTF-8."""

    high: int
    low: int = 0


class Many(NamedTuple):
    """A bounded number of items; each has a rule."""

    high: int
    each: Rule
    low: int = 0


class Amount(NamedTuple):
    """A pair of a bounded name and a number; within `Many` only."""

    name_high: int
    low: int
    high: int


class Struct(NamedTuple):
    """A struct with bounds of its own; with `optional`, or None."""

    kind: type[msgspec.Struct]
    optional: bool = False


class Name(NamedTuple):
    """An id of 16 bytes, not all 0. A violation ends the connection, because it cannot be answered
    without an id."""

    low: int = GUID_BYTES
    high: int = GUID_BYTES


class Free(NamedTuple):
    """No check: a flag, or an id or digest, whose length the decoder has checked."""


Rule: TypeAlias = Int | Measured | Bytes | Text | Many | Amount | Struct | Name | Free
RULES: Final = (Int, Measured, Bytes, Text, Many, Amount, Struct, Name, Free)
Bounds: TypeAlias = Mapping[str, Rule]  # of all fields of a struct, in their order
Check: TypeAlias = Callable[[Any], Any]  # returns the message; raises if it is out of bounds


def bounds(**rules: Rule) -> Bounds:
    """The rules of a struct's fields, all of them and in their order."""
    return rules


def bounds_of(kind: type[msgspec.Struct]) -> Bounds:
    """The rules that are written in the types of a struct's fields.

    Raises:
        AssertionError: a field has no bounds.
    """
    hints = get_type_hints(kind, include_extras=True)
    return {name: _rule_in(kind, name, hints[name]) for name in kind.__struct_fields__}


def _rule_in(kind: type[msgspec.Struct], name: str, hint: Any) -> Rule:
    said = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, RULES)]
    if said:
        rule: Rule = said[-1]
        return rule
    if hint is bool:
        return Free()
    structs = [one for one in (hint, *get_args(hint)) if _is_struct(one)]
    if structs:
        return Struct(structs[0], optional=hint is not structs[0])
    raise AssertionError(f"{kind.__name__}.{name} has no bounds: {hint}")


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def bytes_max(kind: type[msgspec.Struct], table: Mapping[type[msgspec.Struct], Bounds]) -> int:
    """How many bytes a struct within its bounds may have as msgpack; `table` has all structs."""
    return HEAD_BYTES + sum(_rule_bytes_max(rule, table) for rule in table[kind].values())


def _rule_bytes_max(rule: Rule, table: Mapping[type[msgspec.Struct], Bounds]) -> int:
    if isinstance(rule, Int | Measured):
        return NUMBER_BYTES
    if isinstance(rule, Struct):
        return bytes_max(rule.kind, table)
    if isinstance(rule, Amount):
        return 2 * HEAD_BYTES + rule.name_high + NUMBER_BYTES
    if isinstance(rule, Many):
        return HEAD_BYTES + rule.high * _rule_bytes_max(rule.each, table)
    return HEAD_BYTES + (DIGEST_BYTES if isinstance(rule, Free) else rule.high)


def compile_table(
    table: Mapping[type[msgspec.Struct], Bounds], codes: Mapping[type[msgspec.Struct], ErrorCode]
) -> dict[type[msgspec.Struct], Check]:
    """The checks of all structs. `codes` are those of the errors, where it is not BAD_PAYLOAD."""
    checks: dict[type[msgspec.Struct], Check] = {}
    for kind, rules in table.items():
        checks[kind] = compile_bounds(kind, rules, checks, codes.get(kind, ErrorCode.BAD_PAYLOAD))
    return checks


def compile_bounds(
    kind: type[msgspec.Struct],
    rules: Bounds,
    checks: Mapping[type[msgspec.Struct], Check],
    code: ErrorCode = ErrorCode.BAD_PAYLOAD,
) -> Check:
    """The check of one struct. Structs within it have theirs in `checks`, when it runs."""
    if tuple(rules) != kind.__struct_fields__:
        fields = ", ".join(kind.__struct_fields__)
        raise AssertionError(f"{kind.__name__} has bounds of {', '.join(rules)}, fields {fields}")
    measured = {name: rule for name, rule in rules.items() if isinstance(rule, Measured)}
    numbers = [(name, *rule) for name, rule in rules.items() if isinstance(rule, Int | Measured)]
    sizes = [
        # A character has at most four bytes, so a short text need not be encoded to be measured.
        (name, rule.low, rule.high // 4 if isinstance(rule, Text) else rule.high)
        for name, rule in rules.items()
        if isinstance(rule, Bytes | Text | Many | Name)
    ]
    names = [name for name, rule in rules.items() if isinstance(rule, Name)]
    insides = [
        (name, inside)
        for name, rule in rules.items()
        if (inside := _inside(kind, name, rule, checks=checks, code=code)) is not None
    ]

    def check(message: Any) -> Any:
        for name, low, high in numbers:
            if not low <= getattr(message, name) <= high:
                if name not in measured:
                    _refuse(kind, name, rules[name], code=code, value=getattr(message, name))
                message = _clamp(message, measured)
        for name, low, high in sizes:
            if not low <= len(getattr(message, name)) <= high:
                _check_size(kind, name, rules[name], code=code, value=getattr(message, name))
        for name in names:
            if getattr(message, name) == NIL_ID:
                _refuse(kind, name, rules[name], code=code, value=NIL_ID)
        for name, inside in insides:
            if value := getattr(message, name):
                checked = inside(value)
                if checked is not value:
                    message = msgspec.structs.replace(message, **{name: checked})
        return message

    return check


def compile_columns(rules: Bounds) -> Callable[[Sequence[msgspec.Struct]], bool]:
    """Whether some structs of a kind, not none, are all within their bounds. It looks at one field
    of all of them after the other, which costs half as much; where a struct has parts that need a
    look of their own it says no, and the check of the kind has the last word."""
    places = list(enumerate(rules.values()))
    numbers = [(at, *rule) for at, rule in places if isinstance(rule, Int | Measured)]
    sizes = [
        # A character has at most four bytes: a longer text needs a look of its own.
        (at, rule.low, rule.high // 4 if isinstance(rule, Text) else rule.high)
        for at, rule in places
        if isinstance(rule, Bytes | Text)
    ]
    names = [at for at, rule in places if isinstance(rule, Name)]
    parts = [at for at, rule in places if isinstance(rule, Many | Struct)]

    def are_within(values: Sequence[msgspec.Struct]) -> bool:
        columns = list(zip(*map(msgspec.structs.astuple, values), strict=True))
        for at, low, high in numbers:
            column = columns[at]
            if min(column) < low or max(column) > high:
                return False
        for at, low, high in sizes:
            lengths = list(map(len, columns[at]))
            if min(lengths) < low or max(lengths) > high:
                return False
        return not any(NIL_ID in columns[at] for at in names) and not any(
            any(columns[at]) for at in parts
        )

    return are_within


def _check_size(
    kind: type[msgspec.Struct], name: str, rule: Rule, code: ErrorCode, value: Any
) -> None:
    if not isinstance(rule, Text) or not rule.low <= len(value.encode()) <= rule.high:
        _refuse(kind, name, rule, code=code, value=value)


def _inside(
    kind: type[msgspec.Struct],
    name: str,
    rule: Rule,
    checks: Mapping[type[msgspec.Struct], Check],
    code: ErrorCode,
) -> Check | None:
    """The check of what a value holds; None if there is nothing to look at. It returns the value,
    or one with measured numbers cut to their bounds."""
    if isinstance(rule, Struct):
        return partial(_check_struct, checks, rule.kind)
    if not isinstance(rule, Many) or isinstance(rule.each, Free):
        return None
    each = rule.each
    if isinstance(each, Struct):
        return partial(_check_structs, checks, each.kind)
    if isinstance(each, Amount):
        return partial(_check_amounts, kind, name, each, code)
    deeper = _inside(kind, name, each, checks=checks, code=code)
    measure = _size if isinstance(each, Text) else len

    def check_items(values: Any) -> Any:
        if not values:
            return values
        sizes = values if isinstance(each, Int) else list(map(measure, values))
        if min(sizes) < each.low or max(sizes) > each.high:
            for value, size in zip(values, sizes, strict=True):
                if not each.low <= size <= each.high:
                    _refuse(kind, name, each, code=code, value=value)
        return values if deeper is None else _each(deeper, values)

    return check_items


def _check_struct(
    checks: Mapping[type[msgspec.Struct], Check], kind: type[msgspec.Struct], value: Any
) -> Any:
    return checks[kind](value)


def _check_structs(
    checks: Mapping[type[msgspec.Struct], Check], kind: type[msgspec.Struct], values: Any
) -> Any:
    return _each(checks[kind], values)


def _check_amounts(
    kind: type[msgspec.Struct], name: str, rule: Amount, code: ErrorCode, values: Any
) -> Any:
    for said, number in values:
        if _size(said) > rule.name_high:
            _refuse(kind, name, Text(rule.name_high), code=code, value=said)
        if not rule.low <= number <= rule.high:
            _refuse(kind, name, Int(rule.low, rule.high), code=code, value=number)
    return values


def _each(check: Check, values: Any) -> Any:
    """The same values, unless a check cut one of them to its bounds."""
    checked = tuple(map(check, values))
    return values if all(map(operator.is_, checked, values)) else checked


def _size(value: str) -> int:
    return len(value.encode())


def _refuse(
    kind: type[msgspec.Struct], name: str, rule: Rule, code: ErrorCode, value: Any
) -> NoReturn:
    if isinstance(rule, Name):
        raise RemoteError(
            ErrorCode.BAD_ID,
            f"{kind.__name__}.{name}: {value[:GUID_BYTES].hex()!r} names nothing",
            "send a new Guid",
        )
    raise OutOfBoundsError(code, f"{kind.__name__}.{name} {_said(value)}", _wanted(rule))


def _said(value: Any) -> str:
    if isinstance(value, int):
        return f"is {str(value)[:CHARS_SHOWN]}"
    if isinstance(value, str):
        return f"has {len(value.encode())} bytes"
    return f"has {len(value)} {'bytes' if isinstance(value, bytes) else 'items'}"


def _wanted(rule: Rule) -> str:
    assert not isinstance(rule, Struct | Amount | Free), "these refuse nothing themselves"
    unit = "" if isinstance(rule, Int) else " items" if isinstance(rule, Many) else " bytes"
    return f"send {rule.low} to {rule.high}{unit}"


def _clamp(message: Any, rules: Mapping[str, Measured]) -> Any:
    changed = {
        name: min(max(getattr(message, name), low), high) for name, (low, high) in rules.items()
    }
    return msgspec.structs.replace(message, **changed)
