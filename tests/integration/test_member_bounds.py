"""Every message with every field at and beyond its bounds: a member takes it or refuses it, and
serves everybody else as before. One member for all."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.limits import RUN_MS_MAX
from rollq.history.columns import EVENTS
from rollq.wire import messages as wire
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.frame import Frame, encode_frame
from rollq.wire.handshake import TABLE, Side, Stage
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import NUMBER_OF
from tests.integration import wild_messages as wild
from tests.integration.procs import MemberProcess
from tests.integration.talk import (
    OPEN,
    Talker,
    accepted,
    client,
    hang_up_all,
    job,
    worker,
)
from tests.unit.wire.samples import SAMPLES

NUMBERS = itertools.count(1)
# What the log of a member shows when somebody's words went further than they should.
MISHAPS = ("Traceback", "handler failed", "cannot handle", "member stops")


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    one = MemberProcess(tmp_path_factory.mktemp("bounds") / "state").start()
    yield one
    assert one.stop() == 0


@pytest.fixture
def witness(member: MemberProcess) -> Iterator[Talker]:
    """A client that was there before, and is served as well afterwards as before."""
    one = client(member.address, "witness")
    member.lines[:] = [line for line in member.lines if line.startswith("serving")]
    yield one
    bad = [line for line in member.lines if any(text in line for text in MISHAPS)]
    assert not bad, "\n".join(member.lines)
    assert accepted(one, [next(NUMBERS)])
    assert accepted(client(member.address, "newer"), [next(NUMBERS)])
    hang_up_all()


def throw(talker: Talker, frames: Iterable[Frame]) -> None:
    """Say these, and read until the member has hung up."""
    try:
        for frame in frames:
            talker.socket.sendall(encode_frame(frame))
        talker.socket.shutdown(socket.SHUT_WR)
        while talker.socket.recv(1 << 18):
            pass
    except OSError:
        pass  # cut off in the middle of it
    OPEN.remove(talker.socket)
    talker.close()


def greeted(member: MemberProcess, state: Stage) -> Talker:
    if state is Stage.CLIENT:
        return client(member.address, "wild")
    if state is Stage.WORKER:
        return worker(member.address, 200, 0)
    talker = Talker(member.address)
    if state is Stage.MEMBER:
        talker.say(wire.LeaderHello(5, "127.0.0.1:1", bytes(16), 1, 0))
    elif state is not Stage.NEW:
        talker.say(HelloBlobs("client") if state is Stage.BLOBS else HelloReader())
        talker.hear(wire.Welcome)
    return talker


def addressed(member: MemberProcess, sample: Message) -> Message:
    """Consensus looks at what is for its member alone."""
    if hasattr(sample, "to") and hasattr(sample, "sender"):
        to = int(member.until_line("serving").split()[-1])
        return msgspec.structs.replace(sample, to=to)
    return sample


CASES = [
    (state, sample)
    for state in (
        Stage.CLIENT,
        Stage.WORKER,
        Stage.MEMBER,
        Stage.BLOBS,
        Stage.READER,
    )
    for sample in SAMPLES
    if NUMBER_OF[type(sample)] in TABLE[state][Side.DIALER]
]


@pytest.mark.usefixtures("witness")
@pytest.mark.parametrize(
    ("state", "sample"),
    CASES,
    ids=lambda one: one.name if isinstance(one, Stage) else type(one).__name__,
)
def test_no_field_of_a_message_stops_a_member(
    member: MemberProcess, state: Stage, sample: Message
) -> None:
    frames = list(wild.compact_frames(addressed(member, sample)))
    if state is Stage.READER:  # each may wait for an index that the log will never have
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda frame: throw(greeted(member, state), [frame]), frames))
    else:
        for frame in frames:
            throw(greeted(member, state), [frame])


@pytest.mark.usefixtures("witness")
@pytest.mark.parametrize(
    ("hello", "kind", "subject", "model"),
    [
        (False, NUMBER_OF[wire.HelloClient], "wild", wild.CLIENT),
        (False, NUMBER_OF[wire.HelloWorker], "job.assign.calc", wild.WORKER),
        (True, NUMBER_OF[wire.SubmitJob], "job.submit.calc", wild.REQUEST),
        (True, NUMBER_OF[wire.CachePut], "cache.put", wild.CACHE),
        (False, NUMBER_OF[wire.AckJob], "", wild.RESULT),
        (False, NUMBER_OF[wire.CacheAck], "cache.ack", wild.CACHED),
    ],
)
def test_no_field_of_the_legacy_dialect_stops_a_member(
    member: MemberProcess, hello: bool, kind: int, subject: str, model: dict[str, object]
) -> None:
    client = Frame(NUMBER_OF[wire.HelloClient], subject="wild")
    worker = Frame(NUMBER_OF[wire.HelloWorker], job(201), subject="job.assign.calc")
    greetings = {
        NUMBER_OF[wire.SubmitJob]: client,
        NUMBER_OF[wire.CachePut]: client,
        NUMBER_OF[wire.AckJob]: worker,
        NUMBER_OF[wire.CacheAck]: worker,
    }
    first = [greetings[kind]] if kind in greetings else []
    for frame in wild.legacy_frames(kind, subject, model):
        throw(Talker(member.address), [*first, frame])


@pytest.mark.usefixtures("witness")
def test_no_legacy_credit_stops_a_member(member: MemberProcess) -> None:
    hello = Frame(NUMBER_OF[wire.HelloWorker], job(202), subject="job.assign.nothing")
    for count in (-(2**31), -1, 0, 10_000, 10_001, 2**31 - 1):
        credit = Frame(NUMBER_OF[wire.Credit], payload=struct.pack("<i", count))
        throw(Talker(member.address), [hello, credit])


@pytest.mark.parametrize(
    ("what", "key"),
    [
        ("history", b"\xff" * 9),
        ("history", b"\xff" * 8),
        ("dead", b"\xff" * 9),
        ("dead", b"\xff" * 1_024),
        ("jobs", msgspec.msgpack.encode(("", "", "", "", -1))),
        ("jobs", msgspec.msgpack.encode(("", "", "", "", 2**64 - 1))),
        ("queue", b"\xff"),
        ("nothing", b""),
    ],
)
def test_a_wild_question_is_answered_by_an_error_and_the_session_goes_on(
    witness: Talker, what: str, key: bytes
) -> None:
    witness.say(wire.Query(job(9), what, key))
    error = witness.hear(wire.Error)
    assert (error.request_id, error.code) == (job(9), ErrorCode.BAD_PAYLOAD)
    assert not error.retryable  # so that nobody asks the next leader the same


@pytest.mark.usefixtures("witness")
@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("settings", {"settings": [2**64 - 1] * 9}),
        ("settings", {"settings": [5, -1]}),
        ("hold_history", {"name": "r", "index": 2**64 - 1}),
        ("hold_history", {"name": "r", "index": -1}),
        ("hold_history", {"name": "r" * 2_000, "index": 1}),
        ("set_hints", {"hints": [["calc", 0, 0, 2**64 - 1, 2**64 - 1]]}),
        (
            "put_cache",
            {"cache_id": "c", "entries": [["a", [b"", 2**64 - 1], 1]], "target_pattern": "a"},
        ),
        ("purge", {"job_ids": [b""]}),
        ("dismiss", {"worker_ids": [b"x" * 500]}),
        ("add_member", {"member_id": 2**64 - 1, "address": "a" * 5_000}),
        ("remove_member", {"member_id": -1}),
        ("transfer", {"member_id": 2**64 - 1}),
        ("pause", {"queue": "q" * 100_000}),
        ("x" * 64, {}),
    ],
)
def test_no_argument_of_an_action_stops_a_member(
    witness: Talker, action: str, arguments: dict[str, object]
) -> None:
    witness.say(wire.Admin(job(9), action, msgspec.msgpack.encode(arguments)))
    error = witness.hear(wire.Error)
    assert (error.request_id, error.retryable) == (job(9), False)


@pytest.mark.usefixtures("witness")
def test_a_result_with_absurd_numbers_is_taken_and_the_history_stays_readable(
    member: MemberProcess,
) -> None:
    arrow = pytest.importorskip("rollq.history.arrow")
    number = next(NUMBERS)
    asker = client(member.address, "absurd")
    submit = wire.SubmitJob(job(number), "absurd", "job.submit.absurd", "calc", b"{}")
    asker.say(submit)
    asker.hear(wire.Accepted)
    one = Talker(member.address)
    features = ("compact", "accepted", "lease", "batch")
    one.say(wire.HelloWorker(b"\xaa" * 16, ("absurd",), "", 1, 1, (), features))
    one.hear(wire.Welcome)
    one.say(wire.Credit(1))
    assign = one.hear(wire.AssignJob)
    most = 2**64 - 1
    ack = (assign.job_id, assign.attempt, assign.fence, 0, b"{}", most, most, most, most)
    payload = msgspec.msgpack.encode(ack)
    one.socket.sendall(encode_frame(Frame(NUMBER_OF[wire.AckJob], payload=payload)))
    assert not one.hear(wire.AckTaken).stale
    result = asker.hear(wire.Result)
    assert (result.exit_code, result.signal) == (2**32 - 1, 127)
    asker.say(wire.Query(job(9), "history"))
    answer = asker.hear(wire.Answer)
    _, _, lines = msgspec.msgpack.decode(answer.value)
    table = arrow.from_lines(b"\n".join(lines) + b"\n", EVENTS, "default")
    assert max(table.column("run_ms").to_pylist()) == RUN_MS_MAX
