"""A leader of the first system, as its documents describe it, on a real socket: none of our code.

It reads the first frame for the role and the subject, skips what it does not know, answers no
hello, and knows the legacy types alone."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

SUBMIT_JOB, ASSIGN_JOB, ACK_JOB, CREDIT, RESULT = 1, 2, 3, 4, 5
HELLO_CLIENT, HELLO_WORKER = 9, 10
NIL = bytes(16)


class LegacyLeader:
    """Hands jobs to whoever has credit, and results to whoever is connected as a client."""

    def __init__(self) -> None:
        self.port = 0
        self.hellos: list[tuple[int, str, Any]] = []  # type, subject, payload as JSON
        self.types_heard: list[int] = []
        self._server: asyncio.Server | None = None
        self._queue: list[tuple[bytes, str, bytes]] = []
        self._credit: dict[asyncio.StreamWriter, int] = {}
        self._clients: list[asyncio.StreamWriter] = []

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> LegacyLeader:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            kind, _, _, subject, payload = await read(reader)
            self.hellos.append((kind, subject, json.loads(payload) if payload else None))
            if kind == HELLO_CLIENT:
                self._clients.append(writer)
            while True:
                kind, _, corr_id, subject, payload = await read(reader)
                self.types_heard.append(kind)
                if kind == SUBMIT_JOB:
                    ident = json.loads(payload)["JobId"].replace("-", "")
                    raw = bytes.fromhex(ident)
                    job_id = raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
                    self._queue.append((job_id, subject, payload))
                elif kind == CREDIT:
                    (count,) = struct.unpack("<i", payload)
                    self._credit[writer] = self._credit.get(writer, 0) + count
                elif kind == ACK_JOB:
                    for client in self._clients:
                        client.write(frame(RESULT, corr_id, corr_id, "", payload))
                self._assign()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            self._credit.pop(writer, None)
            if writer in self._clients:
                self._clients.remove(writer)
        finally:
            writer.close()

    def _assign(self) -> None:
        for worker in self._credit:
            while self._credit[worker] and self._queue:
                job_id, subject, payload = self._queue.pop(0)
                subject = subject.replace("submit", "assign")
                worker.write(frame(ASSIGN_JOB, job_id, job_id, subject, payload))
                self._credit[worker] -= 1


async def read(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes, str, bytes]:
    """One frame."""
    (length,) = struct.unpack("<I", await reader.readexactly(4))
    rest = await reader.readexactly(length)
    (named,) = struct.unpack_from("<H", rest, 33)
    return rest[0], rest[1:17], rest[17:33], rest[35 : 35 + named].decode(), rest[39 + named :]


def frame(kind: int, msg_id: bytes, corr_id: bytes, subject: str, payload: bytes) -> bytes:
    """Its bytes."""
    name = subject.encode()
    rest = bytes([kind]) + msg_id + corr_id + struct.pack("<H", len(name)) + name
    rest += struct.pack("<I", len(payload)) + payload
    return struct.pack("<I", len(rest)) + rest
