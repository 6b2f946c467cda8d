from __future__ import annotations

import pytest
from msgspec.structs import replace

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import NIL_ID
from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    CREDIT_MAX,
    HELLO_BYTES_MAX,
    HELLO_KNOWN_WORKER_BYTES_MAX,
    IDS_PER_MESSAGE_MAX,
    LIVES_MAX,
    PATTERNS_BYTES_MAX,
    PATTERNS_PER_WORKER_MAX,
)
from rollq.raft import types as raft
from rollq.wire import messages as m
from rollq.wire.blob_messages import BlobAsk, HelloBlobs
from rollq.wire.compact import ENCODE, Message
from rollq.wire.connection import Connection
from rollq.wire.features import ACCEPTED, BATCH, COMPACT, FEATURES, agree
from rollq.wire.frame import Frame, FrameDecoder, encode_frame
from rollq.wire.handshake import (
    TABLE,
    Side,
    Stage,
    is_covered,
)
from rollq.wire.header import AREAS, HAS_HEADER, Header, decode_header
from rollq.wire.message_codec import Dialect, encode_message
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import NUMBER_OF
from tests.unit.wire.golden_vectors import VECTORS
from tests.unit.wire.samples import JOB, SAMPLES

TEXT = b"".join(b"%d words, " % n for n in range(500))
SUBMIT = m.SubmitJob(JOB, "clientA", "job.submit.calcA", "calcA", TEXT)


class Pair:
    """Two ends and the wire between them."""

    def __init__(self, group: str = "g1") -> None:
        self.dialer = Connection(Side.DIALER, group)
        self.accepter = Connection(Side.ACCEPTER, group)

    def say(self, speaker: Side, message: Message) -> list[Message]:
        """Send from one end; what the other end hears."""
        ends = (self.dialer, self.accepter)
        source, target = ends if speaker is Side.DIALER else ends[::-1]
        raw = source.send(message)
        heard = target.receive_data(raw) if raw else []
        assert target.error is None
        assert source.state is target.state
        assert source.features == target.features
        return heard

    def open(self, hello: m.HelloClient | m.HelloWorker | HelloBlobs) -> Pair:
        """Run the handshake to its end."""
        assert self.say(Side.DIALER, hello) == [hello]
        if hello.features or isinstance(hello, HelloBlobs):
            welcome = m.Welcome("g1", 1, agree(hello.features))
            assert self.say(Side.ACCEPTER, welcome) == [welcome]
        return self


def _frames(raw: bytes) -> list[Frame]:
    decoder = FrameDecoder()
    decoder.feed(raw)
    return decoder.frames()


def test_all_that_may_be_said_is_heard() -> None:
    hellos: dict[Stage, m.HelloClient | m.HelloWorker | HelloBlobs] = {
        Stage.CLIENT: m.HelloClient("clientA", 4, FEATURES),
        Stage.WORKER: m.HelloWorker(JOB, ("a", "b"), features=FEATURES),
        Stage.BLOBS: HelloBlobs("client", "g1", FEATURES),
    }
    samples = {NUMBER_OF[type(sample)]: sample for sample in SAMPLES}
    for state, hello in hellos.items():
        for speaker, words in TABLE[state].items():
            for kind in words:
                sample = samples[kind]
                assert Pair().open(hello).say(speaker, sample) == [sample]


def test_a_link_for_blobs_waits_for_its_welcome_and_needs_no_features() -> None:
    ask = BlobAsk(JOB, (bytes(32),))
    pair = Pair()
    pair.say(Side.DIALER, HelloBlobs("client"))
    assert pair.dialer.state is Stage.BLOBS_WAITS
    with pytest.raises(LocalError):
        pair.dialer.send(ask)
    pair.say(Side.ACCEPTER, m.Welcome("g1", 1))
    assert pair.say(Side.DIALER, ask) == [ask]
    refusal = m.Error(NIL_ID, ErrorCode.BAD_PAYLOAD, "no", "", False)
    assert pair.say(Side.ACCEPTER, refusal) == [refusal]
    with pytest.raises(LocalError):
        pair.dialer.send(ask)


