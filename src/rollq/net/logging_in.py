"""Login on a newly opened link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rollq.base.errors import DialError, ErrorCode, RollqError, StateError
from rollq.base.limits import LOGIN_MS_MAX
from rollq.net.link import Link
from rollq.net.login import DialerLogin, choose_login
from rollq.security.credentials import Credentials
from rollq.wire.compact import Message
from rollq.wire.login_messages import LoginChallenge
from rollq.wire.messages import Error


def link_login(link: Link, credentials: Credentials) -> DialerLogin | None:
    """The login for a link. Raises as `choose_login`; the link is closed then."""
    host = link.address.rpartition(":")[0]
    try:
        return choose_login(credentials, host, is_tls=link.certificate is not None)
    except RollqError as error:
        link.close(error.message)
        raise


async def log_in(
    link: Link,
    login: DialerLogin | None,
    on_messages: Callable[[Link, list[Message]], None],
    on_closed: Callable[[Link, str], None],
) -> None:
    """Send the messages before the hello. The result of the login comes with the answer to the
    hello.

    Raises:
        DialError: the peer is silent, or closed the connection.
        RollqError: the login was refused; the link is closed.
    """
    if login is None:
        return
    link.send(login.first)
    if not login.is_challenged:
        return
    heard: asyncio.Future[Message] = link.loop.create_future()
    link.hand_to(
        lambda _, messages: None if heard.done() else heard.set_result(messages[0]),
        lambda _, reason: None if heard.done() else heard.set_exception(_gone(link, reason)),
    )
    try:
        async with asyncio.timeout(LOGIN_MS_MAX / 1000):
            answer = await heard
        proof = login.prove(must_be_challenge(answer))
    except TimeoutError:
        link.abort("the login is not answered")
        raise DialError(
            ErrorCode.TIMED_OUT, f"{link.address} does not answer a login", "it may be overloaded"
        ) from None
    except BaseException as error:
        link.close(f"cannot log in: {error}")
        raise
    if not link.is_open:
        raise _gone(link, "at once")
    link.hand_to(on_messages, on_closed)
    link.send(proof)


def must_be_challenge(answer: Message) -> LoginChallenge:
    """The challenge that answers a login.

    Raises:
        StateError: the login was refused.
    """
    if isinstance(answer, LoginChallenge):
        return answer
    if isinstance(answer, Error):
        known = {int(code): code for code in ErrorCode}
        code = known.get(answer.code, ErrorCode.LOGIN_FAILED)
        raise StateError(code, answer.message, answer.hint)
    what = f"{type(answer).__name__} is no answer to a login"
    raise StateError(ErrorCode.LOGIN_FAILED, what, "check the address")


def _gone(link: Link, reason: str) -> DialError:
    return DialError(
        ErrorCode.DISCONNECTED,
        f"{link.address} hung up on a login: {reason}",
        "a member of an older version knows no logins: upgrade members before clients",
    )
