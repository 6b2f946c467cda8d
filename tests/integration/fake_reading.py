"""A scripted member that only serves readers: what it says to each message is the test's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from rollq.wire.messages import Welcome
from rollq.wire.reader_messages import HelloReader, SpanAsk, SpanTold


class FakeReading:
    """Answers every message but hello and span with what `script` gives; None in it hangs up."""

    def __init__(
        self,
        script: Callable[[Message], Iterable[Message | None]],
        *,
        leads: bool = False,
        features: tuple[str, ...] = (),
    ) -> None:
        self.leads = leads
        self._features = features
        self.heard: list[Message] = []
        self._script = script
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            with peer:
                self._serve(peer)

    def _serve(self, peer: socket.socket) -> None:
        connection = Connection(Side.ACCEPTER)
        while data := peer.recv(1 << 16):
            for message in connection.receive_data(data):
                self.heard.append(message)
                if isinstance(message, HelloReader):
                    peer.sendall(connection.send(Welcome("g", 1, self._features)))
                    continue
                if isinstance(message, SpanAsk):
                    told = SpanTold(message.request_id, 0, 9, self.leads)
                    peer.sendall(connection.send(told))
                    continue
                for answer in self._script(message):
                    if answer is None:
                        return
                    peer.sendall(connection.send(answer))
