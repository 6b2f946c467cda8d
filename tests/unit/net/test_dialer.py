"""What is said of an address where nobody answers."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from rollq.base.errors import DialError
from rollq.net.dialer import dial


def test_time_that_ran_out_is_named() -> None:
    async def story() -> None:
        async def slow(*_: object, **__: object) -> NoReturn:
            raise TimeoutError  # which has no text of its own

        asyncio.get_running_loop().getaddrinfo = slow  # type: ignore[method-assign]
        with pytest.raises(DialError) as raised:
            await dial("there:5000", "g", lambda *_: None, lambda *_: None)
        assert raised.value.message == "no answer at there:5000: timed out"

    asyncio.run(story())
