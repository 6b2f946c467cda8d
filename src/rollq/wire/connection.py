"""One end of a connection: bytes in, messages out, and messages in, bytes out.

Combines frames, handshake, dialect and compression. It has no socket: the owner passes the bytes.
After a protocol violation the connection is closed for good and `error` has the reason; earlier
messages are still returned. A request with fields out of bounds is not returned; `take_refusals`
has the answers.

A peer is only sent what it understands. A message that it does not understand is encoded as no
bytes, so that the caller need not distinguish peers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rollq.base.errors import ErrorCode, LocalError, RemoteError, RollqError
from rollq.base.ids import NIL_ID, MessageId, WorkerId
from rollq.base.jobs import Status
from rollq.base.limits import HELLO_BYTES_MAX, HELLO_KNOWN_WORKER_BYTES_MAX
from rollq.wire import messages as m
from rollq.wire.blob_messages import HelloBlobs
from rollq.wire.checks import are_within, check_message
from rollq.wire.compact import Message, decode_batch, encode_batch
from rollq.wire.compression import METHODS
from rollq.wire.features import BATCH, COMPACT, FEATURES, HEADER, SUBJECTS
from rollq.wire.frame import Frame, FrameDecoder, encode_frame
from rollq.wire.handshake import (
    BEFORE_HELLO,
    WAITS,
    Side,
    Stage,
    is_covered,
    must_step,
    stateless_types,
)
from rollq.wire.header import HAS_HEADER, pack, unpack
from rollq.wire.login_messages import TOKEN, Login, LoginProof
from rollq.wire.message_codec import Dialect, decode_message, encode_message
from rollq.wire.reader_messages import HelloReader
from rollq.wire.registry import AREA_OF, BATCH_NUMBER, NUMBER_OF, ROW_NUMBERED, is_known
from rollq.wire.rules import OutOfBoundsError
from rollq.wire.shared_frames import SharedForm

HELLO_WORKER = NUMBER_OF[m.HelloWorker]
LOGINS = frozenset({NUMBER_OF[Login], NUMBER_OF[LoginProof]})  # messages before the hello
ANSWERING = (
    Stage.CLIENT,
    Stage.WORKER,
    Stage.READER,
)  # where an Error does not end the session


def nobody(worker_id: WorkerId) -> bool:
    """Knows no worker."""
    return False


class Connection:
    """One end of a connection.

    Args:
        knows_worker: Whether a worker of this id is known to the group: its hello may list all that
            it holds.

    Attributes:
        side: Our end.
        group: The raft group that messages between members must name.
        state: The stage of the handshake.
        features: What both sides agreed on; empty with a legacy peer.
        error: The violation that closed the connection; or (`break_off`) our own reason.
        form: The connection's variant of shared frames; None: it does not receive those.
        skipped_count: Ignored frames of unknown types.
        saved_bytes: Bytes saved by compression.
    """

    __slots__ = (
        "_compression",
        "_decoder",
        "_dialect",
        "_has_batch",
        "_has_header",
        "_peer",
        "_refusals",
        "_stateless_received",
        "_stateless_sent",
        "_understood",
        "_unsendable",
        "error",
        "features",
        "form",
        "group",
        "saved_bytes",
        "side",
        "skipped_count",
        "state",
    )

    def __init__(
        self, side: Side, group: str = "", knows_worker: Callable[[WorkerId], bool] = nobody
    ) -> None:
        self.side = side
        self.group = group
        self.state = Stage.NEW
        self.features: frozenset[str] = frozenset()
        self.error: RollqError | None = None
        self.form: SharedForm | None = None
        self.skipped_count = 0
        self.saved_bytes = 0
        self._peer = side.other
        # Features that the peer understands: until Welcome those it offered, then those agreed on.
        # A message that needs another one is neither sent nor accepted.
        self._understood: frozenset[str] = frozenset()
        self._dialect = Dialect.LEGACY
        self._has_header = False
        self._has_batch = False
        self._compression = ""  # compression method that the peer accepts; empty: none
        self._refusals: list[m.Error | m.Result] = []  # until `take_refusals`
        self._unsendable: list[tuple[Message, Exception]] = []  # until `take_unsendable`
        # Types that do not change `state`, after Welcome: a batch of only these is checked as a
        # whole. Cleared at any change of `state`.
        self._stateless_sent: frozenset[type] = frozenset()
        self._stateless_received: frozenset[type] = frozenset()
        # The dialer is unauthenticated until its hello is read.
        if side is Side.ACCEPTER:

            def larger_hello(kind: int, msg_id: MessageId) -> int:
                is_known = kind == HELLO_WORKER and knows_worker(msg_id)
                return HELLO_KNOWN_WORKER_BYTES_MAX if is_known else 0

            self._decoder = FrameDecoder(
                HELLO_BYTES_MAX, larger_hello, HELLO_KNOWN_WORKER_BYTES_MAX, LOGINS
            )
        else:
            self._decoder = FrameDecoder()

    @property
    def partial_bytes(self) -> int:
        """How many bytes of an incomplete frame are buffered."""
        return self._decoder.buffered_bytes

    def receive_data(self, data: bytes) -> list[Message]:
        """The messages that these bytes complete; check `error` afterwards."""
        received: list[Message] = []
        if self.error is not None:
            return received
        self._decoder.feed(data)
        try:
            while frames := self._decoder.frames():
                for found in frames:
                    has_header = found.type & HAS_HEADER and self._has_header
                    frame = unpack(found) if has_header else found
                    if frame.type == BATCH_NUMBER and self._has_batch:
                        self._receive_batch(frame, received)
                    elif not is_known(frame.type) and self.state not in BEFORE_HELLO:
                        self.skipped_count += 1  # of a newer peer, or one of the legacy drafts
                    else:
                        self._receive_one(frame, received)
        except RemoteError as error:
            self.error = error
            self.state = Stage.CLOSED
        return received

    def send(self, message: Message, *, packs: bool = False) -> bytes:
        """The bytes to send for a message: none if the peer would not understand it. `packs`:
        compressed, if the peer takes that and they get fewer.

        Raises:
            LocalError: BAD_HANDSHAKE if it may not be said now, or what `encode_frame` refuses.
        """
        kind = NUMBER_OF[type(message)]
        if not is_covered(kind, self._understood):
            return b""
        after = self._must_send(kind, message)
        raw = self._encode(message, packs=packs)
        self._enter(after, message)
        return raw

    def send_all(self, messages: Sequence[Message], *, packs: bool = False) -> bytes:
        """The bytes to send for several messages: few frames if the peer takes batches. Messages
        that cannot be encoded, as of text that is not UTF-8, are left out: `take_unsendable`.

        Raises:
            LocalError: as `send`.
        """
        if not self._has_batch or len(messages) < 2:
            return b"".join([self._maybe_send(message, packs=packs) for message in messages])
        said: Sequence[Message] = messages
        if not self._stateless_sent.issuperset(map(type, messages)):
            said = self._sendable(messages)
        frames = self._encode_batch(said) if said else []
        if packs and self._compression:
            frames = [self._pack(frame) for frame in frames]
        return b"".join(map(encode_frame, frames))

    def peer_offers(self, features: Collection[str]) -> None:
        """Set the features of the member at the other end, which it announces on other links."""
        self._compression = choose_method(features)

    def take_unsendable(self) -> list[tuple[Message, Exception]]:
        """The messages that `send_all` could not encode, and why."""
        unsendable, self._unsendable = self._unsendable, []
        return unsendable

    def take_refusals(self) -> list[m.Error | m.Result]:
        """Answers to the requests that the last `receive_data` refused, to be sent."""
        refusals, self._refusals = self._refusals, []
        return refusals

    def break_off(self, error: RollqError) -> None:
        """Close the connection from our side: nothing more is received."""
        self.error = self.error or error

    def farewell(self) -> bytes:
        """The bytes to send before closing: the reason, if the peer understands it."""
        error = self.error
        if error is None or not is_covered(NUMBER_OF[m.Error], self._understood):
            return b""
        return self._encode(
            m.Error(NIL_ID, error.code, error.message, hint=error.hint, retryable=error.retryable)
        )

    def _receive_one(self, frame: Frame, received: list[Message]) -> None:
        try:
            received.append(self._receive(frame))
        except OutOfBoundsError as error:
            self._refuse(error)

    def _refuse(self, error: OutOfBoundsError) -> None:
        """Answer a request that is out of bounds; without a request id, close the connection."""
        request_id, code = error.request_id, int(error.code)
        if self.side is Side.DIALER or request_id == NIL_ID or self.state not in ANSWERING:
            raise error
        if is_covered(NUMBER_OF[m.Error], self._understood):
            refusal = m.Error(
                request_id, code, error.message, hint=error.hint, retryable=error.retryable
            )
            self._refusals.append(refusal)
        elif error.is_job:  # a legacy client reads no errors, only results
            text = str(error)
            self._refusals.append(m.Result(request_id, "dead", Status.FAILED, detail=text))
        else:
            raise error

    def _receive(self, frame: Frame) -> Message:
        # Checked before decoding, which is wasted on an illegal message.
        after = must_step(self.state, self._peer, frame.type)
        if not is_covered(frame.type, self._understood):
            raise RemoteError(
                ErrorCode.BAD_HANDSHAKE,
                f"{ROW_NUMBERED[frame.type].name} was not agreed on",
                "offer the feature in the hello and wait for Welcome",
            )
        area = AREA_OF.get(frame.type)
        if area is not None and frame.subject != f"cluster.{self.group}.{area}":
            self._understood = frozenset({COMPACT})  # it is a member: it understands errors
            raise RemoteError(
                ErrorCode.BAD_SUBJECT,
                f"{frame.subject[:64]!a} is not for the group {self.group!a}",
                "give all members of a group the same --group; check --peers",
            )
        message = decode_message(frame, self._dialect)
        self._enter(self._state_after(after, message), message)
        return message

    def _receive_batch(self, frame: Frame, received: list[Message]) -> None:
        batch = decode_batch(frame)
        if self._stateless_received.issuperset(map(type, batch)):
            if batch and are_within(batch):
                received += batch
                return
            for message in batch:
                try:
                    received.append(check_message(message))
                except OutOfBoundsError as error:
                    self._refuse(error)
            return
        for message in batch:
            after = must_step(self.state, self._peer, NUMBER_OF[type(message)])
            try:
                received.append(check_message(message))
            except OutOfBoundsError as error:
                self._refuse(error)
                continue
            if after is not self.state:
                self._enter(self._state_after(after, message), message)

    def _maybe_send(self, message: Message, *, packs: bool) -> bytes:
        """The bytes to send for one of several messages: none if it cannot be encoded."""
        try:
            return self.send(message, packs=packs)
        except RollqError:
            raise
        except Exception as error:
            self._unsendable.append((message, error))
            return b""

    def _encode_batch(self, messages: Sequence[Message]) -> list[Frame]:
        """The frames of messages, without those that cannot be encoded."""
        try:
            return encode_batch(messages)
        except Exception as error:
            if len(messages) == 1:
                self._unsendable.append((messages[0], error))
                return []
        half = len(messages) // 2
        return self._encode_batch(messages[:half]) + self._encode_batch(messages[half:])

    def _sendable(self, messages: Sequence[Message]) -> list[Message]:
        """The messages that the peer understands, each checked in its order."""
        said: list[Message] = []
        for message in messages:
            kind = NUMBER_OF[type(message)]
            if is_covered(kind, self._understood):
                self._enter(self._must_send(kind, message), message)
                said.append(message)
        return said

    def _must_send(self, kind: int, message: Message) -> Stage:
        try:
            return self._state_after(must_step(self.state, self.side, kind), message)
        except RemoteError as error:
            raise LocalError(error.code, error.message, error.hint) from None

    def _state_after(self, after: Stage, message: Message) -> Stage:
        """The state after a message, if its type does not determine it."""
        if after is self.state:
            return after
        if isinstance(message, m.HelloClient | m.HelloWorker) and message.features:
            return WAITS[after]
        if isinstance(message, Login) and message.method == TOKEN:
            return Stage.LOGGED_IN
        if isinstance(message, HelloBlobs | HelloReader):
            return WAITS[after]
        if isinstance(message, m.Welcome) and not self._understood.issuperset(message.features):
            raise RemoteError(ErrorCode.BAD_HANDSHAKE, "Welcome has features that were not offered")
        return after

    def _enter(self, after: Stage, message: Message) -> None:
        """Apply the changes of a message to later frames."""
        if after is self.state:
            return
        self.state = after
        self._stateless_sent = self._stateless_received = frozenset()
        self.form = None
        if isinstance(message, m.HelloClient | m.HelloWorker):
            self._understood = frozenset(message.features)
        elif isinstance(message, Login):
            self._understood = frozenset({COMPACT})  # a dialer that logs in understands our errors
        elif isinstance(message, m.LeaderHello):
            self._dialect = Dialect.COMPACT
            self._understood = frozenset({COMPACT})
            self._has_header = True
        elif isinstance(message, HelloBlobs | HelloReader):
            self._dialect = Dialect.COMPACT
            self._understood = frozenset((*message.features, COMPACT))
        elif isinstance(message, m.Welcome) and after in (
            Stage.BLOBS,
            Stage.READER,
        ):
            self.features = frozenset(message.features)
        elif isinstance(message, m.Welcome):
            self.features = self._understood = frozenset(message.features)
            self._dialect = Dialect.COMPACT if COMPACT in self.features else Dialect.LEGACY
            self._has_header = HEADER in self.features
            self._has_batch = BATCH in self.features and self._dialect is Dialect.COMPACT
            self._compression = choose_method(self.features)
            if SUBJECTS in self.features:
                self.form = SharedForm(self._has_batch)
            self._stateless_sent = stateless_types(after, self.side, self._understood)
            self._stateless_received = stateless_types(after, self._peer, frozenset(FEATURES))

    def _encode(self, message: Message, *, packs: bool = False) -> bytes:
        frame = encode_message(message, self._dialect, self.group)
        return encode_frame(self._pack(frame) if packs and self._compression else frame)

    def _pack(self, frame: Frame) -> Frame:
        packed = pack(frame, self._compression)
        self.saved_bytes += len(frame.payload) - len(packed.payload)
        return packed


def choose_method(features: Collection[str]) -> str:
    """The method of compression that we use with a peer of these features; empty: none."""
    shared = (method for method in METHODS if method in features)
    return next(shared, "") if HEADER in features else ""
