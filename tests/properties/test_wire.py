"""Laws of the wire: any split is the same, every message comes back, garbage only ever refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.errors import RemoteError
from rollq.base.ids import NIL_ID, guid_from_text, guid_to_text
from rollq.base.jobs import JobOptions, Status
from rollq.base.limits import FRAME_BYTES_MAX
from rollq.base.staged import join_keys
from rollq.wire import messages as m
from rollq.wire.checks import BOUNDS
from rollq.wire.compact import Message
from rollq.wire.compression import METHODS, inflate, shrink
from rollq.wire.connection import Connection
from rollq.wire.features import FEATURES, agree
from rollq.wire.frame import Frame, FrameDecoder, encode_frame
from rollq.wire.handshake import (
    Side,
)
from rollq.wire.header import Header, decode_header, encode_header
from rollq.wire.message_codec import Dialect, decode_message, encode_message
from rollq.wire.models import JobResult, encode_model, job_request
from rollq.wire.registry import NUMBER_OF
from rollq.wire.rules import Amount, Bytes, Int, Many, Measured, Rule, Struct, Text
from rollq.wire.run_messages import COLUMNS
from tests.effort import examples

TEXT = st.text(max_size=20)
BYTES = st.binary(max_size=50)
IDS = st.binary(min_size=16, max_size=16).filter(lambda raw: raw != NIL_ID)
DIGESTS = st.binary(min_size=32, max_size=32)
# Of fields that the table of bounds leaves free: the decoder knows what they are.
FREE: dict[str, st.SearchStrategy[Any]] = {"digests": DIGESTS, "lines": BYTES}


def _value(name: str, hint: str, rule: Rule) -> st.SearchStrategy[Any]:
    """Anything that a field may hold, but no longer than is quickly drawn."""
    if isinstance(rule, Int | Measured):
        return st.integers(rule.low, rule.high)
    if isinstance(rule, Bytes):
        return st.binary(min_size=rule.low, max_size=min(rule.high, 50))
    if isinstance(rule, Text):
        return st.text(min_size=rule.low, max_size=min(rule.high // 4, 20))
    if isinstance(rule, Amount):
        return st.tuples(st.text(min_size=1, max_size=8), st.integers(rule.low, rule.high))
    if isinstance(rule, Many):
        each = _value(name, "", rule.each)
        return st.lists(each, min_size=rule.low, max_size=min(rule.high, 3)).map(tuple)
    if isinstance(rule, Struct):
        drawn = _drawn(rule.kind)
        return st.none() | drawn if rule.optional else drawn
    return st.booleans() if hint == "bool" else FREE.get(name, IDS)


@st.composite
def _run(draw: st.DrawFn, struct: type[Any]) -> Any:
    """A message with columns, which agree."""
    count = draw(st.integers(1, 3))
    fields: dict[str, Any] = {}
    for name, rule in BOUNDS[struct].items():
        if name == "job_ids":
            column = draw(st.lists(IDS, min_size=count, max_size=count))
            fields[name] = b"".join(column)
        elif name == "keys":
            keys = draw(st.lists(st.text("abé", max_size=3), min_size=count, max_size=count))
            fields[name] = draw(st.sampled_from(["", join_keys(keys)]))
        elif name == "stale":
            fields[name] = draw(st.lists(st.integers(0, count - 1), max_size=3).map(tuple))
        elif isinstance(rule, Many) and name != "caches":
            each = _value(name, "", rule.each)
            column = draw(st.lists(each, min_size=count, max_size=count))
            may_be_empty = name in ("blobs", "run_ms")
            fields[name] = () if may_be_empty and draw(st.booleans()) else tuple(column)
        else:
            fields[name] = draw(_value(name, struct.__annotations__[name], rule))
    return struct(**fields)


def _drawn(struct: type[Any]) -> st.SearchStrategy[Any]:
    hints = struct.__annotations__
    if struct in COLUMNS:
        return _run(struct)
    fields = {name: _value(name, hints[name], rule) for name, rule in BOUNDS[struct].items()}
    if "offsets" in fields:  # one stream at least is wanted
        fields["offsets"] = st.tuples(st.integers(0, 2**63 - 1), st.integers(-1, 2**63 - 1))
    return st.builds(struct, **fields)


MESSAGES: st.SearchStrategy[Any] = st.one_of([_drawn(struct) for struct in NUMBER_OF])
FRAMES = st.builds(Frame, st.integers(0, 255), IDS, IDS, st.text(max_size=40), BYTES)


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _all_frames(pieces: list[bytes]) -> tuple[list[Frame], str]:
    """Every frame that comes out, and the words of the error that ended it."""
    decoder, out = FrameDecoder(), []
    try:
        for piece in pieces:
            decoder.feed(piece)
            assert decoder.buffered_bytes <= FRAME_BYTES_MAX + 4
            while frames := decoder.frames():
                out += frames
    except RemoteError as error:
        return out, str(error)
    return out, ""


@given(st.lists(FRAMES, max_size=5), st.lists(st.integers(0, 2_000), max_size=20))
def test_any_split_gives_the_same_frames(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(map(encode_frame, frames))
    assert _all_frames(_pieces(data, cuts)) == (frames, "")


@given(
    st.lists(FRAMES, max_size=3),
    st.binary(max_size=200),
    st.lists(st.integers(0, 2_000), max_size=20),
)
def test_any_split_gives_the_same_refusal(
    frames: list[Frame], garbage: bytes, cuts: list[int]
) -> None:
    data = b"".join(map(encode_frame, frames)) + garbage
    assert _all_frames(_pieces(data, cuts)) == _all_frames([data])


@settings(max_examples=examples(400))
@given(MESSAGES)
def test_every_message_comes_back_in_the_compact_dialect(message: Message) -> None:
    frame = encode_message(message, Dialect.COMPACT, "g")
    assert decode_message(frame, Dialect.COMPACT) == message


@st.composite
def said_in_json(draw: st.DrawFn) -> Message:
    """Messages that the legacy dialect can say in full."""
    job_id, client_id, exec_name = draw(IDS), draw(TEXT), draw(st.text(min_size=1, max_size=9))
    options = draw(_drawn(JobOptions).filter(lambda drawn: drawn != JobOptions()) | st.none())
    body = encode_model(job_request(job_id, client_id, exec_name, options=options))
    status = draw(st.sampled_from([Status.OK, Status.FAILED]))
    measured = (
        _value(name, "", BOUNDS[m.AckJob][name]) for name in ("exit_code", "signal", "run_ms")
    )
    code, signal, run_ms = draw(st.tuples(*measured))
    result = encode_model(
        JobResult(
            guid_to_text(job_id),
            client_id,
            exec_name,
            status.name,
            draw(TEXT),
            draw(TEXT),
            draw(st.none() | BYTES),
            code,
            signal,
            run_ms,
        )
    )
    subject = "job.assign." + draw(TEXT)
    features = draw(st.lists(TEXT, max_size=3).map(tuple))
    patterns = draw(st.lists(TEXT, min_size=1, max_size=3).map(tuple))
    opaque = draw(BYTES.filter(lambda raw: not raw.startswith((b"{", b" ", b"\n", b"\t", b"\r"))))
    choices: list[Message] = [
        m.SubmitJob(job_id, client_id, subject, exec_name, body, options),
        m.AssignJob(job_id, 0, 0, 0, subject, exec_name, body, options, client_id),
        m.AckJob(job_id, 0, 0, status, result, code, signal, run_ms),
        m.AckJob(job_id, result=opaque),
        m.Result(
            job_id, "done", status, result, exec_name, code, signal, run_ms, client_id=client_id
        ),
        draw(_drawn(m.Credit)),
        m.HelloClient(client_id or "c", draw(st.integers(-5, 5_000)), features),
        msgspec.structs.replace(
            draw(_drawn(m.HelloWorker)), worker_id=job_id, patterns=patterns, features=features
        ),
        m.NotLeader(draw(TEXT), features),
        m.CachePut(job_id, opaque),
        m.CacheAck(job_id, opaque),
    ]
    return draw(st.sampled_from(choices))


@settings(max_examples=examples(300))
@given(said_in_json())
def test_every_legacy_message_comes_back_in_their_dialect(message: Message) -> None:
    frame = encode_message(message, Dialect.LEGACY)
    decoder = FrameDecoder()
    decoder.feed(encode_frame(frame))
    assert decode_message(decoder.frames()[0], Dialect.LEGACY) == message


@settings(max_examples=examples(300))
@given(
    st.sampled_from(sorted(NUMBER_OF.values())),
    st.binary(max_size=200),
    st.sampled_from(list(Dialect)),
)
def test_garbage_payloads_are_refused_or_read(kind: int, payload: bytes, dialect: Dialect) -> None:
    try:
        message = decode_message(Frame(kind, payload=payload), dialect)
    except RemoteError:
        return
    assert NUMBER_OF[type(message)] == kind


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["JobId", "ClientId", "ExecName", "Status", "Priority", "RetryExitCodes", "Features", "leader"]
)


@settings(max_examples=examples(300))
@given(
    st.sampled_from(sorted(NUMBER_OF.values())),
    st.dictionaries(KEYS, JSON | st.just("00112233-4455-6677-8899-aabbccddeeff"), max_size=5),
)
def test_json_of_other_types_is_refused_or_read(kind: int, fields: dict[str, Any]) -> None:
    frame = Frame(kind, b"m" * 16, payload=msgspec.json.encode(fields))
    try:
        message = decode_message(frame, Dialect.LEGACY)
    except RemoteError:
        return
    # Whatever is let in can be passed on.
    encode_message(message, Dialect.COMPACT)
    encode_message(message, Dialect.LEGACY)


@settings(max_examples=examples(200))
@given(st.lists(MESSAGES | st.binary(max_size=100), max_size=6), st.sampled_from([(), FEATURES]))
def test_a_connection_survives_anything(
    said: list[Message | bytes], features: tuple[str, ...]
) -> None:
    ours = Connection(Side.ACCEPTER, "g")
    theirs = Connection(Side.DIALER, "g")
    ours.receive_data(theirs.send(m.HelloClient("c", 0, features)))
    if features:
        theirs.receive_data(ours.send(m.Welcome("g", 1, agree(features))))
    for item in said:
        if isinstance(item, bytes):
            ours.receive_data(item)
        else:
            ours.receive_data(encode_frame(encode_message(item, Dialect.COMPACT, "g")))
        assert isinstance(ours.farewell(), bytes)


@given(st.builds(Header, TEXT), BYTES)
def test_headers_come_back(header: Header, body: bytes) -> None:
    assert decode_header(encode_header(header) + body) == (header, body)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=examples(50))
@given(data=st.data())
def test_compression_is_undone_and_garbage_refused(method: str, data: st.DataObject) -> None:
    payload = data.draw(st.binary(min_size=1, max_size=64)) * 1_100
    small = shrink(payload, method)
    assert small is not None
    assert inflate(small, method) == payload
    at = data.draw(st.integers(0, len(small) - 1))
    damaged = small[:at] + bytes([small[at] ^ data.draw(st.integers(1, 255))]) + small[at + 1 :]
    for bad in (damaged, small[:at], data.draw(st.binary(max_size=100))):
        try:
            inflate(bad, method)
        except RemoteError:
            continue


@given(st.binary(min_size=16, max_size=16))
def test_guids_come_back(raw: bytes) -> None:
    assert guid_from_text(guid_to_text(raw)) == raw
