"""One connection to one member, on a blocking socket."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from typing import Self, TypeVar

from rollq.base.errors import (
    DialError,
    ErrorCode,
    RemoteError,
    RollqError,
    StateError,
)
from rollq.base.ids import MessageId
from rollq.base.limits import (
    DIAL_MS_MAX,
    READER_ANSWER_MS,
    READER_GREETING_MS,
    TLS_MS_MAX,
)
from rollq.net.dialer import TLS_HINT, split_address
from rollq.net.login import choose_login
from rollq.roles.reader.models import Piece
from rollq.security.credentials import NONE, Credentials
from rollq.security.mode import Mode, tls_of_dialer
from rollq.security.tls import MEMBERS, identity_in, judge, tls_files, words_for
from rollq.wire.compact import Message
from rollq.wire.compression import ZSTD, inflate
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from rollq.wire.login_messages import LoginChallenge
from rollq.wire.messages import Error, NotLeader, Welcome
from rollq.wire.reader_messages import PieceChunk

M = TypeVar("M")

RECEIVE_BYTES = 512 * 1024


class Channel:
    """Sends a request, receives the answer. After any error but a `StateError` it must be closed.

    Attributes:
        address: of the member.
        welcome: the first message of the member.
    """

    def __init__(
        self, address: str, hello: Message, timeout_s: float, credentials: Credentials = NONE
    ) -> None:
        """Dial and be welcomed.

        Raises:
            DialError: UNREACHABLE.
            LocalError: BAD_CREDENTIALS, as `choose_login`.
            StateError: what the member answered.
        """
        self.address = address
        self._connection = Connection(Side.DIALER)
        self._heard: deque[Message] = deque()
        self._last_request = 0
        try:
            self._socket = socket.create_connection(split_address(address), DIAL_MS_MAX / 1000)
        except OSError as error:
            raise _unreachable(error.strerror or str(error)) from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls_of_dialer(credentials) is Mode.REQUIRE:
                self._socket = secured(self._socket, credentials)
            self._socket.settimeout(min(timeout_s, READER_GREETING_MS / 1000))
            self._log_in(credentials)
            self.say(hello)
            self.welcome = self.hear(Welcome)
            self._socket.settimeout(READER_ANSWER_MS / 1000)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Twice is no error."""
        self._socket.close()

    def new_request(self) -> MessageId:
        """An id that no request had on this connection."""
        self._last_request += 1
        return self._last_request.to_bytes(16, "big")

    def say(self, message: Message) -> None:
        """Send one message."""
        try:
            self._socket.sendall(self._connection.send(message))
        except OSError as error:
            raise _gone(error) from None

    def hear(self, kind: type[M]) -> M:
        """The next message, which is of this kind.

        Raises:
            StateError: what the member answers instead; the channel can be used on.
            DialError: DISCONNECTED, or TIMED_OUT if it says nothing.
            RemoteError: it does not keep to the protocol.
        """
        while not self._heard:
            self._receive()
        message = self._heard.popleft()
        if isinstance(message, kind):
            return message
        if isinstance(message, Error):
            raise refusal(message)
        if isinstance(message, NotLeader):
            raise StateError(
                ErrorCode.NOT_LEADER, f"not the leader; the leader is {message.leader or 'unknown'}"
            )
        raise RemoteError(
            ErrorCode.UNKNOWN_MESSAGE,
            f"expected {kind.__name__}, got {type(message).__name__}",
        )

    def hear_piece(self) -> Piece:
        """The next piece of the history or of a table, whole. Raises as `hear`."""
        chunk = self.hear(PieceChunk)
        chunks = [chunk.data]
        size = len(chunk.data)
        while size < chunk.size_bytes:
            chunks.append(self.hear(PieceChunk).data)
            size += len(chunks[-1])
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if chunk.packed:
            data = inflate(data, ZSTD)
        return Piece(chunk.first, chunk.last, chunk.form, data)

    def _log_in(self, credentials: Credentials) -> None:
        """Say what comes before the hello. Whether it was right, the answer to the hello tells."""
        is_tls = isinstance(self._socket, ssl.SSLSocket)
        login = choose_login(credentials, str(self._socket.getpeername()[0]), is_tls=is_tls)
        if login is not None:
            self.say(login.first)
            if login.is_challenged:
                self.say(login.prove(self.hear(LoginChallenge)))

    def _receive(self) -> None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise DialError(ErrorCode.TIMED_OUT, "no answer in time") from None
        except ssl.SSLError as error:
            raise DialError(
                ErrorCode.BAD_CERTIFICATE, words_for(error, is_ours=False), TLS_HINT
            ) from None
        except OSError as error:
            raise _gone(error) from None
        if not data:
            raise DialError(ErrorCode.DISCONNECTED, "the member closed the connection")
        self._heard.extend(self._connection.receive_data(data))
        if self._connection.error is not None and not self._heard:
            raise self._connection.error


def secured(plain: socket.socket, credentials: Credentials) -> socket.socket:
    """TLS on a socket, with a member of our cluster on the other side.

    Raises:
        DialError: it speaks no TLS, or is not who it should be.
    """
    contexts = tls_files(credentials).current
    plain.settimeout(TLS_MS_MAX / 1000)
    try:
        tls = contexts.dials.wrap_socket(plain)
    except ssl.SSLError as error:
        if isinstance(error, ssl.SSLEOFError) or error.reason == "WRONG_VERSION_NUMBER":
            raise _unreachable("it does not speak TLS") from None
        words = words_for(error, is_ours=isinstance(error, ssl.SSLCertVerificationError))
        raise DialError(ErrorCode.BAD_CERTIFICATE, words, TLS_HINT) from None
    except OSError as error:
        reason = error.strerror or str(error) or "timed out"
        raise _unreachable(f"no TLS handshake, perhaps it does not speak TLS: {reason}") from None
    try:
        judge(identity_in(tls.getpeercert()), contexts.identity, MEMBERS)
    except RemoteError as error:
        tls.close()
        raise DialError(error.code, error.message, error.hint) from None
    return tls


def refusal(error: Error) -> RollqError:
    """What a member answered, as an error of ours."""
    try:
        code = ErrorCode(error.code)
    except ValueError:
        code = ErrorCode.UNSUPPORTED_VERSION
    return StateError(code, error.message, error.hint)


def _unreachable(reason: str) -> DialError:
    return DialError(ErrorCode.UNREACHABLE, reason, "check the address, and that the member runs")


def _gone(error: OSError) -> DialError:
    return DialError(ErrorCode.DISCONNECTED, f"the connection broke: {error.strerror or error}")