@pytest.mark.parametrize("answer", [m.NotLeader("b:2"), m.Error(NIL_ID, ErrorCode.BAD_ID, "no")])
def test_a_hello_for_blobs_may_be_refused(answer: Message) -> None:
    pair = Pair()
    pair.say(Side.DIALER, HelloBlobs("client"))
    assert pair.say(Side.ACCEPTER, answer) == [answer]
    assert pair.dialer.state is Stage.CLOSED


def test_members_talk_both_ways_after_the_roll_call() -> None:
    pair = Pair()
    hello = m.LeaderHello(1, "a:1", b"c", 1, 0)
    assert pair.say(Side.DIALER, hello) == [hello]
    for sample in SAMPLES:
        if NUMBER_OF[type(sample)] in TABLE[Stage.MEMBER][Side.DIALER]:
            for speaker in Side:
                assert pair.say(speaker, sample) == [sample]


def test_member_of_another_group_is_refused() -> None:
    stranger, ours = Connection(Side.DIALER, "g2"), Connection(Side.ACCEPTER, "g1")
    assert ours.receive_data(stranger.send(m.LeaderHello(1, "a:1", b"c", 1, 0))) == []
    assert ours.error is not None
    assert ours.error.code == ErrorCode.BAD_SUBJECT


def test_legacy_peer_is_heard_and_sent_only_what_it_knows() -> None:
    pair = Pair().open(m.HelloClient("clientA", 4))
    assert pair.accepter.features == frozenset()
    for sample in SAMPLES:
        kind = NUMBER_OF[type(sample)]
        if not is_covered(kind, frozenset()):
            assert pair.accepter.send(sample) == b""
    [frame] = _frames(pair.accepter.send(m.Result(JOB, "done")))
    assert frame.payload.startswith(b'{"JobId"')
    assert pair.accepter.state is Stage.CLIENT


def test_legacy_bytes_run_a_whole_session() -> None:
    vectors = {vector.name: vector for vector in VECTORS}
    client = Connection(Side.ACCEPTER)
    told = [vectors["9 HelloClient by its subject"], vectors["1 SubmitJob, opaque"]]
    assert client.receive_data(b"".join(vector.data for vector in told)) == [
        vector.message for vector in told
    ]
    worker = Connection(Side.ACCEPTER)
    told = [vectors[name] for name in ("10 HelloWorker", "4 Credit of ten", "3 AckJob, empty")]
    assert worker.receive_data(b"".join(vector.data for vector in told)) == [
        vector.message for vector in told
    ]
    assert worker.send(m.AckTaken(JOB, 1)) == b""


def test_a_peer_that_offers_waits_for_its_welcome() -> None:
    pair = Pair()
    pair.say(Side.DIALER, m.HelloClient("clientA", 0, ("compact",)))
    assert pair.dialer.state is Stage.CLIENT_WAITS
    with pytest.raises(LocalError) as caught:
        pair.dialer.send(SUBMIT)
    assert caught.value.code == ErrorCode.BAD_HANDSHAKE
    early = encode_frame(encode_message(SUBMIT, Dialect.LEGACY))
    assert pair.accepter.receive_data(early) == []
    assert pair.accepter.error is not None
    assert pair.accepter.error.code == ErrorCode.BAD_HANDSHAKE


def test_not_leader_ends_the_connection_at_any_time() -> None:
    for features in ((), ("compact",)):
        pair = Pair()
        pair.say(Side.DIALER, m.HelloClient("clientA", 0, features))
        message = m.NotLeader("b:2")
        [frame] = _frames(pair.accepter.send(message))
        assert frame.payload == b'{"leader":"b:2"}'
        assert pair.dialer.receive_data(encode_frame(frame)) == [message]
        assert pair.dialer.state is pair.accepter.state is Stage.CLOSED


def test_hello_may_be_answered_with_an_error() -> None:
    pair = Pair()
    pair.say(Side.DIALER, m.HelloClient("clientA", 0, ("accepted",)))
    error = m.Error(NIL_ID, ErrorCode.OVERLOADED, "too many connections", "later", True)
    assert pair.say(Side.ACCEPTER, error) == [error]
    assert pair.dialer.state is Stage.CLOSED


