"""The ASGI application: all routes, the pages, and the steps before a handler.

A request is checked (`guard`), its user is identified (bearer token or session cookie), its
parameters and body are decoded to structs, and a handler makes the response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from rollq.base.errors import (
    NOT_LET_IN_CODES,
    DialError,
    ErrorCode,
    LocalError,
    RollqError,
)
from rollq.security.secret import Secret
from rollq.web.bodies import read_json
from rollq.web.call import ApiCall, ApiReply
from rollq.web.errors import (
    JSON,
    RequestError,
    bad_request,
    encode_json,
    error_response,
    not_found,
)
from rollq.web.guard import HeaderGuard, check_request
from rollq.web.links import AllLinks, Links, checked_token
from rollq.web.metrics import metrics_of
from rollq.web.openapi import make_document
from rollq.web.pages import PAGE_PATHS, Pages
from rollq.web.routes import API, ROUTES, ApiRoute
from rollq.web.sessions import BrowserSessions, FailedLogins
from rollq.web.setup import WebSetup

log = logging.getLogger("rollq.web")

BEARER: Final = "bearer "
COOKIE: Final = "rollq_session"


class Web:
    """State that all requests share.

    Attributes:
        setup: The settings of the process.
        links: Connections to the group.
        sessions: Browser sessions.
        failed_logins: Failed logins by address.
    """

    def __init__(self, setup: WebSetup) -> None:
        self.setup = setup
        self.links = AllLinks(setup)
        self.sessions = BrowserSessions()
        self.failed_logins = FailedLogins()
        self.openapi = make_document(ROUTES, API)
        self.streams = 0  # number of open streams
        self.closing = asyncio.Event()  # set at shutdown, which ends streams
        self._cookie = f"{'__Host-' if setup.speaks_tls else ''}{COOKIE}_{setup.port}"

    async def stop(self) -> None:
        """Close all connections."""
        self.closing.set()
        await self.links.stop()

    def cookie(self, value: str) -> str:
        """The Set-Cookie header of a session; an empty value deletes the cookie."""
        secure = "; Secure" if self.setup.speaks_tls else ""
        age = "" if value else "; Max-Age=0"
        return f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{age}"

    def cookie_of(self, request: Request) -> str:
        """The value of the session cookie; empty if there is none."""
        return request.cookies.get(self._cookie, "")

    def address_of(self, request: Request) -> str:
        """The client address; X-Forwarded-For is not trusted."""
        return request.client.host if request.client is not None else ""


def make_app(web: Web) -> ASGIApp:
    """Create the application."""
    pages = Pages(web.setup)
    routes = [
        *(_starlette_route(web, row) for row in ROUTES),
        StarletteRoute("/healthz", SyncEndpoint(_healthz), methods=["GET"]),
        StarletteRoute("/readyz", _Ready(web), methods=["GET"]),
        StarletteRoute("/metrics", _Metrics(web), methods=["GET"]),
        *(StarletteRoute(path, SyncEndpoint(pages.index), methods=["GET"]) for path in PAGE_PATHS),
        StarletteRoute("/static/{path:path}", SyncEndpoint(pages.static), methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _on_http_error})
    return HeaderGuard(app, is_tls=web.setup.speaks_tls)


def _starlette_route(web: Web, row: ApiRoute) -> StarletteRoute:
    async def endpoint(request: Request) -> Response:
        try:
            return await _answer(web, row, request)
        except RollqError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            log.exception("a bug: %s %s", row.method, row.path)
            return error_response(_BUG)

    return StarletteRoute(API + row.path, endpoint, methods=[row.method])


async def _answer(web: Web, row: ApiRoute, request: Request) -> Response:
    cookie = web.cookie_of(request)
    check_request(web.setup, request, has_cookie=bool(cookie))
    query = _query_of(row, request)
    if row.is_open:
        nobody: Any = None
        call = ApiCall(web, request, nobody, query, await _body_of(row, request))
        return await _made(row, call)
    async with _links_of(web, request, cookie) as links:
        body = await _body_of(row, request)
        call = ApiCall(web, request, links, query, body, request.path_params)
        return await _made(row, call)


@asynccontextmanager
async def _links_of(web: Web, request: Request, cookie: str) -> AsyncIterator[Links]:
    """The connections of the user who sent a request.

    Raises:
        RequestError: LOGIN_REQUIRED, LOGIN_FAILED, or OVERLOADED after too many failed logins.
    """
    now = asyncio.get_running_loop().time()
    token, is_session = _token_of(web, request, cookie, now)
    if token is None:
        if web.setup.needs_login:
            raise login_required()
        async with web.links.of(None) as links:
            try:
                await links.prove_cached(now)
            except RollqError as error:
                raise (
                    login_required() if error.code is ErrorCode.LOGIN_REQUIRED else error
                ) from None
            yield links
        return
    address = web.address_of(request)
    if not is_session:
        web.failed_logins.check(address, now)
    opened = web.links.of(token)
    try:
        links = await opened.__aenter__()
    except RollqError as error:
        if error.code in NOT_LET_IN_CODES:
            web.failed_logins.failed(address, now)
            web.sessions.remove(cookie)
        raise
    try:
        yield links
    finally:
        await opened.__aexit__(None, None, None)


def _token_of(web: Web, request: Request, cookie: str, now: float) -> tuple[Secret | None, bool]:
    """The token of a request, and whether it comes from a session."""
    given = request.headers.get("authorization", "")
    if given:
        if not given.lower().startswith(BEARER):
            raise RequestError(
                401, ErrorCode.LOGIN_FAILED, "the login failed", "use Authorization: Bearer TOKEN"
            )
        return checked_token(given[len(BEARER) :].strip()), False
    if cookie:
        return web.sessions.find(cookie, now), True
    return None, False


def login_required() -> RequestError:
    """The error for a request without a token."""
    return RequestError(
        401,
        ErrorCode.LOGIN_REQUIRED,
        "a login is required",
        "log in with a token, or send Authorization: Bearer TOKEN; `rollq access token` makes one",
    )


def _query_of(row: ApiRoute, request: Request) -> Any:
    given = dict(request.query_params)
    if len(given) != len(request.query_params.multi_items()):
        raise bad_request("a parameter is given twice", "give each once")
    if row.query is None:
        if given:
            raise bad_request(f"unknown parameter {next(iter(given))[:64]!r}", "leave it out")
        return None
    try:
        return msgspec.convert(given, row.query, strict=False)
    except msgspec.ValidationError as error:
        raise bad_request(f"parameters: {error}", "GET /api/v1/openapi.json lists them") from None


async def _body_of(row: ApiRoute, request: Request) -> Any:
    """Decode the body. A route with forms reads it in its handler, because it may be large."""
    if row.body is None or row.form is not None:
        return None
    return await read_json(request, row.body)


async def _made(row: ApiRoute, call: ApiCall) -> Response:
    answer = row.handler(call)
    made = answer if isinstance(answer, ApiReply) else await answer
    if isinstance(made, Response):
        return made
    headers = made.headers
    if call.links is not None and call.links.applied:
        headers = {
            "Rollq-Applied": str(call.links.applied),
            "Rollq-Member": call.links.member,
        } | headers
    return Response(encode_json(made.document), made.status, headers, media_type=JSON)


class SyncEndpoint:
    """An endpoint with a synchronous response."""

    def __init__(self, make: Callable[[Request], Response]) -> None:
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._make(Request(scope))(scope, receive, send)


def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return error_response(not_found(f"nothing is at {request.url.path[:128]!r}"))
    told = RequestError(error.status_code, ErrorCode.UNKNOWN_MESSAGE, str(error.detail))
    response = error_response(told)
    response.headers.update(error.headers or {})
    return response


def _healthz(request: Request) -> Response:
    """Liveness: the process is running."""
    return Response("ok\n", media_type="text/plain")


_BUG: Final = LocalError(
    ErrorCode.BUG, "the request met a bug in rollq", "the log of `rollq web` has it"
)


class _Metrics:
    """The metrics of the member that this process reads from."""

    def __init__(self, web: Web) -> None:
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an account may be required."""
        web, request = self._web, Request(scope)
        cookie = web.cookie_of(request)
        accept = request.headers.get("accept", "")
        try:
            check_request(web.setup, request, has_cookie=bool(cookie))
            async with _links_of(web, request, cookie) as links:
                response = await metrics_of(links, web.setup.prefer, accept)
        except RollqError as error:
            response = error_response(error)
        await response(scope, receive, send)


class _Ready:
    """Readiness: whether a member can be reached."""

    def __init__(self, web: Web) -> None:
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        response = Response("ok\n", media_type="text/plain")
        try:
            async with self._web.links.of(None) as links:
                await links.prove()
        except RollqError as error:
            if error.code not in NOT_LET_IN_CODES:  # a refused login also proves a connection
                response = error_response(
                    DialError(ErrorCode.UNREACHABLE, error.message, error.hint)
                )
        await response(scope, receive, send)
