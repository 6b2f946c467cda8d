"""One reader's conversation, on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import MessageId
from rollq.base.limits import READER_CHUNK_BYTES
from rollq.net.thread_stream import ThreadStream
from rollq.roles.member.readers.member_view import MemberView
from rollq.wire.checks import request_id_of
from rollq.wire.compact import Message
from rollq.wire.messages import Error, Welcome
from rollq.wire.reader_messages import PieceChunk

log = logging.getLogger("rollq.readers")

# What answers a message of one type: says what there is to say, or raises what the reader is told.
Handler: TypeAlias = Callable[["ReaderSession", Any], None]


class ReaderSession:
    """Welcomes, then answers one message after the other until one of both hangs up.

    Attributes:
        member: what a handler may see of the member.
    """

    def __init__(
        self,
        member: MemberView,
        stream: ThreadStream,
        handlers: Mapping[type, Handler],
    ) -> None:
        self.member = member
        self._stream = stream
        self._handlers = handlers

    def serve(self, welcome: Welcome) -> None:
        """Until the end of the conversation; the stream is closed then."""
        reason = "the reader is done"
        try:
            self.say(welcome)
            while True:
                self._answer(self._stream.receive())
        except (OSError, RollqError) as error:
            reason = str(error)
            log.info("reader disconnected: %s", error)
        finally:
            self._stream.close(reason)

    def say(self, message: Message) -> None:
        """Send; waits while the reader does not read."""
        self._stream.send(message)

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

    def _answer(self, message: Message) -> None:
        try:
            self._handlers[type(message)](self, message)
        except RollqError as error:
            self._refuse(message, error)
        except OSError:
            raise  # the reader is gone
        except Exception as error:  # ours: it ends this conversation, and nothing else
            name = type(message).__name__
            log.error("reader: cannot handle %s", name, exc_info=error)
            bug = LocalError(ErrorCode.BUG, f"cannot handle {name}: {error!r}", "report the log")
            self._refuse(message, bug)
            raise bug from None

    def _refuse(self, message: Message, error: RollqError) -> None:
        request_id = request_id_of(message)
        self.say(Error(request_id, int(error.code), error.message, error.hint, error.retryable))