def test_welcome_has_only_what_was_offered() -> None:
    pair = Pair()
    pair.say(Side.DIALER, m.HelloClient("clientA", 0, ("accepted",)))
    with pytest.raises(LocalError):
        pair.accepter.send(m.Welcome("g1", 1, ("compact",)))
    welcome = encode_frame(encode_message(m.Welcome("g1", 1, ("compact",)), Dialect.LEGACY))
    assert pair.dialer.receive_data(welcome) == []
    assert pair.dialer.error is not None
    assert pair.dialer.error.code == ErrorCode.BAD_HANDSHAKE


def test_extensions_without_compact_keep_json() -> None:
    pair = Pair().open(m.HelloClient("clientA", 0, ("accepted",)))
    accepted = m.Accepted(JOB)
    assert pair.say(Side.ACCEPTER, accepted) == [accepted]
    assert pair.accepter.send(m.Answer(JOB, 1)) == b""
    [frame] = _frames(pair.accepter.send(m.Result(JOB, "done")))
    assert frame.payload.startswith(b"{")
    cancel = encode_frame(encode_message(m.Cancel(JOB, (JOB,)), Dialect.LEGACY))
    assert pair.accepter.receive_data(cancel) == []
    assert pair.accepter.error is not None
    assert "Cancel was not agreed on" in pair.accepter.error.message


@pytest.mark.parametrize("method", ["zstd", "brotli", "gzip"])
def test_large_payloads_are_compressed_if_agreed_and_asked_for(method: str) -> None:
    pair = Pair().open(m.HelloClient("clientA", 0, ("compact", "header2", method)))
    raw = pair.dialer.send(SUBMIT, packs=True)
    plain = pair.dialer.send(SUBMIT)
    assert len(raw) < len(plain) // 2
    assert pair.dialer.saved_bytes == len(plain) - len(raw)
    [frame] = _frames(raw)
    assert frame.type == NUMBER_OF[m.SubmitJob] | HAS_HEADER
    assert decode_header(frame.payload)[0] == Header(method)
    assert pair.accepter.receive_data(raw + plain) == [SUBMIT, SUBMIT]


def test_batches_are_compressed_as_one() -> None:
    pair = Pair().open(m.HelloClient("clientA", 0, ("compact", "batch", "header2", "zstd")))
    raw = pair.dialer.send_all([SUBMIT, SUBMIT], packs=True)
    [frame] = _frames(raw)
    assert len(raw) < len(TEXT) // 2
    assert frame.type & HAS_HEADER
    assert pair.accepter.receive_data(raw) == [SUBMIT, SUBMIT]


def test_zstd_is_used_where_a_peer_offers_all() -> None:
    methods = ("gzip", "brotli", "zstd")
    pair = Pair().open(m.HelloClient("clientA", 0, ("compact", "header2", *methods)))
    [frame] = _frames(pair.dialer.send(SUBMIT, packs=True))
    assert decode_header(frame.payload)[0] == Header("zstd")


def test_small_payloads_and_peers_without_header_are_not_compressed() -> None:
    pair = Pair().open(m.HelloClient("clientA", 0, ("compact", "header2", "zstd")))
    confirm = m.Confirm((JOB,))
    assert pair.dialer.send(confirm, packs=True) == pair.dialer.send(confirm)
    pair = Pair().open(m.HelloClient("clientA", 0, ("compact", "zstd")))
    assert len(pair.dialer.send(SUBMIT, packs=True)) > len(TEXT)


def test_the_first_form_of_the_header_is_neither_offered_nor_agreed_on() -> None:
    assert "header" not in FEATURES
    assert agree(("compact", "header", "zstd")) == ("compact", "zstd")


def test_a_packed_frame_that_was_not_agreed_is_of_no_known_type() -> None:
    packing = Pair().open(m.HelloClient("clientA", 0, ("compact", "header2", "zstd")))
    plain = Pair().open(m.HelloClient("clientA", 0, ("compact",)))
    assert plain.accepter.receive_data(packing.dialer.send(SUBMIT, packs=True)) == []
    assert plain.accepter.skipped_count == 1
    assert plain.accepter.error is None


