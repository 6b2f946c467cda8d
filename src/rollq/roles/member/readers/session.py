"""The session of one reader, on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import MessageId
from rollq.base.limits import READER_CHUNK_BYTES
from rollq.net.thread_stream import ThreadStream
from rollq.roles.member.readers.reader_context import ReaderContext
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.messages import Error, Welcome
from rollq.wire.reader_messages import PieceChunk

log = logging.getLogger("rollq.readers")

# Handles messages of one type; sends answers, or raises the error for the reader.
Handler: TypeAlias = Callable[["ReaderSession", Any], None]


class ReaderSession:
    """Sends Welcome, then answers messages one after the other until the link closes.

    Attributes:
        member: What handlers may use of the member.
    """

    def __init__(
        self,
        member: ReaderContext,
        stream: ThreadStream,
        handlers: Mapping[type, Handler],
    ) -> None:
        self.member = member
        self._stream = stream
        self._handlers = handlers

    def serve(self, welcome: Welcome) -> None:
        """Serve until the link closes, then close the stream."""
        reason = "the reader is done"
        try:
            self.send(welcome)
            while True:
                self._answer(self._stream.receive())
        except (OSError, RollqError) as error:
            reason = str(error)
            log.info("reader disconnected: %s", error)
        finally:
            self._stream.close(reason)

    def send(self, message: Message) -> None:
        """Send; blocks while the reader does not read."""
        self._stream.send(message)

    def send_piece(
        self,
        request_id: MessageId,
        first: int,
        last: int,
        form: str,
        data: bytes,
        *,
        packed: bool = False,
    ) -> None:
        """Send a piece of the history in chunks; an empty one too."""
        size = len(data)
        for offset in range(0, size or 1, READER_CHUNK_BYTES):
            chunk = data[offset : offset + READER_CHUNK_BYTES]
            self.send(
                PieceChunk(
                    request_id,
                    first=first,
                    last=last,
                    form=form,
                    size_bytes=size,
                    offset=offset,
                    data=chunk,
                    packed=packed,
                )
            )

    def _answer(self, message: Message) -> None:
        try:
            self._handlers[type(message)](self, message)
        except RollqError as error:
            self._refuse(message, error)
        except OSError:
            raise  # the link broke
        except Exception as error:  # a bug: it ends this session, and nothing else
            name = type(message).__name__
            log.error("reader: cannot handle %s", name, exc_info=error)
            bug = LocalError(ErrorCode.BUG, f"cannot handle {name}: {error!r}", "report the log")
            self._refuse(message, bug)
            raise bug from None

    def _refuse(self, message: Message, error: RollqError) -> None:
        request_id = request_id_of(message)
        self.send(
            Error(
                request_id,
                int(error.code),
                error.message,
                hint=error.hint,
                retryable=error.retryable,
            )
        )
