"""One reader's conversation, on a thread of its own with a socket that blocks."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rollq.base.access import Principal
from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import MessageId
from rollq.base.limits import READER_CHUNK_BYTES, READER_SILENT_MS_MAX
from rollq.roles.access import check
from rollq.roles.member.readers.desk import Desk
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.messages import Error, Welcome
from rollq.wire.reader_messages import PieceChunk

log = logging.getLogger("rollq.readers")

RECEIVE_BYTES = 64 * 1024

# What answers a message of one type: says what there is to say, or raises what the reader is told.
Handler: TypeAlias = Callable[["ReaderSession", Any], None]


class ReaderSession:
    """Welcomes, then answers one message after the other until one of both hangs up.

    Attributes:
        desk: what a handler may see of the member.
    """

    def __init__(
        self,
        desk: Desk,
        connection: Connection,
        sock: socket.socket,
        handlers: Mapping[type, Handler],
        principal: Principal,
    ) -> None:
        self.desk = desk
        self._principal = principal
        self._connection = connection
        self._socket = sock
        self._handlers = handlers
        self._socket.settimeout(READER_SILENT_MS_MAX / 1000)

    def serve(self, welcome: Welcome) -> None:
        """Until the end of the conversation; the socket is closed then."""
        try:
            self.say(welcome)
            while self._connection.error is None:
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    break
                messages = self._connection.receive_data(data)
                for refusal in self._connection.take_refusals():
                    self.say(refusal)
                for message in messages:
                    self._answer(message)
            self._socket.sendall(self._connection.farewell())
        except (OSError, RollqError) as error:
            log.info("a reader is gone: %s", error)
        finally:
            self._socket.close()

    def say(self, message: Message) -> None:
        """Send; waits while the reader does not read."""
        self._socket.sendall(self._connection.send(message))

    def say_piece(
        self,
        request_id: MessageId,
        first: int,
        last: int,
        form: str,
        data: bytes,
        *,
        packed: bool = False,
    ) -> None:
        """Send a piece of the history in chunks; one without bytes too."""
        size = len(data)
        for offset in range(0, size or 1, READER_CHUNK_BYTES):
            chunk = data[offset : offset + READER_CHUNK_BYTES]
            self.say(PieceChunk(request_id, first, last, form, size, offset, chunk, packed))

    def hang_up(self) -> None:
        """Whatever the thread waits for, it waits no longer. On any thread."""
        with contextlib.suppress(OSError):  # the reader was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def _answer(self, message: Message) -> None:
        try:
            check(self._principal, message)
            self._handlers[type(message)](self, message)
        except RollqError as error:
            self._refuse(message, error)
        except OSError:
            raise  # the reader is gone
        except Exception as error:  # ours: it ends this conversation, and nothing else
            name = type(message).__name__
            log.error("a reader: cannot handle %s", name, exc_info=error)
            bug = LocalError(ErrorCode.BUG, f"cannot handle {name}: {error!r}", "report the log")
            self._refuse(message, bug)
            self._connection.break_off(bug)

    def _refuse(self, message: Message, error: RollqError) -> None:
        request_id = request_id_of(message)
        self.say(Error(request_id, int(error.code), error.message, error.hint, error.retryable))