def test_members_compress_once_they_know_that_the_other_takes_it() -> None:
    pair = Pair()
    hello = next(one for one in SAMPLES if isinstance(one, m.LeaderHello))
    rows = m.HistoryRows(1, 2, (TEXT,))
    pair.say(Side.DIALER, hello)
    plain = pair.dialer.send(rows, packs=True)
    pair.dialer.peer_offers(("header2", "zstd"))
    raw = pair.dialer.send(rows, packs=True)
    assert len(raw) < len(plain) // 2
    assert pair.accepter.receive_data(plain + raw) == [rows, rows]


def test_bad_compression_closes_the_connection_and_says_why() -> None:
    pair = Pair().open(m.HelloClient("clientA", 0, ("compact", "header2", "gzip")))
    confirm = pair.dialer.send(m.Confirm((JOB,)))
    bad = Frame(NUMBER_OF[m.SubmitJob] | HAS_HEADER, payload=AREAS["zstd"] + b"garbage")
    assert len(pair.accepter.receive_data(confirm + encode_frame(bad) + confirm)) == 1
    error = pair.accepter.error
    assert error is not None
    assert error.code == ErrorCode.BAD_COMPRESSION
    [told] = pair.dialer.receive_data(pair.accepter.farewell())
    assert told == m.Error(NIL_ID, error.code, error.message, error.hint)


def test_after_an_error_nothing_is_taken_and_nothing_said() -> None:
    ours = Connection(Side.ACCEPTER)
    assert ours.receive_data(b"\xff\xff\xff\xff") == []
    assert ours.error is not None
    assert ours.error.code == ErrorCode.FRAME_TOO_LARGE
    assert ours.state is Stage.CLOSED
    assert ours.farewell() == b""  # whoever this was, it offered nothing
    hello = encode_frame(encode_message(m.HelloClient("clientA"), Dialect.LEGACY))
    assert ours.receive_data(hello) == []
    with pytest.raises(LocalError):
        ours.send(m.NotLeader())


@pytest.mark.parametrize(
    ("number", "msg_id", "bytes_max"),
    [
        *((number, bytes(16), 4_096) for number in (1, 9, 10, 21, 70, 84, 255)),
        (10, JOB, 1_048_576),  # a worker that is known
        (9, JOB, 4_096),
    ],
)
def test_the_first_frame_of_a_stranger_is_bounded_before_it_is_read(
    number: int, msg_id: bytes, bytes_max: int
) -> None:
    for length, is_refused in ((bytes_max, False), (bytes_max + 1, True)):
        head = length.to_bytes(4, "little") + bytes([number]) + msg_id + bytes(18)
        for pieces in ([head], [head[:4], head[4:]], [bytes([byte]) for byte in head]):
            ours = Connection(Side.ACCEPTER, "", JOB.__eq__)
            for piece in pieces:
                ours.receive_data(piece)
            assert (ours.error is not None) is is_refused
            if ours.error is not None:
                assert ours.error.code == ErrorCode.FRAME_TOO_LARGE


