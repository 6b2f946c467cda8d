"""Which hosts and origins are ours, names of files in headers, sessions, failed logins."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from rollq.base.errors import ErrorCode
from rollq.security.credentials import Credentials
from rollq.security.secret import Secret
from rollq.web.errors import RequestError
from rollq.web.guard import check_request, is_our_host
from rollq.web.job_output import attachment
from rollq.web.limits import (
    LOGIN_ADDRESSES_MAX,
    LOGINS_FAILED_MAX,
    LOGINS_S,
    SESSION_IDLE_S,
    SESSIONS_MAX,
)
from rollq.web.sessions import BrowserSessions, FailedLogins
from rollq.web.setup import WebSetup

LOCAL = WebSetup("127.0.0.1:5000", port=5080)
OPEN = WebSetup("127.0.0.1:5000", host="0.0.0.0", is_unprotected=True, names=("jobs.example",))
TLS = WebSetup(
    "127.0.0.1:5000", host="0.0.0.0", credentials=Credentials(ca="a", certificate=("c", "k"))
)


@pytest.mark.parametrize(
    ("setup", "host", "is_ours"),
    [
        (LOCAL, "127.0.0.1:5080", True),
        (LOCAL, "localhost:5080", True),
        (LOCAL, "LOCALHOST", True),
        (LOCAL, "[::1]:5080", True),
        (LOCAL, "evil.example:5080", False),
        (LOCAL, "localhost.evil.example", False),
        (LOCAL, "127.0.0.1.evil.example", False),
        (LOCAL, "10.0.0.7:5080", False),
        (LOCAL, "", False),
        (LOCAL, "[", False),
        (LOCAL, "a b", False),
        (OPEN, "10.0.0.7:5080", True),
        (OPEN, "jobs.example", True),
        (OPEN, "evil.example", False),
        (TLS, "whatever.example", True),
    ],
    ids=range(15),
)
def test_which_hosts_are_ours(setup: WebSetup, host: str, is_ours: bool) -> None:
    assert is_our_host(setup, host) is is_ours


def request(method: str, **headers: str) -> Request:
    named = [(b"host", b"127.0.0.1:5080")]
    named += [(name.replace("_", "-").encode(), one.encode()) for name, one in headers.items()]
    return Request({"type": "http", "method": method, "headers": named, "path": "/"})


@pytest.mark.parametrize(
    ("headers", "has_cookie", "is_taken"),
    [
        ({}, False, True),  # a program
        ({}, True, False),  # a cookie comes from a browser, and a browser says where from
        ({"origin": "http://127.0.0.1:5080"}, True, True),
        ({"origin": "https://127.0.0.1:5080"}, True, True),  # behind a proxy that speaks TLS
        ({"origin": "http://127.0.0.1:9999"}, True, False),
        ({"origin": "http://evil.example"}, False, False),
        ({"origin": "null"}, False, False),
        ({"origin": "http://127.0.0.1:5080.evil.example"}, False, False),
        ({"sec_fetch_site": "same-origin"}, True, True),
        ({"sec_fetch_site": "cross-site"}, False, False),
        ({"sec_fetch_site": "same-site"}, True, False),
    ],
    ids=range(11),
)
def test_changes_come_from_our_own_pages(
    headers: dict[str, str], has_cookie: bool, is_taken: bool
) -> None:
    if is_taken:
        check_request(LOCAL, request("POST", **headers), has_cookie=has_cookie)
        return
    with pytest.raises(RequestError) as caught:
        check_request(LOCAL, request("POST", **headers), has_cookie=has_cookie)
    assert (caught.value.status, caught.value.code) == (403, ErrorCode.ACCESS_DENIED)
    check_request(LOCAL, request("GET", **headers), has_cookie=has_cookie)


@pytest.mark.parametrize(
    "name",
    ['a"; filename=evil.exe', "a\r\nSet-Cookie: x=1", "../../etc/passwd", "é\x00\x7f", "/", "a\\b"],
    ids=range(6),
)
def test_names_of_files_stay_inside_their_header(name: str) -> None:
    header = attachment(name)
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2
    assert header.count(";") == 2
    assert "/" not in header.partition(";")[2]
    assert "\\" not in header


def test_a_session_ends_when_it_is_not_used() -> None:
    sessions = BrowserSessions()
    name = sessions.add(Secret(b"t"), 0.0)
    found = sessions.find(name, SESSION_IDLE_S)
    assert found is not None
    assert sessions.find(name, 2 * SESSION_IDLE_S) is found
    assert sessions.find(name, 3 * SESSION_IDLE_S + 1) is None
    assert sessions.find("unknown", 0.0) is None


def test_sessions_are_bounded() -> None:
    sessions = BrowserSessions()
    names = [sessions.add(Secret(b"t"), float(at)) for at in range(SESSIONS_MAX + 1)]
    assert sessions.find(names[0], 2.0) is None
    assert sessions.find(names[-1], 2.0) is not None


def test_logins_that_fail_too_often_are_refused_for_a_while() -> None:
    logins = FailedLogins()
    for at in range(LOGINS_FAILED_MAX):
        logins.check("a", float(at))
        logins.failed("a", float(at))
    with pytest.raises(RequestError) as caught:
        logins.check("a", 10.0)
    assert caught.value.status == 429
    logins.check("b", 10.0)
    logins.check("a", LOGINS_S + LOGINS_FAILED_MAX)


def test_addresses_of_failed_logins_are_bounded() -> None:
    logins = FailedLogins()
    for at in range(LOGIN_ADDRESSES_MAX + 10):
        logins.failed(str(at), 0.0)
    assert len(logins._failed) == LOGIN_ADDRESSES_MAX
