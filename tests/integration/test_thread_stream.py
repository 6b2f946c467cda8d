"""A link for a thread: order, bounds in both directions, and its end."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

from rollq.base.limits import READER_CHUNK_BYTES, STREAM_INBOX_MAX, STREAM_UNSENT_BYTES_MAX
from rollq.net.link import Link
from rollq.net.listener import Listener
from rollq.net.thread_stream import ThreadStream
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side
from rollq.wire.messages import Welcome
from rollq.wire.reader_messages import HelloReader, PieceChunk, SpanAsk
from tests.integration.patience import DEADLINE_S

CHUNKS = 200


def ident(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Server:
    """A listener that gives its link to a thread."""

    def __init__(self, serve: Callable[[ThreadStream], None]) -> None:
        self.listener = Listener("g", self._messages, self._closed)
        self.stream: ThreadStream | None = None
        self.error: Exception | None = None
        self.done = threading.Event()
        self._serve = serve

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if self.stream is not None:
            self.stream.feed(messages)
            return
        self.stream = ThreadStream(link, DEADLINE_S)
        threading.Thread(target=self._run, args=(self.stream,), daemon=True).start()

    def _closed(self, link: Link, reason: str) -> None:
        if self.stream is not None:
            self.stream.link_closed(reason)

    def _run(self, stream: ThreadStream) -> None:
        try:
            stream.send(Welcome("g", 1))
            self._serve(stream)
        except Exception as error:
            self.error = error
        finally:
            self.done.set()


class Peer:
    """A reader with a socket that blocks."""

    def __init__(self, port: int) -> None:
        self.connection = Connection(Side.DIALER)
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        self.socket.settimeout(DEADLINE_S)
        self.socket.sendall(self.connection.send(HelloReader("g")))
        self.heard: list[Message] = []

    def hear(self, count: int) -> list[Message]:
        while len(self.heard) < count:
            data = self.socket.recv(1 << 20)
            assert data, "the member hung up"
            self.heard += self.connection.receive_data(data)
        heard, self.heard = self.heard[:count], self.heard[count:]
        return heard


def with_server(
    serve: Callable[[ThreadStream], None], story: Callable[[Server, int], None]
) -> None:
    """Run a story beside the loop of a server."""

    async def main() -> None:
        server = Server(serve)
        port = await server.listener.start("127.0.0.1", 0)
        try:
            await asyncio.get_running_loop().run_in_executor(None, story, server, port)
        finally:
            await server.listener.stop("over")

    asyncio.run(main())


def test_a_thread_that_sends_waits_for_a_peer_that_does_not_read() -> None:
    unsent: list[int] = []
    blocked = threading.Event()

    def serve(stream: ThreadStream) -> None:
        for number in range(CHUNKS):
            with stream._changed:
                unsent.append(stream._unsent_bytes)
                if not stream._has_room(READER_CHUNK_BYTES + 100):
                    blocked.set()
            data = bytes([number]) * READER_CHUNK_BYTES
            stream.send(PieceChunk(ident(1), 1, 1, "lines", len(data), 0, data))

    def story(server: Server, port: int) -> None:
        peer = Peer(port)
        peer.hear(1)
        assert blocked.wait(DEADLINE_S)  # nothing was read: more than sockets hold is owed
        chunks = peer.hear(CHUNKS)
        assert [chunk.data[0] for chunk in chunks if isinstance(chunk, PieceChunk)] == list(
            range(CHUNKS)
        )
        assert server.done.wait(DEADLINE_S)
        assert server.error is None
        assert max(unsent) <= STREAM_UNSENT_BYTES_MAX
        peer.socket.close()

    with_server(serve, story)


def test_a_peer_that_asks_much_is_read_again_when_the_thread_has_taken_it() -> None:
    count = 4 * STREAM_INBOX_MAX
    paused = threading.Event()
    taken: list[bytes] = []

    def serve(stream: ThreadStream) -> None:
        with stream._changed:
            assert stream._changed.wait_for(lambda: stream._is_paused, DEADLINE_S)
        paused.set()
        for _ in range(count):
            message = stream.receive()
            assert isinstance(message, SpanAsk)
            taken.append(message.request_id)

    def story(server: Server, port: int) -> None:
        peer = Peer(port)
        peer.hear(1)
        for number in range(count):
            peer.socket.sendall(peer.connection.send(SpanAsk(ident(number))))
        assert server.done.wait(DEADLINE_S)
        assert server.error is None
        assert paused.is_set()
        assert taken == [ident(number) for number in range(count)]
        peer.socket.close()

    with_server(serve, story)


def test_the_end_of_the_link_wakes_a_thread_that_waits() -> None:
    def serve(stream: ThreadStream) -> None:
        stream.receive()

    def story(server: Server, port: int) -> None:
        peer = Peer(port)
        peer.hear(1)
        peer.socket.close()
        assert server.done.wait(DEADLINE_S)
        assert isinstance(server.error, ConnectionError)

    with_server(serve, story)


def test_what_was_sent_before_the_close_arrives() -> None:
    def serve(stream: ThreadStream) -> None:
        data = bytes(READER_CHUNK_BYTES)
        for _ in range(3):
            stream.send(PieceChunk(ident(1), 1, 1, "lines", len(data), 0, data))
        stream.close("done")
        stream.close("done twice")

    def story(server: Server, port: int) -> None:
        peer = Peer(port)
        assert len(peer.hear(4)) == 4
        assert peer.socket.recv(1) == b""
        peer.socket.close()

    with_server(serve, story)