def test_every_hello_that_we_make_is_within_the_bound_of_strangers() -> None:
    id_, name = b"i" * 16, "n" * 256
    address = "h" * 253 + ":65535"
    longest = "q" * (PATTERNS_BYTES_MAX // (PATTERNS_PER_WORKER_MAX + 1))
    patterns = (longest,) * PATTERNS_PER_WORKER_MAX
    worker = (id_, patterns, name, 2**60, 64, (), FEATURES, address, True, IDS_PER_MESSAGE_MAX)
    for hello in (
        m.HelloClient(name, 9, FEATURES),
        m.HelloWorker(*worker),
        m.LeaderHello(2**60, address, id_, 2**60, 2**60, True, (2**62,) * LIVES_MAX, FEATURES),
        HelloBlobs("worker", name, FEATURES),
        HelloReader(name, FEATURES),
    ):
        raw = Connection(Side.DIALER, "g").send(hello)
        assert len(raw) - 4 <= HELLO_BYTES_MAX


def test_the_first_frame_of_a_member_that_we_dialed_is_not_bounded_so() -> None:
    dialer = Connection(Side.DIALER)
    dialer.receive_data((HELLO_KNOWN_WORKER_BYTES_MAX + 1).to_bytes(4, "little"))
    assert dialer.error is None


def test_a_known_worker_of_the_version_before_names_all_that_it_holds_in_its_hello() -> None:
    holding = tuple(AttemptRef(i.to_bytes(16, "big"), 1, 2**40) for i in range(1, CREDIT_MAX))
    hello = m.HelloWorker(JOB, ("a",), "box", 1, 8, holding, FEATURES)
    ours = Connection(Side.ACCEPTER, "", JOB.__eq__)
    assert ours.receive_data(Connection(Side.DIALER).send(hello)) == [hello]
    assert ours.error is None
    stranger = Connection(Side.ACCEPTER, "", NIL_ID.__eq__)
    assert stranger.receive_data(Connection(Side.DIALER).send(hello)) == []
    assert stranger.error is not None
    assert stranger.error.code == ErrorCode.FRAME_TOO_LARGE


def test_what_a_worker_holds_follows_its_hello_and_comes_before_welcome() -> None:
    hello = m.HelloWorker(JOB, ("a",), features=FEATURES, plain=True, holding_count=2)
    held = m.Holdings((AttemptRef(JOB, 1, 2),))
    pair = Pair()
    assert pair.say(Side.DIALER, hello) == [hello]
    assert pair.say(Side.DIALER, held) == pair.say(Side.DIALER, held) == [held]
    with pytest.raises(LocalError):
        pair.dialer.send(m.Credit(1))
    pair.say(Side.ACCEPTER, m.Welcome("g1", 1, FEATURES))
    with pytest.raises(LocalError):
        pair.dialer.send(held)


def test_holding_needs_its_feature() -> None:
    pair = Pair()
    pair.say(Side.DIALER, m.HelloWorker(JOB, ("a",), features=("lease",), holding_count=2))
    assert pair.dialer.send(m.Holdings((AttemptRef(JOB, 1, 2),))) == b""
    frame = encode_message(m.Holdings((AttemptRef(JOB, 1, 2),)), Dialect.LEGACY)
    assert pair.accepter.receive_data(encode_frame(frame)) == []
    assert pair.accepter.error is not None
    assert pair.accepter.error.code == ErrorCode.BAD_HANDSHAKE


def test_goodbye_is_the_last_word() -> None:
    pair = Pair().open(m.HelloWorker(JOB, ("a",), features=("compact", "lease")))
    assert pair.say(Side.DIALER, m.Goodbye()) == [m.Goodbye()]
    with pytest.raises(LocalError):
        pair.dialer.send(m.Credit(1))


def test_farewell_is_empty_while_all_is_well() -> None:
    assert Pair().open(m.HelloClient("a", 0, FEATURES)).accepter.farewell() == b""


def test_raft_on_a_client_connection_is_refused() -> None:
    pair = Pair().open(m.HelloClient("clientA", 0, FEATURES))
    vote = encode_message(raft.TimeoutNow(1, 2, 3), Dialect.COMPACT, "g1")
    assert pair.accepter.receive_data(encode_frame(vote)) == []
    assert pair.accepter.error is not None
    assert pair.accepter.error.code == ErrorCode.BAD_HANDSHAKE


def _batching() -> tuple[Connection, Connection]:
    """A client and a member that agreed on batches."""
    client, member = Connection(Side.DIALER), Connection(Side.ACCEPTER)
    features = (COMPACT, ACCEPTED, BATCH)
    member.receive_data(client.send(m.HelloClient("c", 0, features)))
    client.receive_data(member.send(m.Welcome("g", 1, features)))
    return client, member


def test_many_messages_ride_in_one_frame() -> None:
    client, member = _batching()
    jobs = [m.SubmitJob(bytes([n + 1]) * 16, "c", "q", "tool", b"x" * n) for n in range(50)]
    data = client.send_all([*jobs, m.Confirm((b"j" * 16,))])
    assert len(frames_of(data)) == 1
    assert member.receive_data(data) == [*jobs, m.Confirm((b"j" * 16,))]
    assert member.error is None


@pytest.mark.parametrize("batches", [True, False])
def test_what_cannot_be_encoded_is_left_out_of_what_is_sent(batches: bool) -> None:
    if batches:
        client, member = _batching()
    else:
        pair = Pair().open(m.HelloClient("c", 0, (COMPACT, ACCEPTED)))
        client, member = pair.dialer, pair.accepter
    jobs = [m.SubmitJob(bytes([n + 1]) * 16, "c", "q", "tool", b"") for n in range(5)]
    poison = [m.Query(b"q" * 16, "queue\udcff"), replace(jobs[0], job_key="\udcff")]
    data = client.send_all([jobs[0], poison[0], *jobs[1:], poison[1]])
    assert member.receive_data(data) == jobs
    assert [message for message, _ in client.take_unsendable()] == poison
    assert not client.take_unsendable()
    assert member.receive_data(client.send_all([poison[0]])) == []
    assert [type(error) for _, error in client.take_unsendable()] == [UnicodeEncodeError]


def test_a_large_batch_is_split_so_that_it_fits_frames() -> None:
    client, member = _batching()
    jobs = [m.SubmitJob(bytes([n + 1]) * 16, "c", "q", "tool", b"x" * 60_000) for n in range(99)]
    data = client.send_all(jobs)
    assert len(frames_of(data)) > 1
    assert member.receive_data(data) == jobs


def test_a_batch_may_hold_only_what_may_be_said() -> None:
    client, member = _batching()
    with pytest.raises(LocalError):
        client.send_all([m.Confirm(()), m.Credit(1)])
    payload = ENCODE([m.Confirm(()), m.Credit(1)])
    assert member.receive_data(encode_frame(Frame(45, payload=payload))) == [m.Confirm(())]
    assert member.error is not None
    assert member.error.code is ErrorCode.BAD_HANDSHAKE


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"\xc1", ErrorCode.BAD_PAYLOAD),
        (ENCODE([[99, 1]]), ErrorCode.BAD_PAYLOAD),
        (ENCODE([m.Confirm((b"short",))]), ErrorCode.BAD_ID),
        (ENCODE([m.SubmitJob(NIL_ID, "c", "q", "t", b"")]), ErrorCode.BAD_ID),
    ],
)
def test_a_broken_batch_closes_the_connection(payload: bytes, code: ErrorCode) -> None:
    _, member = _batching()
    assert member.receive_data(encode_frame(Frame(45, payload=payload))) == []
    assert member.error is not None
    assert member.error.code is code


