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
from rollq.security.tls import MEMBERS, check_peer, describe_tls_error, identity_in, tls_files
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
    """Sends requests and receives answers. After any error but a `StateError` it must be closed.

    Attributes:
        address: Of the member.
        welcome: The first message of the member.
    """

    def __init__(
        self, address: str, hello: Message, timeout_s: float, credentials: Credentials = NONE
    ) -> None:
        """Connect and wait for the welcome.

        Raises:
            DialError: UNREACHABLE.
            LocalError: BAD_CREDENTIALS, as `choose_login`.
            StateError: the answer of the member.
        """
        self.address = address
        self._connection = Connection(Side.DIALER)
        self._received: deque[Message] = deque()
        self._last_request = 0
        try:
            self._socket = socket.create_connection(split_address(address), DIAL_MS_MAX / 1000)
        except OSError as error:
            raise _unreachable(error.strerror or str(error)) from None
        except UnicodeError as error:  # no name that a name server could be asked for
            raise _unreachable(str(error)) from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls_of_dialer(credentials) is Mode.REQUIRE:
                self._socket = secured(self._socket, credentials)
            self._socket.settimeout(min(timeout_s, READER_GREETING_MS / 1000))
            self._log_in(credentials)
            self.send(hello)
            self.welcome = self.receive(Welcome)
            self._socket.settimeout(READER_ANSWER_MS / 1000)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()

    def new_request(self) -> MessageId:
        """An id that is unique on this connection."""
        self._last_request += 1
        return self._last_request.to_bytes(16, "big")

    def send(self, message: Message) -> None:
        """Send one message."""
        try:
            self._socket.sendall(self._connection.send(message))
        except OSError as error:
            raise _disconnected(error) from None

    def receive(self, kind: type[M]) -> M:
        """The next message, which must be of this kind.

        Raises:
            StateError: an error answered by the member; the channel remains usable.
            DialError: DISCONNECTED, or TIMED_OUT without an answer.
            RemoteError: a protocol violation.
        """
        while not self._received:
            self._receive()
        message = self._received.popleft()
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

    def receive_piece(self) -> Piece:
        """The next piece of history or of a table, assembled and inflated. Raises as `receive`."""
        chunk = self.receive(PieceChunk)
        chunks = [chunk.data]
        size = len(chunk.data)
        while size < chunk.size_bytes:
            chunks.append(self.receive(PieceChunk).data)
            size += len(chunks[-1])
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if chunk.packed:
            data = inflate(data, ZSTD)
        return Piece(chunk.first, chunk.last, chunk.form, data)

    def _log_in(self, credentials: Credentials) -> None:
        """Send the login, if any. A refusal of it arrives as the answer to the hello."""
        is_tls = isinstance(self._socket, ssl.SSLSocket)
        login = choose_login(credentials, str(self._socket.getpeername()[0]), is_tls=is_tls)
        if login is not None:
            self.send(login.first)
            if login.is_challenged:
                self.send(login.prove(self.receive(LoginChallenge)))

    def _receive(self) -> None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise DialError(ErrorCode.TIMED_OUT, "no answer in time") from None
        except ssl.SSLError as error:
            raise DialError(
                ErrorCode.BAD_CERTIFICATE, describe_tls_error(error, is_ours=False), TLS_HINT
            ) from None
        except OSError as error:
            raise _disconnected(error) from None
        if not data:
            raise DialError(ErrorCode.DISCONNECTED, "the member closed the connection")
        self._received.extend(self._connection.receive_data(data))
        if self._connection.error is not None and not self._received:
            raise self._connection.error


def secured(plain: socket.socket, credentials: Credentials) -> socket.socket:
    """Wrap a socket in TLS, with a member of our cluster on the other side.

    Raises:
        DialError: it does not speak TLS, or its certificate is not acceptable.
    """
    contexts = tls_files(credentials).current
    plain.settimeout(TLS_MS_MAX / 1000)
    try:
        tls = contexts.dials.wrap_socket(plain)
    except ssl.SSLError as error:
        if isinstance(error, ssl.SSLEOFError) or error.reason == "WRONG_VERSION_NUMBER":
            raise _unreachable("it does not speak TLS") from None
        text = describe_tls_error(error, is_ours=isinstance(error, ssl.SSLCertVerificationError))
        raise DialError(ErrorCode.BAD_CERTIFICATE, text, TLS_HINT) from None
    except OSError as error:
        reason = error.strerror or str(error) or "timed out"
        raise _unreachable(f"no TLS handshake, perhaps it does not speak TLS: {reason}") from None
    try:
        check_peer(identity_in(tls.getpeercert()), contexts.identity, MEMBERS)
    except RemoteError as error:
        tls.close()
        raise DialError(error.code, error.message, error.hint) from None
    return tls


def refusal(error: Error) -> RollqError:
    """The error in an answer."""
    try:
        code = ErrorCode(error.code)
    except ValueError:
        code = ErrorCode.UNSUPPORTED_VERSION
    return StateError(code, error.message, error.hint)


def _unreachable(reason: str) -> DialError:
    return DialError(ErrorCode.UNREACHABLE, reason, "check the address, and that the member runs")


def _disconnected(error: OSError) -> DialError:
    return DialError(ErrorCode.DISCONNECTED, f"the connection broke: {error.strerror or error}")
