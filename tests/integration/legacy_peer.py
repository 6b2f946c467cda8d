"""Peers written only from the legacy layout: their own bytes, none of our code.

[len:4 LE][type:1][msgId:16][corrId:16][subjectLen:2 LE][subject][payloadLen:4 LE][payload]
"""

from __future__ import annotations

import json
import socket
import struct
import uuid
from typing import Any

from tests.integration.patience import DEADLINE_S

SUBMIT_JOB, ASSIGN_JOB, ACK_JOB, CREDIT, RESULT = 1, 2, 3, 4, 5
CACHE_PUT, CACHE_ACK = 6, 7
HELLO_CLIENT, HELLO_WORKER, NOT_LEADER = 9, 10, 20
EMPTY = uuid.UUID(int=0)
OPEN: list[socket.socket] = []


def hang_up() -> None:
    """Nothing stays open after a test."""
    while OPEN:
        OPEN.pop().close()


class Peer:
    """A C# legacy program, as it would look from the wire."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        OPEN.append(self.socket)

    def write(
        self,
        kind: int,
        msg_id: uuid.UUID = EMPTY,
        corr_id: uuid.UUID = EMPTY,
        subject: str = "",
        payload: bytes = b"",
    ) -> None:
        name = subject.encode()
        rest = (
            struct.pack("<B", kind)
            + msg_id.bytes_le
            + corr_id.bytes_le
            + struct.pack("<H", len(name))
            + name
            + struct.pack("<I", len(payload))
            + payload
        )
        self.socket.sendall(struct.pack("<I", len(rest)) + rest)

    def read(self) -> tuple[int, uuid.UUID, uuid.UUID, str, bytes]:
        (length,) = struct.unpack("<I", self._exactly(4))
        rest = self._exactly(length)
        (named,) = struct.unpack_from("<H", rest, 33)
        (size,) = struct.unpack_from("<I", rest, 35 + named)
        payload = rest[39 + named :]
        assert len(payload) == size
        return (
            rest[0],
            uuid.UUID(bytes_le=rest[1:17]),
            uuid.UUID(bytes_le=rest[17:33]),
            rest[35 : 35 + named].decode(),
            payload,
        )

    def says_nothing(self) -> bool:
        """Whether there is no byte to read now that should have come before."""
        self.socket.setblocking(False)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(DEADLINE_S)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionResetError("the leader hung up")
            data += piece
        return data


def as_client(port: int, client_id: str = "c1", cap: int = 4) -> Peer:
    peer = Peer(port)
    config = json.dumps({"ClientId": client_id, "DesiredParallelism": cap}).encode()
    peer.write(HELLO_CLIENT, subject=client_id, payload=config)
    return peer


def as_worker(port: int, pattern: str, credit: int = 1) -> Peer:
    peer = Peer(port)
    peer.write(HELLO_WORKER, uuid.uuid4(), subject=pattern)
    peer.write(CREDIT, payload=struct.pack("<i", credit))
    return peer


def request(job_id: uuid.UUID, exec_name: str = "calcA") -> bytes:
    return json.dumps(
        {
            "JobId": str(job_id),
            "ClientId": "c1",
            "ExecName": exec_name,
            "Args": ["1", "日本"],
            "Files": [{"Name": "in.txt", "CacheId": None, "Content": "aGVsbG8="}],
        }
    ).encode()


def result(job_id: uuid.UUID, status: str = "OK") -> bytes:
    body: dict[str, Any] = {
        "JobId": str(job_id),
        "ClientId": "c1",
        "ExecName": "calcA",
        "Status": status,
        "Stdout": "42",
        "Stderr": "",
        "OutputArchive": None,
    }
    return json.dumps(body).encode()