def test_nobody_is_sent_a_batch_who_did_not_ask_for_one() -> None:
    client, member = Connection(Side.DIALER), Connection(Side.ACCEPTER)
    member.receive_data(client.send(m.HelloClient("c", 0, (COMPACT, ACCEPTED))))
    client.receive_data(member.send(m.Welcome("g", 1, (COMPACT, ACCEPTED))))
    answers = [m.Accepted(b"a" * 16), m.Accepted(b"b" * 16)]
    data = member.send_all(answers)
    assert len(frames_of(data)) == 2
    assert client.receive_data(data) == answers
    batch = encode_frame(Frame(45, payload=ENCODE(answers)))
    assert client.receive_data(batch) == []
    assert client.error is not None


def frames_of(data: bytes) -> list[Frame]:
    decoder = FrameDecoder()
    decoder.feed(data)
    return decoder.frames()


def test_a_member_of_another_group_is_told_why_it_is_not_taken() -> None:
    dialer, accepter = Connection(Side.DIALER, "g1"), Connection(Side.ACCEPTER, "g2")
    hello = m.LeaderHello(1, "a:1", bytes(16), 1, 0)
    assert accepter.receive_data(dialer.send(hello)) == []
    assert accepter.error is not None
    (told,) = dialer.receive_data(accepter.farewell())
    assert isinstance(told, m.Error)
    assert told.message == "'cluster.g1.roll' is not for the group 'g2'"
    assert "--group" in told.hint
    assert dialer.error is None
