"""Every message with every field at its bounds and beyond, as frames, in both dialects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from rollq.base.ids import guid_to_text
from rollq.wire.checks import BOUNDS
from rollq.wire.compact import ENCODE, Message
from rollq.wire.frame import Frame
from rollq.wire.registry import AREA_OF, NUMBER_OF
from rollq.wire.rules import Bytes, Int, Many, Measured, Rule, Struct, Text

NUMBERS = (-(2**63), -1, 0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64)
LONG = 200_000  # longer values are not made: a frame bounds them
NOT_UTF8 = msgspec.Raw(b"\xa4\xed\xa0\x80\xff")
JOB = bytes(range(16))


def compact_frames(sample: Message, group: str = "default") -> Iterator[Frame]:
    """A message with one field after the other out of the ordinary."""
    kind = NUMBER_OF[type(sample)]
    area = AREA_OF.get(kind)
    subject = f"cluster.{group}.{area}" if area else ""
    for wild in _wild_structs(sample):
        try:
            payload = ENCODE(wild)
        except OverflowError:
            continue  # msgpack has no such number
        yield Frame(kind, subject=subject, payload=payload)


def _wild_structs(sample: msgspec.Struct) -> Iterator[list[Any]]:
    fields = list(msgspec.structs.astuple(sample))
    for place, (name, rule) in enumerate(BOUNDS[type(sample)].items()):
        for value in _wild_values(rule, getattr(sample, name)):
            yield [*fields[:place], value, *fields[place + 1 :]]


def _wild_values(rule: Rule, value: Any) -> Iterator[Any]:
    if isinstance(rule, Int | Measured):
        yield from (*NUMBERS, rule.low, rule.low - 1, rule.high, rule.high + 1, "1", None)
    elif isinstance(rule, Bytes):
        yield from (bytes(size) for size in (0, rule.high, rule.high + 1) if size <= LONG)
        yield None
    elif isinstance(rule, Text):
        for size in (0, rule.high, rule.high + 1):
            if size <= LONG:
                yield "x" * size
                yield "\U0001f600" * (size // 4)
        yield from ("\0", "../..", "\u202e", NOT_UTF8, 5)
    elif isinstance(rule, Struct):
        if value is not None:
            yield from _wild_structs(value)
        yield from (None, [], [1])
    elif isinstance(rule, Many):
        yield ()
        if value:
            yield from ((*value[:-1], wild) for wild in _wild_values(rule.each, value[-1]))
            if (rule.high + 1) * len(ENCODE(value[0])) <= 10 * LONG:
                yield value[:1] * (rule.high + 1)
    else:  # an id or a flag
        yield from (b"", bytes(16), b"x" * 17, True, 7)


WILD_JSON: tuple[Any, ...] = (
    -1,
    0,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    10**400,
    1.5,
    True,
    None,
    [],
    {},
    "",
    "x" * LONG,
)


def _wild_json(model: dict[str, Any]) -> Iterator[bytes]:
    for name, value in model.items():
        for wild in (*WILD_JSON, [value], "\ud800", "\0"):
            yield json.dumps(model | {name: wild}).encode()
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for inner, item in value[0].items():
                for wild in (*WILD_JSON, [item]):
                    yield json.dumps(model | {name: [value[0] | {inner: wild}]}).encode()


def legacy_frames(kind: int, subject: str, model: dict[str, Any]) -> Iterator[Frame]:
    """A legacy message with one field of its model after the other out of the ordinary."""
    for payload in _wild_json(model):
        if len(payload) < 4_000_000:
            yield Frame(kind, JOB, JOB, subject, payload)
    for payload in (b"", b"{", b"[]", b"\xff", b"null", b"[" * 100_000, b"{}" * 5):
        yield Frame(kind, JOB, JOB, subject, payload)


TEXT_ID = guid_to_text(JOB)
REQUEST = {
    "JobId": TEXT_ID,
    "ClientId": "ann",
    "ExecName": "calc",
    "Args": ["1"],
    "Files": [{"Name": "a", "CacheId": "c", "Content": "eA==", "Digest": "00", "Size": 1}],
    "Priority": 1,
    "DelayMs": 1,
    "MaxAttempts": 1,
    "LeaseMs": 1_000,
    "ResultTtlMs": 1,
    "RetryExitCodes": [1],
    "WorkerName": "w",
}
RESULT = {
    "JobId": TEXT_ID,
    "ClientId": "ann",
    "ExecName": "calc",
    "Status": "OK",
    "Stdout": "",
    "ExitCode": 0,
    "Signal": 0,
    "RunMs": 1,
    "PeakBytes": 1,
}
CLIENT = {"ClientId": "wild", "DesiredParallelism": 1, "Features": ["compact"]}
WORKER = {
    "Patterns": ["job.assign.calc"],
    "Name": "w",
    "Incarnation": 1,
    "Slots": 1,
    "Holding": [{"JobId": TEXT_ID, "Attempt": 1, "Fence": 1}],
    "Features": ["lease"],
    "BlobAddress": "127.0.0.1:1",
}
CACHE = {"CacheId": "c", "Entries": [{"Name": "a", "Content": "eA=="}], "TargetPattern": "calc"}
CACHED = {"CacheId": "c", "Status": "OK", "Message": "", "DoneBytes": 1, "TotalBytes": 1}
