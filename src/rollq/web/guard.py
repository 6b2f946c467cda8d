"""Checks of every request against cross-site requests and DNS rebinding, and the security headers
of every response."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rollq.base.errors import ErrorCode
from rollq.net.addresses import is_loopback
from rollq.web.errors import RequestError
from rollq.web.setup import WebSetup

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
SAME_SITE: Final = frozenset({"same-origin", "none"})
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
STRICT_TLS: Final = (b"strict-transport-security", b"max-age=31536000")


class HeaderGuard:
    """ASGI middleware that adds security headers.

    Args:
        app: The wrapped application.
        is_tls: Whether it is served over TLS.
    """

    def __init__(self, app: ASGIApp, *, is_tls: bool) -> None:
        self._app = app
        self._headers = (*HEADERS, STRICT_TLS) if is_tls else HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                given += [one for one in self._headers if one[0] not in names]
                if b"cache-control" not in names:
                    given.append((b"cache-control", b"no-store"))
                message["headers"] = given
            await send(message)

        await self._app(scope, receive, guarded)


def check_request(setup: WebSetup, request: Request, *, has_cookie: bool) -> None:
    """Refuse requests for another host, or from pages of other sites.

    Raises:
        RequestError: ACCESS_DENIED.
    """
    host = request.headers.get("host", "")
    if not is_our_host(setup, host):
        raise _refused(
            f"this server is not {host[:64]!r}",
            "use an address, or start `rollq web` with --name for a name that means it",
        )
    if request.method in SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    if origin is not None:
        is_ours = origin != "null" and urlsplit(origin).netloc.lower() == host.lower()
    elif site is not None:
        is_ours = site in SAME_SITE
    else:
        is_ours = not has_cookie  # not a browser: it sends a token, or none
    if not is_ours:
        raise _refused(
            f"the request comes from a page of {(origin or 'another site')[:64]!r}",
            "send it from a page of this server, or from a program with a token",
        )


def is_our_host(setup: WebSetup, given: str) -> bool:
    """Whether a Host header is accepted. An unknown name that resolves to this server (DNS
    rebinding) is not. Under TLS the certificate decides."""
    host = host_of(given)
    if not host:
        return False
    if setup.speaks_tls or host in {name.lower() for name in setup.names}:
        return True
    if setup.is_local:
        return is_loopback(host)
    return _is_address(host) or host in {"localhost", setup.host.lower(), socket.gethostname()}


def host_of(given: str) -> str:
    """The host of a `Host` header, without port; empty if it is invalid."""
    try:
        return (urlsplit(f"//{given}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _refused(message: str, hint: str) -> RequestError:
    return RequestError(403, ErrorCode.ACCESS_DENIED, message, hint)
