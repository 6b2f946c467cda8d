"""Somebody whom webhooks are posted to: keeps what came, and answers as it is told."""

from __future__ import annotations

import json
import ssl
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until


@dataclass(slots=True, frozen=True)
class Posted:
    """One request."""

    path: str
    key: str  # its Idempotency-Key
    signature: str
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        """The document."""
        document: dict[str, Any] = json.loads(self.body)
        return document


class Receiver:
    """A server in a thread. Requests are answered with the next of `answers`, and with 200 when
    there is none; 0: not before `go` is set."""

    def __init__(self, *answers: int, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Posted] = []
        self.go = threading.Event()
        self._answers = list(answers)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()

    def until_told(self, count: int = 1) -> list[Posted]:
        """Wait for so many requests; exactly these."""
        until(lambda: len(self.requests) >= count)
        assert len(self.requests) == count
        return self.requests

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                key, signature = (
                    self.headers.get(one, "") for one in ("Idempotency-Key", "X-Rollq-Signature")
                )
                answer = receiver._answers.pop(0) if receiver._answers else 200
                receiver.requests.append(Posted(self.path, key, signature, body))
                if not answer:
                    receiver.go.wait(DEADLINE_S)
                self.send_response(answer or 200)
                self.send_header("Location", receiver.url)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler
